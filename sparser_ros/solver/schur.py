"""Matrix-free products with the Schur complement Q_s = Q_cc - B M^-1 B^T (paper, algorithm 1)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..linalg.cholesky import SymbolicCholesky
from ..linalg.kernels import sparse_kernels
from .gram import WeightedGram
from .problem import QuadraticProblem

Array = NDArray[np.float64]


class SchurOperator:
    """Q_s of a problem: the symbolic analysis is made once, the values follow the weights."""

    def __init__(self, problem: QuadraticProblem, omega: Array | None = None) -> None:
        self.problem = problem
        self.symbolic: SymbolicCholesky | None = None
        self._gram: WeightedGram | None = None
        self.update(problem.omega if omega is None else omega)

    def update(self, omega: Array) -> None:
        """New weights (rows,): refresh Q_cc, B and M and refactorise M (paper, algorithm 2)."""
        self.Q_cc, self.B, self.B_T, self.M = self._products(omega)
        # By symmetry the rows of M serve as columns.
        M = sp.csc_matrix((self.M.data, self.M.indices, self.M.indptr), shape=self.M.shape)
        if self.symbolic is None:
            self.symbolic = SymbolicCholesky(M)
        self.factor = self.symbolic.factorize(M)
        self._work: dict[int, Array] = {}
        self._full: sp.csr_matrix | None = None

    def _products(
        self, omega: Array
    ) -> tuple[sp.csr_matrix, sp.csr_matrix, sp.csr_matrix, sp.csr_matrix]:
        """Q_cc, B, B^T and M: plain products at first, by their fixed pattern from then on."""
        A, C = self.problem.A, self.problem.C
        if self.symbolic is not None:
            self._gram = self._gram or WeightedGram(A, C)
            return self._gram.refresh(omega)
        weighted_A = A.multiply(omega[:, None]).tocsr()
        weighted_C = C.multiply(omega[:, None]).tocsr()
        A_T, C_T = A.T.tocsr(), C.T.tocsr()
        return A_T @ weighted_A, A_T @ weighted_C, C_T @ weighted_A, C_T @ weighted_C

    @property
    def shape(self) -> tuple[int, int]:
        return self.Q_cc.shape

    def __call__(self, x: Array, out: Array | None = None) -> Array:
        """Q_s x for x of shape (rows, p)."""
        p = x.shape[1]
        kernel = sparse_kernels(p)
        out = np.empty_like(x) if out is None else out
        z = self._free(x)
        kernel.csr_product(self.Q_cc.indptr, self.Q_cc.indices, self.Q_cc.data, x, out)
        kernel.csr_subtract(self.B.indptr, self.B.indices, self.B.data, z, out)
        return out

    def _free(self, x: Array) -> Array:
        """M^-1 B^T x in a reused workspace."""
        p = x.shape[1]
        kernel = sparse_kernels(p)
        if p not in self._work:
            self._work[p] = np.empty((self.M.shape[0], p))
        z = self._work[p]
        kernel.csr_product(self.B_T.indptr, self.B_T.indices, self.B_T.data, x, z)
        return self.factor.solve(z, out=z)

    def points(self, x: Array) -> Array:
        """Optimal positions X_f (points, p) given X_c; deleted columns stand at the origin."""
        points = np.zeros((self.problem.n_points, x.shape[1]))
        points[self.problem.kept] = -self._free(x)
        return points

    def full(self) -> sp.csr_matrix:
        """Q on [X_c; X_f kept], the homogenising rows included."""
        if self._gram is not None:
            return self._gram.full
        if self._full is None:
            self._full = sp.bmat([[self.Q_cc, self.B], [self.B_T, self.M]], format='csr')
        return self._full
