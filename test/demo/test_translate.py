"""Messages of other definitions than the installed ones get the fields that both have."""

import pytest

pytest.importorskip('rclpy', reason='needs rclpy')

from nav_msgs.msg import Path
from rosbags.typesys import Stores
from sensor_msgs.msg import Range

from sparser_ros.config import ConfigError
from sparser_ros.demo.player import same_definition, translated
from sparser_ros.io.bag import BagMessage
from sparser_ros.io.messages import typestore
from sparser_ros.node.messages import message_type


def test_message_types_by_name():
    assert message_type('sensor_msgs/msg/Range') is Range
    assert message_type('sensor_msgs/Range') is Range
    with pytest.raises(ConfigError, match='install the package no_such_msgs'):
        message_type('no_such_msgs/msg/Nothing')


def test_older_definitions_are_translated():
    """`Range` of Humble has no variance: its bytes are no message of a newer ROS."""
    store = typestore(Stores.ROS2_HUMBLE)
    assert same_definition('nav_msgs/msg/Odometry', store.fielddefs)
    assert same_definition('nav_msgs/msg/Path', store.fielddefs)
    kind = 'sensor_msgs/msg/Range'
    is_new = 'variance' in Range.get_fields_and_field_types()
    assert same_definition(kind, store.fielddefs) is not is_new
    types = store.types
    header = types['std_msgs/msg/Header'](types['builtin_interfaces/msg/Time'](7, 8), 'n_1')
    old = types[kind](header, 1, 0.5, 0.25, 40.0, 12.5)
    raw = bytes(store.serialize_cdr(old, kind))
    message = translated(BagMessage('/r', kind, 9, raw, store, None))
    assert isinstance(message, Range)
    assert (message.header.stamp.sec, message.header.frame_id) == (7, 'n_1')
    assert (message.range, message.max_range, message.radiation_type) == (12.5, 40.0, 1)


def test_arrays_are_translated():
    store = typestore()
    types = store.types
    header = types['std_msgs/msg/Header'](types['builtin_interfaces/msg/Time'](1, 2), 'map')
    pose = types['geometry_msgs/msg/Pose'](
        types['geometry_msgs/msg/Point'](1.0, 2.0, 3.0),
        types['geometry_msgs/msg/Quaternion'](0.0, 0.0, 0.0, 1.0))
    path = types['nav_msgs/msg/Path'](
        header, [types['geometry_msgs/msg/PoseStamped'](header, pose)] * 2)
    raw = bytes(store.serialize_cdr(path, 'nav_msgs/msg/Path'))
    message = translated(BagMessage('/p', 'nav_msgs/msg/Path', 9, raw, store, None))
    assert isinstance(message, Path) and len(message.poses) == 2
    assert message.poses[1].pose.position.y == 2.0
