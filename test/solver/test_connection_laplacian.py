"""The connection Laplacian against dense algebra."""

import numpy as np
import pytest
from helpers import world

from sparser_ros.solver.preconditioner import GaussNewtonPreconditioner
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.start import ConnectionLaplacian


def laplacian(graph):
    """Dense (n d, n d), from the sum that it stands for."""
    n, d, rel = graph.n_poses, graph.dimension, graph.relative_poses
    rows = np.zeros((len(rel) * d, n * d))
    for e, (i, j) in enumerate(zip(rel.i, rel.j, strict=True)):
        at = slice(e * d, e * d + d)
        rows[at, j * d:j * d + d] += np.eye(d)
        rows[at, i * d:i * d + d] -= rel.rotation[e].T
    return rows.T @ (np.repeat(rel.kappa, d)[:, None] * rows)


def connection(graph):
    rigid = GaussNewtonPreconditioner(SchurOperator(QuadraticProblem(graph)))
    return ConnectionLaplacian(graph, rigid.prepare())


@pytest.mark.parametrize('d', [2, 3])
@pytest.mark.parametrize('landmarks', [0, 3])
def test_inverts_the_laplacian(d, landmarks):
    # Edges between the same poses twice, in both directions.
    graph = world(3, d, ranges=0, noise=0.3, landmarks=landmarks, closures=12)
    rel = graph.relative_poses
    back = rel.replaced(i=rel.j, j=rel.i, rotation=np.swapaxes(rel.rotation, 1, 2))
    graph = graph.replaced(relative_poses=rel.append(back.take(slice(0, 5))))
    matrix = laplacian(graph)
    matrix += 1e-9 * np.diag(np.diag(matrix))
    v = matrix @ np.random.default_rng(0).standard_normal((matrix.shape[0], d))
    got = connection(graph).apply(v, np.empty_like(v))
    expected = np.linalg.solve(matrix, v)
    # The common frame of all rotations is held by the shift alone.
    np.testing.assert_allclose(matrix @ got, v, rtol=1e-6, atol=1e-6 * np.abs(v).max())
    np.testing.assert_allclose(got, expected, atol=1e-4 * np.abs(expected).max())
