"""`sparser play` ends without an error when it is stopped."""

import signal
import sys
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs rclpy')
pytest.importorskip('sparser_ros.msg', reason='needs the built messages')

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rosgraph_msgs.msg import Clock

from sparser_ros.demo.processes import Child, isolated_environment
from sparser_ros.io.bag import SensorBagWriter

PATIENCE_S = 120.0
pytestmark = pytest.mark.timeout(3 * PATIENCE_S)
SECOND = 10**9


@pytest.fixture
def bag(tmp_path):
    """An hour, in which it is stopped."""
    path = tmp_path / 'bag'
    with SensorBagWriter(path) as writer:
        for k in range(3600):
            writer.odometry('A', (50 + k) * SECOND, np.array([k, 0.0, 0.0]),
                            np.array([0, 0, 0, 1.0]), np.eye(6))
    return path


@pytest.mark.parametrize('wait', ['0', '1000'])
def test_ctrl_c_is_no_error(bag, tmp_path, wait):
    """Stopped while it plays, or while it waits for somebody who listens."""
    environment = isolated_environment()
    context, clocks = Context(), []
    rclpy.init(context=context, domain_id=int(environment['ROS_DOMAIN_ID']))
    friend = rclpy.create_node('friend', context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(friend)
    friend.create_subscription(Clock, '/clock', clocks.append, 10)
    try:
        with Child([sys.executable, '-m', 'sparser_ros', 'play', str(bag), '--wait', wait],
                   tmp_path / 'log', environment) as player:
            end = time.monotonic() + PATIENCE_S
            while not (clocks if wait == '0' else friend.count_publishers('/A/odom')):
                assert time.monotonic() < end and player.poll() is None, player.tail()
                executor.spin_once(timeout_sec=0.05)
            player._signal(signal.SIGINT)
            while player.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            assert player.poll() == 0, player.tail()
            assert 'Traceback' not in player.tail(100)
    finally:
        executor.shutdown(timeout_sec=2.0)
        friend.destroy_node()
        rclpy.try_shutdown(context=context)
