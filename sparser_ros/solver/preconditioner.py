"""Preconditioners of truncated CG: (Q + shift)^-1, and two factors of the Hessian.

| | matrix | factorised |
|---|---|---|
| `RegularisedQ` | Q + shift on X_c | once |
| `NewtonPreconditioner` | T^T (Q - Lambda) T, the exact Hessian | at every point |
| `GaussNewtonPreconditioner` | T^T Q T of a pose graph | once, when it pays |

T is a basis of the tangent space at Y: rotations Omega Y + W Y_perp (Omega skew), bearings along
u_perp, points free. T^T ((Q - Lambda) x I_p) T is sparse like Q with small dense blocks.
`plan.py` says which one a refinement takes, and why.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..array_types import Array, Index
from ..config import SolverError
from ..linalg.arrays import HOST, Arrays, Factor, Symbolic, arrays_of
from ..linalg.cholesky import (
    BlockCholesky,
    CholeskyFactor,
    NotPositiveDefiniteError,
    SymbolicCholesky,
    block_pattern,
    entry_slots,
)
from ..linalg.compiled import csr
from ..linalg.tangent_kernels import (
    Bearings,
    bearing_nodes,
    complements,
    pair_slots,
    tangent_kernels,
)
from .manifold import Manifold
from .schur import SchurOperator

FEW_CG_STEPS = 6
"""CG steps that a refinement may take with any preconditioner."""
CONDITION = 1e6
"""Bound on the condition number of Q + mu I of graphs with ranges (paper, section 7.1)."""
BEARING_SHARE = {2: 0.01, 3: 1e-4}
"""By dimension: share of its own weight added to the row of a bearing, which stands in for its unit
norm; in space other ranges hold a bearing as well."""
_DIAGONAL_FLOOR = 1e-6
"""Share of the largest entry to which a diagonal entry of the Hessian is raised."""


def elimination_order(schur: SchurOperator) -> Index:
    """(points,): order of poses and landmarks that keeps factors of Q by blocks sparse.

    It is that of M, which couples the same poses and landmarks; those without a column come last.
    """
    assert schur.symbolic is not None
    kept = np.asarray(schur.problem.kept, dtype=np.int64)
    without = np.ones(schur.problem.n_points, dtype=bool)
    without[kept] = False
    return np.concatenate([kept[schur.symbolic.blocks.order], np.flatnonzero(without)])


def blocks_of_poses(schur: SchurOperator) -> bool:
    """Whether factors by blocks of one pose each suit: no bearings and few landmarks."""
    manifold = schur.problem.manifold
    # A landmark is padded to the size of a pose.
    return schur.problem.n_points <= 2 * manifold.n and not manifold.k


def analysed(schur: SchurOperator, matrix: sp.csc_matrix, rows: Index) -> SymbolicCholesky:
    """Analysis of a matrix of these rows of Q, by blocks of poses and landmarks where they suit."""
    if not blocks_of_poses(schur):
        return SymbolicCholesky(matrix)
    manifold, points = schur.problem.manifold, schur.problem.n_points
    d, at = manifold.d, np.arange(manifold.d * manifold.n)
    place = np.empty(schur.full().shape[0], dtype=np.int64)
    place[: len(at)] = at + at // d
    place[manifold.rows:] = (d + 1) * np.asarray(schur.problem.kept) + d
    # The homogenising rows are a block of their own.
    place[len(at): manifold.rows] = (d + 1) * points + np.arange(manifold.rows - len(at))
    place, order = place[rows], np.append(elimination_order(schur), points)
    return SymbolicCholesky(
        matrix, order[order <= place.max() // (d + 1)], place=place, b=d + 1)


class RegularisedQ:
    """(Q + shift on X_c)^-1 restricted to X_c: the inverse of the regularised Schur complement.

    The shift stands in for the part of the Hessian that Q lacks: the multipliers Lambda, and the
    unit norm of each bearing. Pose graphs, whose weights differ by orders of magnitude and whose
    Lambda is small, take a small share of diag(Q); graphs with ranges a multiple of the identity
    that bounds the condition number, and a share of each bearing's own weight
    (docs/method.md, section 3).
    """

    portable = True

    def __init__(self, schur: SchurOperator, full: sp.csr_matrix | None = None) -> None:
        """`full` stands in for Q on [X_c; X_f kept] where given."""
        full = schur.full() if full is None else full
        self.manifold = schur.problem.manifold
        self.free = self.manifold.d * self.manifold.n + self.manifold.k
        self.n_c = schur.shape[0]
        self.rows = np.r_[0 : self.free, schur.shape[0] : full.shape[0]]
        self._schur = schur
        self.refactorise(full)
        self._symbolic: dict[str, Symbolic] = {}
        self._work: dict[tuple[str, int], Array] = {}

    def refactorise(self, full: sp.csr_matrix) -> None:
        """New values of the same pattern."""
        self.matrix = self._chosen(full)
        self.shift = self._shift(self.matrix.diagonal())
        self._factors: dict[str, Factor] = {}

    def placed(self, arrays: Arrays) -> bool:
        """Whether there is a factor for this backend."""
        return arrays.name in self._factors

    def factor(self, arrays: Arrays = HOST) -> Factor:
        """The factor for a backend, made when it is first needed; its analysis is kept."""
        name = arrays.name
        if name not in self._symbolic:
            self._symbolic[name] = (
                analysed(self._schur, self.matrix, self.rows) if arrays is HOST
                else arrays.symbolic(self.matrix))
        if name not in self._factors:
            self._factors[name] = self._symbolic[name].factorize(self.matrix, self.shift)
        return self._factors[name]

    def _chosen(self, full: sp.csr_matrix) -> sp.csc_matrix:
        """Q without the rows held fixed; by symmetry its rows serve as columns."""
        if len(self.rows) < full.shape[0]:
            full = full[self.rows][:, self.rows]
        return sp.csc_matrix((full.data, full.indices, full.indptr), shape=full.shape)

    def _shift(self, diagonal: Array) -> Array:
        manifold = self.manifold
        shift = np.zeros(len(diagonal))
        if manifold.k:
            shift[: self.free] = diagonal.max() / CONDITION
            bearings = slice(manifold.d * manifold.n, self.free)
            shift[bearings] += BEARING_SHARE[manifold.d] * diagonal[bearings]
        else:
            # A pose without any measurement has rows of zeros, which any shift makes regular.
            own = diagonal[: self.free]
            shift[: self.free] = 1e-6 * np.where(
                own > 0, own, max(float(own.max(initial=0.0)), 1.0))
        return shift

    def apply(self, v: Array, out: Array) -> Array:
        arrays, p = arrays_of(v), v.shape[1]
        work = self._work.get((arrays.name, p))
        if work is None:
            work = self._work[arrays.name, p] = arrays.empty((len(self.rows), p))
        # Rows beyond X_c are X_f, where a formulation keeps it as a variable.
        whole = v.shape[0] > self.n_c
        work[: self.free] = v[: self.free]
        work[self.free :] = v[self.n_c :] if whole else 0.0
        self.factor(arrays).solve(work, work)
        out[: self.free] = work[: self.free]
        out[self.free : self.n_c] = 0.0
        if whole:
            out[self.n_c :] = work[self.free :]
        return out

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        """The matrix does not depend on the point."""


def rotation_tangents(manifold: Manifold, y: Array) -> Array:
    """(n, d, p, d (d - 1) / 2 + d (p - d)): orthonormal directions Omega Y and W Y_perp."""
    d, n, p = manifold.d, manifold.n, y.shape[1]
    rotations = y[: n * d].reshape(n, d, p)
    skew = [(a, b) for a in range(d) for b in range(a)]
    blocks = np.zeros((n, d, p, len(skew) + d * (p - d)))
    for q, (a, b) in enumerate(skew):
        blocks[:, a, :, q] = rotations[:, b] / np.sqrt(2)
        blocks[:, b, :, q] = -rotations[:, a] / np.sqrt(2)
    if p > d:
        complement = orthogonal_complement(rotations)
        for a in range(d):
            at = len(skew) + a * (p - d)
            blocks[:, a, :, at : at + p - d] = np.swapaxes(complement, 1, 2)
    return blocks


def orthogonal_complement(rows: Array) -> Array:
    """(m, p - d, p) orthonormal rows orthogonal to the orthonormal rows (m, d, p)."""
    d = rows.shape[1]
    q, _ = np.linalg.qr(np.swapaxes(rows, 1, 2), mode='complete')
    return np.swapaxes(q[:, :, d:], 1, 2)


class NewtonPreconditioner:
    """(T^T (Q - Lambda + shift) T)^-1 in ambient coordinates; Gauss-Newton where indefinite.

    Bearings are eliminated; what is left has a block for every pose and landmark, whose pattern
    is analysed once.
    """

    portable = False
    """Factorised anew at every point, which takes longer than its few triangular solves."""

    damping = 1e-10
    """Share of its diagonal added to the Hessian, which is singular in the gauge."""

    def __init__(self, schur: SchurOperator) -> None:
        problem, manifold = schur.problem, schur.problem.manifold
        d, n = manifold.d, manifold.n
        self.manifold, self._schur = manifold, schur
        self.full = schur.full()
        """Q on [X_c; X_f kept]; another one, such as with new weights, may take its place."""
        self.symbolic: BlockCholesky | None = None
        self.factor: CholeskyFactor | None = None
        self._order = elimination_order(schur)
        self._pattern: sp.csr_matrix | None = None
        self.gauss_newton = False
        self.n_nodes = problem.n_points
        self.node = np.full(self.full.shape[0], -1, dtype=np.int64)
        self.node[: n * d] = np.arange(n * d) // d
        self.node[schur.shape[0] :] = problem.kept

    def _analyse(self, q: int, p: int) -> None:
        """Pattern and slots of the blocks, for q coordinates a rotation and p a point."""
        node, full, manifold = self.node, self.full, self.manifold
        self._pattern = full
        nodes = self.nodes = bearing_nodes(
            full.indptr, full.indices, node, manifold.n * manifold.d, manifold.k)
        if np.any(nodes < -1):
            raise SolverError('a range between more than two poses or landmarks')
        pattern = block_pattern(full.indptr, full.indices, node, self.n_nodes, nodes)
        self.symbolic = BlockCholesky(pattern, q + p, self._order)
        starts, rows, rank = self.symbolic.starts, self.symbolic.rows, self.symbolic.rank
        # By symmetry rows serve as columns.
        self.slots, _ = entry_slots(
            starts, rows, 1, np.where(node < 0, -1, rank[node]), np.zeros_like(node),
            full.indptr, full.indices)
        ranked = np.where(nodes < 0, -1, rank[nodes])
        self.pairs = pair_slots(starts, rows, ranked)
        self.diagonal = pair_slots(starts, rows, rank[:, None].repeat(2, axis=1))[:, 0, 0]
        used = np.zeros((self.n_nodes, q + p), dtype=bool)
        used[: manifold.n, :q] = True
        used[node[manifold.rows :], q:] = True
        self.used = used

    def placed(self, arrays: Arrays) -> bool:
        return arrays is HOST

    def _assembled(self, y: Array) -> Array:
        """Blocks of T^T Q T at y, bearings left out; T and the pattern are kept."""
        manifold, full = self.manifold, self.full
        d, n, k, p = manifold.d, manifold.n, manifold.k, y.shape[1]
        self.turns = rotation_tangents(manifold, y)
        q = self.turns.shape[3] if n else 0
        if self.symbolic is None or self.symbolic.b != q + p or not self._same_pattern():
            self._analyse(q, p)
        assert self.symbolic is not None
        self.kernel = tangent_kernels(d, p, q)
        self.normal = np.empty((k, p - 1, p))
        complements(y[n * d : n * d + k], self.normal)
        gauss = np.zeros((len(self.symbolic.rows), q + p, q + p))
        self.kernel.assemble(csr(full), self.turns, self.slots, gauss)
        if self._schur.upright is not None:
            self._add_heights(self._schur.upright, gauss)
        return gauss

    def _add_heights(self, upright: SchurOperator, blocks: Array) -> None:
        """Add what heights add to T^T Q T in the last column of map: each is of one node."""
        graph, manifold = upright.problem.graph, self.manifold
        d, (_, b, _) = manifold.d, blocks.shape
        weight = upright.omega[len(self._schur.omega):]
        endpoint, arm = graph.heights.point, graph.heights.lever
        node, pose = graph.points(endpoint), endpoint >= 0
        row = np.zeros((len(node), b))
        # Of a node without a column in Q only the rotation counts.
        row[np.isin(node, self.node[manifold.rows:]), b - self.turns.shape[2] + d - 1] = 1.0
        turned = self.turns[endpoint[pose], :, d - 1]
        row[pose, :turned.shape[2]] = np.einsum('ki,kiq->kq', arm[pose], turned)
        np.add.at(blocks, self.diagonal[node],
                  weight[:, None, None] * row[:, :, None] * row[:, None, :])

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        manifold, full = self.manifold, self.full
        d, n, k = manifold.d, manifold.n, manifold.k
        gauss = self._assembled(y)
        multipliers, scalars = manifold.multipliers(y, gradient)
        own = full.diagonal()[n * d : n * d + k]
        largest = max(gauss.max(initial=0.0), own.max(initial=0.0))
        floor, damped = self._floor(gauss, largest), np.maximum(own, _DIAGONAL_FLOOR * largest)
        exact = gauss.copy()
        self.kernel.subtract_curvature(multipliers, self.turns, self.diagonal, exact)
        try:
            self._factorize(exact, self.damping * floor, own - scalars + self.damping * damped)
            self.gauss_newton = False
        except NotPositiveDefiniteError:
            loose = 1e4 * self.damping
            self._factorize(gauss, loose * floor, own + loose * damped)
            self.gauss_newton = True

    def _floor(self, blocks: Array, largest: float) -> Array:
        """(nodes, b): the diagonal; a rotation that no measurement turns has a zero row."""
        diagonal = np.einsum('mii->mi', blocks[self.diagonal])
        return np.maximum(diagonal, _DIAGONAL_FLOOR * largest)

    def _same_pattern(self) -> bool:
        known, full = self._pattern, self.full
        return known is full or (known is not None and (
            np.array_equal(known.indptr, full.indptr)
            and np.array_equal(known.indices, full.indices)))

    def _factorize(self, blocks: Array, shift: Array, pivots: Array) -> None:
        """Factor of the blocks, shifted on the diagonal, less what the bearings leave."""
        assert self.symbolic is not None
        if not np.all(pivots > 0):
            raise NotPositiveDefiniteError('a pivot is not positive')
        b = self.symbolic.b
        at = np.arange(b)
        blocks[self.diagonal[:, None], at, at] += np.where(self.used, shift, 1.0)
        coupling = np.empty((self.manifold.k, 2, self.normal.shape[1], b))
        self.bearings = Bearings(self.nodes, self.normal, pivots, coupling)
        self.kernel.eliminate(
            csr(self.full), self.node, self.turns, self.bearings, self.pairs, blocks)
        self.factor = self.symbolic.factorize(
            blocks, self.symbolic.rows_at(np.arange(self.n_nodes * b)))

    def apply(self, v: Array, out: Array) -> Array:
        k, p = self.manifold.k, v.shape[1]
        assert self.factor is not None
        x, z = np.empty(self.factor.n), np.empty((k, p - 1))
        self.kernel.coordinates(v, self.turns, self.bearings, x, z)
        # Rows beyond X_c are X_f, where a formulation keeps it as a variable.
        points = self.node[self.manifold.rows :]
        whole = v.shape[0] > self.manifold.rows
        if whole:
            x.reshape(self.n_nodes, -1)[points, -p:] += v[self.manifold.rows :]
        x = self.factor.solve(x)
        self.kernel.ambient(x, z, self.turns, self.bearings, out)
        if whole:
            out[self.manifold.rows :] = x.reshape(self.n_nodes, -1)[points, -p:]
        return out


class ShiftedHessian(NewtonPreconditioner):
    """(T^T (Q - Lambda) T + shift)^-1 at a point and rank after the other, for `NewtonDescent`.

    The shift stands on the coordinates of rotations and bearings; points get none, since M is
    positive definite.
    """

    def at(self, y: Array, multipliers: Array, scalars: Array) -> None:
        """Assemble the Hessian at y (rows, p); Lambda (n, d, d) of rotations, (k,) of bearings."""
        manifold = self.manifold
        d, n, k = manifold.d, manifold.n, manifold.k
        blocks = self._assembled(y)
        self._size = self.damping * self._floor(blocks, float(blocks.max(initial=0.0)))
        self.kernel.subtract_curvature(multipliers, self.turns, self.diagonal, blocks)
        self._exact = blocks
        self._pivots = self.full.diagonal()[n * d : n * d + k] - scalars
        self._turned = self.turns.shape[3] if n else 0

    def factorize(self, shift: float) -> bool:
        """Whether the Hessian with that shift is positive definite; then `solve` uses it."""
        added = self._size.copy()
        added[:, : self._turned] += shift
        try:
            self._factorize(self._exact.copy(), added, self._pivots + shift)
        except NotPositiveDefiniteError:
            return False
        return True

    def solve(self, v: Array) -> Array:
        """(Hessian + shift)^-1 of a tangent vector (rows, p)."""
        return self.apply(v, np.empty_like(v))


class GaussNewtonPreconditioner(NewtonPreconditioner):
    """(T^T Q T)^-1 of a graph without ranges: the Gauss-Newton part of the Hessian, kept.

    Stretch and shear make Q + shift softer than the Hessian; T^T Q T excludes them. Its blocks are
    larger (6 x 6 instead of 4 x 4 in space): it pays where factors are thin.

    In the poses' own frames T^T Q T depends on relative poses alone, which hardly change after the
    first steps: only T follows the point, until CG takes more steps than a factorisation is worth.
    """

    def __init__(self, schur: SchurOperator) -> None:
        super().__init__(schur)
        self.patience = max(FEW_CG_STEPS, factorisation_in_cg_steps(schur))

    def prepare(self) -> BlockCholesky:
        """The analysis for points of rank d, which needs none of them."""
        if self.symbolic is None:
            d = self.manifold.d
            self._analyse(d * (d - 1) // 2 if self.manifold.n else 0, d)
        assert self.symbolic is not None
        return self.symbolic

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        if self.factor is not None and cg_steps < self.patience:
            self.turns = rotation_tangents(self.manifold, y)
            return
        blocks = self._assembled(y)
        floor = self._floor(blocks, blocks.max(initial=0.0))
        self._factorize(blocks, self.damping * floor, np.zeros(0))


def gauss_newton_pays(schur: SchurOperator) -> bool:
    """Whether the factor of T^T Q T of a pose graph costs no more than it saves.

    In the plane it is no larger than that of Q + shift; in space it pays where factors are thin.
    """
    plane = schur.problem.manifold.d == 2
    return blocks_of_poses(schur) and (plane or factorisation_in_cg_steps(schur) <= FEW_CG_STEPS)


def factorisation_in_cg_steps(schur: SchurOperator) -> int:
    """CG steps with (Q + shift)^-1 that take half as long as a factorisation of T^T Q T.

    Operations are counted by the blocks of the factor of M: b^3 sum(counts^2) for a factorisation
    with b x b blocks, two triangular solves of (d + 1) x (d + 1) blocks for a step.
    """
    assert schur.symbolic is not None
    counts = schur.symbolic.blocks.counts
    d = schur.problem.manifold.d
    b = d * (d - 1) // 2 + d
    factorisation = b**3 * np.sum(counts.astype(float) ** 2)
    step = 4 * (d + 1) ** 2 * d * max(float(np.sum(counts)), 1.0)
    return round(0.5 * factorisation / step)
