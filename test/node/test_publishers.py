"""Messages laid out by numpy are what rclpy reads back; names of topics, stamps of map -> odom."""

import numpy as np
import pytest
from nav_msgs.msg import Path
from node_world import SECOND
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.validate_topic_name import validate_topic_name
from visualization_msgs.msg import MarkerArray

from sparser_ros.node import markers
from sparser_ros.node.messages import path_bytes, path_points, topic_token
from sparser_ros.node.publishers import MapToOdom


@pytest.mark.parametrize('frame', ['map', 'm', 'world', 'some/map_1', ''])
@pytest.mark.parametrize('count', [0, 1, 2, 57])
def test_path_round_trip(frame, count):
    rng = np.random.default_rng(count)
    stamps = 1_700_000_000_123_456_789 + np.arange(count, dtype=np.int64) * 1_234_567_891
    positions, quats = rng.normal(size=(count, 3)), rng.normal(size=(count, 4))
    data = path_bytes(5_000_000_007, frame, stamps, positions, quats)
    message = deserialize_message(data, Path)
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (5, 7)
    assert message.header.frame_id == frame
    assert len(message.poses) == count
    for k, pose in enumerate(message.poses):
        assert pose.header.frame_id == frame
        assert pose.header.stamp.sec * 10**9 + pose.header.stamp.nanosec == stamps[k]
        point, turn = pose.pose.position, pose.pose.orientation
        assert [point.x, point.y, point.z] == positions[k].tolist()
        assert [turn.x, turn.y, turn.z, turn.w] == quats[k].tolist()
    assert len(serialize_message(message)) == len(data)
    read_stamps, read_positions = path_points(data)
    assert read_stamps.tolist() == stamps[1:].tolist()
    assert read_positions.tolist() == positions[1:].tolist()


def test_marker_array_round_trip():
    rng = np.random.default_rng(1)
    segments = rng.normal(size=(5000, 2, 3))
    lines = markers.line_list('ranges', 3, segments, (0.1, 0.2, 0.3, 0.4), 0.05)
    text = markers.Marker('beacons', 7, markers.TEXT, position_xyz=(1.0, 2.0, 3.0),
                          quat_xyzw=(0.0, 0.0, 0.6, 0.8), text='Turm ü')
    data = markers.marker_array_bytes(1_500_000_000, 'map', [markers.WIPE, *lines, text])
    message = deserialize_message(data, MarkerArray)
    assert len(serialize_message(message)) == len(data)
    before, first, label = message.markers
    assert before.action == before.DELETEALL
    points = [[p.x, p.y, p.z] for p in first.points]
    np.testing.assert_array_equal(points, segments.reshape(-1, 3))
    assert first.header.frame_id == 'map' and first.header.stamp.nanosec == 500_000_000
    assert first.type == first.LINE_LIST and first.color.a == pytest.approx(0.4)
    assert (label.ns, label.id, label.text) == ('beacons', 7, 'Turm ü')
    assert label.type == label.TEXT_VIEW_FACING and label.pose.position.y == 2.0
    assert (label.pose.orientation.z, label.pose.orientation.w) == (0.6, 0.8)


@pytest.mark.parametrize(('robot', 'token'), [
    ('A', 'A'), ('01', 'robot_01'), ('tug-3', 'tug_3'), ('/team/7b', 'team/robot_7b'),
])
def test_robot_names_become_topic_names(robot, token):
    assert topic_token(robot) == token
    assert validate_topic_name(f'~/path/{token}')


def test_stamps_never_repeat_or_go_back_but_after_a_jump():
    some, broadcast = {'A': np.eye(4)}, MapToOdom()

    def stamp(now_ns):
        return broadcast.next_stamp_ns(now_ns, tolerance_ns=100)

    assert stamp(5 * SECOND) is None, 'no solution'
    broadcast.update(some)
    assert stamp(0) is None, 'no time'
    first = stamp(5 * SECOND)
    assert first == 5 * SECOND + 100
    assert stamp(5 * SECOND) is stamp(4 * SECOND) is None
    broadcast.update(some)
    assert stamp(5 * SECOND) > first, 'a new solution is sent all the same'
    assert stamp(5 * SECOND) is None
    assert stamp(6 * SECOND) == 6 * SECOND + 100
    broadcast.clear()
    broadcast.update(some)
    assert stamp(SECOND) > 6 * SECOND
    broadcast.clear(restart_stamps=True)
    broadcast.update(some)
    assert stamp(SECOND) == SECOND + 100
