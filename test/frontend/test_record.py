"""Keyframes are thinned as if nothing were missing, and trajectories have the odometry's rate."""

import numpy as np
import pytest
from backend_world import same
from frontend_world import Robot, config, graph_of, ns, range_sample, truth

from sparser_ros.backend.process.wire import pack, unpack
from sparser_ros.frontend import Frontend, Inputs, assembly
from sparser_ros.frontend.track import OdometryRecord, at_odometry_rate
from sparser_ros.graph import Estimate, range_residuals, squared_residuals
from sparser_ros.graph.thinning import thin
from sparser_ros.linalg.rotations import matrix_to_quat

BEACON = np.array([3.0, -2.0, 0.0])
THINNED = {'keyframes': {'max_count': 20}, 'odometry': {'history_s': 5.0, 'vertical': 'free'}}


def driven(dimension, seconds=60.0, restart=np.inf, keyframes=None, per_pair=0, **values):
    """A front-end after a drive at 10 Hz, its graph, and the robots; odometry of A may restart."""
    robots = [Robot('A', dimension, 3), Robot('B', dimension, 2)]
    frontend = Frontend(config(
        dimension=dimension, radios={'L1': {'beacon': 'L1', 'position': BEACON.tolist()}},
        keyframes={'distance_m': float('inf'), 'angle_rad': float('inf'), 'time_s': 1.0,
                   **(keyframes or {})}, **values))
    graph, first = None, robots[0]
    for step in range(round(seconds * 10)):
        t = step / 10
        if t == restart:
            first.start = first.pose(t)
        for robot in robots:
            turn = robot.start[0].T @ robot.pose(t)[0]
            frontend.add(robot.odometry(t, quat_xyzw=matrix_to_quat(turn)))
        if step % 4 == 1:
            frontend.add(range_sample(
                'A', 'L1', t, np.linalg.norm(first.antenna(t, np.zeros(3)) - BEACON)))
        if step % 10 == 9:
            graph = graph_of(frontend, flush=False, graph=graph)
            drop = frontend.thin()
            if drop is not None:
                graph = thin(graph, drop, per_pair).graph
    return frontend, graph_of(frontend, graph=graph), robots


def test_few_keyframes_with_many_measurements_are_thinned_too(monkeypatch):
    """As of robots that stand still for a day."""
    monkeypatch.setattr(assembly, 'MEASUREMENTS', 5)
    sizes = []
    for seconds in (180.0, 360.0):
        frontend, graph, _ = driven(2, seconds, per_pair=1, keyframes={
            'time_s': 20.0, 'max_count': 20}, odometry=THINNED['odometry'])
        assert frontend.thinnings > 2 and graph.n_poses < 20
        sizes.append(len(graph.ranges))
    # All of the last minute, and fewer and fewer of those before: of 450 and 900.
    assert sizes[0] < 225 and sizes[1] < 1.3 * sizes[0]


def trajectory_of_a(frontend, graph, estimate, robot):
    """Stamps, rotations and translations at the rate of the odometry, and the true ones."""
    own = graph.poses.robot == graph.robots.index('A')
    stamps, *found = at_odometry_rate(
        frontend.recorded_odometry()['A'], graph.poses.stamp_ns[own], estimate.rotation[own],
        estimate.translation[own])
    poses = [robot.pose((stamp - ns(0.0)) * 1e-9) for stamp in stamps]
    d = graph.dimension
    return stamps, found, (np.array([rotation[:d, :d] for rotation, _ in poses]),
                           np.array([place[:d] for _, place in poses]))


def test_what_comes_after_a_thinning_is_exact(dimension):
    frontend, graph, robots = driven(dimension, 120.0, **THINNED)
    assert graph.n_poses <= 30 and frontend.thinnings > 5
    for t in (20.43, 33.3, 61.07):
        assert frontend.add(robots[0].closure(t, robots[1], 118.2))
    graph = graph_of(frontend, graph=graph).validate()
    estimate = truth(graph, robots, {'L1': BEACON})
    assert np.sum(~graph.relative_poses.odometry) == 3
    assert np.abs(range_residuals(graph, estimate)).max() < 1e-8
    for name, squares in squared_residuals(graph, estimate).items():
        assert np.max(squares, initial=0.0) < 1e-10, name


@pytest.mark.parametrize('values', [{}, THINNED, {'restart': 30.4}])
def test_exact_keyframes_give_the_exact_trajectory(dimension, values):
    frontend, graph, robots = driven(dimension, **values)
    assert (frontend.thinnings > 0) == ('keyframes' in values)
    stamps, found, expected = trajectory_of_a(
        frontend, graph, truth(graph, robots, {'L1': BEACON}), robots[0])
    assert stamps.tolist() == [ns(step / 10) for step in range(600)]
    for array, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, wanted, atol=1e-8)


def test_it_passes_through_corrected_keyframes_without_a_step(dimension):
    frontend, graph, robots = driven(dimension)
    exact, rng = truth(graph, robots, {'L1': BEACON}), np.random.default_rng(0)
    error = rng.normal(0, 0.2, exact.translation.shape)
    moved = Estimate(exact.rotation, exact.translation + error, exact.landmarks)
    stamps, (_, found), (_, true) = trajectory_of_a(frontend, graph, moved, robots[0])
    own = graph.poses.robot == 0
    at = np.searchsorted(stamps, graph.poses.stamp_ns[own])
    np.testing.assert_allclose(found[at], moved.translation[own], atol=1e-9)
    steps = np.linalg.norm(np.diff(found - true, axis=0), axis=1)
    worst = np.linalg.norm(np.diff(error[own], axis=0), axis=1).max()
    assert steps.max() < 0.11 * worst, 'a tenth a message'


@pytest.mark.parametrize('limit', [64, 640, 5000])
def test_a_full_record_has_gaps_in_proportion_to_their_age(limit):
    record, count = OdometryRecord(3, limit), 20 * limit
    for number in range(count):
        record.append(10**18 + number, (float(number), 0.0, 0.0), number // 500)
    way = record.columns
    assert limit // 3 <= len(way.stamps_ns) <= limit
    number = way.stamps_ns - 10**18
    assert number[0] == 0 and number[-1] == count - 1
    np.testing.assert_array_equal(way.poses[:, 0], number)
    np.testing.assert_array_equal(way.segments, number // 500)
    steps = np.diff(number)
    assert np.all(steps[-(limit // 10):] == 1), 'the newest messages are all there'
    assert np.all(steps <= np.maximum(1, 20 / limit * (count - number[:-1])))


def test_from_a_checkpoint_it_goes_on_and_another_record_begins(dimension):
    frontend, _, robots = driven(dimension)
    other, _ = unpack(pack((frontend, Inputs(frontend.config))))
    assert len(other.recorded_odometry()['A'].messages.stamps_ns) == 0
    for step in range(600, 700):
        for one in (frontend, other):
            one.add(robots[0].odometry(step / 10))
    way = other.recorded_odometry()['A']
    assert way.messages.stamps_ns.tolist() == [ns(step / 10) for step in range(600, 700)]
    assert len(way.keyframes.stamps_ns) == 70
    assert same(frontend.take(flush=True), other.take(flush=True))
    assert frontend.counters.as_dict() == other.counters.as_dict()
