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
from ..graph import Estimate, Graph, range_residuals, residual_size
from ..graph.range_ends import RangeEnds
from ..solver.covariance import Linearised, normal_solver
from .radio_parameters import RadioParameters, derivatives
from .variance_components import VarianceComponents, variance_components

_PROBES = 12
"""Random signs for the leverages of ranges (Hutchinson); the error of a sum over n ranges is of
relative size 1 / sqrt(12 n)."""


@dataclass(frozen=True)
class JointModel:
    """The linear model of all parameters, poses and beacons eliminated.

    Order: biases of radios (r) and the scale of ranges, further ones of ranges (q), scales of the
    odometry (robots).
    """

    information: Array
    """(r + 1 + q + robots, ...): G^T P G."""
    gradient: Array
    """(r + 1 + q + robots,): G^T P r."""
    leverage: Array
    """(k,): share of each range that the map follows, 0 to 1, noisy; sums are what counts."""
    components: VarianceComponents | None
    """Of the odometry; None where not asked for."""


def joint_model(
    parameters: RadioParameters, corrected: Graph, ends: RangeEnds, estimate: Estimate,
    weights: Mapping[str, Array], extra: Array | None = None, *, components: bool = False,
) -> JointModel:
    """The model at an optimum of `corrected`, the graph with these parameters.

    `extra` (k, q): derivatives of the residuals of ranges by further parameters. `components`:
    those of the odometry's variances as well.
    """
    system = Linearised(corrected, estimate, weights)
    J = system.jacobian[:, system.free(None)]
    ranges, odometry = _rows(corrected, 'ranges', 0), _rows(corrected, 'relative_poses', 1)
    radios, residual = _of_ranges(parameters, corrected, ends, estimate, weights, extra)
    scales, moves = _of_odometry(parameters, corrected, estimate, weights)
    size = radios.shape[1]
    own = J[ranges]
    right = np.column_stack([(own.T @ radios).toarray(), (J[odometry].T @ scales).toarray()])
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (own.shape[0], _PROBES))
    solve = normal_solver(J)
    step = solve(np.column_stack([right, own.T @ signs]))
    count = right.shape[1]
    inner = -right.T @ step[:, :count]
    inner[:size, :size] += (radios.T @ radios).toarray()
    inner[size:, size:] += (scales.T @ scales).toarray()
    leverage = np.mean(signs * (own @ step[:, count:]), axis=1)
    gradient = np.concatenate([radios.T @ residual, scales.T @ moves])
    parts = None
    if components:
        weight = weights.get('ranges', np.ones(len(corrected.ranges)))
        parts = variance_components(
            J, solve, corrected, estimate, _rows(corrected, 'relative_poses', 0), odometry, ranges,
            float(np.sum(weight) - np.sum(leverage)))
    return JointModel((inner + inner.T) / 2, np.asarray(gradient), leverage, parts)


def _of_ranges(
    parameters: RadioParameters, corrected: Graph, ends: RangeEnds, estimate: Estimate,
    weights: Mapping[str, Array], extra: Array | None,
) -> tuple[sp.csr_matrix, Array]:
    """Whitened derivatives (k, r + 1 + q) and residuals (k,) of ranges."""
    ranges = corrected.ranges
    root = np.sqrt(ranges.precision * weights.get('ranges', np.ones(len(ranges))))
    residual = range_residuals(corrected, estimate)
    G = derivatives(parameters, ends, residual + ranges.distance_m)
    if extra is not None:
        G = sp.hstack([G, sp.csc_matrix(extra)], format='csc')
    return sp.csr_matrix(sp.diags(root) @ G), root * residual


def _of_odometry(
    parameters: RadioParameters, corrected: Graph, estimate: Estimate, weights: Mapping[str, Array]
) -> tuple[sp.csr_matrix, Array]:
    """The same of (1 + s) times (t_j - t_i) / (1 + s) - R_i t~ by the scales s.

    Shapes (edges d, robots), (edges d,). The scale acts on the moves of the map, see `derivatives`.
    """
    rel, d = corrected.relative_poses, corrected.dimension
    count = len(rel)
    root = np.sqrt(rel.tau * weights.get('relative_poses', np.ones(count)))[:, None]
    move = estimate.translation[rel.j] - estimate.translation[rel.i]
    residual = root * (
        move - np.einsum('kij,kj->ki', estimate.rotation[rel.i], rel.translation))
    slope = np.where(
        rel.odometry[:, None], -root * move / parameters.lengths(corrected)[:, None], 0.0)
    robot = np.repeat(corrected.poses.robot[rel.i], d)
    return sp.csr_matrix(
        (slope.ravel(), (np.arange(count * d), robot)),
        shape=(count * d, len(corrected.robots))), residual.ravel()


def _rows(graph: Graph, table: str, number: int) -> slice:
    """Rows of one residual (its number in the table) in the Jacobian, which holds all in order."""
    begin = 0
    for kind, measurements in graph.typed():
        for k, part in enumerate(kind.residuals(measurements)):
            size = len(part) * residual_size(part, graph.dimension)
            if (kind.name, k) == (table, number):
                return slice(begin, begin + size)
            begin += size
    raise ValueError(f'{table} has no residual number {number}')
