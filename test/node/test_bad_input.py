"""Bad messages amid good ones are counted with a reason, and nothing of them is published."""

import math

import numpy as np
from node_world import SECOND, THREAD, Scene, World, odometry_message, range_message
from sparser_ros.msg import LoopClosure

from sparser_ros.node.messages import time_message

NAN = math.nan
UNIT = [0.0, 0.0, 0.0, 1.0]


def pose(stamp, position=(0.0, 0.0, 0.0), quat=UNIT):
    return odometry_message('A', stamp, position, quat, np.eye(6) * 1e-4)


def closure(from_stamp, to_stamp, to_robot='B', x=1.0, quat_w=1.0):
    message = LoopClosure(from_robot='A', to_robot=to_robot, confidence=NAN)
    message.from_stamp, message.to_stamp = time_message(from_stamp), time_message(to_stamp)
    message.relative_pose.pose.position.x = x
    message.relative_pose.pose.orientation.w = quat_w
    return message


def rubbish(t):
    return [
        *(('/A/odom', one) for one in (
            pose(t, (NAN, 0.0, 0.0)), pose(t, (0.0, math.inf, 0.0)), pose(t, quat=[0.0] * 4),
            pose(t, quat=[NAN, 0.0, 0.0, 1.0]))),
        *(('/uwb/ranges', range_message(*one)) for one in (
            ('A', 'B', t, NAN), ('A', 'B', t, math.inf), ('A', 'B', t, -1.0), ('A', 'B', t, 0.0),
            ('A', 'B', t, 1e6), ('A', 'A', t, 3.0), ('A', 'nobody', t, 3.0), ('', 'A', t, 3.0))),
        *(('/loop_closures', one) for one in (
            closure(t, t, x=NAN), closure(t, t, quat_w=0.0), closure(t, t, to_robot='Z'),
            closure(0, t)))]


def test_bad_input_amid_good_data_changes_nothing():
    scene, events, bad = Scene(), [], 0
    for number, (stamp, topic, message) in enumerate(scene.events):
        events.append((stamp, topic, message))
        if number % 70 == 3:
            events += [(stamp, *one) for one in rubbish(stamp)]
            bad += len(rubbish(stamp))
    beacons = {f'radios.L{k}.beacon': f'L{k}' for k in range(4)}
    with World({'ranges.unknown_radios': 'ignore', **beacons}) as world:
        world.map_of(events)
        assert world.until(lambda: world.status.waiting == 0)
        # Some good ones right beside absurd ones are not believed, either.
        beside = world.counters()['odometry']['dropped'].get('among_absurd', 0)
        assert beside < 10 and world.until(
            lambda: (world.status.dropped, world.status.received)
            == (bad + beside, len(events))), world.status
        for kind, reasons in (
                ('odometry', {'not_finite', 'quaternion'}), ('closures', {'unknown_robot'}),
                ('ranges', {'not_finite', 'self_range', 'unknown_radio'})):
            dropped = world.counters()[kind]['dropped']
            assert all(any(reason in name for name in dropped) for reason in reasons), dropped
        assert world.status.closures == 0
        self_ranges = str(world.counters()['ranges']['dropped']['self_range'])
        assert world.until(lambda: any(
            (v.key, v.value) == ('ranges.dropped.self_range', self_ranges)
            for one in world.heard['/diagnostics'] for v in one.status[0].values))
        assert world.until(
            lambda: all(world.heard[f'/sparser/path/{robot}'] for robot in 'AB'))
        for _, _, transform in world.transforms():
            assert np.all(np.isfinite(transform))
        for robot in 'AB':
            for sent in world.heard[f'/sparser/path/{robot}'][-1].poses:
                point, turn = sent.pose.position, sent.pose.orientation
                assert all(map(math.isfinite, (point.x, point.y, point.z)))
                assert abs(turn.x**2 + turn.y**2 + turn.z**2 + turn.w**2 - 1) < 1e-9


def test_odometry_far_back_in_time_resets():
    with World(THREAD) as world:
        t = Scene().events[0][0]
        world.send('/A/odom', pose(t + 100 * SECOND))
        assert world.until(lambda: world.node.pipeline.graph.n_poses == 1)
        for k in range(3):  # a single bad stamp is no jump
            world.send('/A/odom', pose(t + k * SECOND // 10))
        assert world.until(lambda: world.node.pipeline.graph.n_poses == 0), 'no reset'
        world.send('/A/odom', pose(t + SECOND))
        assert world.until(lambda: world.counters()['odometry']['accepted'] == 1)
