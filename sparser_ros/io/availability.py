"""Availability: the time that robots had a fix, and the errors of the poses stated meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import chdtri

from ..array_types import Array, Index
from ..graph import Estimate, Graph
from ..linalg.rotations import align

FIXES = ('none', 'float', 'fixed')
"""Names of fix types 0, 1, 2 of `~/status`."""
_INSIDE = 0.95
_POINTS = 500
"""Of a path that a map is laid on the truth by."""

TruePositions = Callable[[str, Index], Array]
"""(robot, stamps in ns (k,)) -> positions (k, d) in metres, NaN where the truth is not known."""


@dataclass(frozen=True)
class StatedPose:
    """A newest position as it was published."""

    robot: str
    fix: int
    stamp_ns: int
    position: Array
    """(d,), metres in `map`."""
    covariance: Array
    """(d, d), m^2."""


@dataclass(frozen=True)
class Picture:
    """The map of one solution: what its newest poses are compared with the truth by."""

    paths: Mapping[str, tuple[Index, Array]]
    """By robot: stamps (k,) in ns and positions (k, d) in metres of poses along its way."""
    newest: tuple[StatedPose, ...]


@dataclass
class Availability:
    """Fix types of robots over data time, and the maps that were published meanwhile."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    """By robot: data time with each fix type."""
    pictures: list[Picture] = field(default_factory=list)
    _last: tuple[float, dict[str, int]] | None = None

    def note(self, now_s: float, fixes: Mapping[str, int]) -> None:
        """The robots have these fix types from `now_s` (data time) on."""
        if self._last is not None:
            before_s, known = self._last
            for robot, fix in known.items():
                self.seconds.setdefault(robot, [0.0] * len(FIXES))[fix] += max(now_s - before_s, 0)
        self._last = now_s, dict(fixes)

    def draw(
        self, paths: Mapping[str, tuple[Index, Array]], newest: Iterable[StatedPose]
    ) -> None:
        """Keep a map; its paths are thinned to `_POINTS` points."""
        self.pictures.append(Picture({
            robot: (stamps[thinned], positions[thinned]) for robot, (stamps, positions)
            in paths.items() if len(thinned := np.unique(
                np.linspace(0, len(stamps) - 1, min(len(stamps), _POINTS)).astype(np.int64)))},
            tuple(newest)))

    @property
    def shares(self) -> dict[str, dict[str, float]]:
        """By robot and name of the fix type: share of the time; {} of robots without time."""
        return {
            robot: {name: part / sum(times) for name, part in zip(FIXES, times, strict=True)}
            for robot, times in self.seconds.items() if sum(times) > 0}

    def accuracy(self, truth: TruePositions) -> dict[str, dict[str, Any]]:
        """By name of the fix type: number of poses, root mean square error, share inside.

        The paths of each map are laid on the truth by one rotation and one shift: those of fixed
        robots, else that of the surest. A pose is inside where the truth is in its own ellipse of
        95 %.
        """
        rows: dict[str, list[tuple[float, bool]]] = {}
        for picture in self.pictures:
            reference = {pose.robot for pose in picture.newest if FIXES[pose.fix] == 'fixed'}
            if not reference and picture.newest:
                reference = {min(
                    picture.newest, key=lambda pose: float(np.trace(pose.covariance))).robot}
            points = [(positions, truth(robot, stamps))
                      for robot, (stamps, positions) in picture.paths.items()
                      if robot in reference]
            if not points:
                continue
            mapped, true = (np.concatenate(part) for part in zip(*points, strict=True))
            known = np.all(np.isfinite(true), axis=1)
            if np.sum(known) <= mapped.shape[1]:
                continue
            turn, shift = align(mapped[known], true[known])
            for pose in picture.newest:
                there = truth(pose.robot, np.array([pose.stamp_ns]))[0]
                if not np.all(np.isfinite(there)) or not np.all(np.isfinite(pose.covariance)):
                    continue
                gap = turn @ pose.position + shift - there
                square = turn @ pose.covariance @ turn.T
                size = float(gap @ np.linalg.solve(square + 1e-12 * np.eye(len(gap)), gap))
                rows.setdefault(FIXES[pose.fix], []).append((
                    float(gap @ gap), size <= float(chdtri(len(gap), 1 - _INSIDE))))
        return {name: {
            'poses': len(values),
            'rmse_m': float(np.sqrt(np.mean([square for square, _ in values]))),
            'inside_95': float(np.mean([inside for _, inside in values]))}
            for name, values in sorted(rows.items())}


def share_text(shares: Mapping[str, float]) -> str:
    """Shares of one robot in words: 'fixed 82 %, float 17 %, none 1 %'."""
    return ', '.join(
        f'{name} {100 * shares[name]:.0f} %' for name in reversed(FIXES) if shares.get(name, 0) > 0)


def accuracy_lines(accuracy: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [f'{name:<5} poses as published: RMSE {row["rmse_m"]:.3g} m, '
            f'{100 * row["inside_95"]:.0f} % within their 95 % ellipse ({row["poses"]} compared)'
            for name, row in accuracy.items()]


def positions_of(graph: Graph) -> TruePositions:
    """The positions of a graph, between its poses on straight lines."""
    def at(robot: str, stamps_ns: Index) -> Array:
        result = np.full((len(stamps_ns), graph.dimension), np.nan)
        if robot not in graph.robots:
            return result
        rows = graph.pose_rows(graph.robots.index(robot))
        own = graph.poses.stamp_ns[rows]
        if not len(own):
            return result
        since, when = (own - own[0]).astype(float), (stamps_ns - own[0]).astype(float)
        for axis, values in enumerate(graph.poses.translation[rows].T):
            result[:, axis] = np.interp(when, since, values, left=np.nan, right=np.nan)
        return result
    return at


def true_poses(graph: Graph, positions: TruePositions) -> Estimate | None:
    """The poses of a graph at their true positions, NaN where these are not known; None where they
    are too few to lay a map on."""
    places = at_poses(graph, positions)
    if np.count_nonzero(np.isfinite(places[:, 0])) <= graph.dimension:
        return None
    return Estimate(graph.poses.rotation.copy(), places, graph.landmarks.position.copy())


def laid_on(estimate: Estimate, other: Estimate) -> Estimate:
    """An estimate moved to where its poses are nearest to those of another one of the same graph.
    """
    known = np.isfinite(estimate.translation[:, 0] + other.translation[:, 0])
    return estimate.moved(*align(estimate.translation[known], other.translation[known]))


def at_poses(graph: Graph, positions: TruePositions) -> Array:
    """(n, d): where the poses of a graph truly are, NaN where that is not known."""
    places = np.empty_like(graph.poses.translation)
    for number, robot in enumerate(graph.robots):
        rows = graph.pose_rows(number)
        places[rows] = positions(robot, graph.poses.stamp_ns[rows])
    return places
