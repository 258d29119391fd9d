"""Problem classes: what the generators plant, the solver finds."""

import numpy as np
import pytest

from benchmark.generators import network_of, sphere
from sparser_ros.config import SolverConfig
from sparser_ros.graph import cost, estimate_of
from sparser_ros.solver import solve

RANDOM = SolverConfig(init='random', rank=5, cost_tolerance=1e-9)


def test_sphere_has_the_geometry_and_counts_of_create_sphere():
    graph = sphere(laps=200).validate()
    assert graph.n_poses == 10_000
    assert np.count_nonzero(~graph.relative_poses.odometry) == 29_403
    assert np.allclose(np.linalg.norm(graph.poses.translation, axis=1), 100)
    assert graph.poses.translation[0] == pytest.approx([0, 0, 100])
    assert graph.poses.translation[-1, 2] < -99.9
    # 3 from the translation; |R - R'|^2 = 8 |q|^2, so kappa = 1 / (2 s^2) makes it 4 x 3.
    mean = cost(graph, estimate_of(graph)) / len(graph.relative_poses)
    assert mean == pytest.approx(3 + 12, rel=0.05)


def test_network_of_a_pose_graph_keeps_lengths_and_weights():
    graph = sphere(laps=3)
    network = network_of(graph).validate()
    edges = graph.relative_poses
    assert (network.n_poses, network.n_landmarks) == (0, 150)
    assert np.allclose(network.ranges.distance_m, np.linalg.norm(edges.translation, axis=1))
    assert np.array_equal(network.ranges.precision, edges.tau)
    result = solve(network, RANDOM)
    assert result.stats.cost_final <= cost(network, estimate_of(network))
