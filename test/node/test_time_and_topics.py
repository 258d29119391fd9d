"""Simulated time, jumps of the clock, and topics as other people publish them."""

import re

import pytest
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import Odometry
from node_world import PARAMETERS, SECOND, THREAD, Scene, World, parameters
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Range

from sparser_ros.node import alarms
from sparser_ros.node.messages import time_message
from sparser_ros.node.node import SparserNode


def tick(world, stamp):
    world.send('/clock', Clock(clock=time_message(stamp)))
    world.spin(0.02)


def broadcasts_between_solutions(world):
    """Messages on /tf in 0.6 s. New solutions are sent all the same, so none may be near."""
    while True:
        solution = world.node.pipeline.solution
        world.spin(1.0)
        before = len(world.heard['/tf'])
        world.spin(0.6)
        if world.node.pipeline.solution is solution:
            return len(world.heard['/tf']) - before


def test_clock_drives_stamps_stops_them_and_resets_when_it_jumps_back():
    scene = Scene(end_ns=1000 * SECOND)
    with World({'use_sim_time': True}) as world:
        tick(world, 940 * SECOND)
        for number, (stamp, topic, message) in enumerate(scene.events):
            world.send(topic, message)
            if number % 40 == 0:
                tick(world, stamp)
        # The clock now stands still, and with it node-clock timers; ours do not.
        world.solved()
        world.located()
        assert world.until(lambda: world.heard['/tf'])
        assert broadcasts_between_solutions(world) == 0, 'a stopped clock gives no new stamps'
        silent = len(world.heard['/tf'])
        for step in range(10):
            tick(world, 1000 * SECOND + (step + 1) * SECOND // 10)
            if world.until(lambda: len(world.heard['/tf']) > silent, 10.0):
                break
        assert len(world.heard['/tf']) > silent
        stamps = {}
        for stamp, frame, _ in world.transforms():
            assert stamp > stamps.get(frame, 0)
            assert stamp < 1002 * SECOND
            stamps[frame] = stamp
        back = iter(range(900 * 10, 10**6))

        def gone():
            # Of messages that come faster than they are read the middleware keeps the newest.
            tick(world, next(back) * SECOND // 10)
            return world.node.pipeline.graph.n_poses == 0

        assert world.until(gone), 'no reset'

        def silence():
            before = len(world.heard['/tf'])
            world.spin(0.5)
            return len(world.heard['/tf']) == before

        # What was sent before the reset may still be on its way.
        assert world.until(silence), 'TF goes on after the reset'


def test_best_effort_publishers_are_heard():
    scene = Scene()
    with World(THREAD) as world:
        lossy = world.friend.create_publisher(
            Odometry, '/A/odom', QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT))
        assert world.until(lambda: not world.node.inputs.inputs['/A/odom'].reliable)
        assert world.until(lambda: lossy.get_subscription_count() > 0)
        world.spin(0.3)
        own = [message for _, topic, message in scene.events if topic == '/A/odom']
        for message in own[:20]:
            lossy.publish(message)
            world.spin(0.02)
        assert world.until(
            lambda: world.counters()['odometry']['accepted'] >= 15), world.counters()
        world.send('/A/odom', own[30])
        assert world.until(lambda: world.node.pipeline.frontend.latest_odometry('A')[0]
                           == own[30].header.stamp.sec * SECOND
                           + own[30].header.stamp.nanosec)


def test_silence_and_units_are_reported():
    scene = Scene()
    with World(THREAD | {'node.no_data_warning_s': 0.5, 'ranges.max_m': 1e5}) as world:
        assert world.until(
            lambda: '/A/odom has said nothing' in world.status.text), world.status
        # There is a publisher, of this type here; one of another type would be as silent.
        assert any('/A/odom has said nothing' in text and 'though somebody publishes it' in text
                   for text in world.status.findings), world.status.findings
        pose = world.friend.create_publisher(PoseWithCovarianceStamped, '/initialpose', 1)
        assert world.until(pose.get_subscription_count)
        pose.publish(PoseWithCovarianceStamped())
        assert world.until(lambda: world.node.inputs.inputs['initialpose'].count == 1)
        ranges = [message for _, topic, message in scene.events if topic == '/uwb/ranges'][:120]
        for message in ranges:
            message.range *= 1000
            world.send('/uwb/ranges', message)
        assert world.until(lambda: 'looks like' in world.status.text), world.status.text
        assert world.status.state == world.status.STATE_PAUSED
        world.told('uwb/ranges has been silent')
        assert not any('initialpose' in text for text in world.status.findings), 'it comes once'


def test_two_nodes_that_publish_the_same_transforms_are_told(monkeypatch):
    # Else a node that was killed would count.
    monkeypatch.setattr(alarms, 'LEASE_S', 0.5)
    with World(THREAD) as world:
        others = [SparserNode(name, context=world.context, parameter_overrides=parameters(
            PARAMETERS | THREAD | {'robots': robots}))
            for name, robots in (('second', ['B', 'C']), ('third', ['D']))]
        try:
            world.told('/second publishes map -> odom of B as well')
            assert not any('third' in text for text in world.status.findings)
        finally:
            for node in others:
                node.destroy_node()


@pytest.mark.parametrize('waiting', [True, False])
def test_topics_of_a_player_that_waits_are_of_no_other_distribution(waiting):
    with World(THREAD | {'use_sim_time': waiting, 'node.no_data_warning_s': 5.5}) as world:
        world.told('/A/odom has said nothing')
        assert waiting != any('another ROS distribution' in text for text in world.status.findings)


def test_pair_topics_are_found_as_they_appear():
    pattern = r'/uwb/(?P<source>\w+)/to/(?P<target>\w+)'
    scene = Scene()
    with World(THREAD | {'ranges.inputs.pairs.topic': pattern,
                         'ranges.inputs.pairs.adapter': 'pair_topic'}) as world:
        assert re.fullmatch(pattern, '/uwb/A/to/L3')
        late = world.friend.create_publisher(Range, '/uwb/A/to/L3', 10)
        assert world.until(lambda: late.get_subscription_count() > 0), 'not discovered'
        for stamp, topic, message in scene.events[:60]:
            if topic == '/A/odom':
                world.send(topic, message)
                one = Range(range=5.0)
                one.header.stamp = time_message(stamp)
                late.publish(one)
                world.spin(0.02)
        assert world.until(lambda: world.counters()['ranges']['accepted'] > 0)
        assert 'L3' in world.node.pipeline.graph.landmarks.names
