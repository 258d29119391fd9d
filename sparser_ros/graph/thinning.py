"""Thinning: fewer poses for the same map, so that a run without end has a graph of bounded size.

A pose goes between two that stay. Its two odometry edges become one, and what was measured at it
moves to the nearer of its neighbours, with the odometry between the two in its lever arms
(docs/method.md, section 11). That is exact in geometry. The noise of that odometry is added to the
variance of what moved; correlations that one weight cannot hold are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import GraphError
from .ends import owners
from .graph import Graph
from .measurements import RELATIVE_POSES, MeasurementType, PosePriors, RelativePoses
from .precision import rotation_variance
from .table import Table

RELATIVE = RELATIVE_POSES.name
_WEIGHTS = ('precision', 'tau')
"""Columns that are inverse to a variance in m^2, or in rad^2 for directions."""


# -- geometry: measurements at one pose as those of another


@dataclass(frozen=True)
class Offsets:
    """The pose that takes over the measurements of each pose, and where it is seen from there."""

    into: Index
    """(n,): that pose; of a pose that stays, itself."""
    turn: Array
    """(n, d, d): rotation of each pose in the frame of that one."""
    move: Array
    """(n, d)"""

    def moved(self, kind: MeasurementType, table: Table) -> Table:
        """The same measurements at the poses that take over; weights stay."""
        if isinstance(table, RelativePoses):
            # T_i'j' = O_i T_ij inv(O_j).
            i, j, turn = table.i, table.j, self.turn[table.i]
            rotation = turn @ table.rotation @ np.swapaxes(self.turn[j], 1, 2)
            translation = (self.move[i] + np.einsum('kij,kj->ki', turn, table.translation)
                           - np.einsum('kij,kj->ki', rotation, self.move[j]))
            return table.replaced(
                i=self.into[i], j=self.into[j], rotation=rotation, translation=translation)
        if isinstance(table, PosePriors):
            # T_map_i' = T_map_i inv(O_i).
            rotation = table.rotation @ np.swapaxes(self.turn[table.i], 1, 2)
            back = np.einsum('kij,kj->ki', rotation, self.move[table.i])
            return table.replaced(
                i=self.into[table.i], rotation=rotation, translation=table.translation - back)
        columns: dict[str, Array | Index] = {}
        for column in kind.table.endpoints():
            end = getattr(table, column)
            at, pose = end >= 0, end[end >= 0]
            columns[column] = end.copy()
            columns[column][at] = self.into[pose]
            seen = kind.arms.get(column) or kind.directions.get(column)
            if seen:
                turned = np.einsum('kij,kj->ki', self.turn[pose], getattr(table, seen)[at])
                columns[seen] = getattr(table, seen).copy()
                columns[seen][at] = turned + self.move[pose] if column in kind.arms else turned
        return table.replaced(**columns)


def armless(kind: MeasurementType) -> list[str]:
    """Endpoint columns whose measurement cannot move along odometry."""
    if kind.table in (RelativePoses, PosePriors):
        return []
    return [column for column in kind.table.endpoints()
            if column not in kind.arms and column not in kind.directions]


# -- which poses go


def surplus(
    stamp_ns: Index, chain: Index, count: int, settled_ns: int
) -> Mask:
    """(n,): poses to drop so that `count` stay, the oldest stretches losing every second one.

    `chain` numbers stretches of unbroken odometry, whose rows come in time order; both ends of
    each stay, and all poses after `settled_ns`. A pose may go the sooner, the shorter the gap that
    it leaves is compared with its age: gaps between poses then grow in proportion to their age,
    and the number of poses with the logarithm of the duration.
    """
    n = len(stamp_ns)
    drop = np.zeros(n, dtype=bool)
    if n <= max(count, 2):
        return drop
    order = np.lexsort((np.arange(n), chain))
    own, stamp = chain[order], stamp_ns[order]
    place = np.arange(n) - np.searchsorted(own, own)
    inner = np.flatnonzero((place % 2 == 1) & np.r_[own[1:] == own[:-1], False]
                           & (stamp <= settled_ns))
    gap = (stamp[inner + 1] - stamp[inner - 1]).astype(float)
    age = np.maximum(stamp_ns.max() - stamp[inner], 1).astype(float)
    first = np.argsort(gap / age, kind='stable')[:n - count]
    drop[order[inner[first]]] = True
    return drop


# -- the thinned graph


@dataclass(frozen=True)
class Renumbering:
    """Map from the rows of a graph to those of its thinned copy."""

    kept: Index
    """(m,): pose rows of the graph that stay, ascending: those of the thinned one, in order."""
    pose: Index
    """(n,): for every pose the thinned row of itself, or of the pose that took over from it."""
    rows: Mapping[str, Index]
    """By table, (k,): thinned row of every measurement; -1 = it is gone."""
    next_pose: Index
    """(n,): for every pose the thinned row of itself, or of the pose that follows it."""
    next_edge: Index
    """(k,): for odometry the thinned row that it is a part of; other relative poses: -1."""

    def until(self, n_poses: int) -> Index:
        """Kept rows among the first so many poses."""
        return self.kept[:np.searchsorted(self.kept, n_poses)]

    def odometry(self, rows: Index) -> Index:
        """Thinned rows that some rows of odometry are a part of."""
        edges = np.unique(self.next_edge[rows])
        return np.asarray(edges[edges >= 0])

    def measurements(self, name: str, rows: Index) -> Index:
        """Thinned rows of some rows of a table; those that are gone are left out."""
        kept = self.rows[name][rows]
        return np.asarray(kept[kept >= 0])


@dataclass(frozen=True)
class Thinned:
    """A thinned graph, the way to it, and what it has cost."""

    graph: Graph
    renumbering: Renumbering
    offset_sigma_m: Array
    """(r,): of every pose that is gone, standard deviation per axis of the odometry by which its
    measurements have moved."""
    dropped: int
    """Measurements that are gone, odometry not counted."""


def thin(graph: Graph, drop: Mask, per_pair: int = 0) -> Thinned:
    """The graph without the poses of a mask (n,), each between two that stay.

    `per_pair`: of what moves, a pose keeps so many measurements with one partner (a beacon, another
    robot), the surest first, its own included; 0 = all. Measurements that were there stay.
    Raises GraphError for a mask with neighbours in it, for ends of odometry, and for poses that a
    measurement without a lever arm names.
    """
    moves = moves_of(graph, np.flatnonzero(drop))
    rel = graph.relative_poses
    parts = {kind.name: moves.moved(kind, table) for kind, table in graph.typed()
             if kind is not RELATIVE_POSES}
    closures = moves.moved(RELATIVE_POSES, rel.take(~rel.odometry))
    keep = {name: _chosen(graph, part, per_pair) for name, part in parts.items()}
    shared = moves.shared([(part, keep[name]) for name, part in parts.items()])
    keep[RELATIVE] = rel.odometry & ~drop[rel.j]
    keep[RELATIVE][~rel.odometry] = _chosen(graph, closures, per_pair)
    tables = {name: part.weighed(shared) for name, part in parts.items()}
    tables[RELATIVE] = _composed(graph, closures.weighed(), moves)
    kept = np.flatnonzero(~drop)
    place = np.cumsum(~drop) - 1
    pose = place[moves.offsets.into]
    renumbered = {
        name: _renumbered(table.take(keep[name]), pose) for name, table in tables.items()}
    # No two neighbours go: what follows a pose that goes stays.
    after = np.flatnonzero(rel.odometry & drop[rel.i])
    following = pose.copy()
    following[rel.i[after]] = place[rel.j[after]]
    edge = np.where(rel.odometry & keep[RELATIVE], np.cumsum(keep[RELATIVE]) - 1, -1)
    into = np.full(graph.n_poses, -1, dtype=np.int64)
    into[rel.i[after]] = edge[after]
    edge = np.where(rel.odometry & drop[rel.j], into[rel.j], edge)
    lost = sum(int(np.sum(~mask)) for mask in keep.values()) - len(moves.rows)
    poses = graph.poses.take(kept)
    return Thinned(
        graph.replaced(poses=poses.replaced(index=poses.numbered), **renumbered),
        Renumbering(kept, pose, {
            name: np.where(mask, np.cumsum(mask) - 1, -1) for name, mask in keep.items()},
            following, edge),
        np.sqrt(moves.variance[moves.rows]), lost)


def _renumbered(table: Table, pose: Index) -> Table:
    """A table whose endpoints name kept poses by their old rows, by their new ones."""
    columns = {}
    for column in table.endpoints():
        end = getattr(table, column)
        columns[column] = np.where(end >= 0, pose[np.maximum(end, 0)], end)
    return table.replaced(**columns)


def _chosen(graph: Graph, part: Moved, per_pair: int) -> Mask:
    """(k,): what stays of a moved table."""
    table = part.table
    ends = [getattr(table, column) for column in table.endpoints()]
    keep = np.ones(len(table), dtype=bool)
    if len(ends) == 2:
        keep &= (ends[0] != ends[1]) | ~part.touched
    if not per_pair or not np.any(part.touched):
        return keep
    whose = [owners(graph, end) for end in ends]
    if len(ends) == 2:
        # The end at the robot of the lower number, and whose the other end is.
        swap = whose[0] > whose[1]
        first = np.where(swap, ends[1], ends[0])
        other = np.where(swap, whose[0], whose[1])
    else:
        first, other = ends[0], np.zeros(len(table), dtype=np.int64)
    order = np.lexsort((-part.weights(), part.touched, other, first))
    new = np.r_[True, (first[order][1:] != first[order][:-1])
                | (other[order][1:] != other[order][:-1])]
    start = np.flatnonzero(new)
    rank = np.empty(len(table), dtype=np.int64)
    rank[order] = np.arange(len(table)) - np.repeat(start, np.diff(np.r_[start, len(table)]))
    return keep & (~part.touched | (rank < per_pair))


def _composed(graph: Graph, closures: Table, moves: Moves) -> Table:
    """All relative poses, the second edge of every pose that goes composed with the first.

    Variances add; an error of the first edge's rotation turns the way of the second.
    """
    rel, d = graph.relative_poses, graph.dimension
    a, b = moves.into, moves.out
    columns = {name: np.array(getattr(rel, name)) for name in rel.columns()}
    for name in columns:
        columns[name][~rel.odometry] = getattr(closures, name)
    turned = np.einsum('kij,kj->ki', rel.rotation[a], rel.translation[b])
    columns['i'][b] = rel.i[a]
    columns['rotation'][b] = rel.rotation[a] @ rel.rotation[b]
    columns['translation'][b] = rel.translation[a] + turned
    columns['kappa'][b] = 1 / (1 / rel.kappa[a] + 1 / rel.kappa[b])
    swing = (d - 1) / d * np.sum(turned**2, axis=1) * rotation_variance(rel.kappa[a], d)
    columns['tau'][b] = 1 / (1 / rel.tau[a] + 1 / rel.tau[b] + swing)
    return rel.replaced(**columns)


# -- what moving along odometry adds to variances


@dataclass(frozen=True)
class Moved:
    """A table after its measurements have moved, with the variance that this adds."""

    table: Table
    touched: Mask
    """(k,): measurements that have moved."""
    ends: Sequence[tuple[Index, Array]]
    """Of each end: the pose before (k,), -1 = none, and the variance (k,) in m^2 that is added."""
    column: str = ''
    """Of the weights; '' = there are none to change."""

    def weights(self, shared: Array | None = None) -> Array:
        """(k,): weights with the variance that moving adds.

        `shared` (n,) counts the measurements that have moved from each pose, None = 1. They share
        one error: with the variance v of the odometry, k of them of variance s each know no more
        than s / k + v together, which k independent ones of s + k v give.
        """
        own = getattr(self.table, self.column) if self.column else np.ones(len(self.table))
        if not self.column or not len(own):
            return np.asarray(own)
        added = [variance if shared is None else variance * np.where(
            pose >= 0, shared[np.maximum(pose, 0)], 1.0) for pose, variance in self.ends]
        return np.where(self.touched, 1 / (1 / own + np.sum(added, axis=0)), own)

    def weighed(self, shared: Array | None = None) -> Table:
        """The table with these weights."""
        return self.table.replaced(**{self.column: self.weights(shared)}) if self.column else (
            self.table)


@dataclass(frozen=True)
class Moves:
    """The odometry from every pose that goes to the neighbour that takes over."""

    dimension: int
    rows: Index
    """(r,): poses that go."""
    into: Index
    """(r,): rows of relative poses of the edges into them, and out of them."""
    out: Index
    gone: Mask
    offsets: Offsets
    pivot: Array
    """(n, d): point of the pose's frame about which an error of the edge's rotation turns it."""
    variance: Array
    """(n,): translation variance of the edge per axis, m^2; 0 for poses that stay."""
    angle: Array
    """(n,): rotation variance of the edge per axis, rad^2."""

    def point_variance(self, pose: Index, point: Array) -> Array:
        """(k,): per axis, m^2, of points (k, d) in the frames of poses, seen from the neighbour."""
        d = self.dimension
        lever = np.sum((point - self.pivot[pose])**2, axis=1)
        return self.variance[pose] + (d - 1) / d * lever * self.angle[pose]

    def inverse_variance(self, pose: Index) -> Array:
        """(k,): per axis, m^2, of the neighbour as seen from poses."""
        d = self.dimension
        lever = np.sum((self.offsets.move[pose])**2, axis=1) - np.sum(self.pivot[pose]**2, axis=1)
        return self.variance[pose] + (d - 1) / d * np.maximum(lever, 0.0) * self.angle[pose]

    def with_angle(self, kappa: Array, added: Array) -> Array:
        """Rotation weights after `added` (k,) in rad^2 per axis; unknown rotations stay so."""
        factor = 1.0 if self.dimension == 2 else 2.0
        known = np.where(kappa > 0, kappa, 1.0)
        return np.where((kappa > 0) & (added > 0), 1 / (1 / known + factor * added), kappa)

    def moved(self, kind: MeasurementType, table: Table) -> Moved:
        """A table at the poses that stay, all but odometry; GraphError where it cannot move."""
        ends = {column: getattr(table, column) for column in kind.table.endpoints()}
        poses = {column: np.maximum(end, 0) for column, end in ends.items()}
        here = {column: (end >= 0) & self.gone[poses[column]] for column, end in ends.items()}
        touched = np.any(list(here.values()), axis=0)
        for column in armless(kind):
            if np.any(here[column]):
                raise GraphError(f'{kind.name}.{column} names a pose that is to go, and has no '
                                 'lever arm to move along')
        moved = self.offsets.moved(kind, table)
        added: list[tuple[Index, Array]] = []
        if isinstance(table, RelativePoses | PosePriors):
            variance = self.inverse_variance(poses[list(poses)[-1]])
            if isinstance(table, RelativePoses):
                back = np.einsum(
                    'kij,klj,kl->ki', table.rotation, self.offsets.turn[table.j],
                    self.offsets.move[table.j])
                variance = variance + self.point_variance(table.i, table.translation - back)
            added.append((np.where(touched, table.i, -1), np.where(touched, variance, 0.0)))
            angle = np.sum([self.angle[pose] for pose in poses.values()], axis=0)
            moved = moved.replaced(
                kappa=self.with_angle(table.kappa, np.where(touched, angle, 0.0)))
        for column, end in ends.items():
            if column in kind.arms:
                arm = getattr(table, kind.arms[column])
                variance = self.point_variance(poses[column], arm)
            elif column in kind.directions:
                variance = self.angle[poses[column]]
            else:
                continue
            added.append((
                np.where(here[column], end, -1), np.where(here[column], variance, 0.0)))
        weight = next((name for name in _WEIGHTS if name in table.columns()), '')
        return Moved(moved, touched, added, weight if added else '')

    def shared(self, parts: Sequence[tuple[Moved, Mask]]) -> Array:
        """(n,): how many of the measurements that stay have moved from each pose; at least 1."""
        count = np.zeros(len(self.gone))
        for part, keep in parts:
            for pose, _ in part.ends:
                chosen = pose[keep & part.touched]
                count += np.bincount(chosen[chosen >= 0], minlength=len(count))
        return np.maximum(count, 1.0)


def moves_of(graph: Graph, rows: Index) -> Moves:
    """Moves of the measurements at pose rows (r,) to neighbours; GraphError where a pose must stay.

    Each needs one odometry edge into it and one out of it, of poses that stay. The edge that is
    the surer of the two in translation is taken.
    """
    if graph.free_scale:
        raise GraphError('a graph with sightings of free scale cannot be thinned')
    rel, d, n = graph.relative_poses, graph.dimension, graph.n_poses
    gone = np.zeros(n, dtype=bool)
    gone[rows] = True
    odometry = np.flatnonzero(rel.odometry)
    into, out = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    into[rel.j[odometry]], out[rel.i[odometry]] = odometry, odometry
    a, b = into[rows], out[rows]
    if np.any(a < 0) or np.any(b < 0):
        raise GraphError('a pose at an end of odometry cannot go')
    if np.any(gone[rel.i[a]]) or np.any(gone[rel.j[b]]):
        raise GraphError('two poses in a row cannot go at once')
    if np.any(np.bincount(rel.j[odometry], minlength=n)[rows] > 1) or np.any(
            np.bincount(rel.i[odometry], minlength=n)[rows] > 1):
        raise GraphError('a pose where odometry branches cannot go')
    back = 1 / rel.tau[a] <= 1 / rel.tau[b]
    neighbour = np.arange(n)
    turn, move, pivot = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d)), np.zeros((n, d))
    variance, angle = np.zeros(n), np.zeros(n)
    inverse = np.swapaxes(rel.rotation[b], 1, 2)
    neighbour[rows] = np.where(back, rel.i[a], rel.j[b])
    turn[rows] = np.where(back[:, None, None], rel.rotation[a], inverse)
    move[rows] = np.where(
        back[:, None], rel.translation[a], -np.einsum('kij,kj->ki', inverse, rel.translation[b]))
    pivot[rows] = np.where(back[:, None], 0.0, rel.translation[b])
    edge = np.where(back, a, b)
    variance[rows] = 1 / rel.tau[edge]
    angle[rows] = rotation_variance(rel.kappa[edge], d)
    return Moves(d, rows, a, b, gone, Offsets(neighbour, turn, move), pivot, variance, angle)
