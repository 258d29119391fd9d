"""Figures without a display, written to their file in one step, and the pictures of residuals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array, Index
from ..config import SparserError
from ..graph import Estimate, Graph
from ..io import atomic

# Okabe and Ito's palette: distinguishable with colour-vision deficiency and in grey print.
COLOURS = ('#0072B2', '#E69F00', '#009E73', '#CC79A7', '#56B4E9', '#D55E00', '#B8A800', '#444444')
REJECTED = '#D62728'
FAINT = '#8A8A8A'
FORMATS = ('.png', '.svg', '.pdf', '.jpg', '.jpeg', '.webp', '.tif', '.tiff', '.eps')
MISSING_MATPLOTLIB = 'pictures need matplotlib: pip install matplotlib'
MOST_LINKS = 1500
"""Ranges or closures drawn; more are thinned evenly, since their lines would hide the map."""
SHOWN_PERCENTILE = 99.0
"""Residuals beyond it count in the last bin, so that outliers do not set the axis."""
LEAST_AXIS_SIGMA = 3.0
"""The axis reaches as far at least, so that the density of normal noise has its shape."""


def robot_colours(robots: Sequence[str]) -> dict[str, str]:
    """A colour per robot by the order of their names: the same in every picture of a team."""
    return {robot: COLOURS[number % len(COLOURS)] for number, robot in enumerate(sorted(robots))}


def check_picture(path: Path | str) -> None:
    """SparserError where matplotlib is missing, or the name does not say what format to draw."""
    if find_spec('matplotlib') is None:
        raise SparserError(MISSING_MATPLOTLIB)
    if Path(path).suffix.lower() not in FORMATS:
        raise SparserError(
            f'{path}: cannot be drawn: expected a name ending in {", ".join(FORMATS)}')


@contextmanager
def figure(path: Path | str, width_in: float, height_in: float) -> Iterator[Any]:
    """Give a matplotlib figure; saved to `path` (see FORMATS) when the block ends well.

    Raises SparserError where matplotlib is missing or the file cannot be written.
    """
    check_picture(path)
    drawing = new_figure(width_in, height_in)
    yield drawing
    try:
        with atomic.replacing(path) as temporary:
            drawing.savefig(temporary)
    except ValueError as error:
        raise SparserError(f'{path}: cannot be drawn: {error}') from None


def new_figure(width_in: float, height_in: float) -> Any:
    """An empty matplotlib figure; SparserError where matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise SparserError(MISSING_MATPLOTLIB) from None
    drawing = Figure(figsize=(width_in, height_in), dpi=150, layout='constrained')
    FigureCanvasAgg(drawing)
    return drawing


def link_path(graph: Graph, estimate: Estimate, source: Index, target: Index) -> Array:
    """(3 k, d) in m: k lines between endpoints of measurements, each followed by a row of NaN.

    They are thinned evenly to MOST_LINKS. One line with gaps is drawn much faster than many lines.
    """
    step = -(-len(source) // MOST_LINKS) or 1
    points = estimate.points
    ends = [points[graph.points(end[::step])] for end in (source, target)]
    return np.stack([*ends, np.full_like(ends[0], np.nan)], axis=1).reshape(-1, graph.dimension)


def save_histograms(path: Path | str, residuals: Mapping[str, Array], title: str = '') -> None:
    """One histogram per table of whitened residuals (>= 0, in sigmas); empty tables are left out.

    The legend gives the median and the share beyond the axis.
    """
    kinds = {name: values for name, values in residuals.items() if len(values)}
    with figure(path, 1.0 + 3.6 * max(len(kinds), 1), 3.4) as drawing:
        draw_histograms(drawing, kinds, title)


def draw_histograms(drawing: Any, residuals: Mapping[str, Array], title: str = '') -> None:
    """The same on a figure, of tables that are not empty."""
    panels = drawing.subplots(1, max(len(residuals), 1), squeeze=False)[0]
    for number, (name, values) in enumerate(residuals.items()):
        axes = panels[number]
        end = max(float(np.percentile(values, SHOWN_PERCENTILE)), LEAST_AXIS_SIGMA)
        beyond = np.mean(values > end)
        axes.hist(
            np.minimum(values, end), bins=np.linspace(0, end, 41), density=True,
            color=COLOURS[number % len(COLOURS)], alpha=0.85,
            label=f'median {np.median(values):.2f} σ, beyond {end:.1f} σ: {beyond:.1%}')
        if name == 'ranges':
            grid = np.linspace(0, end, 200)
            axes.plot(grid, np.sqrt(2 / np.pi) * np.exp(-grid**2 / 2), color=FAINT,
                      linewidth=1.2, label='normal noise')
        axes.set_title(f'{name.replace("_", " ")} ({len(values)})', fontsize=10)
        axes.set_xlabel('residual [σ]')
        axes.set_yticks([])
        axes.legend(fontsize=7, frameon=False)
        for side in ('top', 'right', 'left'):
            axes.spines[side].set_visible(False)
    if title:
        drawing.suptitle(title, fontsize=11)
