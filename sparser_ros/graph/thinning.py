"""Thinning: fewer poses for the same map, so that a run without end has a graph of bounded size.

A pose goes between two that stay. Its two odometry edges become one, and what was measured at it
moves to the nearer of its neighbours, with the odometry between the two in its lever arms
(docs/method.md, section 11). That is exact in geometry. The noise of that odometry is added to the
variance of what moved, so that a thinned graph never claims to know more than the whole one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import GraphError
from .graph import Graph
from .measurements import MeasurementType, PosePriors, RelativePoses, Table
from .moving import Moved, Moves, moves_of
from .owners import owners
from .precision import rotation_variance

RELATIVE, PRIORS = 'relative_poses', 'pose_priors'


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
        found = np.unique(self.next_edge[rows])
        return np.asarray(found[found >= 0])

    def measurements(self, name: str, rows: Index) -> Index:
        """Thinned rows of some rows of a table; those that are gone are left out."""
        found = self.rows[name][rows]
        return np.asarray(found[found >= 0])


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
    start = np.flatnonzero(np.r_[True, own[1:] != own[:-1]])
    place = np.arange(n) - np.repeat(start, np.diff(np.r_[start, n]))
    inner = np.flatnonzero((place % 2 == 1) & np.r_[own[1:] == own[:-1], False]
                           & (stamp <= settled_ns))
    gap = (stamp[inner + 1] - stamp[inner - 1]).astype(float)
    age = np.maximum(stamp_ns.max() - stamp[inner], 1).astype(float)
    first = np.argsort(gap / age, kind='stable')[:n - count]
    drop[order[inner[first]]] = True
    return drop


def thin(graph: Graph, drop: Mask, per_pair: int = 0) -> Thinned:
    """The graph without the poses of a mask (n,), each between two that stay.

    `per_pair`: of what moves, a pose keeps so many measurements with one partner (a beacon, another
    robot), the surest first, its own included; 0 = all. Measurements that were there stay.
    Raises GraphError for a mask with neighbours in it, for ends of odometry, and for poses that a
    measurement without a lever arm names.
    """
    moves = moves_of(graph, np.flatnonzero(drop))
    _check_arms(graph, drop)
    parts = {kind.name: moves.moved(kind, table) for kind, table in graph.typed()
             if kind.name not in (RELATIVE, PRIORS)}
    parts[PRIORS] = _priors(graph.pose_priors, moves)
    closures = _closures(graph.relative_poses, moves)
    rel = graph.relative_poses
    keep = {name: _chosen(graph, part, per_pair) for name, part in parts.items()}
    keep[RELATIVE] = rel.odometry & ~drop[rel.j]
    loops = np.flatnonzero(~rel.odometry)
    keep[RELATIVE][loops] = _chosen(graph, closures.take(loops), per_pair)
    shared = moves.shared([(part, keep[name]) for name, part in parts.items()])
    tables: dict[str, Table] = {
        name: part.weighed(shared).take(keep[name]) for name, part in parts.items()}
    tables[RELATIVE] = _composed(graph, closures, moves).take(keep[RELATIVE])
    kept = np.flatnonzero(~drop)
    place = np.cumsum(~drop) - 1
    pose = place[moves.neighbour]
    renumbered = {name: _renumbered(table, pose) for name, table in tables.items()}
    # No two neighbours go: what follows a pose that goes stays.
    after = np.flatnonzero(rel.odometry & drop[rel.i])
    following = pose.copy()
    following[rel.i[after]] = place[rel.j[after]]
    edge = np.where(rel.odometry & keep[RELATIVE], np.cumsum(keep[RELATIVE]) - 1, -1)
    into = np.full(graph.n_poses, -1, dtype=np.int64)
    into[rel.i[after]] = edge[after]
    edge = np.where(rel.odometry & drop[rel.j], into[rel.j], edge)
    lost = sum(int(np.sum(~one)) for one in keep.values()) - len(moves.rows)
    return Thinned(
        graph.replaced(poses=_poses(graph, kept), **renumbered),
        Renumbering(kept, pose, {
            name: np.where(one, np.cumsum(one) - 1, -1) for name, one in keep.items()},
            following, edge),
        np.sqrt(moves.variance[moves.rows]), lost)


def _poses(graph: Graph, kept: Index) -> Table:
    """The poses that stay, numbered anew within each robot."""
    poses = graph.poses.take(kept)
    order = np.lexsort((poses.index, poses.robot))
    own = poses.robot[order]
    start = np.flatnonzero(np.r_[True, own[1:] != own[:-1]])
    index = np.empty(len(own), dtype=np.int64)
    index[order] = np.arange(len(own)) - np.repeat(start, np.diff(np.r_[start, len(own)]))
    return poses.replaced(index=index)


def _renumbered(table: Table, pose: Index) -> Table:
    """A table whose endpoints name kept poses by their old rows, by their new ones."""
    columns = {}
    for column in table.endpoints():
        end = getattr(table, column)
        columns[column] = np.where(end >= 0, pose[np.maximum(end, 0)], end)
    return table.replaced(**columns)


def _check_arms(graph: Graph, drop: Mask) -> None:
    """GraphError where a pose goes that a measurement cannot leave."""
    for kind, table in graph.typed():
        if kind.name in (RELATIVE, PRIORS):
            continue
        for column in armless(kind):
            end = getattr(table, column)
            if np.any(drop[end[end >= 0]]):
                raise GraphError(f'{kind.name}.{column} names a pose that is to go, and has no '
                                 'lever arm to move along')


def armless(kind: MeasurementType) -> list[str]:
    """Endpoint columns whose measurement cannot move along odometry by a lever arm."""
    return [column for column in kind.table.endpoints()
            if column not in kind.arms and column not in kind.directions]


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


def _composed(graph: Graph, closures: Moved, moves: Moves) -> Table:
    """All relative poses, the second edge of every pose that goes composed with the first.

    Variances add; an error of the first edge's rotation turns the way of the second.
    """
    rel, d = graph.relative_poses, graph.dimension
    table = closures.weighed(np.ones(graph.n_poses))
    a, b = moves.into, moves.out
    columns = {name: np.array(getattr(table, name)) for name in (
        'i', 'rotation', 'translation', 'kappa', 'tau')}
    turned = np.einsum('kij,kj->ki', rel.rotation[a], rel.translation[b])
    columns['i'][b] = rel.i[a]
    columns['rotation'][b] = rel.rotation[a] @ rel.rotation[b]
    columns['translation'][b] = rel.translation[a] + turned
    columns['kappa'][b] = 1 / (1 / rel.kappa[a] + 1 / rel.kappa[b])
    swing = (d - 1) / d * np.sum(turned**2, axis=1) * rotation_variance(rel.kappa[a], d)
    columns['tau'][b] = 1 / (1 / rel.tau[a] + 1 / rel.tau[b] + swing)
    return table.replaced(**columns)


def _closures(rel: RelativePoses, moves: Moves) -> Moved:
    """Loop closures between kept poses: T_i'j' = O_i T_ij inv(O_j); odometry as it was."""
    ends = np.where(rel.odometry, -1, rel.i), np.where(rel.odometry, -1, rel.j)
    i, j = np.maximum(ends[0], 0), np.maximum(ends[1], 0)
    touched = ~rel.odometry & (moves.gone[i] | moves.gone[j])
    turn_i, turn_j = moves.turn[i], moves.turn[j]
    rotation = turn_i @ rel.rotation @ np.swapaxes(turn_j, 1, 2)
    back = np.einsum('kij,kj->ki', rotation, moves.move[j])
    seen = rel.translation - np.einsum(
        'kij,klj,kl->ki', rel.rotation, turn_j, moves.move[j])
    translation = moves.move[i] + np.einsum('kij,kj->ki', turn_i, rel.translation) - back
    added = np.where(touched, moves.point_variance(i, seen) + moves.inverse_variance(j), 0.0)
    angle = np.where(touched, moves.angle[i] + moves.angle[j], 0.0)
    pick = touched[:, None]
    return Moved(rel.replaced(
        i=np.where(touched, moves.neighbour[i], rel.i),
        j=np.where(touched, moves.neighbour[j], rel.j),
        rotation=np.where(pick[:, None], rotation, rel.rotation),
        translation=np.where(pick, translation, rel.translation),
        kappa=moves.with_angle(rel.kappa, angle)), touched, [(ends[0], added)], 'tau')


def _priors(table: PosePriors, moves: Moves) -> Moved:
    """Absolute poses at kept poses: T_map_i' = T_map_i inv(O_i)."""
    touched = moves.gone[table.i]
    rotation = table.rotation @ np.swapaxes(moves.turn[table.i], 1, 2)
    translation = table.translation - np.einsum('kij,kj->ki', rotation, moves.move[table.i])
    return Moved(table.replaced(
        i=moves.neighbour[table.i], rotation=rotation, translation=translation,
        kappa=moves.with_angle(table.kappa, np.where(touched, moves.angle[table.i], 0.0))),
        touched, [(table.i, np.where(touched, moves.inverse_variance(table.i), 0.0))], 'tau')
