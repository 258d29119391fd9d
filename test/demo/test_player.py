"""A bag is published as recorded, at its pace, with a clock, and nothing is lost."""

import threading
import time
from itertools import pairwise
from uuid import uuid4

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs rclpy')
pytest.importorskip('sparser_ros.msg', reason='needs the built messages')

import rclpy
from nav_msgs.msg import Odometry
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rosgraph_msgs.msg import Clock
from sparser_ros.msg import UwbRange

from sparser_ros.config import ConfigError, FormatError
from sparser_ros.demo.player import Player
from sparser_ros.io.bag import BagReader
from sparser_ros.io.sensor_bag import SensorBagWriter
from sparser_ros.node.conversions import stamp_ns
from sparser_ros.node.processes import free_domain

pytestmark = pytest.mark.timeout(600)
PATIENCE_S = 120.0
SECOND = 10**9
COUNT = 400


@pytest.fixture
def robot():
    """A name that nobody else on this machine knows, nor what an earlier test left behind."""
    return f'r{uuid4().hex}'


@pytest.fixture
def odometry(robot):
    """Its topic."""
    return f'/{robot}/odom'


@pytest.fixture
def bag(tmp_path, robot):
    """Four seconds of 100 Hz odometry and ranges."""
    path = tmp_path / 'bag'
    with SensorBagWriter(path) as writer:
        for k in range(COUNT):
            stamp = 50 * SECOND + k * SECOND // 100
            writer.odometry(robot, stamp, np.array([k, 0.0, 0.0]), np.array([0, 0, 0, 1.0]),
                            np.eye(6))
            writer.uwb_range(robot, 'L1', stamp, 1.0 + k, 0.01)
    return path


@pytest.fixture
def context():
    # In a domain of its own: a participant that was killed is still heard for twenty seconds, and
    # one whose handles wait for the garbage collector for longer.
    own = Context()
    rclpy.init(context=own, domain_id=free_domain())
    yield own
    rclpy.try_shutdown(context=own)


def test_everything_arrives_in_order_and_in_time(bag, odometry, context):
    listener = rclpy.create_node('listener', context=context)
    heard, clock, wall = {'odom': [], 'range': []}, [], []
    listener.create_subscription(Odometry, odometry, heard['odom'].append, 1000)
    listener.create_subscription(UwbRange, '/uwb/ranges', heard['range'].append, 1000)
    listener.create_subscription(Clock, '/clock', lambda m: clock.append(stamp_ns(m.clock)), 1000)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(listener)
    player = Player(bag, rate=4.0, clock_hz=50.0, context=context)
    try:
        assert player.wait_for_listeners(PATIENCE_S)
        thread = threading.Thread(target=lambda: wall.append(player.play()))
        begin = time.monotonic()
        thread.start()
        end = 50 * SECOND + (COUNT - 1) * SECOND // 100
        while (thread.is_alive() or min(map(len, heard.values())) < COUNT
               or clock[-1] < end) and time.monotonic() - begin < PATIENCE_S:
            executor.spin_once(timeout_sec=0.05)
        thread.join(PATIENCE_S)
    finally:
        executor.shutdown(timeout_sec=2.0)
        player.destroy_node()
        listener.destroy_node()
    (report,) = wall
    assert report.sent == {odometry: COUNT, '/uwb/ranges': COUNT}
    assert report.unheard == ()
    assert [m.pose.pose.position.x for m in heard['odom']] == list(range(COUNT))
    assert [m.range for m in heard['range']] == [1.0 + k for k in range(COUNT)]
    assert report.seconds > 0.9
    assert report.bag_seconds == pytest.approx((COUNT - 1) / 100)
    assert all(a <= b for a, b in pairwise(clock))
    assert clock[0] >= 50 * SECOND
    assert clock[-1] == end
    assert len(clock) > 2


def test_bytes_are_those_of_the_recording(bag, odometry, context):
    player = Player(bag, context=context)
    try:
        recorded = [message.raw for message in BagReader(bag).messages([odometry])]
        played = [raw for topic, _, raw in player._messages() if topic == odometry]
    finally:
        player.destroy_node()
    assert played == [bytes(raw) for raw in recorded]


def test_topics_of_unknown_types_are_left_out(bag, odometry, context, monkeypatch):
    from sparser_ros.demo import player as module

    known = module.message_type

    def without_ranges(name):
        if name.endswith('UwbRange'):
            raise ConfigError(f'message type {name} is not available')
        return known(name)

    monkeypatch.setattr(module, 'message_type', without_ranges)
    player = Player(bag, rate=1000.0, context=context)
    try:
        assert list(player.skipped) == ['/uwb/ranges']
        assert player.unheard() == (odometry,)
        assert player.play().sent == {odometry: COUNT}
    finally:
        player.destroy_node()


@pytest.mark.parametrize('options', [{'rate': 0.0}, {'rate': -1.0}, {'clock_hz': 0.0}])
def test_impossible_rates_are_refused(bag, context, options):
    with pytest.raises(ConfigError, match='above zero'):
        Player(bag, context=context, **options)


def test_missing_bag_is_refused(tmp_path, context):
    with pytest.raises(FormatError, match='no such bag'):
        Player(tmp_path / 'nothing', context=context)
