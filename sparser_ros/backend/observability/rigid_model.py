"""The rigid problem of a graph at an estimate, under robust weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph
from ...graph.estimate import antennas
from ...graph.odometry_segments import OdometrySegments
from ...graph.precision import chi_square_kappa
from .pieces import Joints, no_joints
from .rigid_kernels import DIRECTION, HEIGHT, WHOLE
from .rigid_problem import GROUND, Pairs, RigidProblem

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
    ranges, distance = _ranges(graph, estimate, parts, range_sigma_floor_m, believed, most_ranges)
    same = _joined([
        _coincidences(graph, estimate, parts, believed),
        _verticals(graph, estimate, parts, believed),
        _heights(graph, estimate, parts, range_sigma_floor_m, believed)])
    fixed = b + np.flatnonzero(graph.landmarks.fixed)
    ranges, same = _grounded(ranges, fixed), _grounded(same, fixed)
    centers = np.zeros((b + graph.n_landmarks + 1, d))
    count = np.zeros(len(centers))
    for pairs in (ranges, same):
        for variable, point in (
            (pairs.first, pairs.point_first), (pairs.second, pairs.point_second)):
            used = pairs.kept & (pairs.part == WHOLE)
            np.add.at(centers, variable[used], point[used])
            np.add.at(count, variable[used], 1)
    centers /= np.maximum(count, 1)[:, None]
    alone = np.flatnonzero(count[:b] == 0)
    centers[alone] = estimate.translation[parts.last[alone]]
    centers[b:-1] = estimate.landmarks
    centers[GROUND] = 0
    return RigidProblem(
        b, centers, ranges, distance, same, no_joints(d) if joints is None else joints)


def _ranges(
    graph: Graph, estimate: Estimate, parts: OdometrySegments, floor: float,
    believed: RobustWeights, most: int,
) -> tuple[Pairs, Array]:
    table = graph.ranges
    first, second = parts.variable(table.source), parts.variable(table.target)

    weight, kept = believed.of('ranges', len(table))
    between = first != second
    pairs = Pairs(
        first, second, antennas(estimate, table.source, table.lever_source),
        antennas(estimate, table.target, table.lever_target), weight * table.precision,
        np.arange(len(first)), kept, np.ones(len(first)), _whole(len(first)))
    pairs, distance = pairs.take(between), table.distance_m[between]
    if not most and floor <= 0:
        return replace(pairs, group=np.arange(len(pairs))), distance
    group, share = _cells(pairs, distance, CELL_SHARE), CELL_SHARE
    while most and share < COARSEST_SHARE and np.max(group, initial=0) >= most:
        share *= 2
        group = _cells(pairs, distance, share)
    return _merged(pairs, distance, group, floor, most > 0)


def _cells(pairs: Pairs, distance: Array, share: float) -> Index:
    """(k,): number of the pair of cells of each range; rejected ranges have cells of their own."""
    level = np.ceil(np.log2(np.maximum(share * distance / CELL_M, 1)))
    cell = (CELL_M * 2**level)[:, None]
    keys = np.concatenate([
        np.stack([pairs.first, pairs.second, level, pairs.kept], axis=1),
        np.floor(pairs.point_first / cell), np.floor(pairs.point_second / cell)],
        axis=1).astype(np.int64)
    # One number per row of keys sorts ten times faster than the rows.
    number = np.zeros(len(keys), dtype=np.int64)
    for column in keys.T:
        column = column - np.min(column, initial=0)
        _, number = np.unique(
            number * (1 + np.max(column, initial=0)) + column, return_inverse=True)
        number = number.reshape(-1)
    return number


def _merged(
    pairs: Pairs, distance: Array, group: Index, floor: float, near: bool
) -> tuple[Pairs, Array]:
    """One range per pair of cells: means of believed ranges, one of the rejected ones.

    `near`: the estimate tells how much longer the mean of distances is than the distance of means.
    """
    if not len(pairs):
        return pairs, distance
    _, chosen = np.unique(group, return_index=True)
    # A mean over rejected ranges of one cell, each false in its own way, would mean nothing.
    share = np.where(pairs.kept, pairs.weight, 0.0)
    share[chosen] = np.where(pairs.kept[chosen], pairs.weight[chosen], 1.0)
    total = np.bincount(group, share)

    def mean(column: Array) -> Array:
        return np.bincount(group, share * column) / total

    def middle(points: Array) -> Array:
        return np.stack([mean(column) for column in points.T], axis=1)

    weight = np.where(pairs.kept[chosen], total, pairs.weight[chosen])
    if floor > 0:
        weight = np.minimum(weight, 1 / floor**2)
    first, second, found = middle(pairs.point_first), middle(pairs.point_second), mean(distance)
    if near:
        found = found + np.linalg.norm(second - first, axis=1) - mean(
            np.linalg.norm(pairs.point_second - pairs.point_first, axis=1))
    return Pairs(
        pairs.first[chosen], pairs.second[chosen], first, second, weight,
        np.arange(len(chosen)), pairs.kept[chosen], pairs.degrees[chosen],
        pairs.part[chosen]), np.maximum(found, 0.0)


def _coincidences(
    graph: Graph, estimate: Estimate, parts: OdometrySegments, believed: RobustWeights
) -> Pairs:
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
    ground = np.full(len(prior), GROUND)
    blocks = [
        _points(parts.variable(see.i), parts.variable(see.point), seen,
                points[graph.points(see.point)], see.tau * see_weight, see_kept, d),
        _points(parts.variable(point.point), np.full(len(point), GROUND),
                points[graph.points(point.point)] + lever, point.position,
                point.precision * point_weight, point_kept,
                np.where(point.point >= 0, float(d), np.inf)),
        _frames(parts.variable(closures.i), parts.variable(closures.j), carried,
                translation[closures.j], rotation[closures.i] @ closures.rotation,
                rotation[closures.j], closures.kappa * weight, closures.tau * weight, kept,
                d + turns),
        _frames(parts.variable(prior.i), ground, translation[prior.i], prior.translation,
                rotation[prior.i], prior.rotation, prior.kappa * prior_weight,
                prior.tau * prior_weight, prior_kept, d + turns),
    ]
    return _joined(blocks)


def _verticals(
    graph: Graph, estimate: Estimate, parts: OdometrySegments, believed: RobustWeights
) -> Pairs:
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
    count = len(own)
    return Pairs(
        own, np.full(count, GROUND), mean[own] / total[own, None],
        np.tile(np.eye(d)[-1], (count, 1)), total[own], np.arange(count),
        np.ones(count, dtype=bool), np.full(count, np.inf), np.full(count, DIRECTION))


def _heights(
    graph: Graph, estimate: Estimate, parts: OdometrySegments, floor: float,
    believed: RobustWeights,
) -> Pairs:
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
    count = len(chosen)
    return Pairs(
        variable[chosen], np.full(count, GROUND), mean, ground, total, np.arange(count),
        kept[chosen], np.ones(count), np.full(count, HEIGHT))


def _joined(blocks: list[Pairs]) -> Pairs:
    """All pairs whose two variables differ, groups numbered through."""
    joined = Pairs(*(
        np.concatenate([getattr(part, name) for part in blocks])
        for name in Pairs.__dataclass_fields__))
    sizes = [int(np.max(part.group, initial=-1)) + 1 for part in blocks]
    offset = np.repeat(
        np.cumsum(sizes) - sizes, [len(part) for part in blocks]).astype(np.int64)
    joined = replace(joined, group=joined.group + offset)
    return joined.take(joined.first != joined.second)


def _whole(count: int) -> Index:
    return np.full(count, WHOLE)


def _points(
    first: Index, second: Index, point_first: Array, point_second: Array, weight: Array,
    kept: Mask, degrees: float | Array,
) -> Pairs:
    return Pairs(first, second, point_first, point_second, weight, np.arange(len(first)), kept,
                 np.broadcast_to(degrees, len(first)).astype(float), _whole(len(first)))


def _frames(
    first: Index, second: Index, t_first: Array, t_second: Array, r_first: Array,
    r_second: Array, kappa: Array, tau: Array, kept: Mask, degrees: float,
) -> Pairs:
    """Coincidence of two frames as coincidences of 2d points along their axes."""
    d = t_first.shape[1]
    reach = np.sqrt(chi_square_kappa(kappa, d) * d / tau)
    signs = np.array([1.0, -1.0])

    def points(origin: Array, axes: Array) -> Array:
        offsets = reach[:, None, None, None] * signs[:, None, None] * np.swapaxes(
            axes, 1, 2)[:, None]
        return (origin[:, None, None] + offsets).reshape(-1, d)

    repeat = 2 * d
    return Pairs(
        np.repeat(first, repeat), np.repeat(second, repeat), points(t_first, r_first),
        points(t_second, r_second), np.repeat(tau / repeat, repeat),
        np.repeat(np.arange(len(first)), repeat), np.repeat(kept, repeat),
        np.full(len(first) * repeat, float(degrees)), _whole(len(first) * repeat))


def _grounded(pairs: Pairs, fixed: Index) -> Pairs:
    """The pairs with fixed landmarks made ground."""
    def ground(variable: Index) -> Index:
        return np.where(np.isin(variable, fixed), GROUND, variable)

    return Pairs(
        ground(pairs.first), ground(pairs.second), pairs.point_first, pairs.point_second,
        pairs.weight, pairs.group, pairs.kept, pairs.degrees, pairs.part)
