"""Thinned graphs: exact in geometry, and a start that leads to the whole graph's solution."""

import numpy as np
import pytest
from helpers import world
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.config import SolverConfig
from sparser_ros.graph import Estimate, cost, estimate_of
from sparser_ros.solver import solve
from sparser_ros.solver.start import OdometryVariance, coarsen


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


def test_what_bends_a_chain_stays_on_its_loose_edges():
    graph = world(7, robots=1, length=13, closures=0, ranges=4)
    rel = graph.relative_poses
    loose = np.isin(np.arange(len(rel)), [3, 8])
    # A robot that stands tells its heading a thousand times as well as one that turns.
    graph = graph.replaced(relative_poses=rel.replaced(
        kappa=np.where(loose, 10.0, 1e7), tau=np.where(loose, 1.0, 1e6)))
    coarse = coarsen(graph, 6)
    turned, turn = coarse.graph.relative_poses, np.array([[0.8, -0.6], [0.6, 0.8]])
    thin = estimate_of(coarse.graph)
    bent = Estimate(
        np.concatenate([thin.rotation[:1], thin.rotation[1:] @ turn]), thin.translation,
        thin.landmarks)
    whole = coarse.interpolate(bent)
    angle = rel.rotation.swapaxes(1, 2) @ whole.rotation[rel.i].swapaxes(1, 2) @ (
        whole.rotation[rel.j])
    off = np.linalg.norm(angle - np.eye(2), axis=(1, 2))
    assert np.all(off[~loose] < 1e-5)
    assert off[3] == pytest.approx(np.linalg.norm(turn - np.eye(2)), rel=1e-3)
    assert len(turned) == 2


def test_noise_of_offsets_is_that_of_drawn_odometry():
    rng, m, runs, sigma_m, sigma_rad = np.random.default_rng(4), 8, 20000, 0.05, 0.03
    turn = np.cumsum(rng.normal(0, sigma_rad, (runs, m)), axis=1)
    step = np.array([1.0, 0.0]) + rng.normal(0, sigma_m, (runs, m, 2))
    heading = np.concatenate([np.zeros((runs, 1)), turn[:, :-1]], axis=1)
    end = np.sum(np.stack([
        np.cos(heading) * step[..., 0] - np.sin(heading) * step[..., 1],
        np.sin(heading) * step[..., 0] + np.cos(heading) * step[..., 1]], axis=-1), axis=1)
    found = np.mean(np.var(end, axis=0))
    # In the plane kappa is 1 / variance, counted twice by the cost (graph.precision).
    variance = OdometryVariance(
        np.arange(m + 1) / (1 / sigma_rad**2), np.arange(m + 1) * sigma_m**2)
    claimed = variance.of_offsets(np.zeros(m + 1, dtype=int), np.outer(np.arange(m + 1), [1, 0]))
    assert 0.4 * found < claimed[-1] < 1.2 * found
