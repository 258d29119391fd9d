"""Stale looks stale: TF of silent robots stops, of all when the solver does; the text says so."""

import copy
import os
import signal
import time

import pytest
from node_world import SECOND, START_S, THREAD, Scene, World
from rosgraph_msgs.msg import Clock

from sparser_ros.node.messages import time_message


def keep_alive(world, robots, condition, timeout=START_S):
    """Odometry of these robots goes on, standing where it is, until the condition holds."""
    def holds():
        now = time.monotonic()
        if now - world.last_beat >= 0.1:
            world.last_beat = now
            for robot in robots:
                newest = max(stamp for name, stamp in world.scene.odometry if name == robot)
                message = copy.deepcopy(world.scene.odometry[robot, newest])
                message.header.stamp = time_message(newest + int((now - world.begin) * 1e9))
                world.send(f'/{robot}/odom', message)
        return condition()

    return world.until(holds, timeout)


@pytest.fixture
def world():
    with World({'node.stale_after_s': 1.5, 'node.no_data_warning_s': 2.5}) as running:
        running.scene, running.begin, running.last_beat = Scene(), time.monotonic(), 0.0
        running.play(running.scene.events)
        yield running


def test_the_tf_of_a_robot_whose_odometry_died_stops_and_it_is_named(world):
    assert keep_alive(world, 'AB', lambda: world.status.robots_located == 2), world.status
    assert keep_alive(world, 'A', lambda: any(
        'no odometry of B' in text for text in world.status.findings))
    assert 'B' in world.status.text
    assert world.status.state in (world.status.STATE_DEGRADED, world.status.STATE_ERROR)
    before = len(world.heard['/tf'])
    assert keep_alive(world, 'A', lambda: len(world.heard['/tf']) > before + 5)
    late = {one.child_frame_id for message in world.heard['/tf'][before + 2:]
            for one in message.transforms}
    assert late == {'A/odom'}
    assert world.status.data_age_s < 1.5
    world.told('no data')
    before = len(world.heard['/tf'])
    world.spin(0.5)
    assert len(world.heard['/tf']) == before
    assert world.until(lambda: world.status.data_age_s > 4.0)
    assert world.status.state == world.status.STATE_DEGRADED
    assert world.status.text.startswith('no data for')
    assert 'silent' not in world.status.text and 'no odometry' not in world.status.text


def test_a_solver_that_hangs_stops_tf_and_is_named(world):
    assert keep_alive(world, 'AB', lambda: world.status.robots_located == 2), world.status
    pid = world.node.pipeline.worker.state.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert keep_alive(world, 'A', lambda: any(
            'no solution' in text for text in world.status.findings))
        assert world.status.solution_age_s > 1.5
        before = len(world.heard['/tf'])
        assert keep_alive(world, 'A', lambda: world.status.solution_age_s > 3.0)
        assert len(world.heard['/tf']) <= before + 1
    finally:
        os.kill(pid, signal.SIGCONT)
    assert keep_alive(world, 'AB', lambda: not any(
        'no solution' in text for text in world.status.findings))


def test_two_publishers_of_the_clock_erase_nothing_and_are_named_until_one_is_left(tmp_path):
    scene = Scene(end_ns=1000 * SECOND)
    with World(THREAD | {'use_sim_time': True, 'node.journal.directory': str(tmp_path)}) as world:
        for stamp, topic, message in scene.events[:150]:
            world.send('/clock', Clock(clock=time_message(stamp)))
            world.send(topic, message)
            world.spin(0.005)
        assert world.until(lambda: world.node.pipeline.graph.n_poses > 10)
        count = world.node.pipeline.graph.n_poses
        other = world.friend.create_publisher(Clock, '/clock', 100)
        assert world.until(lambda: world.node.count_publishers('/clock') == 2
                           and other.get_subscription_count() > 0)
        ticks = iter(range(10**6))

        def alternating():
            for publisher, begin in ((world.publishers['/clock'], scene.events[150][0]),
                                     (other, 500 * SECOND)):
                for _ in range(5):
                    publisher.publish(Clock(clock=time_message(
                        begin + next(ticks) * SECOND // 100)))
                    world.spin(0.01)
            return any('/clock goes back and forth' in text for text in world.status.findings)

        assert world.until(alternating), world.status
        told = next(text for text in world.status.findings if 'back and forth' in text)
        assert '2 publishers (/friend, /friend)' in told
        for _ in range(10):
            alternating()
        assert world.node.pipeline.graph.n_poses >= count and world.status.map_epoch == 0
        # The one that is behind goes on alone: now it is a bag that starts again.
        world.friend.destroy_publisher(world.publishers['/clock'])
        world.publishers['/clock'] = other

        def gone():
            world.send('/clock', Clock(clock=time_message(
                600 * SECOND + next(ticks) * SECOND // 100)))
            return world.node.pipeline.graph.n_poses == 0

        assert world.until(gone), 'no reset'
        world.told('the clock jumped back by')
        folder = tmp_path / 'sparser'
        assert world.until(lambda: len(list(folder.glob('*.journal'))) == 2)
