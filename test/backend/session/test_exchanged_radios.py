"""Robots that carry each other's radio: ranges go to the path that they were measured on."""

import time
from itertools import pairwise

import numpy as np
import pytest
from backend_world import ROBUST, World, config, in_force, ticks
from faulty_world import antenna_elsewhere, graph, radio_world, robots_exchanged, world

from sparser_ros.backend.integrity.exchange import EXCHANGED, exchanged
from sparser_ros.backend.integrity.radio_errors import RadioErrors
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.contest import Contest, SearchEnd
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.config.backend_config import AuditConfig
from sparser_ros.graph import Landmarks, range_residuals
from sparser_ros.graph.ends import range_ends
from sparser_ros.graph.estimate import antennas

PAIR = (('B', 'C'),)


def ends(made, truth):
    """(2 k, d): true places of the antennas at both ends of all ranges."""
    ranges = made.ranges
    return np.concatenate([
        antennas(truth, ranges.source, ranges.lever_source),
        antennas(truth, ranges.target, ranges.lever_target)])


def test_ranges_go_to_the_path_that_carries_the_antenna(dimension):
    place = world(1, dimension, steps=60)
    made = graph(place, 1)
    named = robots_exchanged(made, 1, 2)
    right = exchanged(named, PAIR)
    np.testing.assert_allclose(ends(right, place.truth), ends(made, place.truth), atol=1e-9)
    np.testing.assert_array_equal(right.ranges.distance_m, made.ranges.distance_m)
    np.testing.assert_allclose(
        ends(exchanged(right, PAIR), place.truth), ends(named, place.truth), atol=1e-9)


def test_a_range_between_keyframes_is_measured_where_odometry_had_the_robot():
    place = world(2, steps=60)
    made = graph(place, 2)
    count, arm = len(made.robots), np.array([0.3, -0.2])
    own = np.flatnonzero(made.ranges.source % count == 2)
    last = own[made.ranges.source[own] < made.n_poses - count]
    middle = (made.poses.stamp_ns[made.ranges.source[last]]
              + made.poses.stamp_ns[made.ranges.source[last] + count]) // 2
    stamps, lever = made.ranges.stamp_ns.copy(), made.ranges.lever_source.copy()
    stamps[last], lever[own] = middle, arm
    ranges = exchanged(made.replaced(ranges=made.ranges.replaced(
        stamp_ns=stamps, lever_source=lever)), PAIR).ranges
    poses = made.poses
    # The path of B carries what bears the name of C; B has its own antenna at its origin.
    between = 0.5 * (
        poses.translation[ranges.source[last]] + poses.translation[ranges.source[last] + count])
    at = poses.translation[ranges.source[last]] + np.einsum(
        'kij,kj->ki', poses.rotation[ranges.source[last]], ranges.lever_source[last])
    np.testing.assert_array_equal(ranges.source[last], made.ranges.source[last] - 1)
    np.testing.assert_allclose(at, between, atol=1e-9)


@pytest.mark.parametrize(('robots', 'pair', 'seed', 'steps', 'ticks', 'growth'), [
    *((3, (1, 2), seed, 120, 30, 1.3) for seed in (3, 6, 9)), (3, None, 3, 120, 30, 1.3),
    # The first of two has few ranges, which the wrong radio fits for a while.
    *((2, (0, 1), seed, 120, 60, 1.2) for seed in (2, 13, 16)),
    # Starts from scratch miss the right map while robots have two poses each.
    *((2, (0, 1), seed, 80, 40, 1.2) for seed in (8, 31, 62))])
def test_exchanged_radios_are_told_and_the_robots_placed(
        robots, pair, seed, steps, ticks, growth):
    place = world(seed, steps=steps, robots=robots)
    session = Session(config(
        robots=place.names, solver=ROBUST, audit=AuditConfig(growth=growth)))
    # By then all is decided.
    for one in place.increments(ticks)[:2 * ticks // 3]:
        session.add(one if pair is None else robots_exchanged(one, *pair))
        solution = session.solve()
        for state, error in zip(
                solution.robots, place.errors_in_map(solution)[-robots:], strict=True):
            assert state.location is not Location.LOCATED or error < 1, state.robot
    solution = session.solve(True)
    names = [] if pair is None else [tuple(place.names[k] for k in pair)]
    assert in_force(session).treatment.exchanged == tuple(names)
    assert {state.location for state in solution.robots} == {Location.LOCATED}, solution.robots
    told = [finding.subject for finding in solution.findings if finding.kind == EXCHANGED]
    assert told == [' and '.join(both) for both in names]


def test_starts_from_scratch_of_one_audit_share_its_time(monkeypatch):
    """Also those of exchanges, each of which goes on from one better map to the next."""
    limit_s, slow_s, limits = 1.0, 0.3, []

    def searched(contest, starts, first_trial, left_s):
        limits.append(left_s)
        time.sleep(slow_s)
        return SearchEnd.FAR_BETTER

    monkeypatch.setattr(Contest, 'from_scratch', searched)
    auditor = Auditor(config(
        robots='ABC', solver=ROBUST, audit=AuditConfig(limit_s=limit_s)), bounded=True)
    for one in world(3, steps=40).increments(2):
        auditor.add(robots_exchanged(one, 1, 2))
    auditor.audit(request=0)
    assert limits[0] == limit_s and len(limits) > 2
    assert all(after <= before - slow_s for before, after in pairwise(limits))
    assert auditor.scratch_s < limit_s + 2 * slow_s


def test_ranges_fit_once_biases_are_taken_off_and_antennas_are_moved(dimension):
    world = radio_world(3, (0, 1, 2), dimension=dimension, steps=30, blocked=0.0)
    places = {'B': (0.4, -0.25, 0.1)[:dimension], 'C': (-0.1, 0.2, 0.3)[:dimension]}
    elsewhere = world.measured
    for name, place in places.items():
        elsewhere = antenna_elsewhere(elsewhere, name, place)
    names = range_ends(elsewhere).names
    errors = RadioErrors(dict(zip(names, world.bias_m.tolist(), strict=True)), places)
    before = range_residuals(world.calibrated, world.truth)
    assert np.max(np.abs(range_residuals(elsewhere, world.truth) - before)) > 0.3
    moved = errors.off_all(elsewhere)
    np.testing.assert_allclose(range_residuals(moved, world.truth), before, atol=1e-9)
    back = errors.put_back(moved).ranges
    np.testing.assert_allclose(back.lever_source, elsewhere.ranges.lever_source, atol=1e-12)
    np.testing.assert_allclose(back.distance_m, elsewhere.ranges.distance_m, atol=1e-12)
    far = RadioErrors({'A': 1e3, 'B': 1e3})
    assert np.all(far.off_all(elsewhere).ranges.distance_m > 0)


def test_beacons_that_fit_exchanged_while_few_are_heard_are_tried_among_many_again():
    """The third stands halfway between two: exchanged, the robot is on the other side."""
    bearing = np.arange(5)
    place = World(['curved'], [(2.0, 1.0)], [
        (-5, 0), (5, 0), (0.1, 8), *np.column_stack([9 * np.cos(bearing), 7 * np.sin(bearing)])],
        known=range(8))
    first, rest = place.increment(0, 0, 1), place.increment(1, 1, 40)
    known = first.landmarks
    few, others = (Landmarks(known.names[part], known.position[part], known.fixed[part])
                   for part in (slice(3), slice(3, 8)))
    increments = (
        first.replaced(landmarks=few, ranges=first.ranges.take(first.ranges.target >= -3)),
        rest.replaced(landmarks=others))
    session = Session(config(robots='A', solver=ROBUST))
    found = [one.robots[0] for one in ticks(session, increments, True)]
    assert found[0].missing.startswith('the map with the radios of L0 and L1 exchanged fits')
    assert found[1].location is Location.LOCATED
