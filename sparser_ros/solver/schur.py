"""Matrix-free products with the Schur complement Q_s = Q_cc - B M^-1 B^T (paper, algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from ..array_types import Array
from ..linalg.arrays import HOST, Arrays, Factor, Matrix, Symbolic, arrays_of
from ..linalg.cholesky import SymbolicCholesky, sparsest
from ..linalg.ordering import bucketed
from .problem import QuadraticProblem


class WeightedNormalMatrix:
    """The blocks Q_cc, B, B^T, M of [A C]^T Omega [A C]: new weights are one sparse product.

    Entry (i, j) of Q is sum_r omega_r a_ri a_rj, linear in the weights. The coefficients form a
    fixed sparse matrix (entries of Q, rows of A); its product with the weights refreshes all values
    in place (paper, section 6.2: patterns of M, B and Q_cc do not depend on the weights).
    """

    def __init__(self, A: sp.csr_matrix, C: sp.csr_matrix) -> None:
        joined = sp.hstack([A, C], format='csr')
        joined.sum_duplicates()
        m, size = joined.shape
        # All pairs of entries of each row, sorted by the entry of Q that they add to.
        in_row = np.diff(joined.indptr)
        partners = np.repeat(in_row, in_row)
        entry = np.repeat(np.arange(joined.nnz, dtype=np.int32), partners)
        row = np.repeat(np.arange(m, dtype=np.int32), in_row**2)
        # Pair number less that of the entry's first pair, plus where the row begins.
        partner = np.arange(len(entry), dtype=np.int32)
        partner += np.repeat(
            np.repeat(joined.indptr[:-1], in_row) - np.cumsum(partners) + partners, partners)
        i, j = joined.indices[entry], joined.indices[partner]
        _, order = bucketed(j, size)
        order = order[bucketed(i[order], size)[1]]
        i, j = i[order], j[order]
        first = np.flatnonzero((np.diff(i, prepend=-1) != 0) | (np.diff(j, prepend=-1) != 0))
        self._coefficients = sp.csr_matrix(
            (joined.data[entry[order]] * joined.data[partner[order]], row[order],
             np.append(first, len(order))), shape=(len(first), m))
        i, columns = i[first], j[first]
        indptr = np.searchsorted(i, np.arange(size + 1))
        self.full = sp.csr_matrix(
            (np.zeros(len(columns)), columns, indptr), shape=(size, size))
        n_c = A.shape[1]
        top, left = i < n_c, columns < n_c
        cut = (slice(0, n_c), slice(n_c, size))
        self._blocks = [
            (np.flatnonzero((top == (r == 0)) & (left == (c == 0))), self._pattern(cut[r], cut[c]))
            for r in (0, 1) for c in (0, 1)
        ]

    def _pattern(self, rows: slice, columns: slice) -> sp.csr_matrix:
        """A block of the pattern; explicit zeros survive slicing."""
        return self.full[rows][:, columns].tocsr()

    def refresh(
        self, omega: Array
    ) -> tuple[sp.csr_matrix, sp.csr_matrix, sp.csr_matrix, sp.csr_matrix]:
        """Q_cc, B, B^T and M at the weights omega (rows,); `full` follows."""
        self.full.data = self._coefficients @ omega
        for at, block in self._blocks:
            block.data = self.full.data[at]
        Q_cc, B, B_T, M = (block for _, block in self._blocks)
        return Q_cc, B, B_T, M


@dataclass
class _Placed:
    """The operator's matrices in the memory of one array backend, and a workspace for each p."""

    Q_cc: Matrix
    B: Matrix
    B_T: Matrix
    factor: Factor
    work: dict[int, Array] = field(default_factory=dict)


class SchurOperator:
    """Q_s of a problem: one symbolic analysis; values are refreshed when weights change.

    A product runs in the memory of its argument, CPU or GPU (`linalg/arrays.py`).
    """

    def __init__(self, problem: QuadraticProblem, omega: Array | None = None) -> None:
        self.problem = problem
        self.symbolic: SymbolicCholesky | None = None
        self._weighted: WeightedNormalMatrix | None = None
        self._placed: dict[str, _Placed] = {}
        self._symbolic: dict[str, Symbolic] = {}
        self.upright: SchurOperator | None = None
        """Q_s of the last column of map where heights make it another one."""
        self.update(problem.all_rows.omega if omega is None else omega)

    def update(self, omega: Array) -> None:
        """New weights (rows,) of `problem.all_rows`: refresh Q_cc, B and M and refactorise M.

        The paper's algorithm 2.
        """
        if self.problem.upright is not None:
            if self.upright is None:
                self.upright = SchurOperator(self.problem.upright, omega)
            else:
                self.upright.update(omega)
            omega = omega[: len(self.problem.omega)]
        self.omega = omega
        self.Q_cc, self.B, self.B_T, self.M = self._products(omega)
        # By symmetry the rows of M serve as columns.
        M = sp.csc_matrix((self.M.data, self.M.indices, self.M.indptr), shape=self.M.shape)
        if self.symbolic is None:
            self.symbolic = sparsest(M, self.problem.manifold.d + 1)
        # It is analysed anew where entries cancelled at the first weights.
        self.factor = self.symbolic.factorize(M)
        self._placed.clear()
        self._full: sp.csr_matrix | None = None

    def _at(self, arrays: Arrays) -> _Placed:
        """The matrices of this backend, placed when they are first needed."""
        placed = self._placed.get(arrays.name)
        if placed is None:
            placed = self._placed[arrays.name] = _Placed(
                arrays.matrix(self.Q_cc), arrays.matrix(self.B), arrays.matrix(self.B_T),
                self.factor if arrays is HOST else self._factor_for(arrays))
        return placed

    def _factor_for(self, arrays: Arrays) -> Factor:
        matrix = self.M.tocsc()
        if arrays.name not in self._symbolic:
            self._symbolic[arrays.name] = arrays.symbolic(matrix)
        return self._symbolic[arrays.name].factorize(matrix)

    def _products(
        self, omega: Array
    ) -> tuple[sp.csr_matrix, sp.csr_matrix, sp.csr_matrix, sp.csr_matrix]:
        """Q_cc, B, B^T and M: plain products at first, by their fixed pattern from then on."""
        A, C = self.problem.A, self.problem.C
        if self.symbolic is not None:
            self._weighted = self._weighted or WeightedNormalMatrix(A, C)
            return self._weighted.refresh(omega)
        weighted_A = A.multiply(omega[:, None]).tocsr()
        weighted_C = C.multiply(omega[:, None]).tocsr()
        A_T, C_T = A.T.tocsr(), C.T.tocsr()
        return A_T @ weighted_A, A_T @ weighted_C, C_T @ weighted_A, C_T @ weighted_C

    @property
    def shape(self) -> tuple[int, int]:
        return self.Q_cc.shape

    def __call__(self, x: Array, out: Array | None = None) -> Array:
        """Q_s x for x of shape (rows, p)."""
        arrays = arrays_of(x)
        out = arrays.empty(x.shape) if out is None else out
        z = self._free(x)
        at = self._at(arrays)
        at.Q_cc.product(x, out)
        at.B.subtract(z, out)
        if self.upright is not None:
            column = self._vertical
            out[:, column] = self.upright(np.ascontiguousarray(x[:, column]))
        return out

    @property
    def _vertical(self) -> slice:
        """The last column of map."""
        d = self.problem.manifold.d
        return slice(d - 1, d)

    def _free(self, x: Array) -> Array:
        """M^-1 B^T x in a reused workspace."""
        p = x.shape[1]
        arrays = arrays_of(x)
        at = self._at(arrays)
        if p not in at.work:
            at.work[p] = arrays.empty((self.M.shape[0], p))
        z = at.work[p]
        at.B_T.product(x, z)
        at.factor.solve(z, z)
        return z

    def points(self, x: Array) -> Array:
        """Optimal positions X_f (points, p) given X_c; deleted columns stand at the origin."""
        points = np.zeros((self.problem.n_points, x.shape[1]))
        points[self.problem.kept] = -self._free(x)
        if self.upright is not None:
            column = self._vertical
            points[:, column] = self.upright.points(np.ascontiguousarray(x[:, column]))
        return points

    def full(self) -> sp.csr_matrix:
        """Q on [X_c; X_f kept], the homogenising rows included."""
        if self._weighted is not None:
            return self._weighted.full
        if self._full is None:
            above, below = (sp.hstack(parts, format='csr') for parts in (
                (self.Q_cc, self.B), (self.B_T, self.M)))
            self._full = sp.vstack([above, below], format='csr')
        return self._full
