"""Picture of a map: trajectories, beacons, closures and ranges, in the plane or in space."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import SparserError
from ..config.backend_config import BackendConfig
from ..graph import Estimate, Graph
from .figure import FAINT, REJECTED, figure, robot_colours

REJECTED_BELOW = BackendConfig().rejected_weight
"""Robust weight below which a measurement is drawn as rejected."""
CLOSURE = '#222222'
"""No robot's colour: closures lie on the trajectories that they join."""
LAYER = {'ranges': 1, 'rejected': 3, 'loop closures': 4.5}
"""Trajectories are layer 4; a closure joins places that lie on one another."""
MOST_LINKS = 1500
"""Ranges or closures drawn; more are thinned evenly, since their lines would hide the map."""
MOST_COLUMNS = 6
"""Names side by side in the legend, which is 8 inches wide."""
MOST_LABELS = 30
"""Beacons up to which names are drawn."""


def save(
    path: Path | str,
    graph: Graph,
    estimate: Estimate,
    *,
    truth: Estimate | None = None,
    weights: Mapping[str, Array] | None = None,
    cost: float | None = None,
    title: str = '',
    untrusted: Mapping[str, str] | None = None,
    located: Mask | None = None,
) -> None:
    """Draw a map; `truth` in the frame of the estimate, `weights` robust weights by table.

    `untrusted`: robot -> why, of robots whose trajectory is drawn faint, broken and with that word;
    `located` (m,): landmarks that have a place, others are drawn hollow (None: all have).

    Raises SparserError for an estimate without a position.
    """
    if not len(estimate.points):
        raise SparserError(f'{path}: nothing to draw: no pose and no beacon has a position')
    plane = graph.dimension == 2
    with figure(path, 8.0, _height(estimate, truth) if plane else 6.0) as drawing:
        axes = drawing.add_subplot(projection=None if plane else '3d')
        canvas = _Canvas(axes, graph, estimate, weights or {}, untrusted or {})
        canvas.links()
        if truth is not None:
            canvas.truth(truth)
        canvas.trajectories()
        canvas.landmarks(np.ones(graph.n_landmarks, dtype=bool) if located is None else located)
        canvas.rejected()
        canvas.finish(title or _title(graph, cost, untrusted or {}))


def _height(estimate: Estimate, truth: Estimate | None) -> float:
    """Height in inches of a picture 8 wide that fits the map."""
    points = np.concatenate([estimate.points, *([] if truth is None else [truth.translation])])
    extent = np.ptp(points, axis=0)
    return float(np.clip(7.5 * extent[1] / max(extent[0], 1e-9) + 0.8, 4.0, 9.0))


def _title(graph: Graph, cost: float | None, untrusted: Mapping[str, str]) -> str:
    parts = [graph.name] if graph.name else []
    parts.append(f'{graph.n_poses} poses')
    if len(graph.ranges):
        parts.append(f'{len(graph.ranges)} ranges')
    if cost is not None:
        parts.append(f'cost {cost:.6g}')
    if untrusted:
        parts.append(f'not to be trusted: {", ".join(untrusted)}')
    return ' · '.join(parts)


class _Canvas:
    """One pair of axes, two- or three-dimensional."""

    def __init__(
        self, axes: Any, graph: Graph, estimate: Estimate, weights: Mapping[str, Array],
        untrusted: Mapping[str, str],
    ) -> None:
        self.axes, self.graph, self.estimate, self.untrusted = axes, graph, estimate, untrusted
        self.doubted = {name: values < REJECTED_BELOW for name, values in weights.items()}

    def trajectories(self) -> None:
        """One line per robot, a ring where it starts and a dot where it ends."""
        colours = robot_colours(self.graph.robots)
        for number, robot in enumerate(self.graph.robots):
            track = self.estimate.translation[self._rows(number)]
            if not len(track):
                continue
            why = self.untrusted.get(robot, '')
            style: dict[str, Any] = {'color': colours[robot], 'alpha': 0.4 if why else 1.0}
            self.axes.plot(*track.T, linewidth=1.4, linestyle='--' if why else '-', zorder=4,
                           label=f'{robot} ({why})' if why else robot, **style)
            self.axes.plot(*track[:1].T, 'o', markerfacecolor='white', markersize=7, zorder=5,
                           **style)
            self.axes.plot(*track[-1:].T, 'o', markersize=6, zorder=5, **style)

    def truth(self, truth: Estimate) -> None:
        """The reference as thin broken lines."""
        for number in range(len(self.graph.robots)):
            track = truth.translation[self._rows(number)]
            self.axes.plot(*track.T, color=FAINT, linewidth=0.9, linestyle=(0, (4, 2)),
                           label='reference' if number == 0 else None, zorder=2)

    def landmarks(self, located: Mask) -> None:
        """Triangles with names; hollow ones have no place."""
        position = self.estimate.landmarks
        for rows, label, face, edge in ((located, 'beacons', 'black', 'white'),
                                        (~located, 'beacons without a place', 'white', FAINT)):
            if np.any(rows):
                self.axes.plot(*position[rows].T, '^', markerfacecolor=face, markeredgecolor=edge,
                               markersize=8, linestyle='none', label=label, zorder=6)
        if len(position) > MOST_LABELS:
            return
        for name, point in zip(self.graph.landmarks.names, position, strict=True):
            if self.graph.dimension == 2:
                self.axes.annotate(name, point, xytext=(6, 6), textcoords='offset points',
                                   fontsize=8, zorder=7)
            else:
                self.axes.text(*point, f' {name}', fontsize=8)

    def links(self) -> None:
        """Loop closures and ranges, as faint lines."""
        graph = self.graph
        table = graph.relative_poses
        keep = ~table.odometry & ~self._doubted('relative_poses', len(table))
        self._lines(table.i[keep], table.j[keep], CLOSURE, 0.7, 'loop closures')
        keep = ~self._doubted('ranges', len(graph.ranges))
        alpha = min(max(60 / (1 + int(np.sum(keep))), 0.1), 0.5)
        self._lines(graph.ranges.source[keep], graph.ranges.target[keep], FAINT, alpha, 'ranges')

    def rejected(self) -> None:
        """Measurements that the robust kernel rejects, in red."""
        source, target = [], []
        for name, table in self.graph.tables().items():
            ends = [getattr(table, column) for column in table.endpoints()]
            if len(ends) == 2:
                doubted = self._doubted(name, len(table))
                source.append(ends[0][doubted])
                target.append(ends[1][doubted])
        self._lines(np.concatenate(source), np.concatenate(target), REJECTED, 0.5, 'rejected')

    def finish(self, title: str) -> None:
        """Equal axes in metres, a legend, a title."""
        axes = self.axes
        axes.set_title(title, fontsize=11)
        axes.set_xlabel('x [m]')
        axes.set_ylabel('y [m]')
        if self.graph.dimension == 3:
            self._finish_space()
        else:
            axes.set_aspect('equal', adjustable='datalim')
            axes.grid(True, linewidth=0.4, color='#DDDDDD')
            axes.set_axisbelow(True)
            for side in ('top', 'right'):
                axes.spines[side].set_visible(False)
        handles, names = axes.get_legend_handles_labels()
        if handles:
            # Below the axes: inside, it would lie over trajectories.
            legend = axes.figure.legend(
                handles, names, loc='outside lower center', fontsize=8, frameon=False,
                ncols=min(len(names), MOST_COLUMNS))
            for line in legend.get_lines():
                line.set_alpha(1.0)

    def _finish_space(self) -> None:
        axes = self.axes
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

    def _lines(
        self, source: Index, target: Index, colour: str, alpha: float,
        label: str,
    ) -> None:
        if not len(source):
            return
        step = -(-len(source) // MOST_LINKS)
        points = self.estimate.points
        a, b = (points[self.graph.points(end[::step])] for end in (source, target))
        gap = np.full_like(a, np.nan)
        # One line with gaps (NaN) is drawn much faster than many lines.
        path = np.stack([a, b, gap], axis=1).reshape(-1, a.shape[1])
        self.axes.plot(*path.T, color=colour, alpha=alpha, label=label,
                       linewidth=1.0 if colour == CLOSURE else 0.6, zorder=LAYER[label])

    def _doubted(self, name: str, count: int) -> Mask:
        return self.doubted.get(name, np.zeros(count, dtype=bool))

    def _rows(self, robot: int) -> Index:
        rows = np.flatnonzero(self.graph.poses.robot == robot)
        return rows[np.argsort(self.graph.poses.index[rows], kind='stable')]
