"""The relaxation of a thinned graph as the start of the whole one's."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers import world

from sparser_ros.config import SolverConfig
from sparser_ros.graph import Estimate
from sparser_ros.solver import solve, thresholds
from sparser_ros.solver.certify.newton_descent import NewtonDescent
from sparser_ros.solver.coarse_to_fine import carried, relaxed_above
from sparser_ros.solver.initialize.coarsening import coarsen
from sparser_ros.solver.plan import GraphFeatures, make_plan
from sparser_ros.solver.solve_context import SolveContext
from sparser_ros.solver.trajectory import find_trajectory


def thinnable(seed: int):  # type: ignore[no-untyped-def]
    graph = world(seed, robots=2, length=40, ranges=120, noise=1.0)
    context = SolveContext(graph, SolverConfig())
    with thresholds.override(thinning_trajectory_poses=10):
        plan = make_plan(GraphFeatures.of(context.schur), SolverConfig(), context.backend)
        trajectory = find_trajectory(context, plan, 0)
    assert plan.coarsening > 1
    return context, plan, trajectory


@pytest.mark.parametrize('seed', range(3))
def test_the_relaxation_below_a_trajectory_is_kept_and_leads_further_down(seed):
    context, plan, trajectory = thinnable(seed)
    known = trajectory.thinned
    assert known is not None and known.gain > 0
    y = trajectory.refined.y
    higher = relaxed_above(context, plan, y, known)
    assert higher is not None and higher.shape[1] > context.graph.dimension
    np.testing.assert_allclose(context.problem.manifold.nearest_point(higher), higher, atol=1e-9)
    down = NewtonDescent(context.schur).run(higher, gain=1e-6, most=60)
    assert down.cost < trajectory.refined.cost


def test_a_lift_of_all_kept_poses_lifts_the_whole_trajectory():
    """One frame for all: what lies between kept poses follows, whatever odometry says."""
    context, plan, trajectory = thinnable(0)
    y, d, p = trajectory.refined.y, context.graph.dimension, 5
    whole = context.problem.unpack(y, context.schur.points(y))
    coarse = coarsen(context.graph, plan.coarsening)
    kept = Estimate(
        whole.rotation[coarse.kept], whole.translation[coarse.kept], whole.landmarks)
    rng = np.random.default_rng(1)
    frame = np.linalg.qr(rng.normal(size=(p, d)))[0].T
    # The thinned trajectory lies elsewhere than the whole one, and so does its lift.
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    turn *= np.sign(np.linalg.det(turn))
    below = Estimate(
        turn @ kept.rotation, kept.translation @ turn.T + rng.normal(size=d), kept.landmarks)
    rows = np.swapaxes(below.rotation, 1, 2) @ frame
    found, moved = carried(
        replace(coarse, chained=whole), kept, below, rows, below.translation @ frame)
    np.testing.assert_allclose(found, np.swapaxes(whole.rotation, 1, 2) @ frame, atol=1e-9)
    np.testing.assert_allclose(moved, whole.translation @ frame, atol=1e-9)


def test_a_solve_climbs_from_the_relaxation_of_its_thinned_graph(monkeypatch):
    graph = thinnable(0)[0].graph
    seen = []

    def watched(*arguments):  # type: ignore[no-untyped-def]
        seen.append(arguments[3])
        return relaxed_above(*arguments)

    monkeypatch.setattr(sys.modules[solve.__module__], 'relaxed_above', watched)
    with thresholds.override(thinning_trajectory_poses=10):
        stats = solve(graph, SolverConfig(certify=True)).stats
    assert seen and seen[0] is not None
    assert stats.cost_relaxed is not None and stats.suboptimality is not None
    lower = stats.cost_final - stats.suboptimality
    assert stats.cost_relaxed * (1 - 2e-4) <= lower <= stats.cost_relaxed
