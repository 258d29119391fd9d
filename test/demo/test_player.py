"""A bag is published as recorded, at its pace, with a clock; nothing is lost, Ctrl-C ends it."""

import contextlib
import signal
import sys
import threading
import time
from uuid import uuid4

import numpy as np
import pytest
from nav_msgs.msg import Odometry, Path
from node_world import PATIENCE_S, friend
from rosbags.typesys import Stores
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Range
from sparser_ros.msg import SolverStatus, UwbRange
from waiting import ended

from sparser_ros.config import ConfigError
from sparser_ros.demo import player as player_module
from sparser_ros.demo.player import NO_MORE_S, Player, same_definition, translated
from sparser_ros.demo.processes import Child, free_domain, isolated_environment
from sparser_ros.io.bag import BagMessage, SensorBagWriter, typestore
from sparser_ros.node.messages import message_type, stamp_ns

SECOND = 10**9
COUNT = 400


@pytest.fixture
def robot():
    """A name that nobody else on this machine knows, nor what an earlier test left behind."""
    return f'r{uuid4().hex}'


@pytest.fixture
def odometry(robot):
    return f'/{robot}/odom'


@pytest.fixture
def bag(tmp_path, robot):
    path = tmp_path / 'bag'
    with SensorBagWriter(path) as writer:
        for k in range(COUNT):
            stamp = 50 * SECOND + k * SECOND // 100
            writer.odometry(robot, stamp, np.array([k, 0.0, 0.0]), np.array([0, 0, 0, 1.0]),
                            np.eye(6))
            writer.uwb_range(robot, 'L1', stamp, 1.0 + k, 0.01)
    return path


@contextlib.contextmanager
def player_of(bag, node, **options):
    player = Player(bag, context=node.context, **options)
    try:
        yield player
    finally:
        player.destroy_node()


def test_everything_arrives_in_order_and_in_time(bag, odometry):
    heard, clock, reports = {'odom': [], 'range': []}, [], []
    end = 50 * SECOND + (COUNT - 1) * SECOND // 100
    with friend('listener') as (node, until), player_of(
            bag, node, rate=4.0, clock_hz=50.0) as player:
        node.create_subscription(Odometry, odometry, heard['odom'].append, 1000)
        node.create_subscription(UwbRange, '/uwb/ranges', heard['range'].append, 1000)
        node.create_subscription(Clock, '/clock', lambda m: clock.append(stamp_ns(m.clock)), 1000)
        node.create_publisher(SolverStatus, '~/status', 1)  # as our node has it

        def play():
            player.wait_for_listeners(PATIENCE_S, '/listener')
            assert player.found_node and not player.unheard()
            reports.append(player.play())

        thread = threading.Thread(target=play)
        thread.start()
        until(lambda: not thread.is_alive() and min(map(len, heard.values())) == COUNT
              and clock[-1] == end)
    (report,) = reports
    assert report.sent == {odometry: COUNT, '/uwb/ranges': COUNT}
    assert report.unheard == ()
    assert [m.pose.pose.position.x for m in heard['odom']] == list(range(COUNT))
    assert [m.range for m in heard['range']] == [1.0 + k for k in range(COUNT)]
    assert report.seconds > 0.9
    assert report.bag_seconds == pytest.approx((COUNT - 1) / 100)
    assert len(clock) > 2 and clock == sorted(clock) and clock[0] >= 50 * SECOND


def test_who_else_listens_does_not_start_the_bag(bag, robot, odometry, tmp_path):
    """A recorder of all topics is there long before the node, which then hears every message."""
    domain, heard, states = free_domain(), [], []
    play = [sys.executable, '-m', 'sparser_ros', 'play', str(bag), '--rate', '8', '--wait', '300']
    run = [sys.executable, '-m', 'sparser_ros.node.main', '--ros-args', '-p', f'robots:=[{robot}]',
           '-p', 'use_sim_time:=true', '-p', 'node.status_period_s:=0.2']
    environment = isolated_environment(domain)
    with friend('recorder', domain) as (recorder, until):
        for topic, kind in ((odometry, Odometry), ('/uwb/ranges', UwbRange)):
            recorder.create_subscription(kind, topic, heard.append, 1000)
        recorder.create_subscription(SolverStatus, '/sparser/status', states.append, 10)
        with Child(play, tmp_path / 'player.log', environment) as player:
            until(lambda: recorder.count_publishers(odometry))
            begin = time.monotonic()
            until(lambda: time.monotonic() - begin > NO_MORE_S + 1.5)
            assert not heard and player.poll() is None
            with Child(run, tmp_path / 'node.log', environment) as node:
                until(lambda: player.poll() is not None)
                assert player.poll() == 0, player.tail()
                until(lambda: states[-1].received >= 2 * COUNT)
                assert states[-1].received == 2 * COUNT, node.tail()
        until(lambda: len(heard) == 2 * COUNT)


@pytest.mark.parametrize('wait', ['0', '1000'])
def test_ctrl_c_is_no_error(bag, odometry, tmp_path, wait):
    domain, clocks = free_domain(), []
    play = [sys.executable, '-m', 'sparser_ros', 'play', str(bag), '--rate', '0.01', '--wait', wait]
    with friend('friend', domain) as (node, until):
        node.create_subscription(Clock, '/clock', clocks.append, 10)
        with Child(play, tmp_path / 'log', isolated_environment(domain)) as player:
            until(lambda: clocks if wait == '0' else node.count_publishers(odometry))
            player._signal(signal.SIGINT)
            assert ended(player) == 0, player.tail()
            assert 'Traceback' not in player.tail(100)


def test_a_node_that_hears_nothing_of_the_bag_is_told_what_there_is(bag, odometry):
    """A launch without parameters: the player ends with the topics that the bag has."""
    with friend('deaf') as (node, until), player_of(bag, node) as player:
        node.create_publisher(SolverStatus, '~/status', 1)
        thread = threading.Thread(
            target=player.wait_for_listeners, args=(PATIENCE_S, '/deaf'))
        thread.start()
        until(lambda: not thread.is_alive())
        assert player.unheard() and player.found_node and player.heard == frozenset()
        assert f'{odometry} [nav_msgs/msg/Odometry], /uwb/ranges' in player.misfit()


def test_topics_of_unknown_types_are_left_out(bag, odometry, monkeypatch):
    known = player_module.message_type

    def without_ranges(name):
        if name.endswith('UwbRange'):
            raise ConfigError(f'message type {name} is not available')
        return known(name)

    monkeypatch.setattr(player_module, 'message_type', without_ranges)
    with friend() as (node, _), player_of(bag, node, rate=1000.0) as player:
        assert list(player.skipped) == ['/uwb/ranges']
        assert player.unheard() == (odometry,)
        assert player.play().sent == {odometry: COUNT}


def test_impossible_rates_are_refused(bag):
    for options in ({'rate': 0.0}, {'rate': -1.0}, {'clock_hz': 0.0}):
        with pytest.raises(ConfigError, match='above zero'):
            Player(bag, **options)


def test_message_types_by_name():
    assert message_type('sensor_msgs/msg/Range') is Range
    assert message_type('sensor_msgs/Range') is Range
    with pytest.raises(ConfigError, match='install the package no_such_msgs'):
        message_type('no_such_msgs/msg/Nothing')


def test_older_definitions_and_arrays_are_translated():
    """`Range` of Humble has no variance: its bytes are no message of a newer ROS."""
    store = typestore(Stores.ROS2_HUMBLE)
    assert same_definition('nav_msgs/msg/Odometry', store.fielddefs)
    is_new = 'variance' in Range.get_fields_and_field_types()
    assert same_definition('sensor_msgs/msg/Range', store.fielddefs) is not is_new
    types = store.types

    def through(topic, kind, *fields):
        raw = bytes(store.serialize_cdr(types[kind](*fields), kind))
        return translated(BagMessage(topic, kind, 9, raw, store, None))

    header = types['std_msgs/msg/Header'](types['builtin_interfaces/msg/Time'](7, 8), 'n_1')
    message = through('/r', 'sensor_msgs/msg/Range', header, 1, 0.5, 0.25, 40.0, 12.5)
    assert isinstance(message, Range)
    assert (message.header.stamp.sec, message.header.frame_id) == (7, 'n_1')
    assert (message.range, message.max_range, message.radiation_type) == (12.5, 40.0, 1)
    pose = types['geometry_msgs/msg/Pose'](
        types['geometry_msgs/msg/Point'](1.0, 2.0, 3.0),
        types['geometry_msgs/msg/Quaternion'](0.0, 0.0, 0.0, 1.0))
    path = through('/p', 'nav_msgs/msg/Path', header, [
        types['geometry_msgs/msg/PoseStamped'](header, pose)] * 2)
    assert isinstance(path, Path) and len(path.poses) == 2
    assert path.poses[1].pose.position.y == 2.0
