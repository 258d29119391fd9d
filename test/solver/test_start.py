"""What is chosen for a graph, and the starts: lowest eigenvectors, thinned graphs."""

import logging

import numpy as np
import pytest
from graphs import flying_graph, world
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.synthetic import pose_graph
from sparser_ros.config import RobustConfig, SolverConfig, SolverError
from sparser_ros.graph import Estimate, Graph, cost, estimate_of
from sparser_ros.linalg.rotations import nearest_rotation
from sparser_ros.solver import SolveStatus, solve
from sparser_ros.solver.plan import make_plan
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.stages import SolveContext
from sparser_ros.solver.start import coarsen, spectral_start

GM = RobustConfig(kernel='gm', gnc=True)


def plan_of(graph, thinned=0, given=False, **options):
    context = SolveContext(graph, SolverConfig(**options))
    return make_plan(
        context.schur, context.config, context.backend, given=given, thinned=thinned)


@pytest.mark.parametrize('graph, init, rank, preconditioner', [
    (pose_graph(60), 'spectral', 2, 'frozen'),
    (world(0, 2, ranges=0, absolute='p'), 'chordal', 2, 'frozen'),
    (world(0, 3), 'random', 5, 'newton'),
    (flying_graph(beacons=0, robots=1, heights=False)[0], 'chordal', 3, 'frozen'),
    (flying_graph(beacons=0, robots=1, verticals=False)[0], 'random', 5, 'frozen'),
], ids=['pose graph', 'anchored', 'ranges', 'verticals', 'heights'])
def test_start_and_preconditioner_suit_the_graph(graph, init, rank, preconditioner):
    plan = plan_of(graph)
    assert (plan.init, plan.rank, plan.preconditioner) == (init, rank, preconditioner)
    assert solve(graph, SolverConfig()).status is SolveStatus.CONVERGED


def test_options_win_and_contradictions_are_refused():
    plan = plan_of(pose_graph(60), init='random', rank=4)
    assert (plan.init, plan.rank, plan.reasons['init']) == ('random', 4, 'as configured')
    assert plan_of(pose_graph(60), given=True).init == 'initial'
    with pytest.raises(SolverError, match='below the dimension'):
        plan_of(world(0, 3), rank=2)
    with pytest.raises(SolverError, match='schur'):
        plan_of(pose_graph(60), robust=GM, formulation='dense')


def test_a_plan_prints_its_reasons_and_is_logged_and_reported(caplog):
    graph = pose_graph(60)
    with caplog.at_level(logging.DEBUG, 'sparser_ros.solver.solve'):
        stats = solve(graph, SolverConfig(backend='cpu')).stats
    assert stats.plan['init'].startswith('spectral (relative poses determine all rotations')
    assert stats.plan['backend'] == 'cpu (as configured)'
    assert 'preconditioner: frozen (' in caplog.text


def started(graph: Graph):
    problem = QuadraticProblem(graph)
    return spectral_start(problem.manifold, RegularisedQ(SchurOperator(problem)).apply)


def chain(n: int) -> Graph:
    graph = pose_graph(n)
    return graph.replaced(relative_poses=graph.relative_poses.take(slice(0, n - 1)))


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


@pytest.mark.parametrize('shrink', [1.0, 1e-3, -1.0, 0.0])
def test_the_nearest_rotation_is_that_of_singular_values(d, shrink):
    """The last direction shrunk until the polar factor is no rotation; any is nearest to zero."""
    random = np.random.default_rng(5)
    u, _, vt = np.linalg.svd(random.normal(size=(40, d, d)))
    sizes = np.sort(random.uniform(0.1, 10, (40, d)))[:, ::-1] * np.r_[np.ones(d - 1), shrink]
    matrix = (u * sizes[:, None]) @ vt
    u[..., -1] *= np.linalg.det(u @ vt)[:, None]
    np.testing.assert_allclose(
        nearest_rotation(matrix.reshape(8, 5, d, d)), (u @ vt).reshape(8, 5, d, d), atol=1e-9)
    some = nearest_rotation(np.zeros((1, d, d)))
    np.testing.assert_allclose(some @ np.swapaxes(some, 1, 2), np.eye(d)[None], atol=1e-12)


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
