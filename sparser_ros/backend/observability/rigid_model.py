"""The rigid problem of a graph at an estimate, under robust weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph
from ...graph.estimate import antennas
from ...graph.parts import OdometrySegments
from ...graph.precision import chi_square_kappa
from .pieces import Joints, no_joints
from .rigid_kernels import DIRECTION, DISTANCE, HEIGHT, WHOLE, Ties
from .rigid_problem import GROUND, RigidProblem

CELL_M = 0.5
"""Ranges between two places of this size are one piece of information: their biases are equal."""
CELL_SHARE, COARSEST_SHARE = 0.05, 0.4
"""Cells grow to this share of the distance: within them the direction changes by so many rad;
where there are more ranges than asked for, they grow further."""
HEIGHTS = 24
"""Heights of one part, each the mean of a stretch of its path."""


@dataclass(frozen=True)
class RobustWeights:
    """What a robust solve believes, by table name; a missing table is believed."""

    weights: dict[str, Array] = field(default_factory=dict)
    rejected: float = 0.1

    def of(self, name: str, count: int) -> tuple[Array, Mask]:
        """Weights and mask of the rows that are believed; rejected rows keep weight 1."""
        weight = np.asarray(self.weights.get(name, np.ones(count)), dtype=float)
        kept = weight >= self.rejected
        return np.where(kept, weight, 1.0), kept


def rigid_problem(
    graph: Graph, estimate: Estimate, parts: OdometrySegments, range_sigma_floor_m: float,
    believed: RobustWeights | None = None, joints: Joints | None = None,
    most_ranges: int = 0,
) -> RigidProblem:
    """The small problem of a graph at an estimate; measurements within a part drop out.

    `parts` are the rigid stretches: whole segments, or the pieces that `joints` join. Ranges of the
    same two cells are one where there is a floor. About `most_ranges` are left where it is
    positive; the estimate must then be near a solution.
    """
    believed = RobustWeights() if believed is None else believed
    b, d = len(parts), graph.dimension
    # Arms are points in map until the centres are known.
    ties = _joined([
        _ranges(graph, estimate, parts, range_sigma_floor_m, believed, most_ranges),
        *_coincidences(graph, estimate, parts, believed),
        _verticals(graph, estimate, parts, believed),
        _heights(graph, estimate, parts, range_sigma_floor_m, believed)])
    ends, ground = (ties.first, ties.second), b + graph.n_landmarks
    fixed = b + np.flatnonzero(graph.landmarks.fixed)
    first, second = (
        np.where((end == GROUND) | np.isin(end, fixed), ground, end) for end in ends)
    centers = np.zeros((ground + 1, d))
    count = np.zeros(len(centers))
    used = ties.kept & ((ties.part == WHOLE) | (ties.part == DISTANCE))
    for variable, point in ((first, ties.arm_first), (second, ties.arm_second)):
        np.add.at(centers, variable[used], point[used])
        np.add.at(count, variable[used], 1)
    centers /= np.maximum(count, 1)[:, None]
    alone = np.flatnonzero(count[:b] == 0)
    centers[alone] = estimate.translation[parts.last[alone]]
    centers[b:-1] = estimate.landmarks
    centers[GROUND] = 0
    carried = (ties.part != DIRECTION)[:, None]
    return RigidProblem(b, centers, ties._replace(
        first=first, second=second, arm_first=ties.arm_first - carried * centers[first],
        arm_second=ties.arm_second - carried * centers[second]),
        no_joints(d) if joints is None else joints)


def _ranges(
    graph: Graph, estimate: Estimate, parts: OdometrySegments, floor: float,
    believed: RobustWeights, most: int,
) -> Ties:
    table = graph.ranges
    weight, kept = believed.of('ranges', len(table))
    first, second = parts.variable(table.source), parts.variable(table.target)
    ties = _ties(
        first, second, antennas(estimate, table.source, table.lever_source),
        antennas(estimate, table.target, table.lever_target), weight * table.precision, kept, 1.0,
        DISTANCE)._replace(distance=table.distance_m).take(first != second)
    if not most and floor <= 0:
        return ties
    cell, share = _cells(ties, CELL_SHARE), CELL_SHARE
    while most and share < COARSEST_SHARE and np.max(cell, initial=0) >= most:
        share *= 2
        cell = _cells(ties, share)
    return _merged(ties, cell, floor, most > 0)


def _cells(ties: Ties, share: float) -> Index:
    """(k,): number of the pair of cells of each range; rejected ranges have cells of their own."""
    level = np.ceil(np.log2(np.maximum(share * ties.distance / CELL_M, 1)))
    cell = (CELL_M * 2**level)[:, None]
    keys = np.concatenate([
        np.stack([ties.first, ties.second, level, ties.kept], axis=1),
        np.floor(ties.arm_first / cell), np.floor(ties.arm_second / cell)],
        axis=1).astype(np.int64)
    # One number per row of keys sorts ten times faster than the rows.
    number = np.zeros(len(keys), dtype=np.int64)
    for column in keys.T:
        column = column - np.min(column, initial=0)
        _, number = np.unique(
            number * (1 + np.max(column, initial=0)) + column, return_inverse=True)
        number = number.reshape(-1)
    return number


def _merged(ties: Ties, cell: Index, floor: float, near: bool) -> Ties:
    """One range per pair of cells: means of believed ranges, one of the rejected ones.

    `near`: the estimate tells how much longer the mean of distances is than the distance of means.
    """
    if not len(cell):
        return ties
    _, chosen = np.unique(cell, return_index=True)
    # A mean over rejected ranges of one cell, each false in its own way, would mean nothing.
    share = np.where(ties.kept, ties.weight, 0.0)
    share[chosen] = np.where(ties.kept[chosen], ties.weight[chosen], 1.0)
    total = np.bincount(cell, share)

    def mean(column: Array) -> Array:
        return np.bincount(cell, share * column) / total

    def middle(points: Array) -> Array:
        return np.stack([mean(column) for column in points.T], axis=1)

    weight = np.where(ties.kept[chosen], total, ties.weight[chosen])
    if floor > 0:
        weight = np.minimum(weight, 1 / floor**2)
    first, second, distance = (
        middle(ties.arm_first), middle(ties.arm_second), mean(ties.distance))
    if near:
        distance = distance + np.linalg.norm(second - first, axis=1) - mean(
            np.linalg.norm(ties.arm_second - ties.arm_first, axis=1))
    return ties.take(chosen)._replace(
        arm_first=first, arm_second=second, distance=np.maximum(distance, 0.0), weight=weight)


def _coincidences(
    graph: Graph, estimate: Estimate, parts: OdometrySegments, believed: RobustWeights
) -> list[Ties]:
    rotation, translation, points = estimate.rotation, estimate.translation, estimate.points
    see, point, prior = graph.sightings, graph.point_priors, graph.pose_priors
    d, turns = graph.dimension, 1 if graph.dimension == 2 else 3
    closure = ~graph.relative_poses.odometry
    closures = graph.relative_poses.take(closure)
    weight, kept = believed.of('relative_poses', len(closure))
    weight, kept = weight[closure], kept[closure]
    seen = translation[see.i] + np.einsum('kij,kj->ki', rotation[see.i], see.translation)
    see_weight, see_kept = believed.of('sightings', len(see))
    point_weight, point_kept = believed.of('point_priors', len(point))
    prior_weight, prior_kept = believed.of('pose_priors', len(prior))
    lever = np.where(
        (point.point >= 0)[:, None],
        np.einsum('kij,kj->ki', rotation[np.maximum(point.point, 0)], point.lever)
        if graph.n_poses else 0.0, 0.0)
    carried = translation[closures.i] + np.einsum(
        'kij,kj->ki', rotation[closures.i], closures.translation)
    return [
        _ties(parts.variable(see.i), parts.variable(see.point), seen,
              points[graph.points(see.point)], see.tau * see_weight, see_kept, d),
        _ties(parts.variable(point.point), GROUND, points[graph.points(point.point)] + lever,
              point.position, point.precision * point_weight, point_kept,
              np.where(point.point >= 0, float(d), np.inf)),
        _frames(parts.variable(closures.i), parts.variable(closures.j), carried,
                translation[closures.j], rotation[closures.i] @ closures.rotation,
                rotation[closures.j], closures.kappa * weight, closures.tau * weight, kept,
                d + turns),
        _frames(parts.variable(prior.i), GROUND, translation[prior.i], prior.translation,
                rotation[prior.i], prior.rotation, prior.kappa * prior_weight,
                prior.tau * prior_weight, prior_kept, d + turns),
    ]


def _verticals(
    graph: Graph, estimate: Estimate, parts: OdometrySegments, believed: RobustWeights
) -> Ties:
    """One direction for every part: the mean of what its poses say is up.

    sum w |R v - e|^2 = W |R m - e|^2 + const with the sum W of the weights and the mean m of v.
    """
    table, d = graph.verticals, graph.dimension
    weight, kept = believed.of('verticals', len(table))
    weight = np.where(kept, weight * table.precision, 0.0)
    seen = np.einsum('kij,kj->ki', estimate.rotation[table.i], table.up)
    part = parts.of_pose[table.i]
    total: Array = np.bincount(part, weight, len(parts)).astype(float)
    mean = np.zeros((len(parts), d))
    np.add.at(mean, part, weight[:, None] * seen)
    own = np.flatnonzero(total > 0)
    return _ties(
        own, GROUND, mean[own] / total[own, None], np.eye(d)[-1], total[own],
        np.ones(len(own), dtype=bool), np.inf, DIRECTION)


def _heights(
    graph: Graph, estimate: Estimate, parts: OdometrySegments, floor: float,
    believed: RobustWeights,
) -> Ties:
    """Heights, those of a stretch of path that are believed, or not, as their mean.

    No mean is surer than `floor`: neighbouring heights share the error of their sensor.
    """
    table, d = graph.heights, graph.dimension
    weight, kept = believed.of('heights', len(table))
    weight = weight * table.precision
    variable = parts.variable(table.point)
    pose = table.point >= 0
    points = antennas(estimate, table.point, table.lever)
    # Poses of a part in their order, in stretches of equal numbers.
    order = np.lexsort((np.where(pose, table.point, 0), variable))
    rank = np.empty(len(order), dtype=np.int64)
    start = np.searchsorted(variable[order], variable[order], side='left')
    rank[order] = np.arange(len(order)) - start
    number = np.bincount(variable, minlength=1)[variable]
    stretch = np.where(number > HEIGHTS, rank * HEIGHTS // np.maximum(number, 1), rank)
    keys = np.stack([variable, stretch, kept.astype(np.int64)], axis=1)
    _, chosen, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    total: Array = np.bincount(group, weight, len(chosen)).astype(float)
    mean = np.zeros((len(chosen), d))
    np.add.at(mean, group, weight[:, None] * points)
    ground = np.zeros((len(chosen), d))
    np.add.at(ground[:, -1], group, weight * table.height_m)
    mean, ground = mean / total[:, None], ground / total[:, None]
    if floor > 0:
        total = np.minimum(total, 1 / floor**2)
    return _ties(variable[chosen], GROUND, mean, ground, total, kept[chosen], 1.0, HEIGHT)


def _joined(blocks: list[Ties]) -> Ties:
    """All ties whose two variables differ, groups numbered through."""
    offset = np.cumsum([0, *(len(ties.group) for ties in blocks)])
    joined = Ties._make(map(np.concatenate, zip(*blocks, strict=True)))
    joined = joined._replace(group=joined.group + np.repeat(
        offset[:-1], np.diff(offset)))
    return joined.take(joined.first != joined.second)


def _ties(
    first: Index, second: Index | int, point_first: Array, point_second: Array, weight: Array,
    kept: Mask, degrees: float | Array, part: int = WHOLE,
) -> Ties:
    """Each a measurement by itself; points in map."""
    count = len(first)
    return Ties(
        first, np.broadcast_to(second, count), point_first,
        np.broadcast_to(point_second, point_first.shape), np.zeros(count), weight, kept,
        np.full(count, part), np.arange(count), np.broadcast_to(degrees, count).astype(float))


def _frames(
    first: Index, second: Index | int, t_first: Array, t_second: Array, r_first: Array,
    r_second: Array, kappa: Array, tau: Array, kept: Mask, degrees: float,
) -> Ties:
    """Coincidence of two frames as coincidences of 2d points along their axes."""
    count, d = t_first.shape
    reach = np.sqrt(chi_square_kappa(kappa, d) * d / tau)
    signs = np.array([1.0, -1.0])

    def points(origin: Array, axes: Array) -> Array:
        offsets = reach[:, None, None, None] * signs[:, None, None] * np.swapaxes(
            axes, 1, 2)[:, None]
        return (origin[:, None, None] + offsets).reshape(-1, d)

    repeat = 2 * d
    return _ties(
        np.repeat(first, repeat), np.repeat(np.broadcast_to(second, count), repeat),
        points(t_first, r_first), points(t_second, r_second), np.repeat(tau / repeat, repeat),
        np.repeat(kept, repeat), degrees)._replace(group=np.repeat(np.arange(count), repeat))
