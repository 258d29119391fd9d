"""Stamps of map -> odom, and the values behind it."""

import numpy as np
import pytest

from sparser_ros.linalg.dense.rotations import angle_to_matrix, rotvec_to_matrix
from sparser_ros.node.transforms import MapToOdom, Transform, lifted, planar_quats, spatial

SECOND = 10**9


@pytest.mark.parametrize(('robot', 'token'), [
    ('A', 'A'), ('01', 'robot_01'), ('tug-3', 'tug_3'), ('/team/7b', 'team/robot_7b'),
])
def test_robot_names_become_topic_names(robot, token):
    pytest.importorskip('rclpy', reason='needs rclpy')
    from rclpy.validate_topic_name import validate_topic_name

    from sparser_ros.node.conversions import topic_token

    assert topic_token(robot) == token
    assert validate_topic_name(f'~/path/{token}')


def some():
    return {'A': Transform(np.eye(3), np.zeros(3))}


def test_no_stamp_before_a_solution_or_without_time():
    broadcast = MapToOdom(100)
    assert broadcast.next_stamp_ns(5 * SECOND) is None
    broadcast.update(some())
    assert broadcast.next_stamp_ns(0) is None
    assert broadcast.next_stamp_ns(5 * SECOND) == 5 * SECOND + 100


def test_stamps_never_repeat_or_go_back():
    broadcast = MapToOdom(100)
    broadcast.update(some())
    first = broadcast.next_stamp_ns(5 * SECOND)
    assert broadcast.next_stamp_ns(5 * SECOND) is None
    assert broadcast.next_stamp_ns(4 * SECOND) is None
    broadcast.update(some())
    again = broadcast.next_stamp_ns(5 * SECOND)
    assert again is not None and again > first
    assert broadcast.next_stamp_ns(5 * SECOND) is None
    assert broadcast.next_stamp_ns(6 * SECOND) == 6 * SECOND + 100


def test_stamps_start_again_only_after_a_jump():
    broadcast = MapToOdom(100)
    broadcast.update(some())
    broadcast.next_stamp_ns(5 * SECOND)
    broadcast.clear()
    broadcast.update(some())
    assert broadcast.next_stamp_ns(SECOND) > 5 * SECOND
    broadcast.clear(restart_stamps=True)
    broadcast.update(some())
    assert broadcast.next_stamp_ns(SECOND) == SECOND + 100


@pytest.mark.parametrize('d', [2, 3])
def test_lifting_commutes_with_composition(d):
    rng = np.random.default_rng(d)
    turn = angle_to_matrix if d == 2 else rotvec_to_matrix
    size = () if d == 2 else (3,)
    a, b = (lifted(turn(rng.normal(size=size)), rng.normal(size=d)) for _ in range(2))
    point = np.concatenate([rng.normal(size=d), np.zeros(3 - d)])
    both = (a @ b).rotation @ point + (a @ b).translation
    np.testing.assert_allclose(
        both, a.rotation @ (b.rotation @ point + b.translation) + a.translation)
    back = a @ a.inverse()
    np.testing.assert_allclose(back.rotation, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(back.translation, 0, atol=1e-12)


def test_quaternions_of_the_plane_turn_about_z():
    angle = np.linspace(-3, 3, 13)
    quats = planar_quats(angle_to_matrix(angle))
    np.testing.assert_allclose(quats[:, 2], np.sin(angle / 2), atol=1e-12)
    np.testing.assert_allclose(quats[:, 3], np.cos(angle / 2), atol=1e-12)
    np.testing.assert_array_equal(spatial(np.ones((2, 2))), [[1, 1, 0], [1, 1, 0]])
