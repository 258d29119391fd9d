"""A certificate of global optimality: S = Q - Lambda is positive semidefinite.

See docs/method.md, section 7. For any symmetric multipliers Lambda, blocks of X_c with
X_b X_b^T = I give tr(X^T Q X) = tr(X^T S X) + tr Lambda, and tr Lambda is the cost f of the
point that Lambda came from. So if S + e I is positive semidefinite on the rows of X_c, every
feasible X of every rank costs at least f - e rows: each row has norm one. No gradient has to
vanish for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ..array_types import Array, Index
from ..linalg.cholesky import CholeskyFactor, NotPositiveDefiniteError, SymbolicCholesky
from .manifold import Manifold, symmetric_part
from .preconditioner import analysed
from .schur import SchurOperator

OUTWEIGHS = 1e30
"""Diagonal of rows that are as good as left out, over the largest entry: what they leave of others
is below rounding errors."""
CERTIFIED_GAP = 1e-6
"""Share of the cost within which a solution counts as optimal."""
ROUNDING = 1e-12
"""Rounding error of a cost, over tr Q_cc: costs are sums of as many terms of both signs."""
ESCAPE_DIRECTIONS = 5
"""At most; each becomes a column."""
DUAL_VECTORS = 12
"""Least eigenvectors of S that better multipliers are sought by: more than the rank."""
SADDLE_GAP = 0.1
"""Share of the cost above which a gap means a saddle to leave; a smaller one may lack polish."""
MOST_ROUNDS = 6
"""Of better multipliers at a point; each proves a bound."""
FAR = 10.0
"""Gap after a round, over the one that is wanted, above which the point itself is too far from the
optimum for better multipliers."""
SHIFT = 5.0
"""Of the factor that Lanczos inverts, over the least eigenvalue."""
ROUND_GAIN_SHARE = 0.1
"""Gain of a round, over the gap that is wanted (of Newton steps) or left (of better multipliers),
below which no other is made."""


@dataclass(frozen=True)
class Multipliers:
    """A block-diagonal Lambda, which any number of rows of X_c may be multiplied by."""

    manifold: Manifold
    blocks: Array
    """(n, d, d), symmetric."""
    scalars: Array
    """(k,)"""
    fixed: Array
    """(d, d) of the homogenising rows; zero where there are none."""

    @classmethod
    def zero(cls, manifold: Manifold) -> Multipliers:
        """Those of a point where nothing is strained."""
        d, n, k = manifold.d, manifold.n, manifold.k
        return cls(manifold, np.zeros((n, d, d)), np.zeros(k), np.zeros((d, d)))

    @classmethod
    def of(cls, manifold: Manifold, y: Array, gradient: Array) -> Multipliers:
        """sym(G_b Y_b^T) for every block b."""
        d = manifold.d
        fixed = np.zeros((d, d))
        if manifold.homogenised:
            fixed = symmetric_part(gradient[-d:] @ y[-d:].T)
        return cls(manifold, *manifold.multipliers(y, gradient), fixed)

    def plus(self, other: Multipliers) -> Multipliers:
        return Multipliers(
            self.manifold, self.blocks + other.blocks, self.scalars + other.scalars,
            self.fixed + other.fixed)

    def times(self, v: Array) -> Array:
        """Lambda v for v (rows, p)."""
        manifold = self.manifold
        d, n, k, p = manifold.d, manifold.n, manifold.k, v.shape[1]
        out = np.empty_like(v)
        out[: n * d] = (self.blocks @ v[: n * d].reshape(n, d, p)).reshape(n * d, p)
        out[n * d : n * d + k] = self.scalars[:, None] * v[n * d : n * d + k]
        if manifold.homogenised:
            out[n * d + k :] = self.fixed @ v[n * d + k :]
        return out

    @property
    def trace(self) -> float:
        return float(np.einsum('nii->', self.blocks) + np.sum(self.scalars)
                     + np.trace(self.fixed))

    @property
    def entries(self) -> Array:
        """All entries, column by column: rotations, bearings, then the homogenising block."""
        fixed = self.fixed.ravel() if self.manifold.homogenised else np.zeros(0)
        return np.concatenate([self.blocks.ravel(), self.scalars, fixed])


@dataclass(frozen=True)
class Certificate:
    """What one test says of one point."""

    cost: float
    gap: float
    """cost - gap is a lower bound on the cost of every point of every rank; inf if none."""
    tolerance: float
    directions: Array | None = None
    """(rows, q): eigenvectors of the least negative eigenvalues, the least first; unit norm, zero
    on the homogenising rows."""
    spectrum: tuple[Array, Array] | None = None
    """Least eigenvalues, ascending, and their eigenvectors (rows, q), where they were computed."""

    @property
    def lambda_min(self) -> float | None:
        """Least eigenvalue of the Schur complement of S on X_c, units of the weights.

        Computed only where the test fails (at an optimum it is 0, the gauge).
        """
        return None if self.spectrum is None else float(self.spectrum[0][0])

    @property
    def certified(self) -> bool:
        return self.gap <= self.tolerance

    @property
    def lower_bound(self) -> float:
        return self.cost - self.gap


_MOST_GROWTHS = 14
"""Times that the gap of a failed test is multiplied by ten before there is no bound: to 1e8 of the
cost."""


class Certifier:
    """Tests points of one problem; the symbolic analysis is made once."""

    def __init__(self, schur: SchurOperator) -> None:
        self.schur = schur
        self.manifold = schur.problem.manifold
        self.rows = self.manifold.rows
        diagonal = schur.Q_cc.diagonal()
        self.rounding = ROUNDING * float(diagonal.sum())
        d, n = self.manifold.d, self.manifold.n
        turns = diagonal[: n * d].reshape(n, d).sum(axis=1)
        first = self.rows - d if self.manifold.homogenised or not n else d * int(np.argmax(turns))
        self._gauge = slice(first, first + d)
        """Rows of the heaviest rotation, or those that are fixed: they hold the gauge."""

    @cached_property
    def _pattern(self) -> tuple[sp.csc_matrix, Index]:
        """Q on [X_c; X_f kept] with zeros where multipliers may be, and the places of these.

        Q alone is not enough: where noise is isotropic its d x d rotation blocks are diagonal,
        while those of Lambda are full.
        """
        manifold, full = self.manifold, self.schur.full().tocsc()
        full.sort_indices()
        n, d = manifold.n, manifold.d
        size = np.concatenate([
            np.full(n, d), np.ones(manifold.k, dtype=int), [d] * manifold.homogenised]).astype(int)
        counts = np.zeros(full.shape[0], dtype=int)
        counts[: self.rows] = np.repeat(size, size)
        first = np.repeat(np.cumsum(size) - size, size)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        rows = np.arange(indptr[-1]) - np.repeat(indptr[: self.rows] - first, counts[: self.rows])
        ones, twos = (
            sp.csc_matrix((np.full(len(indices), value), indices, starts), shape=full.shape)
            for value, indices, starts in (
                (1.0, full.indices, full.indptr), (2.0, rows, indptr)))
        matrix = (ones + twos).tocsc()
        places = np.flatnonzero(matrix.data >= 2)
        own = matrix.data != 2
        matrix.data[:] = 0.0
        matrix.data[own] = full.data
        return matrix, places

    @cached_property
    def symbolic(self) -> SymbolicCholesky:
        """The analysis of S."""
        matrix, _ = self._pattern
        return analysed(self.schur, matrix, np.arange(matrix.shape[0]))

    def tolerance(self, cost: float) -> float:
        """Largest gap of an optimal point: a share of its cost, or rounding errors of the cost."""
        return max(CERTIFIED_GAP * cost, self.rounding)

    def less(self, multipliers: Multipliers) -> sp.csc_matrix:
        """S = Q - Lambda on [X_c; X_f kept]; Lambda is zero on X_f."""
        matrix, places = self._pattern
        data = matrix.data.copy()
        data[places] -= multipliers.entries
        return sp.csc_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)

    def factor(
        self, S: sp.csc_matrix, shift: float, *, held: bool = False
    ) -> CholeskyFactor | None:
        """Cholesky factor of S + shift on the rows of X_c; None where it is not PD.

        With `held` the rows that hold the gauge are as good as left out.
        """
        more = np.zeros(S.shape[0])
        more[: self.rows] = shift
        if held:
            more[self._gauge] = OUTWEIGHS * max(float(S.diagonal().max()), 1.0)
        try:
            return self.symbolic.factorize(S, more)
        except NotPositiveDefiniteError:
            return None

    def _grown(self, S: sp.csc_matrix, shift: float) -> tuple[CholeskyFactor, float] | None:
        """The factor at the first of `shift`, ten times that and so on that has one."""
        for _ in range(_MOST_GROWTHS):
            factor = self.factor(S, shift)
            if factor is not None:
                return factor, shift
            shift *= 10
        return None

    def test(self, y: Array, *, directions: bool = True) -> Certificate:
        """Certify a point (rows, p), or bound its gap and find the directions of escape.

        Without `directions` a gap above the tolerance is not bounded.
        """
        gradient = self.schur(y)
        cost = float(np.sum(y * gradient))
        tolerance = self.tolerance(cost)
        multipliers = Multipliers.of(self.manifold, y, gradient)
        S = self.less(multipliers)
        # One factorisation, where y is an optimum of rank d.
        proven = self.held_gap(S, y, gradient - multipliers.times(y), tolerance)
        if proven <= tolerance:
            return Certificate(cost, proven, tolerance)
        # Less than the tolerance by what rounding of the cost may add to it.
        gap = 0.9 * tolerance
        if self.factor(S, gap / self.rows) is not None:
            return Certificate(cost, gap, tolerance)
        if not directions:
            return Certificate(cost, np.inf, tolerance)
        grown = self._grown(S, 10 * gap / self.rows)
        if grown is None:
            return Certificate(cost, np.inf, tolerance)
        gap = grown[1] * self.rows
        # From a saddle there are only directions to be found.
        count = (DUAL_VECTORS if gap <= 10 * SADDLE_GAP * abs(cost)
                 else ESCAPE_DIRECTIONS)
        values, vectors = self._least(*grown, count)
        least = float(values[0])
        # Lanczos bounds the eigenvalue from above only; a factorisation just below it proves it.
        tight = min(gap, -1.01 * least * self.rows)
        if least < 0 and self.factor(S, tight / self.rows) is not None:
            gap = tight
        down = self.escapes(y, values, vectors, tolerance)
        return Certificate(cost, max(gap, tolerance * 1.000001), tolerance,
                           down[:, : ESCAPE_DIRECTIONS], (values, vectors))

    def proven_gap(self, matrix: sp.csc_matrix, trace: float, least: float) -> float:
        """trace + shift rows for the least shift that makes S + D positive definite; or inf."""
        grown = self._grown(matrix, max(1.01 * -least, self.rounding / self.rows))
        return float(np.inf) if grown is None else trace + grown[1] * self.rows

    def sharpest_gap(
        self, matrix: sp.csc_matrix, trace: float, wanted: float, tolerance: float
    ) -> float:
        """The least gap that S + D proves, in tenths of `wanted` down to `tolerance`; or inf.

        `trace` is what D costs. A factorisation that fails ends early, so that one try more costs
        little.
        """
        gap, proven = wanted, float(np.inf)
        while gap > trace and self.factor(matrix, (gap - trace) / self.rows) is not None:
            proven = gap
            if gap <= tolerance:
                break
            # Less than the tolerance by what rounding of the cost may add to it.
            gap = max(0.1 * gap, 0.9 * tolerance)
        return proven

    def least(self, matrix: sp.csc_matrix, shift: float) -> tuple[Array, Array]:
        """`DUAL_VECTORS` least eigenpairs (ascending) of the Schur complement of a matrix on X_c.

        `shift` is where the search for a positive definite one begins.
        """
        grown = self._grown(matrix, shift)
        if grown is None:
            raise NotPositiveDefiniteError('no shift makes the matrix positive definite')
        return self._least(*grown, DUAL_VECTORS)

    def held_gap(
        self, S: sp.csc_matrix, y: Array, residual: Array, tolerance: float
    ) -> float:
        """The gap that one factorisation proves with the gauge held; inf where that proves nothing.

        The shift of the plain test has to outweigh rounding errors along the gauge directions y,
        where S is zero and positions are large. But any x of any rank is y c + z with z zero on the
        rows of one rotation (or on the homogenising rows) and c of d orthonormal rows. With
        `residual` r = S y, and S - m positive definite on the other rows of X_c,

            tr(x^T S x) >= - |r|^2 |c|^2 / m - |y^T r| |c|^2 = - d (|r|^2 / m + |y^T r|).

        Nothing is shifted there, so the test succeeds wherever the optimum is one of its kind. For
        points y of rank d.
        """
        d = self.manifold.d
        if y.shape[1] != d or not self.manifold.n:
            return float(np.inf)
        squared = d * float(np.sum(residual**2))
        along = d * float(np.linalg.norm(y.T @ residual, 2))
        # The least margin that proves anything, above rounding errors of a factor; a larger one,
        # where it holds, proves more.
        least = max(2 * squared / tolerance, 1e-14 * float(S.diagonal().max()))
        large = max(10 * tolerance / self.rows, least)
        for margin in (large, least)[: 1 + (large > 3 * least)]:
            if along <= tolerance / 2 and self.factor(S, -margin, held=True) is not None:
                return squared / margin + along
        return float(np.inf)

    def _least(
        self, factor: CholeskyFactor, shift: float, count: int
    ) -> tuple[Array, Array]:
        """Least eigenpairs of the Schur complement of S, by Lanczos on its shifted inverse."""
        padded = np.zeros(factor.n)

        def inverse(v: Array) -> Array:
            padded[: self.rows] = v.ravel()
            return factor.solve(padded)[: self.rows]

        operator = LinearOperator((self.rows, self.rows), matvec=inverse, dtype=float)
        start = np.random.default_rng(0).standard_normal(self.rows)
        wanted = max(min(count, self.rows - 2), 1)
        try:
            # A factorisation proves the bound afterwards, so that few digits will do.
            values, vectors = eigsh(
                operator, k=wanted, which='LA', v0=start, tol=1e-4,
                ncv=min(max(24, 2 * wanted + 10), self.rows))
        except ArpackNoConvergence as error:
            values, vectors = error.eigenvalues, error.eigenvectors
            if not len(values):
                # The quotient of any vector bounds the least eigenvalue from above.
                values, vectors = np.array([1 / shift]), start[:, None] / np.linalg.norm(start)
        order = np.argsort(-values)
        return 1 / values[order] - shift, vectors[:, order]

    def escapes(self, y: Array, values: Array, vectors: Array, tolerance: float) -> Array:
        """Directions down from y among eigenpairs of S, the homogenising rows at rest; unit norm.

        Eigenvalues that cost a bound less than half of its tolerance are zeros of the gauge and of
        the homogenising rows: what is left of such a vector with those at rest is rounding noise,
        and any step along it goes up.
        """
        down = vectors[:, values * self.rows < -tolerance / 2]
        if self.manifold.homogenised:
            # S y = 0 lets y be subtracted.
            d = self.manifold.d
            down = down - y[:, :d] @ down[-d:]
            down[-d:] = 0
        return down / np.linalg.norm(down, axis=0)


# -- better multipliers than those of a point


def ascended_gap(
    certifier: Certifier, certificate: Certificate, multipliers: Multipliers, wanted: float
) -> float:
    """The gap that steps of the spectral bundle method prove; the certificate's at most.

    Any symmetric block-diagonal D with S + D positive semidefinite on X_c proves the bound
    f - tr D, S and f being those of a point: a relaxation that is not quite solved has an S with a
    few small negative eigenvalues, and a shift of all rows by the least of them is the dearest D.
    With V the eigenvectors of the q least eigenvalues (diagonal L), the best small D solves

        min tr D + |D - D_0|^2 / (2 t)   subject to   L + V^T (D - D_0) V >= 0,

    whose dual is a problem in one q x q matrix W >= 0, and D - D_0 = t (blkdiag(V W V^T) - I).
    Nothing of this needs to be exact: a Cholesky factorisation proves each bound. Source: Helmberg
    and Rendl, A spectral bundle method for semidefinite programming, SIAM J. Optim. 10 (2000), with
    the bundle of one round instead of an aggregate.

    `certificate` is that of a point, with the spectrum of S = Q - Lambda for these multipliers. A
    gap of `wanted` ends the rounds, and so do bounds that no longer improve.
    """
    cost, gap = certificate.cost, certificate.gap
    if certificate.spectrum is None or certificate.spectrum[0][0] >= 0:
        return gap
    values, vectors = certificate.spectrum
    least = -float(values[0])
    length, longer = 3 * least, 10.0
    # Lambda - D; D is zero on the homogenising rows.
    best = multipliers
    for _ in range(MOST_ROUNDS):
        trial = best.plus(bundle_step(certifier.manifold, vectors, values, length))
        matrix, trace = certifier.less(trial), cost - trial.trace
        spare = (wanted - trace) / certifier.rows
        if spare > 0 and certifier.factor(matrix, spare) is not None:
            return wanted
        there = certifier.least(matrix, SHIFT * least)
        proven = certifier.proven_gap(matrix, trace, float(there[0][0]))
        if not proven < gap:
            # The step was too long for the eigenvectors to tell what happens.
            length, longer = length / 10, 1.0
            continue
        gained, gap, best = gap - proven, proven, trial
        values, vectors = there
        length *= longer
        if gap > FAR * wanted or gained < ROUND_GAIN_SHARE * gap:
            break
    return gap


def bundle_step(manifold: Manifold, vectors: Array, values: Array, length: float) -> Multipliers:
    """The step of -D from eigenvectors (rows, q) and eigenvalues (q,).

    `length` is t, a weight. W minimises t / 2 |blkdiag(V W V^T) - I|^2 + <W, L> by projected
    gradients with momentum (Beck and Teboulle 2009), W as a vector of its upper triangle.
    """
    d, n, k = manifold.d, manifold.n, manifold.k
    turns, bearings = vectors[: n * d].reshape(n, d, -1), vectors[n * d : n * d + k]
    upper = np.triu_indices(vectors.shape[1])
    scale = np.where(upper[0] == upper[1], 1.0, np.sqrt(2))
    gram, linear = pair_products(turns, bearings, upper, scale)
    slope = np.where(upper[0] == upper[1], values[upper[0]], 0.0) / length
    w = _least_psd(gram, linear - slope, upper, scale)
    W = _matrix(w, upper, scale)
    blocks = np.eye(d) - (turns @ W) @ np.swapaxes(turns, 1, 2)
    scalars = 1 - np.einsum('kq,kq->k', bearings @ W, bearings)
    return Multipliers(manifold, length * blocks, length * scalars, np.zeros((d, d)))


def pair_products(
    turns: Array, bearings: Array, upper: tuple[Index, Index], scale: Array
) -> tuple[Array, Array]:
    """Products of sym(v_i v_j^T) of each block with one another, and with the unit matrix.

    (m, m) and (m,) for the m pairs of `upper`, added up over pieces that stay in the cache: 512
    times the 78 pairs of twelve vectors take 320 kB.
    """
    i, j = upper
    gram, linear = np.zeros((len(i),) * 2), np.zeros(len(i))
    for blocks in (turns, bearings[:, None]):
        for piece in np.split(blocks, range(512, len(blocks), 512)):
            for a in range(blocks.shape[1]):
                own = scale * piece[:, a, i] * piece[:, a, j]
                linear += own.sum(axis=0)
                gram += own.T @ own
                for c in range(a):
                    # Both off-diagonal entries of a symmetric block at once.
                    both = np.sqrt(0.5) * scale * (
                        piece[:, a, i] * piece[:, c, j] + piece[:, a, j] * piece[:, c, i])
                    gram += both.T @ both
    return gram, linear


def _least_psd(
    gram: Array, linear: Array, upper: tuple[Index, Index], scale: Array
) -> Array:
    """argmin w^T gram w / 2 - linear^T w over vectors w of positive semidefinite matrices."""
    largest = float(np.linalg.eigvalsh(gram)[-1])
    w = np.zeros(len(linear))
    ahead, momentum = w, 1.0
    for _ in range(400):
        new = _projected(ahead - (gram @ ahead - linear) / largest, upper, scale)
        if float(np.dot(ahead - new, new - w)) > 0:
            momentum = 1.0
        following = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        change = new - w
        ahead, momentum, w = new + (momentum - 1) / following * change, following, new
        if np.linalg.norm(change) < CERTIFIED_GAP * np.linalg.norm(w):
            break
    return w


def _projected(w: Array, upper: tuple[Index, Index], scale: Array) -> Array:
    """The nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(_matrix(w, upper, scale))
    return np.asarray(((vectors * np.maximum(values, 0.0)) @ vectors.T)[upper] * scale)


def _matrix(w: Array, upper: tuple[Index, Index], scale: Array) -> Array:
    """The symmetric matrix of a vector of its upper triangle."""
    q = int(upper[0][-1]) + 1
    matrix = np.zeros((q, q))
    matrix[upper] = w / scale
    matrix.T[upper] = w / scale
    return matrix
