"""Robots that carry each other's radio: ranges go to the path that they were measured on."""

import time
from itertools import pairwise

import numpy as np
import pytest
from backend_world import ROBUST, World, config, graph_of, two_robots
from faulty_world import BEACONS, CENTRES, graph, robots_exchanged, world
from radio_world import radio_world, with_antennas

from sparser_ros.backend.integrity.exchange import EXCHANGED, exchanged
from sparser_ros.backend.integrity.radio_errors import RadioErrors
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.contest import Contest, SearchEnd
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.config.backend_config import AuditConfig
from sparser_ros.graph import range_residuals
from sparser_ros.graph.ends import range_ends
from sparser_ros.graph.estimate import antennas

PAIR = (('B', 'C'),)
STEPS = 120


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


def test_ranges_go_to_the_beacon_that_bears_the_radio(dimension):
    made = graph(world(1, dimension, steps=60), 1)
    right = exchanged(made, (('L0', 'L2'),)).ranges
    for before, after in ((made.ranges.source, right.source), (made.ranges.target, right.target)):
        np.testing.assert_array_equal(
            after, np.select([before == ~0, before == ~2], [~2, ~0], before))
    assert np.any(right.target != made.ranges.target)


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


def played(place, pair=None, ticks=STEPS // 4, **audit):
    """The last solution of a recording, its session, and located robots that were far off."""
    truth, wrong = place.true_in_map().translation, []
    session = Session(config(
        robots=place.names, solver=ROBUST, audit=AuditConfig(**{'growth': 1.3} | audit)))
    for one in place.increments(ticks):
        session.add(one if pair is None else robots_exchanged(one, *pair))
        solution = session.solve()
        for number, state in enumerate(solution.robots):
            last = len(solution.estimate.translation) - len(place.names) + number
            error = np.linalg.norm(solution.estimate.translation[last] - truth[last])
            if state.location is Location.LOCATED and error > 1:
                wrong.append((state.robot, float(error)))
    return session.solve(True), session, wrong


@pytest.mark.parametrize('seed', [3, 9])
def test_exchanged_radios_are_told_and_the_robots_placed(seed):
    solution, session, wrong = played(world(seed, steps=STEPS), (1, 2))
    assert not wrong
    assert session.auditor.audit().treatment.exchanged == PAIR
    assert {state.location for state in solution.robots} == {Location.LOCATED}, solution.robots
    assert any(finding.kind == EXCHANGED and finding.subject == 'B and C'
               for finding in solution.findings)


def test_radios_in_their_places_are_left_there():
    solution, session, wrong = played(world(3, steps=STEPS))
    assert not wrong and not session.auditor.audit().treatment.exchanged
    assert not any(finding.kind == EXCHANGED for finding in solution.findings)


@pytest.mark.parametrize('seed', [2, 16])
def test_two_robots_are_not_located_by_each_others_radio(seed):
    """The first of them has few ranges, which the wrong radio fits for a while."""
    place = World(['curved'] * 2, CENTRES[2][:2], BEACONS[2], STEPS, seed, range_sigma=0.1)
    solution, session, wrong = played(place, (0, 1), STEPS // 2, growth=1.2)
    assert not wrong
    assert session.auditor.audit().treatment.exchanged == (('A', 'B'),)
    assert {state.location for state in solution.robots} == {Location.LOCATED}, solution.robots


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
    for one in world(3, steps=STEPS).increments(2):
        auditor.add(robots_exchanged(one, 1, 2))
    auditor.audit(request=0)
    assert limits[0] == limit_s and len(limits) > 2
    assert all(after <= before - slow_s for before, after in pairwise(limits))
    assert auditor.scratch_s < limit_s + 2 * slow_s


def test_each_range_loses_the_biases_of_its_two_radios():
    graph = graph_of(two_robots(2, steps=30).increments(3))
    biases = {'B': 0.3, 'L1': -0.1}
    ends = range_ends(graph)
    each = np.array([biases.get(name, 0.0) for name in ends.names])
    wanted = each[ends.first] + each[ends.second]
    assert {0.0, 0.3, -0.1, 0.2} == set(np.round(wanted, 6))
    left = RadioErrors(biases).off(graph, graph.ranges)
    np.testing.assert_allclose(left.distance_m, graph.ranges.distance_m - wanted)
    np.testing.assert_array_equal(left.lever_source, graph.ranges.lever_source)
    far = RadioErrors({'A': 1e3, 'B': 1e3})
    assert np.all(far.off(graph, graph.ranges).distance_m > 0)


def test_antennas_that_stand_elsewhere_fit_once_they_are_moved(dimension):
    world = radio_world(3, (0, 1, 2), dimension=dimension, steps=30, blocked=0.0)
    places = [[0.0] * 3, [0.4, -0.25, 0.1], [-0.1, 0.2, 0.3]]
    places = [place[:dimension] for place in places]
    elsewhere = with_antennas(world, places)
    errors = RadioErrors(antenna_m={'B': tuple(places[1]), 'C': tuple(places[2])})
    before = range_residuals(world.measured, world.truth)
    assert np.max(np.abs(range_residuals(elsewhere, world.truth) - before)) > 0.3
    moved = errors.off_all(elsewhere)
    np.testing.assert_allclose(range_residuals(moved, world.truth), before, atol=1e-9)
    back = errors.put_back(moved).ranges
    np.testing.assert_allclose(back.lever_source, elsewhere.ranges.lever_source, atol=1e-12)
    np.testing.assert_allclose(back.distance_m, elsewhere.ranges.distance_m, atol=1e-12)
    assert RadioErrors.from_values(errors.values()) == errors
