"""Odometry of a sensor gives the keyframes of its robot's base."""

import numpy as np
import pytest
from frontend_world import Frontend, Robot, config, graph_of

from sparser_ros.frontend.mountings import Mountings
from sparser_ros.linalg.dense.rotations import matrix_to_quat, quat_to_matrix, rotvec_to_matrix

MOUNTED = [0.4, -0.3, 0.2, 0.3, -0.5, 1.2]


def transform(values):
    """(4, 4) of x y z and fixed-axis roll pitch yaw."""
    result, (roll, pitch, yaw) = np.eye(4), values[3:] or (0.0, 0.0, 0.0)
    result[:3, :3] = rotvec_to_matrix(np.array([0, 0, yaw])) @ rotvec_to_matrix(
        np.array([0, pitch, 0])) @ rotvec_to_matrix(np.array([roll, 0, 0]))
    result[:3, 3] = values[:3]
    return result


def by_sensor(sample, mounted):
    """The same motion as the sensor reports it in the same odometry frame."""
    base = np.eye(4)
    base[:3, :3], base[:3, 3] = quat_to_matrix(sample.quat_xyzw), sample.position_xyz
    sensor = base @ transform(mounted)
    return type(sample)(**{
        **vars(sample), 'position_xyz': sensor[:3, 3],
        'quat_xyzw': matrix_to_quat(sensor[:3, :3]), 'child_frame_id': 'A/camera'})


@pytest.mark.parametrize('dimension', [2, 3])
@pytest.mark.parametrize('mounted', [MOUNTED, MOUNTED[:3]])
def test_keyframes_are_those_of_the_base(dimension, mounted):
    body = Robot('A', dimension, 4)
    plain = Frontend(config(dimension=dimension))
    sensed = Frontend(config(dimension=dimension, odometry={'sensor_poses': {'A': mounted}}))
    for step in range(100):
        sample = body.odometry(step / 10)
        plain.add_odometry(sample)
        sensed.add_odometry(by_sensor(sample, mounted))
    one, other = graph_of(plain), graph_of(sensed)
    assert one.n_poses == other.n_poses > 5
    assert np.allclose(one.poses.translation, other.poses.translation)
    assert np.allclose(one.poses.rotation, other.poses.rotation)
    newest = [frontend.latest_odometry('A') for frontend in (plain, sensed)]
    assert np.allclose(newest[0][2], newest[1][2])
    assert not sensed.warnings and not sensed.counters.odometry.warnings


def test_robots_without_a_sensor_pose_are_left_alone():
    mountings = Mountings({'A': MOUNTED, 'B': []})
    assert 'A' in mountings and 'B' not in mountings
    assert mountings.base('B', [1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 1.0]) == (
        (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))
