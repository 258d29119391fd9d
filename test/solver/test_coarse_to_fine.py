"""The relaxation of a thinned graph as the start of the whole one's."""

from unittest.mock import patch

import numpy as np
import pytest
from helpers import world

from sparser_ros.config import SolverConfig
from sparser_ros.solver import plan as plan_module
from sparser_ros.solver import solve, staircase
from sparser_ros.solver.newton_descent import NewtonDescent
from sparser_ros.solver.plan import make_plan
from sparser_ros.solver.stages import SolveContext
from sparser_ros.solver.staircase import relaxed_above
from sparser_ros.solver.trajectory import find_trajectory


def thinnable(seed: int):  # type: ignore[no-untyped-def]
    graph = world(seed, robots=2, length=40, ranges=120, noise=1.0)
    context = SolveContext(graph, SolverConfig())
    with patch.object(plan_module, 'THINNED_POSES', 10):
        plan = make_plan(context.schur, SolverConfig(), context.backend)
        trajectory = find_trajectory(context, plan, 0)
    assert plan.coarsening > 1
    return context, plan, trajectory


@pytest.mark.parametrize('seed', range(3))
def test_the_relaxation_below_a_trajectory_is_kept_and_leads_further_down(seed):
    context, plan, trajectory = thinnable(seed)
    known = trajectory.thinned
    assert known is not None and known.gain > 0
    higher = relaxed_above(context, plan, known)
    assert higher.shape[1] > context.graph.dimension
    np.testing.assert_allclose(context.problem.manifold.nearest_point(higher), higher, atol=1e-9)
    down = NewtonDescent(context.schur).run(higher, gain=1e-6, most=60)
    assert down.cost < trajectory.refined.cost


def test_a_solve_climbs_from_the_relaxation_of_its_thinned_graph(monkeypatch):
    graph = thinnable(0)[0].graph
    seen = []

    def watched(*arguments):  # type: ignore[no-untyped-def]
        seen.append(arguments[2])
        return relaxed_above(*arguments)

    monkeypatch.setattr(staircase, 'relaxed_above', watched)
    with patch.object(plan_module, 'THINNED_POSES', 10):
        stats = solve(graph, SolverConfig(certify=True)).stats
    assert len(seen) == 1
    assert stats.cost_relaxed is not None and stats.suboptimality is not None
    lower = stats.cost_final - stats.suboptimality
    assert stats.cost_relaxed * (1 - 2e-4) <= lower <= stats.cost_relaxed
