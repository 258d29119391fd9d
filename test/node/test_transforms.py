"""Stamps of map -> odom."""

import numpy as np
import pytest

from sparser_ros.node.picture import Transform
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


def test_stamps_never_repeat_or_go_back_but_after_a_jump():
    some, broadcast = {'A': Transform(np.eye(3), np.zeros(3))}, MapToOdom(100)
    assert broadcast.next_stamp_ns(5 * SECOND) is None, 'no solution'
    broadcast.update(some)
    assert broadcast.next_stamp_ns(0) is None, 'no time'
    first = broadcast.next_stamp_ns(5 * SECOND)
    assert first == 5 * SECOND + 100
    assert broadcast.next_stamp_ns(5 * SECOND) is broadcast.next_stamp_ns(4 * SECOND) is None
    broadcast.update(some)
    assert broadcast.next_stamp_ns(5 * SECOND) > first, 'a new solution is sent all the same'
    assert broadcast.next_stamp_ns(5 * SECOND) is None
    assert broadcast.next_stamp_ns(6 * SECOND) == 6 * SECOND + 100
    broadcast.clear()
    broadcast.update(some)
    assert broadcast.next_stamp_ns(SECOND) > 6 * SECOND
    broadcast.clear(restart_stamps=True)
    broadcast.update(some)
    assert broadcast.next_stamp_ns(SECOND) == SECOND + 100
