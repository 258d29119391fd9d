"""Frames of the map, from messages that a real publisher sends."""

import time

import numpy as np
import rclpy
from nav_msgs.msg import Path
from rclpy.context import Context
from sparser_ros.msg import SolverStatus

from sparser_ros.demo.observers import Monitor
from sparser_ros.node.messages import LATCHED, STATUS, path_bytes, path_points

PATIENCE_S = 60


def wait_for(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def path_of(n):
    """As the node publishes it, of n poses, of which the first is not filmed."""
    positions = np.column_stack([np.arange(n), np.zeros((n, 2))]).astype(float)
    return path_bytes(0, 'map', np.arange(n), positions, np.tile([0.0, 0, 0, 1], (n, 1)))


def status_at(seconds, state):
    message = SolverStatus(
        robot_names=['A'], robot_states=[state], robot_fix=[0], keyframes=3)
    message.header.stamp.sec = seconds
    return message


def test_the_map_grows_from_frame_to_frame():
    """Also while nobody is located: such a frame has the state and no path."""
    context = Context()
    rclpy.init(context=context)
    node = rclpy.create_node('filmed', context=context)
    film = Monitor('/filmed', robots=['A'], film=True)
    frames = film.seen.frames
    try:
        paths = node.create_publisher(Path, '/filmed/path/A', LATCHED)
        states = node.create_publisher(SolverStatus, '/filmed/status', STATUS)
        wait_for(lambda: paths.get_subscription_count() and states.get_subscription_count())
        for number, state in enumerate(('unlocated', 'located', 'located'), 1):
            paths.publish(path_of(number + 1))
            wait_for(lambda: len(path_points(film._paths['A'])[0]) == number  # noqa: B023
                     if 'A' in film._paths else False)
            states.publish(status_at(10 * number, state))
            wait_for(lambda: len(frames) == number)  # noqa: B023
        assert [round(frame.seconds, 6) for frame in frames] == [0, 10, 20]
        assert [len(frame.paths.get('A', ())) for frame in frames] == [0, 2, 3]
        assert [frame.states['A'] for frame in frames] == ['unlocated', 'located', 'located']
        # Of statuses at nearly the same time only the newest stays.
        states.publish(status_at(20, 'ambiguous'))
        wait_for(lambda: len(frames) == 4)
        states.publish(status_at(20, 'unlocated'))
        wait_for(lambda: frames[-1].states['A'] == 'unlocated')
        assert len(frames) == 4
    finally:
        film.close()
        node.destroy_node()
        rclpy.try_shutdown(context=context)
