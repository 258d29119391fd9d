"""Whole solves: recovery, invariances, starts; kernels are compiled once."""

from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from graphs import flying_graph, moved, permuted, pose_errors, rotations, world
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import python

from benchmark.generators import sensor_network
from sparser_ros.config import RobustConfig, SolverConfig, SolverError
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.config.solver_config import LIVE_SOLVER
from sparser_ros.graph import PointPriors, cost, empty_graph, estimate_of
from sparser_ros.graph.parts import components, extract
from sparser_ros.io.simulation import Simulation, graph_of
from sparser_ros.solver import SolveStatus, solve, solve_checked
from sparser_ros.solver.certificate import Certifier
from sparser_ros.solver.start import odometry_estimate
from sparser_ros.solver.warm_up import warm_up

EXACT = SolverConfig(cost_tolerance=0.0, gradient_tolerance=1e-16)
DIMENSIONS = st.sampled_from((2, 3))
WARM_UP = ('from sparser_ros.config import SolverConfig; '
           'from sparser_ros.solver.warm_up import warm_up; warm_up({}, SolverConfig())')


@settings(max_examples=32, deadline=None)
@given(st.integers(0, 10**6), DIMENSIONS, st.sampled_from(('', 'p', 'fk', 'pfk')), st.booleans())
def test_without_noise_the_truth_comes_out_anchored_in_the_frame_of_map(seed, d, absolute, ranged):
    # Two fixes and a landmark leave a turn about their line open in space.
    absolute = 'pfk' if d == 3 and absolute == 'fk' else absolute
    graph = world(seed, d, absolute=absolute, ranges=24 if ranged else 0)
    result = solve(graph, EXACT)
    assert absolute or result.stats.init == ('random' if ranged else 'spectral')
    assert result.stats.cost_final < 1e-8
    error = pose_errors(result.estimate, estimate_of(graph), aligned=not absolute)
    assert error < (1e-4 if ranged else 1e-5)


@pytest.mark.parametrize('seed, d, options, config', [
    (21, 2, {'ranges': 60}, SolverConfig()),
    (6, 3, {'robots': 1, 'length': 30, 'closures': 0, 'sightings': 0, 'ranges': 40}, LIVE_SOLVER)])
def test_rounding_errors_of_a_cost_of_zero_do_not_keep_a_solve_going(seed, d, options, config):
    assert solve(world(seed, d, **options), config).status is SolveStatus.CONVERGED


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), DIMENSIONS, st.sampled_from(('', 'pfk')))
def test_another_map_frame_moves_the_solution_with_it(seed, d, absolute):
    graph = world(seed, d, absolute=absolute, noise=0.3)
    random = np.random.default_rng(5)
    turn, shift = rotations(random, 1, d)[0], 20 * random.normal(size=d)
    here = solve(graph, EXACT, initial=estimate_of(graph))
    other = moved(graph, turn, shift)
    there = solve(other, EXACT, initial=estimate_of(other))
    assert there.stats.cost_final == pytest.approx(here.stats.cost_final, rel=1e-8)
    back = here.estimate.moved(turn, shift)
    assert pose_errors(there.estimate, back, aligned=not absolute) < 1e-3


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), DIMENSIONS, st.booleans())
def test_order_of_poses_and_edges_does_not_matter(seed, d, ranged):
    graph = world(seed, d, noise=0.3, ranges=24 if ranged else 0)
    other, old = permuted(graph, seed)
    assert cost(other, estimate_of(other)) == pytest.approx(cost(graph, estimate_of(graph)))
    here = solve(graph, EXACT, initial=estimate_of(graph))
    there = solve(other, EXACT, initial=estimate_of(other))
    assert there.stats.cost_final == pytest.approx(here.stats.cost_final, rel=1e-8)
    both = there.estimate.points[: graph.n_poses], here.estimate.points[old]
    relative = [np.linalg.norm(points[1:] - points[0], axis=1) for points in both]
    assert np.allclose(*relative, atol=1e-3)


def test_same_seed_same_bits(d):
    graph = world(12, d, noise=1.0)
    first, second = (solve(graph, SolverConfig(seed=3)).estimate for _ in range(2))
    assert np.array_equal(first.rotation, second.rotation)
    assert np.array_equal(first.points, second.points)


@pytest.mark.parametrize('length', (1, 2, 3, 9))
def test_odometry_start_composes_each_chain_from_its_first_pose(d, length):
    graph = world(14, d, robots=3, length=length, closures=2)
    guess, truth = odometry_estimate(graph), estimate_of(graph)
    assert pose_errors(guess, truth, aligned=False) < 1e-10
    follows = graph.poses.index > 0
    lost = graph.replaced(poses=graph.poses.replaced(
        translation=np.where(follows[:, None], 99.0, graph.poses.translation)))
    assert pose_errors(odometry_estimate(lost), truth, aligned=False) < 1e-10


@pytest.mark.parametrize('init', ('odometry', 'chordal', 'file', 'random'))
def test_every_start_reaches_the_optimum_of_an_easy_pose_graph(d, init):
    graph = world(15, d, ranges=0, noise=0.2)
    reference = solve(graph, EXACT, initial=estimate_of(graph))
    result = solve(graph, replace(EXACT, init=init))
    assert result.stats.init == init
    assert result.stats.cost_final == pytest.approx(reference.stats.cost_final, rel=1e-7)


def test_limits_keep_the_best_iterate():
    graph = world(16, noise=1.0)
    stopped = solve(graph, SolverConfig(max_iterations=1))
    assert stopped.status is SolveStatus.MAX_ITERATIONS
    assert np.all(np.isfinite(stopped.estimate.points))
    late = solve(graph, SolverConfig(time_limit_s=1e-9))
    assert late.status is SolveStatus.TIME_LIMIT
    with patch.object(Certifier, 'test', side_effect=AssertionError('begun after the deadline')):
        assert not solve(graph, SolverConfig(time_limit_s=1e-9, certify=True)).stats.certified
    robust = SolverConfig(time_limit_s=1e-9, robust=RobustConfig(kernel='gm', gnc=True))
    assert solve_checked(graph, robust).status is SolveStatus.TIME_LIMIT
    best = solve(graph, EXACT).stats.cost_relaxed
    target = solve(graph, SolverConfig(init='random', target_cost=2 * best))
    assert target.status is SolveStatus.TARGET_REACHED
    assert target.stats.cost_relaxed <= 2 * best and target.stats.cost_final is None


def ranged_to_known(sigma_m):
    """Two robots among six beacons; the places of two are known, exactly or with a sigma."""
    graph = graph_of(Simulation(SimulationConfig(
        robots=2, beacons=6, known_beacons=2, minutes=0.5, radius=20, seed=4, outliers=0.0)))
    marks = graph.landmarks
    if not sigma_m:
        return graph, estimate_of(graph)
    known = np.flatnonzero(marks.fixed)
    return graph.replaced(
        landmarks=replace(marks, fixed=np.zeros_like(marks.fixed)),
        point_priors=PointPriors(
            ~known, np.zeros((2, 2)), marks.position[known], np.full(2, sigma_m**-2),
            np.zeros(2, dtype=int))), estimate_of(graph)


def flown_to_known(seed):
    graph, truth = flying_graph(seed, beacons=5, known=True, steps=20, heights=seed % 2 == 0)
    return graph.replaced(landmarks=replace(graph.landmarks, fixed=np.arange(5) < 2)), truth


@pytest.mark.parametrize('of, kernel', [
    (partial(ranged_to_known, 0.0), 'none'), (partial(ranged_to_known, 0.05), 'gm'),
    (partial(flown_to_known, 14), 'none')], ids=['exact', 'sigma', 'upright'])
def test_known_beacons_leave_no_bad_minimum(of, kernel):
    """From which the first start of each of these does not come out."""
    graph, truth = of()
    config = SolverConfig(robust=RobustConfig(kernel=kernel, gnc=kernel != 'none'))
    best, first, found = (
        result.stats.cost_final if kernel == 'none' else result.stats.cost_robust
        for result in (solve(graph, config, initial=truth), solve(graph, config),
                       solve_checked(graph, config)))
    assert first > 3 * best
    assert found <= 1.01 * best


def apart(seed, d):
    """Two robots, each with beacons of its own, one beacon that nothing measures."""
    graph = world(seed, d, landmarks=7, closures=0, ranges=400, sightings=0, noise=0.5)
    ranges, robot = graph.ranges, graph.poses.robot
    side, other = (np.where(end >= 0, robot[end], np.where(~end < 6, ~end % 2, 2 + robot[end % 2]))
                   for end in (ranges.source, ranges.target))
    return graph.replaced(ranges=ranges.take(side == other))


@pytest.mark.parametrize('options', [
    {}, {'robust': RobustConfig(kernel='gm', gnc=True)}, {'certify': True, 'max_iterations': 2}])
@pytest.mark.parametrize('known', [False, True])
def test_parts_that_nothing_connects_are_solved_each_for_itself(d, options, known):
    graph, config, n = apart(1, d), SolverConfig(**options), 16
    marks = np.arange(7)
    graph = graph.replaced(landmarks=replace(graph.landmarks, fixed=known & (marks == 6)))
    whole = solve(graph, config)
    assert np.array_equal(components(graph)[n:] == components(graph)[n + 6], marks == 6)
    sides = [extract(graph, graph.poses.robot == robot, (marks % 2 == robot) & (marks < 6))
             for robot in (0, 1)]
    alone = [solve(side.graph, config) for side in sides]
    for key in ('cost_final', 'cost_robust', 'suboptimality', 'iterations'):
        values = [getattr(result.stats, key) for result in (whole, *alone)]
        assert None in values or values[0] == pytest.approx(values[1] + values[2], rel=1e-3)
    assert whole.stats.certified in (None, all(result.stats.certified for result in alone))
    assert whole.status in {result.status for result in alone}
    for side, result in zip(sides, alone, strict=True):
        for name, weights in result.stats.weights.items():
            assert whole.stats.weights[name][side.rows[name]] == pytest.approx(weights, abs=1e-3)


def test_robots_with_odometry_alone_are_fitted_exactly(d):
    for seed in range(12):
        graph = world(seed, d, robots=3, landmarks=0, closures=0, ranges=0, sightings=0)
        assert solve(graph, SolverConfig()).stats.cost_final < 1e-3


@pytest.mark.parametrize('anchors', (0, 4))
@pytest.mark.parametrize('options', [
    {}, {'init': 'odometry'}, {'init': 'chordal'}, {'coarsening': 3}, {'formulation': 'original'},
    {'robust': RobustConfig(kernel='gm', gnc=True)}, {'target_cost': 1e6}],
    ids=lambda options: '-'.join(options) or 'default')
def test_landmarks_and_ranges_without_poses(anchors, options):
    graph = sensor_network(40, anchors, radius_m=4.0, sigma_m=0.02, seed=1)
    result = solve(graph, SolverConfig(**options))
    assert result.status.solved
    if result.stats.cost_final is not None:
        assert result.stats.cost_final <= 1.05 * cost(graph, estimate_of(graph))


def test_empty_graph_says_so():
    with pytest.raises(SolverError, match='no poses'):
        solve(empty_graph(2), SolverConfig())


def test_no_kernel_is_compiled_twice(dimension):
    warm_up(dimension, SolverConfig())
    log = python('-c', WARM_UP.format(dimension), NUMBA_DEBUG_CACHE='1').stdout
    assert 'data loaded' in log
    assert 'data saved' not in log
