"""A beacon that was moved is found where its ranges have it now, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest
from backend_world import (
    ROBUST,
    config,
    graph_of,
    heard,
    in_force,
    longer,
    pair_world,
    ticks,
    two_robots,
)
from faulty_world import beacon_moved

from sparser_ros.backend.integrity.faults import MOVED, ranges_of
from sparser_ros.backend.integrity.places import move_of
from sparser_ros.backend.session.rulings import Rulings
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.graph import Landmarks, PointPriors

FLIP_COST = 25.0
STEPS = 120
HALF = STEPS // 2
WAY = {2: np.array([2.0, -1.5]), 3: np.array([1.0, -1.5, 1.5])}


def world(kind='curved', seed=3, **options):
    return two_robots(4, kind, steps=STEPS, seed=seed, **options)


def late(data):
    """(k,): whether a range is one to the first beacon since the middle."""
    return (data.ranges.target == ~0) & (data.ranges.source >= 2 * HALF)


def with_move(true, parts, way=WAY[2]):
    """Increments as if the first beacon had been moved in the middle."""
    return [beacon_moved(one, true.truth, 0, way, late(one)) for one in true.increments(parts)]


def group(graph, most=60):
    """Rows of ranges to the first beacon since the middle."""
    rows = ranges_of('L0', graph)
    return rows[graph.ranges.source[rows] >= 2 * HALF][:most]


@pytest.mark.parametrize('seed', range(4))
def test_a_beacon_that_was_moved_is_found_within_its_sigma(seed, dimension):
    true = world(seed=seed, dimension=dimension)
    way = WAY[dimension]
    graph = graph_of(with_move(true, 4, way), dimension)
    move = move_of('L0', group(graph, 100), graph, true.truth, FLIP_COST)
    assert move is not None and move.landmark == 0
    np.testing.assert_array_equal(move.before, true.beacons[0])
    assert np.linalg.norm(move.after - true.beacons[0] - way) < 4 * move.sigma_m < 0.6
    assert move.way_m == pytest.approx(np.linalg.norm(way), abs=0.2)
    np.testing.assert_array_equal(move.of(true.truth).landmarks[0], move.after)
    assert 'beacon L0 was moved by' in move.words('L0', 40.0)


@pytest.mark.parametrize('added', [
    lambda length: 2.0, lambda length: 8.0 * np.abs(np.sin(97.0 * length)), lambda length: 0.0],
    ids=['one length', 'any lengths', 'as ever'])
@pytest.mark.parametrize('seed', range(3))
def test_other_faults_of_its_ranges_are_no_move(seed, added):
    true = world(seed=seed)
    graph = graph_of([longer(one, late(one) * added(one.ranges.distance_m))
                      for one in true.increments(4)])
    assert move_of('L0', group(graph), graph, true.truth, FLIP_COST) is None


def test_robots_on_a_line_do_not_tell_on_which_side_it_is():
    true = world('straight')
    graph = graph_of(with_move(true, 4))
    rows = group(graph, 200)
    # Of one robot only: two lines that cross tell the sides apart.
    rows = rows[graph.ranges.source[rows] % 2 == 0]
    assert move_of('L0', rows, graph, true.truth, FLIP_COST) is None


def told(solution):
    """All that is said of the first beacon: it was moved, by its way."""
    (said,) = [one for one in solution.findings if one.subject == 'L0']
    assert said.kind == MOVED
    assert said.value == pytest.approx(np.linalg.norm(WAY[2]), abs=0.2)
    return said


def test_the_map_goes_on_with_the_new_place_and_says_so():
    true = world()
    session, found = heard(with_move(true, 8))
    last = found[-1]
    told(last)
    assert all(one.location is Location.LOCATED for one in last.robots)
    place = true.true_in_map().landmarks
    turn = true.truth.rotation[0].T
    np.testing.assert_allclose(
        last.estimate.landmarks[0], place[0] + turn @ WAY[2], atol=0.15)
    np.testing.assert_allclose(last.estimate.landmarks[1:], place[1:], atol=0.15)
    data = in_force(session)
    # Left out is what came before, and what came after it before it showed.
    rows, left_out = ranges_of('L0', data.whole), data.left_out('ranges')
    np.testing.assert_array_equal(left_out, rows[: len(left_out)])
    assert len(rows) // 2 <= len(left_out) < 0.6 * len(rows)
    assert not any(one.open for one in data.treatment.faults)


def test_a_lone_known_beacon_that_is_moved_does_not_take_the_map_with_it():
    """It alone says where map lies, and no more once it stands elsewhere."""
    true = world(known=(0,))
    options = replace(config(solver=ROBUST), radios={
        'L0': {'beacon': 'L0', 'position': [*true.beacons[0], 0.0]}})
    found = ticks(Session(options), with_move(true, 8))
    before, after = found[3], found[-1]
    told(after)
    assert before.landmark_located[0] and not before.anchored and not after.anchored
    np.testing.assert_allclose(
        after.estimate.translation[0], before.estimate.translation[0], atol=0.3)
    assert all(one.location is Location.LOCATED for one in after.robots)


@pytest.mark.parametrize('sigma_m', [0.0, 0.02], ids=['exact', 'with a prior'])
def test_a_known_beacon_goes_on_at_its_new_place_where_others_hold_the_map(sigma_m):
    true = world(known=(0, 1, 2, 3))
    increments = with_move(true, 8)
    if sigma_m:
        increments[0] = with_priors(increments[0], sigma_m)
    session, found = heard(increments)
    last = found[-1]
    places = true.beacons + np.eye(4)[:, :1] * WAY[2]
    np.testing.assert_allclose(last.estimate.landmarks, places, atol=0.15 if sigma_m else 0.1)
    if not sigma_m:
        np.testing.assert_allclose(last.estimate.landmarks[1:], places[1:], atol=1e-9)
    assert told(last).text.endswith('; set the position of its radio')
    assert last.anchored and last.landmark_located[0]
    assert all(one.location is Location.LOCATED for one in last.robots)
    assert in_force(session).treatment.released == ('L0',)
    session.auditor.rule(Rulings(revision=1))
    assert session.auditor._store.graph.landmarks.fixed[0] == (not sigma_m)


def with_priors(increment, sigma_m):
    marks = increment.landmarks
    rows = np.arange(len(marks.names))
    priors = PointPriors(
        ~rows, np.zeros_like(marks.position), marks.position.copy(),
        np.full(len(rows), sigma_m**-2), np.zeros(len(rows), dtype=np.int64))
    return increment.replaced(
        landmarks=Landmarks(marks.names, marks.position, np.zeros(len(rows), dtype=bool)),
        point_priors=priors)


def test_one_of_two_known_beacons_keeps_its_place_and_its_ranges_stay_left_out():
    true = world(known=(0, 1))
    session, found = heard(with_move(true, 8))
    np.testing.assert_allclose(found[-1].estimate.landmarks[:2], true.beacons[:2], atol=1e-9)
    told(found[-1])
    assert in_force(session).treatment.released == ()
    for one in found[-1].robots:
        assert one.location is Location.LOCATED


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('mirrored', [True, False])
def test_odometry_whose_y_points_right_is_named_and_no_robot_is_located(mirrored, seed):
    """Known beacons seem to be exchanged and misplaced instead; one that is does not look so."""
    true = pair_world(seed=seed, robots=1, steps=80)
    if mirrored:
        turns, moves, *_ = true.odometry[0]
        true.odometry[0] = np.swapaxes(turns, 1, 2), moves * [1.0, -1.0]
        true.add_up_odometry()
    increments = true.increments(4)
    if not mirrored:
        increments = [one.replaced(landmarks=replace(
            one.landmarks, position=one.landmarks.position + [[3.0, 2.0]] * (
                np.array(one.landmarks.names) == 'L1')[:, None])) for one in increments]
    solutions = ticks(Session(config(solver=ROBUST)), increments)
    for solution in solutions:
        robot = solution.robots[0]
        wrong = true.map_error_m(solution.estimate) > 0.5
        assert not (wrong and robot.location is Location.LOCATED)
    assert mirrored == ('if y of the odometry points right' in robot.missing)
    assert mirrored == (solution.covariances is None or not np.all(np.isfinite(
        solution.covariances.of('A'))))
