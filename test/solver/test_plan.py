"""What is chosen for a graph, and that the reasons are told."""

import logging
from unittest.mock import patch

import pytest
from helpers import world

from benchmark.synthetic import pose_graph, range_graph
from sparser_ros.config import RobustConfig, SolverConfig, SolverError
from sparser_ros.solver import plan, solve
from sparser_ros.solver.plan import THINNED, THINNED_TWICE, make_plan
from sparser_ros.solver.stages import SolveContext

GM = RobustConfig(kernel='gm', gnc=True)


def plan_of(graph, thinned=0, given=False, **options):  # type: ignore[no-untyped-def]
    context = SolveContext(graph, SolverConfig(**options))
    return make_plan(
        context.schur, context.config, context.backend, given=given, thinned=thinned)


@pytest.mark.parametrize('graph, init, rank, preconditioner', [
    (pose_graph(60), 'spectral', 2, 'frozen'),
    (world(0, 2, ranges=0, absolute='p'), 'chordal', 2, 'frozen'),
    (world(0, 3), 'random', 5, 'newton')], ids=['pose graph', 'anchored', 'ranges'])
def test_start_and_preconditioner_suit_the_graph(graph, init, rank, preconditioner):
    plan = plan_of(graph)
    assert (plan.init, plan.rank, plan.preconditioner) == (init, rank, preconditioner)


def test_options_win_and_contradictions_are_refused():
    plan = plan_of(pose_graph(60), init='random', rank=4)
    assert (plan.init, plan.rank, plan.reasons['init']) == ('random', 4, 'as configured')
    assert plan_of(pose_graph(60), given=True).init == 'initial'
    with pytest.raises(SolverError, match='below the dimension'):
        plan_of(world(0, 3), rank=2)
    with pytest.raises(SolverError, match='schur'):
        plan_of(pose_graph(60), robust=GM, formulation='dense')


def test_large_graphs_with_ranges_are_thinned_once_or_twice():
    graph = range_graph(1600, robots=2)
    assert plan_of(graph).coarsening == 3
    assert plan_of(graph, coarsening=5).coarsening == 5
    assert plan_of(graph, thinned=THINNED).compare_starts
    with patch.object(plan, 'SECOND_THINNING_FROM', 1):
        again = plan_of(graph, thinned=THINNED)
    assert (again.coarsening, again.ranges_per_pose, again.compare_starts) == (3, 6, False)
    assert plan_of(graph, thinned=THINNED_TWICE).coarsening == 1
    assert plan_of(graph, target_cost=1.0).coarsening == 1


@pytest.mark.parametrize('graph, expected', [
    (pose_graph(60), 'trusted'), (range_graph(400), 'relaxation'), (range_graph(1600), 'thinned')],
    ids=['pose graph', 'ranges', 'many'])
def test_robust_starts(graph, expected):
    assert plan_of(graph, robust=GM).robust_start == expected
    assert plan_of(graph, robust=GM, given=True).robust_start == 'given'


def test_a_plan_prints_its_reasons_and_is_logged_and_reported(caplog):
    graph = pose_graph(60)
    with caplog.at_level(logging.DEBUG, 'sparser_ros.solver.solve'):
        stats = solve(graph, SolverConfig(backend='cpu')).stats
    assert stats.plan['init'].startswith('spectral (relative poses determine all rotations')
    assert stats.plan['backend'] == 'cpu (as configured)'
    assert 'preconditioner: frozen (' in caplog.text
