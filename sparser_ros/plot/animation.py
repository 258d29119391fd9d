"""A map as it grows: an animated picture (GIF) of the trajectories and beacons published live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array
from ..config import SparserError
from .figure import FAINT, MISSING_MATPLOTLIB, robot_colours, write_whole

MOST_FRAMES = 60
"""Frames of a picture; of more an even choice is drawn."""
FRAMES_PER_S = 8
LAST_FRAME_S = 3.0
"""For the last frame, so that the finished map can be looked at."""
SHADES = 8
"""From a colour to white, for the edges of its lines. A palette chosen by how often colours occur
would give thin lines of two robots the same one."""
WIDTH_IN, DPI = 5.5, 90
MARGIN = 0.06
"""Room about the map, as a share of its extent."""


@dataclass(frozen=True)
class MapFrame:
    """What was known at one time."""

    seconds: float
    """Since the first data."""
    paths: Mapping[str, Array]
    """(n, 2 or 3) in map, m, of every located robot."""
    beacons: Mapping[str, Array]
    """(2 or 3,) in map, m, of every located beacon."""
    states: Mapping[str, str]
    """Of every robot: located, position_only, ambiguous or unlocated."""


def save(path: Path | str, frames: Sequence[MapFrame], *, title: str = '') -> None:
    """Draw frames seen from above as an animated GIF.

    Raises SparserError where no frame has a position, matplotlib is missing, or the file cannot be
    written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from PIL import Image  # comes with matplotlib
    except ImportError:
        raise SparserError(MISSING_MATPLOTLIB) from None
    path = Path(path)
    located = [number for number, frame in enumerate(frames)
               if any(len(track) for track in frame.paths.values())]
    if not located:
        raise SparserError(f'{path}: nothing to draw: no robot was ever located')
    low, high = _extent(frames[located[-1]])
    frames = frames[located[0]:]
    extent = high - low
    height_in = float(np.clip((WIDTH_IN - 0.7) * extent[1] / extent[0] + 0.9, 3.0, 6.0))
    drawing = Figure(figsize=(WIDTH_IN, height_in), dpi=DPI, layout='constrained')
    canvas, axes = FigureCanvasAgg(drawing), drawing.add_subplot()
    images, palette = [], _palette(Image, list(frames[-1].states))
    for number in np.unique(np.linspace(0, len(frames) - 1, MOST_FRAMES).round().astype(int)):
        _draw(axes, frames[number], low, high, title)
        canvas.draw()
        picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert('RGB')
        images.append(picture.quantize(palette=palette, dither=Image.Dither.NONE))
    shown_ms = [int(1000 / FRAMES_PER_S)] * (len(images) - 1) + [int(1000 * LAST_FRAME_S)]
    try:
        write_whole(path, lambda temporary: images[0].save(
            temporary, format='GIF', save_all=True, append_images=images[1:], duration=shown_ms,
            loop=0))
    except OSError as error:
        raise SparserError(f'{path}: cannot be written: {error}') from None


def _palette(library: Any, robots: list[str]) -> Any:
    """An image with the colours of these robots, of black and of grey, each in its shades."""
    colours = np.array([[int(name[k:k + 2], 16) for k in (1, 3, 5)] for name in dict.fromkeys(
        (*robot_colours(robots).values(), FAINT, '#000000'))])
    share = np.linspace(0, 1, SHADES)[:, None, None]
    shades = ((1 - share) * colours + share * 255).round().astype(np.uint8)
    image = library.new('P', (1, 1))
    image.putpalette(shades.tobytes())
    return image


def _extent(last: MapFrame) -> tuple[Array, Array]:
    """Corners (2,), (2,) of the last map that has robots, with a margin.

    Earlier maps may be cut: what was placed wrongly at first would make the finished map small.
    """
    points = np.concatenate([
        *(track[:, :2] for track in last.paths.values()),
        *(place[None, :2] for place in last.beacons.values())])
    low, high = points.min(axis=0), points.max(axis=0)
    room = MARGIN * max(float(np.max(high - low)), 1.0)
    return low - room, high + room


def _draw(axes: Any, frame: MapFrame, low: Array, high: Array, title: str) -> None:
    axes.clear()
    colours = robot_colours(list(frame.states))
    for robot, state in frame.states.items():
        track = frame.paths.get(robot, np.zeros((0, 2)))[:, :2]
        name = robot if state == 'located' else f'{robot} ({state.replace("_", " ")})'
        axes.plot(*track.T, color=colours[robot], linewidth=1.2, label=name, zorder=3)
        axes.plot(*track[-1:].T, 'o', color=colours[robot], markersize=7,
                  markeredgecolor='white', zorder=5)
    places = np.array([place[:2] for place in frame.beacons.values()]).reshape(-1, 2)
    axes.plot(*places.T, '^', color='black', markersize=8, markeredgecolor='white',
              linestyle='none', label='beacons', zorder=4)
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_aspect('equal')
    axes.grid(True, linewidth=0.4, color='#DDDDDD')
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, colors=FAINT)
    for side in ('top', 'right'):
        axes.spines[side].set_visible(False)
    axes.set_xlabel('x [m]', fontsize=8)
    axes.set_ylabel('y [m]', fontsize=8)
    axes.set_title(f'{title}  {frame.seconds:.0f} s'.strip(), fontsize=10, loc='left')
    axes.legend(loc='upper right', fontsize=8, framealpha=0.8, edgecolor='none')
