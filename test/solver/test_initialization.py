"""The start of pose graphs from the lowest eigenvectors of Q_s."""

import numpy as np
import pytest

from benchmark.synthetic import pose_graph
from sparser_ros.config import SolverConfig
from sparser_ros.graph import Graph
from sparser_ros.linalg.rotations import nearest_rotation
from sparser_ros.solver import solve
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.start import spectral_start


def started(graph: Graph):
    problem = QuadraticProblem(graph)
    return spectral_start(problem.manifold, RegularisedQ(SchurOperator(problem)).apply)


def chain(n: int) -> Graph:
    """Odometry alone."""
    graph = pose_graph(n)
    return graph.replaced(relative_poses=graph.relative_poses.take(slice(0, n - 1)))


@pytest.mark.parametrize('dimension', [2, 3])
def test_rotations_are_near_the_optimum(dimension):
    graph = pose_graph(400, dimension=dimension)
    d, n = dimension, graph.n_poses
    y = started(graph).reshape(n, d, d)
    assert np.allclose(y @ np.swapaxes(y, 1, 2), np.eye(d))
    assert np.allclose(np.linalg.det(y), 1)
    best = np.swapaxes(solve(graph, SolverConfig(init='chordal')).estimate.rotation, 1, 2)
    turn = np.swapaxes(y, 1, 2) @ best
    apart = turn - nearest_rotation(turn.mean(axis=0))
    assert np.sqrt(np.mean(apart**2)) < 0.1


def test_a_chain_too_long_for_the_regularisation_starts_otherwise():
    assert started(chain(500)) is not None
    graph = chain(60_000)
    assert started(graph) is None
    result = solve(graph, SolverConfig())
    assert result.stats.cost_final < 1e-6


@pytest.mark.parametrize('matrix', [[[0.0, -3.0], [3.0, 0.1]], [[1.0, 2.0], [2.0, 4.0]],
                                    [[1.0, 0.0], [0.0, -0.5]]])
def test_nearest_rotation_of_the_plane_is_the_nearest(matrix):
    matrix = np.asarray(matrix)
    angles = np.linspace(-np.pi, np.pi, 100_001)
    cosine, sine = np.cos(angles), np.sin(angles)
    trace = cosine * (matrix[0, 0] + matrix[1, 1]) + sine * (matrix[1, 0] - matrix[0, 1])
    found = nearest_rotation(matrix)
    assert np.linalg.det(found) == pytest.approx(1)
    assert np.sum(found * matrix) >= trace.max() - 1e-9


@pytest.mark.parametrize('shrink', [1.0, 1e-3, -1.0, 0.0])
def test_nearest_rotation_of_space_is_the_nearest(shrink):
    """By singular values, the last direction shrunk until the polar factor is no rotation."""
    random = np.random.default_rng(5)
    u, _, vt = np.linalg.svd(random.normal(size=(40, 3, 3)))
    sizes = np.sort(random.uniform(0.1, 10, (40, 3)))[:, ::-1] * [1, 1, shrink]
    matrix = (u * sizes[:, None]) @ vt
    u[..., -1] *= np.linalg.det(u @ vt)[:, None]
    np.testing.assert_allclose(
        nearest_rotation(matrix.reshape(8, 5, 3, 3)), (u @ vt).reshape(8, 5, 3, 3), atol=1e-9)


def test_any_rotation_is_nearest_to_zero():
    rotation = nearest_rotation(np.zeros((1, 3, 3)))
    np.testing.assert_allclose(rotation @ np.swapaxes(rotation, 1, 2), np.eye(3)[None], atol=1e-12)
