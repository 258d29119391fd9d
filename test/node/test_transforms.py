"""Stamps of map -> odom, and the values behind it."""

import numpy as np
import pytest

from sparser_ros.linalg.rotations import angle_to_matrix, rotvec_to_matrix
from sparser_ros.node.picture import Transform, lifted, planar_quats, spatial
from sparser_ros.node.publishers import MapToOdom

SECOND = 10**9


@pytest.mark.parametrize(('robot', 'token'), [
    ('A', 'A'), ('01', 'robot_01'), ('tug-3', 'tug_3'), ('/team/7b', 'team/robot_7b'),
])
def test_robot_names_become_topic_names(robot, token):
    pytest.importorskip('rclpy', reason='needs rclpy')
    from rclpy.validate_topic_name import validate_topic_name

    from sparser_ros.node.messages import topic_token

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
    ahead = broadcast.next_stamp_ns(5 * SECOND + 300)
    assert ahead == 7 * SECOND + 300, 'two steps: the longest so far was a second'


@pytest.mark.parametrize('rate', [1, 3, 20])
def test_odometry_between_two_broadcasts_has_a_transform_at_any_rate(rate):
    """The clock goes `rate` times as fast as the timer of 20 Hz, which is late now and then."""
    rng = np.random.default_rng(rate)
    now, sent = 100 * SECOND, []
    broadcast = MapToOdom(SECOND // 10, lambda: now // rate)
    broadcast.update(some())
    for _ in range(400):
        stamp = broadcast.next_stamp_ns(now)
        assert stamp is not None and stamp > now
        assert not sent or stamp > sent[-1]
        step = round(rate * SECOND / 20 * rng.uniform(0.8, 1.3))
        if len(sent) > 20:
            assert stamp >= now + step, 'the newest odometry before the next broadcast'
        now += step
        sent.append(stamp)
    assert sent[-1] - now < 3 * rate * SECOND / 20 + SECOND // 10, 'and no further than that'


@pytest.mark.parametrize('rate_hz', [5, 20])
@pytest.mark.parametrize('clock_s', [0.0, 0.01, 1.0])
@pytest.mark.parametrize('stalled', ['node', 'clock'])
def test_no_stamp_is_further_ahead_than_the_tolerance_at_the_usual_speed(
        rate_hz, clock_s, stalled):
    """The node, or what publishes `/clock`, stands still for 0.7 s and catches up."""
    steady = 0
    broadcast = MapToOdom(SECOND // 10, lambda: steady)
    broadcast.update(some())
    for number in range(200):
        steady += SECOND // rate_hz
        if stalled == 'node' and number in (60, 63, 120):
            steady += 7 * SECOND // 10
        seen = steady
        if stalled == 'clock' and steady % (5 * SECOND) < 7 * SECOND // 10:
            seen -= steady % (5 * SECOND)
        if clock_s:
            seen -= seen % round(clock_s * SECOND)
        stamp = broadcast.next_stamp_ns(100 * SECOND + seen)
        assert stamp is None or stamp - (100 * SECOND + seen) <= SECOND // 10


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
