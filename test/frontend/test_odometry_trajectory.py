"""Trajectories at the rate of the odometry: every message, through all keyframes, no step."""

from types import SimpleNamespace

import numpy as np
import pytest
from frontend_world import Robot, config, graph_of, ns, truth

from sparser_ros.backend.process.wire import pack, unpack
from sparser_ros.frontend import Frontend, Inputs
from sparser_ros.frontend.record import OdometryRecord, RecordedOdometry, at_odometry_rate
from sparser_ros.graph import Estimate
from sparser_ros.graph.thinning import thin
from sparser_ros.linalg.rotations import matrix_to_quat


def driven(dimension, seconds=60.0, restart=np.inf, **values):
    """A front-end after a drive at 10 Hz, its graph, and the robot; odometry may start again."""
    robot = Robot('A', dimension, 3)
    frontend = Frontend(config(
        dimension=dimension, keyframes={'distance_m': float('inf'), 'angle_rad': float('inf'),
                                        'time_s': 1.0, **values.pop('keyframes', {})}, **values))
    graph = None
    for step in range(round(seconds * 10)):
        t = step / 10
        if t == restart:
            robot.start = robot.pose(t)
        turn = robot.start[0].T @ robot.pose(t)[0]
        frontend.add(robot.odometry(t, quat_xyzw=matrix_to_quat(turn)))
        if step % 10 == 9:
            graph = graph_of(frontend, flush=False, graph=graph)
            drop = frontend.thin()
            if drop is not None:
                graph = thin(graph, drop).graph
    return frontend, graph_of(frontend, graph=graph), robot


def expected(way, robot, dimension):
    poses = [robot.pose((stamp - ns(0.0)) * 1e-9) for stamp in way.stamps_ns]
    return (np.array([rotation[:dimension, :dimension] for rotation, _ in poses]),
            np.array([place[:dimension] for _, place in poses]))


def trajectory(frontend, graph, estimate):
    return SimpleNamespace(**dict(zip(('stamps_ns', 'rotation', 'translation'), at_odometry_rate(
        frontend.recorded_odometry()['A'], graph.poses.stamp_ns,
                            estimate.rotation, estimate.translation), strict=True)))


@pytest.mark.parametrize('dimension', [2, 3])
@pytest.mark.parametrize('values', [
    {}, {'keyframes': {'max_count': 20}, 'odometry': {'history_s': 5.0}}, {'restart': 30.4}])
def test_exact_keyframes_give_the_exact_trajectory(dimension, values):
    """Also after a thinning of the keyframes, and where the odometry began anew at its origin."""
    frontend, graph, robot = driven(dimension, **values)
    assert (frontend.thinnings > 0) == ('keyframes' in values)
    way = trajectory(frontend, graph, truth(graph, [robot]))
    assert way.stamps_ns.tolist() == [ns(step / 10) for step in range(600)]
    rotation, translation = expected(way, robot, dimension)
    np.testing.assert_allclose(way.translation, translation, atol=1e-8)
    np.testing.assert_allclose(way.rotation, rotation, atol=1e-8)


@pytest.mark.parametrize('dimension', [2, 3])
def test_it_passes_through_corrected_keyframes_without_a_step(dimension):
    frontend, graph, robot = driven(dimension)
    exact, rng = truth(graph, [robot]), np.random.default_rng(0)
    moved = Estimate(exact.rotation, exact.translation + rng.normal(
        0, 0.2, exact.translation.shape), exact.landmarks)
    way = trajectory(frontend, graph, moved)
    at = np.searchsorted(way.stamps_ns, graph.poses.stamp_ns)
    np.testing.assert_allclose(way.translation[at], moved.translation, atol=1e-9)
    off = way.translation - expected(way, robot, dimension)[1]
    worst = np.linalg.norm(np.diff(moved.translation - exact.translation, axis=0), axis=1).max()
    assert np.linalg.norm(np.diff(off, axis=0), axis=1).max() < 0.11 * worst, 'a tenth a message'


@pytest.mark.parametrize('limit', [64, 100, 640, 5000])
def test_a_full_record_has_gaps_in_proportion_to_their_age(limit):
    record, count = OdometryRecord(3, limit), 20 * limit
    for number in range(count):
        record.append(10**18 + number, (float(number), 0.0, 0.0), number // 500)
    nothing = np.zeros(0, dtype=np.int64)
    way = RecordedOdometry(*record.columns, nothing, np.zeros((0, 3)), nothing)
    stamps, poses, segments = way.stamps_ns, way.poses, way.segments
    assert limit // 3 <= len(stamps) <= limit
    number = stamps - 10**18
    assert number[0] == 0 and number[-1] == count - 1
    np.testing.assert_array_equal(poses[:, 0], number)
    np.testing.assert_array_equal(segments, number // 500)
    steps = np.diff(number)
    assert np.all(steps[-(limit // 10):] == 1), 'the newest messages are all there'
    assert np.all(steps <= np.maximum(1, 20 / limit * (count - number[:-1])))


def test_a_checkpoint_leaves_the_record_out_and_another_begins(tmp_path):
    frontend, _, robot = driven(2)
    other, _ = unpack(pack((frontend, Inputs(frontend.config))))
    assert len(other.recorded_odometry()['A'].stamps_ns) == 0
    for step in range(600, 700):
        other.add(robot.odometry(step / 10))
    way = other.recorded_odometry()['A']
    assert way.stamps_ns.tolist() == [ns(step / 10) for step in range(600, 700)]
    assert len(way.keyframe_stamps_ns) == 70
