"""The gate before publishing: whether the newest data agree with the map, per robot and in all.

Bounds are one-sided confidence bounds. Withdrawing is no accusation: of ranges the gate asks for
less certainty than a finding does, of a path that leaves its odometry for as much.

How far a path leaves its odometry is asked window by window, against the noise that it claims.
Over a window from pose p to pose q the estimate says R_p^T (t_q - t_p), odometry X_p^-1 X_q. Their
difference e has at most the covariance C that the odometry claims: sum of 1 / tau, and the
heading noise of each step times the way still to go. So e^T C^-1 e is at most chi-square with d
degrees of freedom: of independent data, the mean of the estimate less that of the prior has the
covariance of the prior less that of the estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.special import bdtrik, chdtri, ndtri

from ...array_types import Array, Index, Mask
from ...config.backend_config import IntegrityConfig
from ...graph import Estimate, Graph
from ...graph.finding import Finding
from ...graph.odometry_segments import find_segments
from ...graph.precision import rotation_variance, translation_variance
from ...graph.range_ends import RangeEnds
from ...linalg.rotations import rotation_jacobian
from .doubts import Rows, lower_share


@dataclass(frozen=True)
class OdometryWindows:
    """One row per window of one robot, in time order."""

    robot: Index
    end_s: Array
    """Time of its last pose since the first pose of the graph."""
    square: Array
    """e^T C^-1 e."""

    def of(self, robot: int) -> Array:
        """Squares of one robot's windows, oldest first."""
        return self.square[self.robot == robot]


def odometry_windows(graph: Graph, estimate: Estimate, window_s: float) -> OdometryWindows:
    """Disjoint windows of unbroken odometry.

    The poses of the graph hold T_odom_base, as increments bring them.
    """
    segments = find_segments(graph)
    rel = graph.relative_poses
    edges = np.flatnonzero(rel.odometry)
    into = np.full(graph.n_poses, -1, dtype=np.int64)
    into[rel.j[edges]] = edges
    begin = int(graph.poses.stamp_ns.min()) if graph.n_poses else 0
    robot, end, square = [], [], []
    for segment in range(len(segments)):
        rows = np.flatnonzero(segments.of_pose == segment)
        seconds = (graph.poses.stamp_ns[rows] - begin) * 1e-9
        number = np.floor((seconds - seconds[0]) / window_s)
        cuts = np.r_[0, np.flatnonzero(np.diff(number)) + 1, len(rows) - 1]
        for first, last in pairwise(cuts):
            part = rows[first:last + 1]
            # A short window at the end says little and would only cost a degree of freedom.
            if len(part) < 2 or seconds[last] - seconds[first] < window_s / 2:
                continue
            robot.append(int(segments.robot[segment]))
            end.append(float(seconds[last]))
            square.append(_square(graph, estimate, part, into[part[1:]]))
    return OdometryWindows(
        np.array(robot, dtype=np.int64), np.array(end), np.array(square, dtype=float))


def _square(graph: Graph, estimate: Estimate, rows: Index, edges: Index) -> float:
    d, rel = graph.dimension, graph.relative_poses
    first, last = rows[0], rows[-1]
    odometry = graph.poses.rotation[first].T @ (
        graph.poses.translation[rows] - graph.poses.translation[first]).T
    found = estimate.rotation[first].T @ (
        estimate.translation[last] - estimate.translation[first])
    to_go = (odometry[:, -1:] - odometry[:, 1:]).T
    turned = rotation_jacobian(to_go)
    heading = rotation_variance(rel.kappa[edges], d)
    covariance = np.sum(translation_variance(rel.tau[edges])) * np.eye(d) + np.einsum(
        'k,kij,klj->il', heading, turned, turned)
    error = found - odometry[:, -1]
    return float(error @ np.linalg.solve(covariance, error))


_BENDING = frozenset({'odometry_scale', 'odometry_turn', 'odometry_jump', 'radios_swapped'})
"""Faults that bend the path of their robot, which no robust weight takes out of the estimate."""
_MEDIAN_SIGMA = float(ndtri(0.75))
"""Median of |z| for a standard normal z."""
_CHANCE = 0.05
"""Probability, of ranges within the limits, of a bound beyond them: a robot is then withdrawn for
some seconds, which is the lesser evil."""


@dataclass(frozen=True)
class Gate:
    """Whether the estimate may be published."""

    passed: bool = True
    """Whether the map as a whole may be published."""
    reasons: tuple[str, ...] = ()
    """Why not, in words."""
    robots: dict[str, str] = field(default_factory=dict)
    """Robots that must not be published even so, with the reason."""


def gate_of(
    graph_robots: tuple[str, ...], dimension: int, sources: RangeEnds, rows: Rows,
    windows: OdometryWindows, findings: Sequence[Finding], false_alarm: float,
    config: IntegrityConfig,
) -> Gate:
    """The gate at an estimate, from the newest ranges and odometry, and from what was found."""
    if not config.gate:
        return Gate()
    newest = float(sources.seconds.max()) if len(sources.seconds) else 0.0
    recent = sources.seconds >= newest - config.window_s
    whole = _ranges_reason(rows, recent, config)
    bent = {name: one.text for one in findings if one.kind in _BENDING
            for name in one.subject.split(' and ')}
    robots: dict[str, str] = {}
    for number, name in enumerate(graph_robots):
        reason = _ranges_reason(rows, recent & sources.at(number), config) or \
            _odometry_reason(
                windows.of(number), dimension, false_alarm, config) or bent.get(name, '')
        if reason:
            robots[name] = reason
    return Gate(not whole, (f'the map as a whole: {whole}',) if whole else (), robots)


def _ranges_reason(rows: Rows, part: Mask, config: IntegrityConfig) -> str:
    total, far = int(part.sum()), int(np.sum(rows.far & part))
    if lower_share(far, total, _CHANCE) > config.gate_rejected:
        return f'{100 * far / total:.0f} % of its newest ranges do not fit'
    variance, lower = variance_factor(rows.whitened[part], _CHANCE)
    if lower > config.gate_variance:
        return f'its newest ranges are off by {np.sqrt(variance):.1f} times their noise'
    return ''


def _odometry_reason(
    squares: Array, dimension: int, false_alarm: float, config: IntegrityConfig
) -> str:
    """The newest windows of odometry against the estimate."""
    newest = squares[-max(1, round(config.memory_s / config.window_s)):]
    degrees, total = dimension * len(newest), float(np.sum(newest))
    if degrees and total > config.gate_variance * chdtri(degrees, false_alarm):
        return f'its path leaves its odometry by {np.sqrt(total / degrees):.0f} times the noise'
    return ''


def variance_factor(whitened: Array, false_alarm: float) -> tuple[float, float]:
    """(variance over the claimed one by the median, its lower confidence bound); 0 without data.

    The median holds with up to half of the residuals wrong; its bound is an order statistic.
    """
    n = len(whitened)
    if n == 0:
        return 0.0, 0.0
    size = np.sort(np.abs(whitened))
    # Fewer than `below` of n residuals lie under the median with the false-alarm probability.
    below = int(np.floor(float(np.nan_to_num(bdtrik(false_alarm, n, 0.5)))))
    bound = size[max(min(below, n) - 1, 0)] if below >= 1 else 0.0
    return float((np.median(size) / _MEDIAN_SIGMA) ** 2), float((bound / _MEDIAN_SIGMA) ** 2)
