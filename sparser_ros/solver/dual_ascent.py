"""Better multipliers than those of a point: a few steps of the spectral bundle method.

Any symmetric block-diagonal D with S + D positive semidefinite on X_c proves the bound f - tr D,
S and f being those of a point (docs/method.md, section 7): a relaxation that is not quite solved
has an S with a few small negative eigenvalues, and a shift of all rows by the least of them is the
dearest D. With V the eigenvectors of the q least eigenvalues (diagonal L), the best small D solves

    min tr D + |D - D_0|^2 / (2 t)   subject to   L + V^T (D - D_0) V >= 0,

whose dual is a problem in one q x q matrix W >= 0, and D - D_0 = t (blkdiag(V W V^T) - I).
Source: Helmberg and Rendl, A spectral bundle method for semidefinite programming, SIAM J. Optim.
10 (2000), with the bundle of one round instead of an aggregate. Nothing of this needs to be exact:
a Cholesky factorisation proves each bound.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from ..array_types import Array, Index
from .certificate import CERTIFIED_GAP, DUAL_VECTORS, Certificate, Certifier, Multipliers
from .manifold import Manifold

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


def sharpened(
    certifier: Certifier, y: Array, certificate: Certificate, wanted: float
) -> Certificate:
    """A failed certificate of y with the gap that a few rounds of better multipliers prove.

    `wanted` is a gap that will do; it ends the rounds, and so do bounds that no longer improve.
    """
    spectrum = certificate.spectrum
    if spectrum is None or spectrum[0][0] >= 0:
        return certificate
    S = certifier.matrix(y, certifier.schur(y))
    return replace(
        certificate, gap=ascended_gap(certifier, S, spectrum, certificate.gap, wanted))


def ascended_gap(
    certifier: Certifier, S: sp.csc_matrix, spectrum: tuple[Array, Array], gap: float,
    wanted: float, spent: float = 0.0,
) -> float:
    """The gap that rounds of better multipliers prove, `gap` at most; `wanted` will do.

    `spectrum`: the least eigenvalues of S, the first negative, and their eigenvectors. `spent` is
    the cost of the point less the trace of Q - S.
    """
    values, vectors = spectrum
    least = -float(values[0])
    length, longer = 3 * least, 10.0
    # D, which is zero on the homogenising rows; what it costs is its trace.
    best = Multipliers.zero(certifier.manifold)
    for _ in range(MOST_ROUNDS):
        trial = best.plus(bundle_step(certifier.manifold, vectors, values, length))
        more = trial.matrix()
        more.resize(S.shape)
        matrix = (S + more).tocsc()
        trace = spent + trial.trace
        spare = (wanted - trace) / certifier.rows
        if spare > 0 and certifier.factor(matrix, spare) is not None:
            return wanted
        there = certifier.least(matrix, SHIFT * least, DUAL_VECTORS)
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
    """The step of D from eigenvectors (rows, q) and eigenvalues (q,).

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
    blocks = (turns @ W) @ np.swapaxes(turns, 1, 2) - np.eye(d)
    scalars = np.einsum('kq,kq->k', bearings @ W, bearings) - 1
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
