"""Starts of a solve: random, odometry, chordal, spectral, from the file, or from a thinned graph.

A thinned graph has every K-th pose of each odometry chain, with composed odometry. Measurements of
a dropped pose move to the nearest kept pose; the odometry between the two becomes part of their
lever arms and relative poses (docs/method.md, section 1), which is exact but for the noise of that
odometry. A solution of the thinned graph, prolonged along the odometry, starts the refinement of
the whole one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..array_types import Array, Index, Mask
from ..graph import Estimate, Graph, RelativePoses, Table, concatenated, estimate_of
from ..graph.parts import connected
from ..graph.thinning import Offsets, armless
from ..linalg.cholesky import BlockCholesky, factorize
from ..linalg.rotations import nearest_rotation
from ..linalg.tangent_kernels import connect, pair_slots
from .manifold import Manifold, nearest_rotations
from .problem import QuadraticProblem, rotation_system


def rotation_components(graph: Graph) -> tuple[int, Index]:
    """Number and label (n,) of the groups of poses whose relative rotations are measured."""
    return connected(graph.n_poses, graph.relative_poses.i, graph.relative_poses.j)


def chordal_rotations(graph: Graph) -> Array:
    """(n, d, d): least squares on rotations without constraints, then projected to SO(d).

    One sparse Cholesky (Carlone et al. 2015). Each group of poses without a rotation prior has
    its first pose held at the identity; groups do not know of each other.
    """
    n, d = graph.n_poses, graph.dimension
    A, weight = rotation_system(graph)
    _, label = rotation_components(graph)
    _, first = np.unique(label, return_index=True)
    prior = graph.pose_priors
    grounded = label[prior.i[prior.kappa > 0]]
    held = np.zeros(A.shape[1], dtype=bool)
    held[n * d :] = True
    held[(first[~np.isin(label[first], grounded)][:, None] * d + np.arange(d)).ravel()] = True
    x = np.tile(np.eye(d), (n + 1, 1))
    A_free = A[:, ~held]
    normal = (A_free.T @ sp.diags(weight) @ A_free).tocsc()
    target = -(A[:, held] @ x[held])
    x[~held] = factorize(normal).solve(A_free.T @ (weight[:, None] * target))
    return nearest_rotation(np.swapaxes(x[: n * d].reshape(n, d, d), 1, 2))


def odometry_estimate(graph: Graph) -> Estimate:
    """Poses composed along odometry, chain by chain; every chain starts where its file says.

    Each chain (consecutive odometry edges) starts at its first pose's stored value when that is
    a rotation, so the values of a live graph's increments serve as they are.
    """
    guess = estimate_of(graph)
    rotation, translation = guess.rotation.copy(), guess.translation.copy()
    rel = graph.relative_poses
    follow = _incoming(graph)
    for chain in odometry_chains(graph):
        _compose(chain, follow, rel.rotation, rel.translation, rotation, translation)
    return Estimate(rotation, translation, guess.landmarks)


def _incoming(graph: Graph) -> Index:
    """(n,): odometry edge that ends at each pose, -1 = none."""
    edges = np.flatnonzero(graph.relative_poses.odometry)
    incoming = np.full(graph.n_poses, -1, dtype=np.int64)
    incoming[graph.relative_poses.j[edges]] = edges
    return incoming


def odometry_chains(graph: Graph) -> list[Index]:
    """Poses of each odometry chain in order; a pose without odometry is a chain of its own."""
    incoming = _incoming(graph)
    has = incoming >= 0
    successor = np.full(graph.n_poses, -1, dtype=np.int64)
    successor[graph.relative_poses.i[incoming[has]]] = np.flatnonzero(has)
    following = successor.tolist()
    chains = []
    for start in np.flatnonzero(~has).tolist():
        chain = [start]
        while following[chain[-1]] >= 0:
            chain.append(following[chain[-1]])
        chains.append(np.asarray(chain, dtype=np.int64))
    return chains


def _compose(
    chain: Index, follow: Index, turns: Array, moves: Array, rotation: Array, translation: Array
) -> None:
    """Fill one chain in place by a scan that composes in log2(len) vectorised rounds."""
    if len(chain) == 1:
        return
    edges = follow[chain[1:]]
    R, t = turns[edges].copy(), moves[edges].copy()
    stride = 1
    while stride < len(R):
        t[stride:] = t[:-stride] + np.einsum('kij,kj->ki', R[:-stride], t[stride:])
        R[stride:] = R[:-stride] @ R[stride:]
        stride *= 2
    first = chain[0]
    rotation[chain[1:]] = nearest_rotation(rotation[first] @ R)
    translation[chain[1:]] = translation[first] + t @ rotation[first].T


def spectral_start(
    manifold: Manifold, inverse: Callable[[Array, Array], Array]
) -> Array | None:
    """Rank-d start (n d, d) from the lowest eigenvectors of Q_s or of the connection Laplacian.

    Two steps of inverse iteration from the frame of the first pose, projected to SO(d): as good a
    start as the chordal one. `inverse(v, out)` applies the inverse of the shifted matrix. None
    where the shift damps the blocks of distant poses below rounding error, as it does along a
    very long chain.
    """
    n, d = manifold.n, manifold.d
    x = np.zeros((manifold.rows, d))
    x[:d] = np.eye(d)
    for _ in range(2):
        x = inverse(x / np.linalg.norm(x), np.empty_like(x))
    blocks = x.reshape(n, d, d)
    sizes = np.linalg.norm(blocks, axis=(1, 2))
    if not sizes.min() > 1e-6 * sizes.max():
        return None
    turned = nearest_rotation(np.swapaxes(blocks @ np.linalg.inv(blocks[0]), 1, 2))
    return np.swapaxes(turned, 1, 2).reshape(n * d, d)


def start_point(problem: QuadraticProblem, init: str, rank: int, seed: int) -> Array:
    """Start of the trust region at the given rank (rows, rank) for a named initialisation."""
    graph, manifold = problem.graph, problem.manifold
    if init == 'random':
        return manifold.random_point(rank, np.random.default_rng(seed))
    if init == 'file':
        y = problem.pack(estimate_of(graph))
    elif init == 'odometry':
        y = problem.pack(odometry_estimate(graph))
    elif init == 'chordal':
        guess = odometry_estimate(graph)
        y = problem.pack(Estimate(chordal_rotations(graph), guess.translation, guess.landmarks))
    else:
        raise ValueError(f'unknown init {init!r}')
    return manifold.lift(y, rank)


class ConnectionLaplacian:
    """(L + shift)^-1, L the quadratic form of a graph's measured relative rotations alone.

    x^T L x = sum of kappa |x_j - R_ij^T x_i|^2 over (n d, p) rows x. Its lowest eigenvectors are
    nearly the rotations of a consistent graph, and its factor takes d x d blocks where that of Q
    takes (d + 1) x (d + 1).
    """

    def __init__(self, graph: Graph, analysed: BlockCholesky) -> None:
        """`analysed` has a block for every pose and landmark, in this order."""
        rel, d, n = graph.relative_poses, graph.dimension, graph.n_poses
        symbolic = analysed.sized(d)
        starts, rows = symbolic.starts, symbolic.rows
        slots = pair_slots(starts, rows, symbolic.rank[np.stack([rel.i, rel.j], axis=1)])
        blocks = np.zeros((len(rows), d, d))
        connect(slots, rel.rotation, rel.kappa, blocks)
        # Rows are sorted: the first block of a column is the one on the diagonal.
        diagonal = starts[:-1, None], np.arange(d), np.arange(d)
        # L is singular in the common frame: above rounding error, below its second eigenvalue.
        shift = 1e-9
        own = blocks[diagonal]
        blocks[diagonal] = np.where(own > 0, (1 + shift) * own, 1.0)
        self.factor = symbolic.factorize(blocks, symbolic.rows_at(np.arange(n * d)))

    def apply(self, v: Array, out: Array) -> Array:
        """out = (L + shift)^-1 v for v (n d, p)."""
        return self.factor.solve(v, out)


@dataclass(frozen=True)
class OdometryVariance:
    """Sums from the start of each chain, one entry a pose: differences are those of a piece."""

    turning: Array
    """(n,): of 1 / kappa."""
    drifting: Array
    """(n,): of 1 / tau, m^2."""

    @classmethod
    def of(cls, graph: Graph, chains: list[Index]) -> OdometryVariance:
        """`chains` list the poses of each chain in order."""
        rel = graph.relative_poses
        sums = []
        for weights in (rel.kappa, rel.tau):
            into = np.zeros(graph.n_poses)
            into[rel.j[rel.odometry]] = 1 / weights[rel.odometry]
            total = np.zeros(graph.n_poses)
            for chain in chains:
                total[chain[1:]] = np.cumsum(into[chain[1:]])
            sums.append(total)
        return cls(*sums)

    def shares(self, before: Index, after: Index) -> tuple[Array, Array]:
        """(n,) each: what part of the variance between two poses around each one precedes it,
        of rotations and of translations; 0 where there is none."""
        first, second = (_share(total, before, after) for total in (self.turning, self.drifting))
        return first, second

    def of_offsets(self, origin: Index, move: Array) -> Array:
        """(n,) m^2 along one axis: noise of the way `move` (n, d) from another pose of the chain.

        An error of a rotation turns the rest of the way. The mean of the squared rests is a third
        of the whole way's square where that is straight.
        """
        d = move.shape[1]
        # 1 / (2 kappa) is the variance of an angle, and (d - 1) / d of the axes are across.
        turned = (d - 1) / d * np.abs(self.turning - self.turning[origin]) / 2
        return (np.abs(self.drifting - self.drifting[origin])
                + turned * np.sum(move**2, axis=1) / 3)


def _share(total: Array, before: Index, after: Index) -> Array:
    span = total[after] - total[before]
    return np.divide(total - total[before], span, out=np.zeros(len(total)), where=span > 0)


@dataclass(frozen=True)
class CoarseGraph:
    """A thinned graph and the way back to the whole one."""

    graph: Graph
    kept: Index
    """(m,): pose of the whole graph behind each coarse pose."""
    before: Index
    """(n,): kept coarse pose at or before each pose of its chain."""
    after: Index
    turned: Array
    """(n,): share of the rotation's variance between `before` and `after` that lies before each
    pose, 0 to 1."""
    moved: Array
    """(n,): the same of the translation's."""
    chained: Estimate
    """The odometry along each chain, which offsets are taken from."""

    def interpolate(self, coarse: Estimate) -> Estimate:
        """Values of all poses: those of kept poses, with the odometry between adjusted to them."""
        rows, translation = self.prolong(np.swapaxes(coarse.rotation, 1, 2), coarse.translation)
        return Estimate(np.swapaxes(rows, 1, 2).copy(), translation, coarse.landmarks.copy())

    def prolong(self, rows: Array, translation: Array) -> tuple[Array, Array]:
        """Rows R_i^T (n, d, p) and translations (n, p) of all poses from the coarse ones.

        Odometry predicts each dropped pose from both of its kept neighbours; the two predictions
        are averaged by their variances, which is the mean of a chain between fixed ends. By the
        number of edges a robot that stands would be bent as much as one that turns.
        """
        first, start = self._predicted(rows, translation, self.before)
        second, end = self._predicted(rows, translation, self.after)
        share = self.turned[:, None, None]
        mean = nearest_rotations((1 - share) * first + share * second)
        return mean, start + self.moved[:, None] * (end - start)

    def _predicted(self, rows: Array, translation: Array, by: Index) -> tuple[Array, Array]:
        origin = self.kept[by]
        R, t = self.chained.rotation, self.chained.translation
        offset = np.swapaxes(R, 1, 2) @ R[origin]
        move = np.einsum('kij,ki->kj', R[origin], t - t[origin])
        return offset @ rows[by], translation[by] + np.einsum('ki,kip->kp', move, rows[by])


def coarsen(graph: Graph, factor: int, *, offset_noise: bool = False) -> CoarseGraph:
    """Keep every `factor`-th pose of each odometry chain, and its ends.

    With `offset_noise` ranges of dropped poses carry the noise of the odometry that moves them:
    the thinned graph is then no stiffer than the whole one, but its cost no longer bounds that.
    """
    chains = odometry_chains(graph)
    chained = odometry_estimate(graph)
    n = graph.n_poses
    keep = np.zeros(n, dtype=bool)
    for chain in chains:
        keep[chain[::factor]] = True
        keep[chain[-1]] = True
    # A measurement without a lever arm at an end, such as what a sighting sees, keeps its pose.
    for kind, table in graph.typed():
        for column in armless(kind):
            endpoint = getattr(table, column)
            keep[endpoint[endpoint >= 0]] = True
    kept = np.concatenate([chain[keep[chain]] for chain in chains]) if chains else np.zeros(0, int)
    coarse_of = np.full(n, -1, dtype=np.int64)
    coarse_of[kept] = np.arange(len(kept))
    before, after = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    share = np.zeros(n)
    for chain in chains:
        marks = np.flatnonzero(keep[chain])
        at = np.arange(len(chain))
        low = marks[np.searchsorted(marks, at, side='right') - 1]
        high = marks[np.searchsorted(marks, at, side='left')]
        before[chain], after[chain] = coarse_of[chain[low]], coarse_of[chain[high]]
        share[chain] = (at - low) / np.maximum(high - low, 1)
    nearest = np.where(share <= 0.5, before, after)
    origin = kept[nearest]
    R, t = chained.rotation, chained.translation
    back = np.swapaxes(R[origin], 1, 2)
    turn = back @ R
    move = np.einsum('kij,kj->ki', back, t - t[origin])
    variance = OdometryVariance.of(graph, chains)
    if offset_noise:
        graph = _noisier(graph, variance.of_offsets(origin, move))
    offsets = Offsets(nearest, turn, move)
    tables: dict[str, Table] = {}
    for kind, table in graph.typed():
        if isinstance(table, RelativePoses):
            table = table.take(~table.odometry)
        moved = offsets.moved(kind, table)
        ends = [getattr(moved, column) for column in kind.table.endpoints()]
        tables[kind.name] = moved.take(ends[0] != ends[1]) if len(ends) == 2 else moved
    tables['relative_poses'] = concatenated([
        *_coarse_odometry(graph, chains, keep, coarse_of, chained), tables['relative_poses']])
    return CoarseGraph(
        graph.replaced(poses=graph.poses.take(kept), **tables), kept, before, after,
        *variance.shares(kept[before], kept[after]), chained)


def _noisier(graph: Graph, variance: Array) -> Graph:
    """Ranges with the variance (n,) of their poses' offsets added."""
    ranges = graph.ranges
    total = 1 / ranges.precision
    for end in (ranges.source, ranges.target):
        total = total + np.where(end >= 0, variance[np.maximum(end, 0)], 0.0)
    return graph.replaced(ranges=ranges.replaced(precision=1 / total))


def _coarse_odometry(
    graph: Graph, chains: list[Index], keep: Mask, coarse_of: Index, chained: Estimate
) -> list[RelativePoses]:
    """Composed odometry between kept poses, chain by chain."""
    rel, edge_to = graph.relative_poses, _incoming(graph)
    R, t = chained.rotation, chained.translation
    parts = []
    for chain in chains:
        marks = np.flatnonzero(keep[chain])
        if len(marks) < 2:
            continue
        edges = edge_to[chain[1:]]
        kappa, tau = _composed_weights(
            t[chain], rel.kappa[edges], rel.tau[edges], marks, graph.dimension)
        a, b = chain[marks[:-1]], chain[marks[1:]]
        back = np.swapaxes(R[a], 1, 2)
        parts.append(RelativePoses(
            coarse_of[a], coarse_of[b], back @ R[b],
            np.einsum('kij,kj->ki', back, t[b] - t[a]), kappa, tau,
            np.ones(len(a), dtype=bool), np.zeros(len(a), dtype=np.int64)))
    return parts


def _composed_weights(
    translation: Array, kappa: Array, tau: Array, marks: Index, dimension: int
) -> tuple[Array, Array]:
    """Weights of composed edges: variances add, and rotations act on what follows them.

    An error of edge m turns the rest of the way; its lever arm is the distance from pose m to
    the end of the composed edge.
    """
    starts = marks[:-1]
    turning = 1 / (2 * kappa)
    end = translation[np.repeat(marks[1:], np.diff(marks))]
    lever = np.sum((end - translation[1:]) ** 2, axis=1)
    across = (dimension - 1) / dimension
    angle = np.add.reduceat(1 / kappa, starts)
    drift = np.add.reduceat(1 / tau + across * lever * turning, starts)
    return 1 / angle, 1 / drift
