"""Thinned graphs: exact in geometry, and a start that leads to the whole graph's solution."""

import numpy as np
import pytest
from helpers import world
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.config import SolverConfig
from sparser_ros.graph import Estimate, cost, estimate_of
from sparser_ros.solver import solve
from sparser_ros.solver.initialize.coarsening import coarsen


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**20), d=st.sampled_from([2, 3]), factor=st.integers(1, 9),
    absolute=st.sampled_from(['', 'p', 'f', 'k', 'pfk']),
)
def test_the_truth_costs_nothing_in_a_thinned_graph(seed, d, factor, absolute):
    graph = world(seed, d, absolute=absolute)
    coarse = coarsen(graph, factor)
    truth = estimate_of(graph)
    thin = Estimate(
        truth.rotation[coarse.kept], truth.translation[coarse.kept], truth.landmarks.copy())
    coarse.graph.validate()
    assert cost(coarse.graph, thin) < 1e-16 * coarse.graph.relative_poses.tau.sum() * 1e4
    whole = coarse.interpolate(thin)
    np.testing.assert_allclose(whole.rotation, truth.rotation, atol=1e-9)
    np.testing.assert_allclose(whole.translation, truth.translation, atol=1e-9)


def test_ends_of_chains_are_kept_and_poses_are_thinned():
    graph = world(3, robots=2, length=21)
    coarse = coarsen(graph, 10)
    assert coarse.kept.tolist() == [0, 10, 20, 21, 31, 41]


def test_composed_weights_add_variances():
    graph = world(5, robots=1, length=3, closures=1, ranges=4)
    rel = graph.relative_poses.take(graph.relative_poses.odometry)
    coarse = coarsen(graph, 2).graph.relative_poses
    assert coarse.kappa[0] == pytest.approx(1 / np.sum(1 / rel.kappa))
    assert coarse.tau[0] < 1 / np.sum(1 / rel.tau)


@pytest.mark.parametrize('d', [2, 3])
def test_a_coarse_start_ends_where_a_whole_one_does(d):
    graph = world(11, d, robots=2, length=60, ranges=200, closures=4, noise=0.3)
    whole = solve(graph, SolverConfig(init='auto', coarsening=1))
    coarse = solve(graph, SolverConfig(init='auto', coarsening=4))
    assert coarse.stats.init == 'coarse'
    assert coarse.stats.cost_final == pytest.approx(whole.stats.cost_final, rel=1e-6)
