"""Bad messages of every kind are counted with a reason, and nothing of them is published."""

import math

import numpy as np
import pytest
from node_world import START_S, Scene, World, odometry_message, range_message
from sparser_ros.msg import LoopClosure

from sparser_ros.node.messages import time_message

pytestmark = pytest.mark.timeout(2 * START_S)

NAN = math.nan
SECOND = 10**9
UNIT = [0.0, 0.0, 0.0, 1.0]
COVARIANCE = np.eye(6) * 1e-4


def pose(stamp, position=(0.0, 0.0, 0.0), quat=UNIT, covariance=COVARIANCE):
    return odometry_message('A', stamp, position, quat, covariance)


def closure(from_stamp, to_stamp, to_robot='B', x=1.0, quat_w=1.0):
    message = LoopClosure(from_robot='A', to_robot=to_robot, confidence=NAN)
    message.from_stamp, message.to_stamp = time_message(from_stamp), time_message(to_stamp)
    message.relative_pose.pose.position.x = x
    message.relative_pose.pose.orientation.w = quat_w
    return message


@pytest.fixture
def world():
    with World({'ranges.unknown_radios': 'ignore', 'backend.worker': 'thread',
                'radios.L0.beacon': 'L0', 'node.start_paused': True}) as running:
        running.scene = Scene()
        yield running


def settle(world, kind, count):
    assert world.until(lambda: world.counters()[kind]['received'] == count), world.counters()
    return world.counters()[kind]


BAD = {
    '/A/odom': ('odometry', {'not_finite', 'quaternion'}, lambda t: [
        pose(t, (NAN, 0.0, 0.0)), pose(t, (0.0, math.inf, 0.0)),
        pose(t, quat=[0.0, 0.0, 0.0, 0.0]), pose(t, quat=[NAN, 0.0, 0.0, 1.0])]),
    '/uwb/ranges': ('ranges', {'not_finite', 'self_range', 'unknown_radio'}, lambda t: [
        range_message('A', 'B', t, NAN), range_message('A', 'B', t, math.inf),
        range_message('A', 'B', t, -1.0), range_message('A', 'B', t, 0.0),
        range_message('A', 'B', t, 1e6), range_message('A', 'A', t, 3.0),
        range_message('A', 'nobody', t, 3.0), range_message('', 'A', t, 3.0)]),
    '/loop_closures': ('closures', set(), lambda t: [
        closure(t, t, x=NAN), closure(t, t, quat_w=0.0), closure(t, t, to_robot='Z'),
        closure(0, t)])}


def test_bad_messages_are_counted_by_reason_and_used_for_nothing(world):
    t = world.scene.events[0][0]
    for topic, (kind, reasons, bad) in BAD.items():
        messages = bad(t)
        for message in messages:
            world.send(topic, message)
        dropped = settle(world, kind, len(messages))['dropped']
        assert sum(dropped.values()) == len(messages), dropped
        assert all(any(reason in name for name in dropped) for reason in reasons), dropped
    assert world.node.pipeline.frontend.latest_odometry('A') is None
    assert world.until(
        lambda: world.heard['/sparser/status'] and world.status.dropped == 16)
    counts = world.node.pipeline.counts
    assert (counts.keyframes, counts.ranges, counts.closures) == (0, 0, 0)

    def diagnosed():
        return any(v.key == 'ranges.dropped.self_range' and v.value == '1'
                   for one in world.heard['/diagnostics'] for v in one.status[0].values)

    assert world.until(diagnosed)


def test_odometry_far_back_in_time_resets(world):
    t = world.scene.events[0][0]
    world.send('/A/odom', pose(t + 100 * SECOND))
    settle(world, 'odometry', 1)
    assert world.until(lambda: world.node.pipeline.counts.keyframes == 1)
    for k in range(3):  # a single bad stamp is no jump
        world.send('/A/odom', pose(t + k * SECOND // 10))
    assert world.until(lambda: world.node.pipeline.counts.keyframes == 0), 'no reset'
    world.send('/A/odom', pose(t + SECOND))
    assert world.until(lambda: world.counters()['odometry']['accepted'] == 1)


def test_bad_input_amid_good_data_changes_nothing():
    """A scene with rubbish in between ends with finite output, every refusal counted."""
    scene = Scene()
    rubbish = 0
    events = []
    for number, (stamp, topic, message) in enumerate(scene.events):
        events.append((stamp, topic, message))
        if number % 7 == 3:
            rubbish += 2
            events.append((stamp, '/uwb/ranges', range_message('A', 'L0', stamp, NAN)))
            events.append((stamp, '/B/odom', odometry_message(
                'B', stamp, (NAN, 0.0, 0.0), UNIT, COVARIANCE)))
    with World() as world:
        world.play(events)
        world.solved()
        world.located()
        assert world.until(lambda: world.status.waiting == 0)
        assert world.until(lambda: (world.status.dropped, world.status.received)
                           == (rubbish, len(events))), world.status
        assert world.until(
            lambda: all(world.heard[f'/sparser/path/{robot}'] for robot in 'AB'))
        for _, _, transform in world.transforms():
            assert np.all(np.isfinite(transform.rotation))
            assert np.all(np.isfinite(transform.translation))
        for robot in 'AB':
            for sent in world.heard[f'/sparser/path/{robot}'][-1].poses:
                point, turn = sent.pose.position, sent.pose.orientation
                assert all(map(math.isfinite, (point.x, point.y, point.z)))
                assert abs(turn.x**2 + turn.y**2 + turn.z**2 + turn.w**2 - 1) < 1e-9
