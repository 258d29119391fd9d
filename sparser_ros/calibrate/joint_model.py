"""Parameters of the radios with the map eliminated: information, gradient, covariance.

At an optimum of the map the gradient by poses is zero, so of all residuals only those of ranges
enter the reduced gradient G^T P r = G^T r; P = I - J (J^T J)^-1 J^T takes off what poses and
beacons absorb (as elimination of positions does with M, paper, section 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..array_types import Array
from ..graph import Estimate, Graph, RotationResidual, range_residuals
from ..graph.range_ends import RangeEnds
from ..linalg.blas import single_threaded_blas
from ..linalg.sparse.cholesky import factorize
from ..solver.certify.covariance import Linearised
from .radio_parameters import derivatives

_WEAK_PRECISION = 1e-6
"""Prior of every unknown of the map (1 km, 1000 rad): what is undetermined stays invertible."""
_PROBES = 12
"""Random signs for the leverages of ranges (Hutchinson); the error of a sum over n ranges is of
relative size 1 / sqrt(12 n)."""


@dataclass(frozen=True)
class JointModel:
    """The linear model of the radios' parameters, poses and beacons eliminated."""

    information: Array
    """(r + 1 + q, r + 1 + q): G^T P G."""
    gradient: Array
    """(r + 1 + q,): G^T P r."""
    leverage: Array
    """(k,): share of each range that the map follows, 0 to 1, noisy; sums are what counts."""


def joint_model(
    measured: Graph, corrected: Graph, ends: RangeEnds, estimate: Estimate,
    weights: Mapping[str, Array], extra: Array | None = None,
) -> JointModel:
    """The model at an optimum of `corrected`; `measured` has the ranges as they came in.

    `extra` (k, q): derivatives of the residuals of ranges by further parameters.
    """
    system = Linearised(corrected, estimate, weights)
    J = system.jacobian[:, system.free(None)]
    ranges = corrected.ranges
    root = np.sqrt(ranges.precision * weights.get('ranges', np.ones(len(ranges))))
    G = derivatives(measured, ends)
    if extra is not None:
        G = sp.hstack([G, sp.csc_matrix(extra)], format='csc')
    G = sp.diags(root) @ G
    own = J[_range_rows(corrected)]
    residual = root * range_residuals(corrected, estimate)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(ranges), _PROBES))
    information = (J.T @ J).tocsc()
    information.setdiag(information.diagonal() + _WEAK_PRECISION)
    scale = 1 / np.sqrt(information.diagonal())
    D = sp.diags(scale)
    right = np.column_stack([(own.T @ G).toarray(), own.T @ signs])
    with single_threaded_blas():
        factor = factorize((D @ information @ D).tocsc())
        step = scale[:, None] * factor.solve(scale[:, None] * right)
    size = G.shape[1]
    GJ = right[:, :size].T
    inner = (G.T @ G).toarray() - GJ @ step[:, :size]
    leverage = np.mean(signs * (own @ step[:, size:]), axis=1)
    return JointModel((inner + inner.T) / 2, np.asarray(G.T @ residual), leverage)


def _range_rows(graph: Graph) -> slice:
    """Rows of the ranges in the Jacobian, which holds the residuals of all tables in order."""
    begin, turns = 0, 1 if graph.dimension == 2 else 3
    for kind, table in graph.typed():
        if kind.name == 'ranges':
            break
        for part in kind.residuals(table):
            begin += len(part) * (
                turns if isinstance(part, RotationResidual)
                else graph.dimension if part.distance is None else 1)
    return slice(begin, begin + len(graph.ranges))
