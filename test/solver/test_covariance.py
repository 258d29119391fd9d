"""Marginal covariances: against dense algebra, against finite differences, by Monte Carlo."""

import numpy as np
import pytest
from flying_world import flying_graph
from helpers import stepped, world
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparser_ros.config import SolverError
from sparser_ros.graph import Estimate, Graph, estimate_of, squared_residuals
from sparser_ros.graph.precision import chi_square_kappa
from sparser_ros.solver.covariance import Linearised, marginal_covariance

DIMENSIONS = st.sampled_from((2, 3))


def chi_square_cost(graph: Graph, estimate: Estimate) -> float:
    rel, prior, d = graph.relative_poses, graph.pose_priors, graph.dimension
    counted = graph.replaced(
        relative_poses=rel.replaced(kappa=chi_square_kappa(rel.kappa, d)),
        pose_priors=prior.replaced(kappa=chi_square_kappa(prior.kappa, d)))
    return sum(float(part.sum()) for part in squared_residuals(counted, estimate).values())


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), DIMENSIONS, st.sampled_from(('', 'pfk', 'flying')))
@example(3, 3, 'flying')
def test_information_is_half_the_hessian_of_the_cost_at_zero_residuals(seed, d, absolute):
    if absolute == 'flying':
        graph, truth = flying_graph(seed, steps=4, noise=0.0)
        d = graph.dimension
    else:
        graph = world(seed, d, length=3, closures=3, ranges=8, absolute=absolute)
        truth = estimate_of(graph)
    linear = Linearised(graph, truth, {})
    information = linear.information().toarray()
    random = np.random.default_rng(seed)
    for _ in range(5):
        step = random.normal(size=linear.size) * 1e-4
        # Only variables move; known landmarks are data.
        step[graph.n_poses * linear.step :].reshape(-1, d)[graph.landmarks.fixed] = 0
        ends = [chi_square_cost(graph, stepped(truth, sign * step)) for sign in (1, -1)]
        assert np.mean(ends) == pytest.approx(step @ information @ step, rel=1e-3)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), DIMENSIONS, st.sampled_from(('', 'p')))
def test_marginals_are_blocks_of_the_dense_inverse(seed, d, absolute):
    graph = world(seed, d, absolute=absolute, ranges=40, noise=0.3)
    truth = estimate_of(graph)
    linear = Linearised(graph, truth, {})
    free = linear.free()
    size = linear.step
    if absolute:
        assert free.all()
    else:
        assert np.flatnonzero(~free).tolist() == list(range(size))
    dense = np.zeros((linear.size, linear.size))
    dense[np.ix_(free, free)] = np.linalg.inv(linear.information().toarray()[free][:, free])
    found = marginal_covariance(graph, truth, poses=[0, 5, 11], landmarks=[1])
    scale = np.abs(dense).max()
    for k, i in enumerate((0, 5, 11)):
        block = slice(i * size, i * size + size)
        assert np.abs(found.poses[k] - dense[block, block]).max() < 1e-8 * scale
    at = graph.n_poses * size + d
    assert np.abs(found.landmarks[0] - dense[at : at + d, at : at + d]).max() < 1e-8 * scale
    rows = np.r_[0:size, 5 * size : 6 * size, 11 * size : 12 * size, at : at + d]
    assert np.abs(found.joint - dense[np.ix_(rows, rows)]).max() < 1e-8 * scale


def test_what_is_not_determined_is_an_error():
    graph = world(3, 2, ranges=0, sightings=0)
    with pytest.raises(SolverError, match='undetermined'):
        marginal_covariance(graph, estimate_of(graph), poses=[1])
