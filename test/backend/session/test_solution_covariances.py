"""Covariances of solutions, and what they are relative to."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from backend_world import BEACONS, World, carried, config, pair_world, ticks

from sparser_ros.backend.observability.datum import relative_to
from sparser_ros.backend.session import auditor
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import KNOWN_POSITIONS, NETWORK, Fix, Location
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.linalg.rotations import align
from sparser_ros.solver.covariance import marginal_covariance

KERNEL = SolverConfig(robust=RobustConfig(kernel='gm', threshold=4.0, weight_floor=1e-12))
NOISE_ALONE = IntegrityConfig(
    solve_odometry=False, bias_floor_m=1e-6, scale_floor=1e-7, turn_floor_rad_s=1e-8)
"""Sound sources have no error, and no size of a fault of odometry is solved for."""


def judged(world, increments=None, integrity=NOISE_ALONE, **backend):
    """The solution after four increments, the graph and the verdict."""
    session = Session(config(
        world.dimension, world.names, KERNEL, integrity=integrity, **backend))
    ticks(session, increments or world.increments(4))
    return session.solve(), session.tracker.graph, session.tracker._verdict


def beside(points, datum, one):
    """(d, n d): displacement of one of n points beside the motion of those of the datum."""
    n, d = points.shape
    way = np.eye(n * d)[d * one:d * one + d].reshape(d, n, d)
    way[:, datum] -= relative_to(points[one], points[datum])[:d].reshape(d, -1, d)
    return way.reshape(d, n * d)


@pytest.mark.parametrize('known', [(), (0, 1, 2, 3)])
def test_covariances_are_those_of_the_whole_graph_by_the_noise_as_it_is(known):
    world = pair_world(known=known)
    solution, graph, verdict = judged(world)
    stated = solution.covariances
    assert stated.gauge == (KNOWN_POSITIONS if known else NETWORK)
    assert all(state.location is Location.LOCATED for state in solution.robots)
    rows = [graph.n_poses - 2, graph.n_poses - 1]
    weights = dict(solution.stats.weights)
    whole = marginal_covariance(graph, solution.estimate, rows, range(4), weights=weights)
    place, turn = zip(*(verdict.variance[name] for name in 'AB'), strict=True)
    factor = np.sqrt(np.column_stack([place, place, turn]))
    assert stated.variance_factor == pytest.approx(1.0, abs=0.5)
    scale = np.abs(whole.poses).max()
    if known:
        np.testing.assert_allclose(
            stated.poses, factor[:, :, None] * factor[:, None] * whole.poses, atol=1e-7 * scale)
        assert np.all(whole.landmarks == 0) and np.all(stated.landmarks == 0)
        return
    # Landmarks, then the positions of both poses.
    body = np.r_[6:14, 0:2, 3:5]
    joint = whole.joint[np.ix_(body, body)]
    points = np.concatenate([solution.estimate.landmarks, solution.estimate.translation[rows]])
    for number, datum in enumerate(([0, 1, 2, 3, 5], [0, 1, 2, 3, 4])):
        keep = beside(points, datum, 4 + number)
        expected = place[number] * keep @ joint @ keep.T
        np.testing.assert_allclose(stated.poses[number][:2, :2], expected, atol=1e-6 * scale)
        assert np.all(np.linalg.eigvalsh(stated.poses[number]) > 0)


def test_ranges_that_are_better_than_they_claim_make_places_surer_than_headings():
    world = pair_world(range_sigma=0.02)
    increments = [one.replaced(ranges=one.ranges.replaced(precision=one.ranges.precision / 100))
                  for one in world.increments(4)]
    solution, graph, _ = judged(world, increments)
    claimed = marginal_covariance(
        graph, solution.estimate, [graph.n_poses - 2, graph.n_poses - 1], [],
        weights=dict(solution.stats.weights)).poses
    x, y, heading = np.diagonal(solution.covariances.poses / claimed, axis1=1, axis2=2).T
    assert np.all(heading > 1.3 * np.maximum(x, y)) and np.all(heading < 1.2)


def test_errors_that_sound_sources_have_are_in_the_covariance():
    """Radios are off by up to the floor of a bias: where a robot stands is not known better."""
    world = pair_world(known=())
    increments, sigma = world.increments(4), {}
    for floor in (1e-6, 0.1, 0.3):
        solution, _, _ = judged(world, increments, replace(NOISE_ALONE, bias_floor_m=floor))
        stated = solution.covariances.poses[:, :2, :2]
        sigma[floor] = np.sqrt(np.linalg.eigvalsh(stated)[:, -1])
    assert np.all(sigma[1e-6] < sigma[0.1]) and np.all(sigma[0.1] < sigma[0.3])
    # Several radios tell each other's errors: a robot is surer than one of them.
    assert np.all(sigma[0.3] < 0.3 + sigma[1e-6])


def test_without_a_factor_there_is_no_covariance():
    world = World(['curved'], [(0, 0)], BEACONS[:, :2], seed=5, known=range(4))
    session = Session(config(robots=world.names, solver=KERNEL))
    solution, = ticks(session, world.increments(4)[:1], False)
    assert solution.covariances is None and carried(solution).covariances is None


def test_what_is_stated_does_not_depend_on_whose_start_the_map_is_relative_to(
        dimension, monkeypatch):
    # Noise is estimated with random signs.
    monkeypatch.setattr(auditor, 'weighted_by_noise', lambda search: iter(()))
    world = pair_world(dimension, seed=7, known=())
    increments = world.increments(4)
    stated, claimed = {}, {}
    for robot in 'AB':
        solution, graph, verdict = judged(world, increments, gauge_robot=robot)
        assert solution.covariances.gauge == NETWORK
        assert np.all(solution.landmark_located)
        stated[robot] = solution.covariances
        factor = np.array([verdict.variance[name][0] for name in 'AB'])[:, None, None]
        claimed[robot] = solution.covariances.poses[:, :dimension, :dimension] / factor
    a, b = stated['A'], stated['B']
    # The axes of the two maps differ, and so does what rounding leaves of a zero.
    for left, right in ((a.landmarks, b.landmarks), (claimed['A'], claimed['B'])):
        np.testing.assert_allclose(
            np.linalg.eigvalsh(left), np.linalg.eigvalsh(right), rtol=1e-2,
            atol=1e-3 * left.max())
    joint = marginal_covariance(
        graph, solution.estimate, [], range(4), weights=dict(solution.stats.weights)).joint
    keep = [beside(solution.estimate.landmarks, range(4), k) for k in range(4)]
    expected = np.stack([
        verdict.variance[f'L{k}'][0] * one @ joint @ one.T for k, one in enumerate(keep)])
    np.testing.assert_allclose(b.landmarks, expected, atol=1e-3 * expected.max())


@cache
def solutions(seed, steps=36, parts=12):
    """(world, solutions) of two robots 15 m apart that begin to move, and range each other."""
    bearing = np.random.default_rng(seed).uniform(-np.pi, np.pi)
    world = World(['curved', 'curved'], [
        np.zeros(2), 15 * np.array([np.cos(bearing), np.sin(bearing)])], steps=steps, seed=seed)
    return world, ticks(
        Session(config(robots=world.names, solver=KERNEL)), world.increments(parts))


def test_a_place_that_may_be_the_mirrored_one_has_that_in_its_covariance():
    """Under a normal law three standard deviations hold all but 1 %, and 15 m are no noise."""
    floats, far = 0, 0
    for seed in range(5):
        world, found = solutions(seed)
        for solution in found:
            fix = solution.fixes['B']
            if fix is not Fix.FLOAT:
                continue
            covariance = solution.covariances.of('B')[:2, :2]
            # The path of A is laid on its true place.
            place = solution.estimate.translation
            true = world.truth.translation[:len(place)]
            turn, shift = align(place[::2], true[::2])
            error = turn @ place[-1] + shift - true[-1]
            floats += 1
            far += np.linalg.norm(error) > 3 * np.sqrt(np.trace(covariance))
    assert floats >= 30
    assert far <= 0.05 * floats, (far, floats)


def test_the_path_of_another_robot_is_shown_from_when_it_was_first_located():
    alone = kept = 0
    for seed in (1, 2):
        before = set[str]()
        for solution in solutions(seed)[1]:
            fixes = solution.fixes
            fixed = {robot for robot, fix in fixes.items() if fix is Fix.FIXED}
            stated = {robot for robot, fix in fixes.items() if fix is not Fix.NONE}
            laid = solution.laid(before)
            before |= fixed
            assert set(laid) == (before & stated or {'A'} & stated)
            kept += bool(set(laid) - fixed) and bool(before)
            if fixes['B'] is Fix.FLOAT and 'B' not in before:
                alone += 1
                known = replace(solution, anchored=True)
                assert known.laid() == ('A', 'B'), 'beside known positions a path is where it is'
        assert before == {'A', 'B'}
    assert alone and kept
