"""Dense algebra the sparse solver is compared with: no shortcuts, straight from the paper."""

import numpy as np
from scipy.linalg import block_diag

from sparser_ros.graph import Graph
from sparser_ros.solver.certificate import Multipliers
from sparser_ros.solver.preconditioner import RegularisedQ, orthogonal_complement, rotation_tangents
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.trust_region import StoppingRule, TrustRegionRun, minimise


def reduced(graph: Graph, rank: int = 5, seed: int = 0):
    """The Schur operator of a graph, its manifold, and a random point on it."""
    schur = SchurOperator(QuadraticProblem(graph))
    manifold = schur.problem.manifold
    return schur, manifold, manifold.random_point(rank, np.random.default_rng(seed))


def ended(schur: SchurOperator, start: np.ndarray, **rule: float) -> TrustRegionRun:
    """A run of the trust region to its end, or as far as a rule says."""
    return minimise(
        schur, schur.problem.manifold, start, RegularisedQ(schur),
        StoppingRule(**{'cost_tolerance': 0, 'gradient_tolerance': 1e-16, **rule}))


def jacobians(problem: QuadraticProblem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Dense A_c, C (a basis of range A_f) and Omega of a problem."""
    return problem.A.toarray(), problem.C.toarray(), np.diag(problem.omega)


def product_with_identity(schur: SchurOperator) -> np.ndarray:
    """The dense matrix of a product, five columns at a time: kernels of that rank are there."""
    rows = schur.shape[0]
    identity = np.eye(rows, -(-rows // 5) * 5)
    slices = np.split(identity, identity.shape[1] // 5, axis=1)
    return np.hstack([schur(np.ascontiguousarray(one)) for one in slices])[:, :rows]


def dense_certificate(schur: SchurOperator, y: np.ndarray) -> np.ndarray:
    """The dense matrix of the cost less that of the multipliers of a point."""
    manifold = schur.problem.manifold
    return product_with_identity(schur) - Multipliers.of(manifold, y, schur(y)).times(
        np.eye(manifold.rows))


def schur_complement(A: np.ndarray, A_f: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """Q_cc - Q_cf pinv(Q_ff) Q_fc (paper, eq. reduced-cost)."""
    return A.T @ omega @ A - A.T @ omega @ A_f @ np.linalg.pinv(
        A_f.T @ omega @ A_f, rcond=1e-12) @ A_f.T @ omega @ A


def free_jacobian(graph: Graph) -> np.ndarray:
    """A_f with every column of an unknown point, derived from the tables."""
    n, d, size = graph.n_poses, graph.dimension, graph.n_poses + graph.n_landmarks
    unit = np.eye(size) * ~np.concatenate([np.zeros(n, dtype=bool), graph.landmarks.fixed])
    rel, see, ran, prior = (
        graph.relative_poses, graph.sightings, graph.ranges, graph.pose_priors)
    return np.vstack([
        np.zeros((d * len(rel), size)), unit[rel.j] - unit[rel.i],
        unit[graph.points(see.point)] - unit[see.i],
        unit[graph.points(ran.target)] - unit[graph.points(ran.source)],
        np.zeros((d * len(prior), size)), unit[prior.i],
        unit[graph.points(graph.point_priors.point)]])


def tangent_basis(manifold, y):
    """Orthonormal basis, (rows p, dim), of the tangent space at y (rows, p)."""
    d, n, k, p = manifold.d, manifold.n, manifold.k, y.shape[1]
    bearings = orthogonal_complement(y[n * d : n * d + k][:, None, :])
    return block_diag(
        *rotation_tangents(manifold, y).reshape(n, d * p, -1), *np.swapaxes(bearings, 1, 2),
        np.zeros((d * p * manifold.homogenised, 0)))


def drawn(seed, *sizes):
    """A linear model of noise and of faults in a few rows each, with faults of these sizes.

    J, G, (J^T J)^-1, P = I - J (J^T J)^-1 J^T, and P r of noise and faults.
    """
    random = np.random.default_rng(seed)
    J, G = random.normal(size=(60, 4)), np.zeros((60, 4))
    for column in range(4):
        G[random.choice(60, 20, replace=False), column] = random.normal(1.0, 0.3, 20)
    inverse = np.linalg.inv(J.T @ J)
    P = np.eye(60) - J @ inverse @ J.T
    return J, G, inverse, P, P @ (random.normal(size=60) + G @ (sizes or np.zeros(4)))
