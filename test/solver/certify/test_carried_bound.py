"""Multipliers of an earlier map: what they prove of a grown, lighter or smaller one holds."""

import numpy as np
import pytest
from helpers import world

from sparser_ros.config import SolverConfig
from sparser_ros.solver import solve
from sparser_ros.solver.certify.carried_bound import CarriedBound, KeptMultipliers
from sparser_ros.solver.certify.running_bound import RunningBound
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator


def operator(graph, weights=None):
    problem = QuadraticProblem(graph)
    return SchurOperator(problem, problem.weights(weights))


def whole(seed=0, absolute=''):
    return world(seed, robots=2, length=12, ranges=30, noise=1.0, absolute=absolute)


def sharp(graph):
    """Multipliers after twelve rounds, by row."""
    work = RunningBound(
        operator(graph), QuadraticProblem(graph).pack(solve(graph, SolverConfig()).estimate),
        None, 0.0)
    for _ in work.steps(12):
        pass
    assert work.multipliers is not None
    return KeptMultipliers(
        np.arange(graph.n_poses), np.arange(len(graph.ranges)), work.multipliers), work


def carried(kept, graph, weights=None, poses=None, ranges=None):
    """The bound of a graph by kept multipliers."""
    schur, estimate = operator(graph, weights), solve(graph, SolverConfig()).estimate
    y = schur.problem.pack(estimate)
    poses = np.arange(graph.n_poses) if poses is None else poses
    ranges = np.arange(len(graph.ranges)) if ranges is None else ranges
    bound = CarriedBound(schur, float(np.sum(y * schur(y))), [
        kept.on(schur.problem.manifold, poses, ranges)])
    steps = sum(1 for _ in bound.steps())
    return bound, steps


def least_found(graph, weights=None):
    """A cost that no bound may exceed: the least of several starts."""
    table = graph.ranges
    if weights:
        graph = graph.replaced(ranges=table.replaced(
            precision=table.precision * weights['ranges']))
    return min(solve(graph, SolverConfig(seed=seed, init=init)).stats.cost_final
               for seed, init in ((0, 'auto'), (1, 'random'), (2, 'random')))


def test_multipliers_of_a_bound_prove_it():
    kept, work = sharp(whole())
    assert kept.multipliers.trace == pytest.approx(work.lower, rel=1e-7)
    S = work.certifier.less(kept.multipliers.matrix()).toarray()
    assert np.linalg.eigvalsh(S)[0] > -1e-9 * np.abs(S).max()
    bound, steps = carried(kept, whole())
    assert bound.lower == pytest.approx(work.lower, rel=1e-7) and steps == 0


@pytest.mark.parametrize('absolute', ['', 'k'])
def test_of_a_graph_that_has_grown_they_prove_as_much(absolute):
    graph = whole(absolute=absolute)
    rows = np.flatnonzero(np.arange(len(graph.ranges)) % 3)
    kept, work = sharp(graph.replaced(ranges=graph.ranges.take(rows)))
    kept = KeptMultipliers(kept.poses, rows, kept.multipliers)
    bound, steps = carried(kept, graph)
    assert steps == 0 and bound.lower == pytest.approx(work.lower, rel=1e-7)
    assert bound.multipliers.trace == pytest.approx(bound.lower)
    assert bound.lower <= least_found(graph) * (1 + 1e-9)


@pytest.mark.parametrize(('low', 'least_share'), [(0.999, 0.95), (0.8, 0.5)])
def test_of_lighter_measurements_they_prove_less_but_hold(low, least_share):
    graph = whole()
    kept, work = sharp(graph)
    weights = {'ranges': np.random.default_rng(0).uniform(low, 1, len(graph.ranges))}
    bound, _ = carried(kept, graph, weights)
    assert least_share * work.lower <= bound.lower <= least_found(graph, weights) * (1 + 1e-9)
    # Again from what was proved: at once.
    again, steps = carried(KeptMultipliers(kept.poses, kept.ranges, bound.multipliers),
                           graph, weights)
    assert steps == 0 and again.lower == pytest.approx(bound.lower, rel=1e-6)


def test_of_what_is_gone_nothing_is_proved():
    graph = whole()
    kept, _ = sharp(graph)
    few = np.arange(0, len(graph.ranges), 5)
    bound, _ = carried(kept, graph.replaced(ranges=graph.ranges.take(few)), ranges=few)
    assert 0 <= bound.lower <= least_found(
        graph.replaced(ranges=graph.ranges.take(few))) * (1 + 1e-9)


def test_names_that_are_not_known_get_none():
    graph = whole()
    kept, _ = sharp(graph)
    found = kept.on(QuadraticProblem(graph).manifold, np.arange(graph.n_poses) + graph.n_poses,
                    np.arange(len(graph.ranges)) + 10**6)
    assert not found.blocks.any() and not found.scalars.any()
    half = np.arange(graph.n_poses) + graph.n_poses // 2
    found = kept.on(QuadraticProblem(graph).manifold, half, np.arange(len(graph.ranges)))
    np.testing.assert_array_equal(
        found.blocks[: graph.n_poses // 2], kept.multipliers.blocks[graph.n_poses // 2 :])
    assert not found.blocks[graph.n_poses // 2 :].any()


def test_multipliers_of_two_halves_prove_the_sum_of_their_bounds():
    graph = world(3, robots=2, length=12, ranges=70, noise=1.0)
    every = np.arange(len(graph.ranges))
    found = []
    for part in (every % 2 == 0, every % 2 == 1):
        # All relative poses with half their weight each time, and half of the ranges.
        table = graph.relative_poses
        half = graph.replaced(
            ranges=graph.ranges.take(every[part]),
            relative_poses=table.replaced(kappa=table.kappa / 2, tau=table.tau / 2))
        kept, work = sharp(half)
        found.append((KeptMultipliers(kept.poses, every[part], kept.multipliers), work.lower))
    (first, low), (second, more) = found
    bound, steps = carried(first.joined(second), graph)
    assert steps == 0 and bound.lower == pytest.approx(low + more, rel=1e-7)
    assert bound.lower <= least_found(graph) * (1 + 1e-9)
