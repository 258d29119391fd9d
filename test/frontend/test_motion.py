"""Motions and their covariances against brute force."""

import numpy as np
import pytest
from frontend_world import Robot, config, drive, graph_of
from scipy.linalg import block_diag

from sparser_ros.frontend import Frontend
from sparser_ros.frontend.motion import geometry
from sparser_ros.linalg.rotations import hat, matrix_to_rotvec, rotvec_to_matrix


def random_pose(rng, dimension):
    space = geometry(dimension)
    position, quat = rng.normal(size=3) * 3, rng.normal(size=4)
    return space.pose(position.tolist(), (quat / np.linalg.norm(quat)).tolist())


def matrix(space, pose):
    """(4, 4), of the plane as well."""
    rotation, translation = space.arrays([pose])
    result, d = np.eye(4), space.dimension
    result[:d, :d], result[:d, 3] = rotation[0], translation[0]
    return result


def random_covariance(rng, dimension):
    root = rng.normal(size=(6, 6)) * 0.1
    moves = np.array([1, 1, 0, 0, 0, 1]) if dimension == 2 else np.ones(6)
    return root @ root.T * np.outer(moves, moves)


def test_composed_covariance_is_the_first_order_propagation(dimension):
    rng, space, step = np.random.default_rng(2), geometry(dimension), 1e-6

    def disturbed(pose, error):
        result = matrix(space, pose)
        result[:3, 3] += error[:3]
        result[:3, :3] = result[:3, :3] @ rotvec_to_matrix(error[3:])
        return result

    for _ in range(5):
        a, b = random_pose(rng, dimension), random_pose(rng, dimension)
        first, second = random_covariance(rng, dimension), random_covariance(rng, dimension)
        true = matrix(space, a) @ matrix(space, b)

        def error_of(error, a=a, b=b, true=true):
            measured = disturbed(a, error[:6]) @ disturbed(b, error[6:])
            return np.append(measured[:3, 3] - true[:3, 3],
                             matrix_to_rotvec(true[:3, :3].T @ measured[:3, :3]))

        jacobian = np.stack([
            (error_of(step * axis) - error_of(-step * axis)) / (2 * step) for axis in np.eye(12)],
            axis=1)
        expected = jacobian @ block_diag(first, second) @ jacobian.T
        found = space.appended(space.covariance(first), a, b, space.covariance(second))
        if dimension == 2:
            xx, xy, yy, xt, yt, tt = found
            found = np.array([[xx, xy, xt], [xy, yy, yt], [xt, yt, tt]])
            expected = expected[np.ix_((0, 1, 5), (0, 1, 5))]
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_accumulated_covariances_grow_by_the_increment(dimension):
    rng, space = np.random.default_rng(3), geometry(dimension)
    start, step = random_pose(rng, dimension), random_pose(rng, dimension)
    end = space.compose(start, step)
    before, increment = random_covariance(rng, dimension), random_covariance(rng, dimension)
    first, last = matrix(space, start), matrix(space, end)
    carry, frame = np.eye(6), block_diag(first[:3, :3], last[:3, :3])
    carry[:3, 3:] = -hat((last - first)[:3, 3])
    after = carry @ before @ carry.T + frame @ increment @ frame.T
    found = space.growth(start, end, space.covariance(before), space.covariance(after))
    assert found == pytest.approx(space.variances(space.covariance(increment)), abs=1e-12)


@pytest.mark.parametrize(('mode', 'grows', 'move', 'turn'), [
    # Of ten messages a second; a standing robot: covariances of increments simply add.
    ('pose_increment', 0, 10 * 0.02, 10 * 0.004), ('pose_accumulated', 1, 10 * 0.02, 10 * 0.004),
    # 0.2 m/s for 0.1 s each, ten times, independent.
    ('twist', 0, 10 * 0.04 * 0.01, 10 * 0.01 * 0.01)])
def test_how_covariances_of_messages_are_read(dimension, mode, grows, move, turn):
    robot = Robot('A', dimension, 1)
    robot.velocity, robot.rate = np.zeros(3), 0.0
    frontend = Frontend(config(
        dimension=dimension, odometry_noise=mode, keyframes={'time_s': 1.0}))
    for k in range(21):
        frontend.add(robot.odometry(
            k * 0.1, np.diag([0.02] * 3 + [0.004] * 3) * (k + 1 if grows else 1)))
    edges = graph_of(frontend).relative_poses
    assert edges.tau == pytest.approx([1 / move] * 2)
    assert edges.kappa == pytest.approx([(1.0 if dimension == 2 else 0.5) / turn] * 2)


def test_configured_noise_does_not_depend_on_the_message_rate():
    robot = Robot('A', 2, 1)
    tables = []
    for period in (0.02, 0.1):
        frontend = Frontend(config(keyframes={
            'time_s': 1.0, 'distance_m': float('inf'), 'angle_rad': float('inf')}))
        drive(frontend, [robot], 3.0, period)
        tables.append(graph_of(frontend).relative_poses)
    assert tables[0].tau == pytest.approx(tables[1].tau)
    assert tables[0].kappa == pytest.approx(tables[1].kappa)
    travel = np.linalg.norm(robot.velocity)
    expected = 0.02**2 * travel + 0.01**2 * robot.rate + 0.002**2
    assert 1 / tables[0].tau == pytest.approx([expected] * 3)


@pytest.mark.parametrize(('options', 'count'), [
    ({'every_message': True}, 21),
    ({'distance_m': 0.0}, 21),
    ({'angle_rad': 0.0}, 21),
    ({'time_s': 0.0}, 21),
    ({'time_s': 0.5}, 5),
    ({}, 1),
])
def test_keyframe_selection(options, count):
    robot = Robot('A', 2, 1)
    none = float('inf')
    frontend = Frontend(config(keyframes={
        'distance_m': none, 'angle_rad': none, 'time_s': none, **options}))
    drive(frontend, [robot], 2.0)
    assert graph_of(frontend).n_poses == count
