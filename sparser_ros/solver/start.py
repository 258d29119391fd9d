"""Starts of a solve: random, odometry, chordal, spectral, or the values stored in the graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..array_types import Array, Index
from ..graph import Estimate, Graph, estimate_of
from ..linalg.block.block_cholesky import BlockCholesky
from ..linalg.dense.rotations import nearest_rotation
from ..linalg.dense.tangent_kernels import connect, pair_slots
from ..linalg.sparse.cholesky import factorize
from .manifold import Manifold
from .problem import QuadraticProblem


def rotation_components(graph: Graph) -> tuple[int, Index]:
    """Number and label (n,) of the groups of poses whose relative rotations are measured."""
    n, rel = graph.n_poses, graph.relative_poses
    links = sp.coo_matrix((np.ones(len(rel)), (rel.i, rel.j)), shape=(n, n))
    count, label = connected_components(links, directed=False)
    return int(count), label


def chordal_rotations(graph: Graph) -> Array:
    """(n, d, d): least squares on rotations without constraints, then projected to SO(d).

    One sparse Cholesky (Carlone et al. 2015). Each group of poses without a rotation prior has
    its first pose held at the identity; groups do not know of each other.
    """
    n, d, rel, prior = graph.n_poses, graph.dimension, graph.relative_poses, graph.pose_priors
    m, q = len(rel), len(prior)
    eye = np.eye(d)
    rows = np.arange(m * d).reshape(m, d)
    of = np.arange(n * d).reshape(n, d)
    extra = m * d + np.arange(q * d).reshape(q, d)
    values = np.concatenate(
        [np.ones(m * d), -np.swapaxes(rel.rotation, 1, 2).ravel(), np.ones(q * d)])
    row = np.concatenate([rows.ravel(), np.repeat(rows.ravel(), d), extra.ravel()])
    column = np.concatenate(
        [of[rel.j].ravel(), np.repeat(of[rel.i], d, axis=0).ravel(), of[prior.i].ravel()])
    A = sp.csr_matrix((values, (row, column)), shape=((m + q) * d, n * d))
    weight = np.repeat(np.concatenate([rel.kappa, prior.kappa]), d)
    target = np.zeros(((m + q) * d, d))
    target[m * d :] = np.swapaxes(prior.rotation, 1, 2).reshape(q * d, d)
    _, label = rotation_components(graph)
    _, first = np.unique(label, return_index=True)
    grounded = np.zeros(label.max(initial=-1) + 1, dtype=bool)
    grounded[label[prior.i[prior.kappa > 0]]] = True
    pinned = first[~grounded]
    held = np.zeros(n * d, dtype=bool)
    held[of[pinned].ravel()] = True
    x = np.zeros((n * d, d))
    x[held] = np.tile(eye, (len(pinned), 1))
    target -= A @ x
    A_free = A[:, ~held]
    normal = (A_free.T @ sp.diags(weight) @ A_free).tocsc()
    x[~held] = factorize(normal).solve(A_free.T @ (weight[:, None] * target))
    return nearest_rotation(np.swapaxes(x.reshape(n, d, d), 1, 2))


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
        self.factor = symbolic.factorize(blocks, np.arange(n * d))

    def apply(self, v: Array, out: Array) -> Array:
        """out = (L + shift)^-1 v for v (n d, p)."""
        return self.factor.solve(v, out)
