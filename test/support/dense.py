"""Dense algebra the sparse solver is compared with: no shortcuts, straight from the paper."""

import numpy as np
from helpers import world
from scipy.linalg import block_diag

from sparser_ros.graph import Graph
from sparser_ros.solver.manifold import Manifold
from sparser_ros.solver.preconditioner import (
    RegularisedQ,
    orthogonal_complement,
    rotation_tangents,
)
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


def schur_complement(A: np.ndarray, A_f: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """Q_cc - Q_cf pinv(Q_ff) Q_fc (paper, eq. reduced-cost)."""
    return A.T @ omega @ A - A.T @ omega @ A_f @ np.linalg.pinv(
        A_f.T @ omega @ A_f, rcond=1e-12) @ A_f.T @ omega @ A


def free_jacobian(graph: Graph) -> np.ndarray:
    """A_f with every column of an unknown point, derived from the tables one row at a time."""
    n, d, m = graph.n_poses, graph.dimension, graph.n_landmarks
    fixed = np.concatenate([np.zeros(n, dtype=bool), graph.landmarks.fixed])
    rows = []

    def row(entries):
        line = np.zeros(n + m)
        for point, value in entries:
            if not fixed[point]:
                line[point] += value
        rows.append(line)

    rel, see, ran = graph.relative_poses, graph.sightings, graph.ranges
    rows += [np.zeros(n + m)] * (d * len(rel))
    for i, j in zip(rel.i, rel.j, strict=True):
        row([(j, 1), (i, -1)])
    for i, point in zip(see.i, graph.points(see.point), strict=True):
        row([(point, 1), (i, -1)])
    for a, b in zip(graph.points(ran.source), graph.points(ran.target), strict=True):
        row([(b, 1), (a, -1)])
    rows += [np.zeros(n + m)] * (d * len(graph.pose_priors))
    for i in graph.pose_priors.i:
        row([(i, 1)])
    for point in graph.points(graph.point_priors.point):
        row([(point, 1)])
    return np.array(rows).reshape(-1, n + m)


def packed(manifold: Manifold, rotation: np.ndarray, bearings: np.ndarray) -> np.ndarray:
    """The rank-d point of rotations (n, d, d) and bearings (k, d)."""
    d = manifold.d
    parts = [np.swapaxes(rotation, 1, 2).reshape(-1, d), bearings]
    return np.vstack(parts + [np.eye(d)] * manifold.homogenised)


def posed(d, absolute=''):
    """Operator and true point of a graph without ranges and noise."""
    graph = world(0, d, ranges=0, absolute=absolute)
    problem = QuadraticProblem(graph)
    rows = np.swapaxes(graph.poses.rotation, 1, 2)
    points = np.concatenate([graph.poses.translation, graph.landmarks.position])
    return SchurOperator(problem), problem.compose(rows, points)


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
