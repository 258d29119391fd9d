"""Thousands of messages a second come in, and each is counted."""

import struct
import time

import numpy as np
import pytest
from crash_world import CrashWorld
from nav_msgs.msg import Odometry
from rclpy.serialization import serialize_message
from sparser_ros.msg import UwbRange

from sparser_ros.frontend import samples
from sparser_ros.node.messages import deserialise

RATE_HZ = 6000.0
AHEAD = 4000
"""So many messages may be on their way: fewer than the queue of a publisher holds, 5000."""


def test_six_thousand_messages_a_second_are_all_counted(tmp_path):
    world = CrashWorld(tmp_path, minutes=1.0, robots=4, odometry_rate=50.0, range_rate=50.0,
                       settings={'node.start_paused': True, 'node.journal.directory': ''})
    messages = world.messages
    with world.node():
        world.until(lambda: world.statuses)
        begin = time.monotonic()
        for number, one in enumerate(messages):
            world.publishers[one.topic].publish(one.data)
            if number - world.statuses[-1].received > AHEAD:
                # Beside many busy processes the node gets a fraction of a core for seconds.
                world.until(lambda n=number: n - world.statuses[-1].received <= AHEAD)
            while time.monotonic() - begin < number / RATE_HZ:
                pass
        world.until(lambda: world.statuses[-1].received == len(messages))
        assert not world.statuses[-1].lost_topics


@pytest.mark.parametrize('name', ['', 'A', 'frame/of/A', 'Ω'])
def test_bytes_give_the_sample_that_the_object_gives(name):
    rng = np.random.default_rng(len(name))
    message = Odometry(child_frame_id=name + 'x')
    message.header.frame_id, message.header.stamp.sec = name, 17
    message.header.stamp.nanosec = 5
    message.pose.covariance, message.twist.covariance = rng.normal(size=36), rng.normal(size=36)
    message.pose.pose.position.y, message.pose.pose.orientation.w = 2.5, -1.0
    message.twist.twist.linear.x, message.twist.twist.angular.z = 3.0, 9.0
    one = samples.read_odometry(serialize_message(message), 7, 'A')
    other = samples.odometry(
        deserialise('nav_msgs/msg/Odometry', serialize_message(message)), 7, 'A')
    for field in vars(one):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field), field)
    distance = UwbRange(source=name + 'a', target='17', range=4.5, variance=0.25, los=2,
                        first_path_rssi=-80.5, rx_rssi=-79.0)
    distance.header.frame_id = name
    assert samples.read_range(serialize_message(distance), 7) == samples.uwb_range(
        distance, 7)
    assert samples.read_range(serialize_message(distance), 7, 0.01).range_m == 0.045


@pytest.mark.parametrize('data', [b'', b'\x00\x01\x00\x00', b'\x00\x01' + bytes(40),
                                  b'\x00\x01' + b'\xff' * 100])
def test_bytes_that_hold_no_message_are_refused(data):
    for read in (lambda: samples.read_odometry(data, 1, 'A'),
                 lambda: samples.read_range(data, 1)):
        with pytest.raises((ValueError, struct.error)):
            read()
