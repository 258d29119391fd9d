"""Pictures of a map (trajectories, beacons, closures and ranges, in the plane or in space) and of
residuals; drawn without a display, each file written in one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import SparserError
from ..graph import Estimate, Graph
from ..graph.parts import listed
from ..io import atomic
from ..io.availability import share_text
from ..io.report import REJECTED_BELOW

# Okabe and Ito's palette: distinguishable with colour-vision deficiency and in grey print.
COLOURS = ('#0072B2', '#E69F00', '#009E73', '#CC79A7', '#56B4E9', '#D55E00', '#B8A800', '#444444')
REJECTED = '#D62728'
FAINT = '#8A8A8A'
FORMATS = ('.png', '.svg', '.pdf', '.jpg', '.jpeg', '.webp', '.tif', '.tiff', '.eps')
MISSING_MATPLOTLIB = "pictures need matplotlib 3.7 or newer: pip install 'matplotlib>=3.7'"
OLDEST_MATPLOTLIB = 3, 7
"""The first that draws legends outside of the axes."""
MOST_LINKS = 1500
"""Ranges or closures drawn; more are thinned evenly, since their lines would hide the map."""
SHOWN_PERCENTILE = 99.0
"""Residuals beyond it count in the last bin, so that outliers do not set the axis."""
LEAST_AXIS_SIGMA = 3.0
"""The axis reaches as far at least, so that the density of normal noise has its shape."""
CLOSURE = '#222222'
"""No robot's colour: closures lie on the trajectories that they join."""
LAYER = {'ranges': 1, 'rejected': 3, 'loop closures': 4.5}
"""Trajectories are layer 4; a closure joins places that lie on one another."""
MOST_COLUMNS, LETTERS = 6, 110
"""Names side by side in the legend, and letters of a line of it: it is 8 inches wide."""
LINE_IN = 0.17
"""Height of a line in inches."""
LETTERS_OF_A_LINE = 10
"""Room that the line before a name takes, and what is between two."""
CONFIDENCE_95 = 5.991
"""95 % quantile of chi-square with two degrees of freedom."""
MOST_LABELS = 30
"""Beacons up to which names are drawn."""


def check_picture(path: Path | str) -> None:
    """SparserError where matplotlib is missing or too old, or the name says no format to draw."""
    try:
        known = tuple(int(part) for part in version('matplotlib').split('.')[:2])
    except PackageNotFoundError:
        known = 0, 0
    if known < OLDEST_MATPLOTLIB:
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


def named(text: str) -> str:
    """A text with names in it, as matplotlib is given it: `$` is the letter and begins no formula,
    and a legend hides nothing that begins with `_`."""
    text = text.replace('$', r'\$')
    return f' {text}' if text.startswith('_') else text


# -- map ---------------------------------------------------------------------------------------


def save_map(
    path: Path | str, graph: Graph, estimate: Estimate, *, truth: Estimate | None = None,
    **options: Any,
) -> None:
    """Draw a map into a file; `options` as in `draw_map`.

    Raises SparserError for an estimate without a position.
    """
    if not len(estimate.points):
        raise SparserError(f'{path}: nothing to draw: no pose and no beacon has a position')
    with figure(path, *size_of(estimate, truth)) as drawing:
        draw_map(drawing, graph, estimate, truth=truth, **options)


def size_of(estimate: Estimate, truth: Estimate | None = None) -> tuple[float, float]:
    """Width and height in inches of a picture that fits the map."""
    points = np.concatenate([estimate.points, *([] if truth is None else [
        truth.translation[np.isfinite(truth.translation[:, 0])]])])
    if points.shape[1] == 3:
        return 8.0, 6.0
    extent = np.ptp(points, axis=0)
    return 8.0, float(np.clip(7.5 * extent[1] / max(extent[0], 1e-9) + 0.8, 4.0, 9.0))


def draw_map(
    drawing: Any,
    graph: Graph,
    estimate: Estimate,
    *,
    truth: Estimate | None = None,
    weights: Mapping[str, Array] | None = None,
    cost: float | None = None,
    title: str = '',
    untrusted: Mapping[str, str] | None = None,
    located: Mask | None = None,
    fix_share: Mapping[str, Mapping[str, float]] | None = None,
    covariances: Mapping[str, Any] | None = None,
) -> None:
    """Draw a map on a figure; `truth` in the frame of the estimate, `weights` robust weights by
    table.

    `untrusted`: robot -> why, of robots whose trajectory is drawn faint, broken and with that word;
    `located` (m,): landmarks that have a place, others are drawn hollow (None: all have).
    `fix_share`: robot -> shares of time by fix, which the legend says. `covariances`: as in
    `io.report.covariance_fields`, of which ellipses are drawn in the plane.
    """
    untrusted, plane = untrusted or {}, graph.dimension == 2
    if located is None:
        located = np.ones(graph.n_landmarks, dtype=bool)
    rejected = {name: (weights or {}).get(name, np.ones(len(table))) < REJECTED_BELOW
                for name, table in graph.tables().items()}
    axes = drawing.add_subplot(projection=None if plane else '3d')
    _draw_links(axes, graph, estimate, rejected)
    if truth is not None:
        for number in range(len(graph.robots)):
            axes.plot(*truth.translation[graph.pose_rows(number)].T, color=FAINT,
                      linewidth=0.9, linestyle=(0, (4, 2)), zorder=2,
                      label='reference' if number == 0 else None)
    _draw_trajectories(axes, graph, estimate, untrusted, fix_share or {})
    _draw_landmarks(axes, graph, estimate.landmarks, located)
    _draw_rejected(axes, graph, estimate, rejected)
    if covariances and plane:
        _draw_ellipses(axes, graph, estimate, covariances)
    axes.set_title(named(title or _title(graph, cost, untrusted)), fontsize=11)
    axes.set_xlabel('x [m]')
    axes.set_ylabel('y [m]')
    if plane:
        axes.set_aspect('equal', adjustable='datalim')
        axes.grid(True, linewidth=0.4, color='#DDDDDD')
        axes.set_axisbelow(True)
        for side in ('top', 'right'):
            axes.spines[side].set_visible(False)
    else:
        _finish_space(axes)
    handles, names = axes.get_legend_handles_labels()
    if handles:
        # Below the axes: inside, it would lie over trajectories.
        columns = _columns(names)
        legend = drawing.legend(
            handles, names, loc='outside lower center', fontsize=8, frameon=False, ncols=columns)
        drawing.set_figheight(drawing.get_figheight() + LINE_IN * (len(names) // columns))
        for line in legend.get_lines():
            line.set_alpha(1.0)


def _columns(names: Sequence[str]) -> int:
    """Columns of a legend, each as wide as its longest name."""
    widest = max(map(len, names)) + LETTERS_OF_A_LINE
    return max(1, min(len(names), MOST_COLUMNS, LETTERS // widest))


def _title(graph: Graph, cost: float | None, untrusted: Mapping[str, str]) -> str:
    parts = [graph.name] if graph.name else []
    parts.append(f'{graph.n_poses} poses')
    if len(graph.ranges):
        parts.append(f'{len(graph.ranges)} ranges')
    if cost is not None:
        parts.append(f'cost {cost:.6g}')
    if untrusted:
        parts.append(f'not to be trusted: {listed(list(untrusted), 3)}')
    return ' · '.join(parts)


def _draw_links(
    axes: Any, graph: Graph, estimate: Estimate, rejected: Mapping[str, Mask]
) -> None:
    """Loop closures and ranges that are not rejected, as faint lines."""
    closures, ranges = graph.relative_poses, graph.ranges
    keep = ~closures.odometry & ~rejected['relative_poses']
    _draw_lines(axes, _link_path(graph, estimate, closures.i[keep], closures.j[keep]),
                CLOSURE, 0.7, 'loop closures')
    keep = ~rejected['ranges']
    alpha = min(max(60 / (1 + int(np.sum(keep))), 0.1), 0.5)
    _draw_lines(axes, _link_path(graph, estimate, ranges.source[keep], ranges.target[keep]),
                FAINT, alpha, 'ranges')


def _draw_rejected(
    axes: Any, graph: Graph, estimate: Estimate, rejected: Mapping[str, Mask]
) -> None:
    """Measurements of two variables that the robust kernel rejects, in red."""
    ends = []
    for name, table in graph.tables().items():
        columns = [getattr(table, column)[rejected[name]] for column in table.endpoints()]
        if len(columns) == 2:
            ends.append(columns)
    source, target = (np.concatenate(side) for side in zip(*ends, strict=True))
    _draw_lines(axes, _link_path(graph, estimate, source, target), REJECTED, 0.5, 'rejected')


def _link_path(graph: Graph, estimate: Estimate, source: Index, target: Index) -> Array:
    """(3 k, d) in m: k lines between endpoints of measurements, each followed by a row of NaN.

    They are thinned evenly to MOST_LINKS. One line with gaps is drawn much faster than many lines.
    """
    step = -(-len(source) // MOST_LINKS) or 1
    points = estimate.points
    ends = [points[graph.points(end[::step])] for end in (source, target)]
    return np.stack([*ends, np.full_like(ends[0], np.nan)], axis=1).reshape(-1, graph.dimension)


def _draw_lines(axes: Any, path: Array, colour: str, alpha: float, label: str) -> None:
    if len(path):
        axes.plot(*path.T, color=colour, alpha=alpha, label=label, zorder=LAYER[label],
                  linewidth=1.0 if colour == CLOSURE else 0.6)


def _draw_trajectories(
    axes: Any, graph: Graph, estimate: Estimate, untrusted: Mapping[str, str],
    fix_share: Mapping[str, Mapping[str, float]],
) -> None:
    """One line per robot, a ring where it starts and a dot where it ends."""
    colours = robot_colours(graph.robots)
    for number, robot in enumerate(graph.robots):
        track = estimate.translation[graph.pose_rows(number)]
        if not len(track):
            continue
        why = untrusted.get(robot, '')
        words = '; '.join(filter(None, (why, share_text(fix_share.get(robot, {})))))
        style: dict[str, Any] = {'color': colours[robot], 'alpha': 0.4 if why else 1.0}
        axes.plot(*track.T, linewidth=1.4, linestyle='--' if why else '-', zorder=4,
                  label=named(f'{robot} ({words})' if words else robot), **style)
        axes.plot(*track[:1].T, 'o', markerfacecolor='white', markersize=7, zorder=5, **style)
        axes.plot(*track[-1:].T, 'o', markersize=6, zorder=5, **style)


def _draw_landmarks(axes: Any, graph: Graph, position: Array, located: Mask) -> None:
    """Triangles with names; hollow ones have no place."""
    for rows, label, face, edge in ((located, 'beacons', 'black', 'white'),
                                    (~located, 'beacons without a place', 'white', FAINT)):
        if np.any(rows):
            axes.plot(*position[rows].T, '^', markerfacecolor=face, markeredgecolor=edge,
                      markersize=8, linestyle='none', label=label, zorder=6)
    if len(position) > MOST_LABELS:
        return
    for name, point in zip(graph.landmarks.names, position, strict=True):
        if graph.dimension == 2:
            axes.annotate(named(name), point, xytext=(6, 6), textcoords='offset points', fontsize=8,
                          zorder=7)
        else:
            axes.text(*point, named(f' {name}'), fontsize=8)


def _draw_ellipses(
    axes: Any, graph: Graph, estimate: Estimate, covariances: Mapping[str, Any]
) -> None:
    """95 % ellipses of newest poses and landmarks."""
    places = {
        'landmarks': dict(zip(graph.landmarks.names, estimate.landmarks, strict=True)),
        'newest_poses': {robot: estimate.translation[rows[-1]]
                         for number, robot in enumerate(graph.robots)
                         if len(rows := graph.pose_rows(number))}}
    angle = np.linspace(0, 2 * np.pi, 49)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    parts = []
    for kind, at in places.items():
        for name, values in covariances.get(kind, {}).items():
            if values and name in at:
                size, turn = np.linalg.eigh(np.array(values)[:2, :2])
                radii = np.sqrt(CONFIDENCE_95 * np.maximum(size, 0))
                parts += [at[name] + (circle * radii) @ turn.T, np.full((1, 2), np.nan)]
    if parts:
        axes.plot(*np.concatenate(parts).T, color='black', linewidth=0.8, alpha=0.7, zorder=5,
                  label='95 % ellipses')


def _finish_space(axes: Any) -> None:
    """Axes of equal scale in space."""
    axes.set_zlabel('z [m]')
    sides = [high - low for low, high in (axes.get_xlim(), axes.get_ylim(), axes.get_zlim())]
    axes.set_box_aspect(sides, zoom=0.95)
    if sides[2] < 0.12 * max(sides):
        # Several height labels of a flat scene would overlap.
        axes.set_zticks([float(f'{axes.get_zlim()[1]:.1g}')])
    else:
        axes.locator_params(axis='z', nbins=5)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.pane.set_facecolor('#FAFAFA')


def robot_colours(robots: Sequence[str]) -> dict[str, str]:
    """A colour per robot by the order of their names: the same in every picture of a team."""
    return {robot: COLOURS[number % len(COLOURS)] for number, robot in enumerate(sorted(robots))}


# -- residuals ---------------------------------------------------------------------------------


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
        drawing.suptitle(named(title), fontsize=11)
