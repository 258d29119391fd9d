"""Frames of the map, from messages that a real publisher sends."""

import time

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path
from sparser_ros.msg import SolverStatus

from sparser_ros.demo.observers import Listener, MapFilm
from sparser_ros.node.messages import LATCHED, STATUS

PATIENCE_S = 60


def wait_for(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def path_of(n):
    message = Path()
    for k in range(n):
        pose = PoseStamped()
        pose.pose.position.x = float(k)
        message.poses.append(pose)
    return message


def status_at(seconds, state):
    message = SolverStatus(robot_names=['A'], robot_states=[state], keyframes=3)
    message.header.stamp.sec = seconds
    return message


def test_the_map_grows_from_frame_to_frame():
    """Also while nobody is located: such a frame has the state and no path."""
    node, film = Listener('map_film_test'), MapFilm(['A'], '/filmed')
    try:
        paths = node.node.create_publisher(Path, '/filmed/path/A', LATCHED)
        states = node.node.create_publisher(SolverStatus, '/filmed/status', STATUS)
        node.start()
        wait_for(lambda: paths.get_subscription_count() and states.get_subscription_count())
        for number, state in enumerate(('unlocated', 'located', 'located'), 1):
            paths.publish(path_of(number))
            wait_for(lambda: len(film._paths.get('A', ())) == number)  # noqa: B023
            states.publish(status_at(10 * number, state))
            wait_for(lambda: len(film.frames) == number)  # noqa: B023
        assert [round(frame.seconds, 6) for frame in film.frames] == [0, 10, 20]
        assert [len(frame.paths.get('A', ())) for frame in film.frames] == [0, 2, 3]
        assert [frame.states['A'] for frame in film.frames] == ['unlocated', 'located', 'located']
        # Of statuses at nearly the same time only the newest stays.
        states.publish(status_at(20, 'ambiguous'))
        wait_for(lambda: len(film.frames) == 4)
        states.publish(status_at(20, 'unlocated'))
        wait_for(lambda: film.frames[-1].states['A'] == 'unlocated')
        assert len(film.frames) == 4
    finally:
        film.close()
        node.close()
