"""Robots whose verticals are found to be wrong: these go, those of earlier increments as well."""

import numpy as np
import pytest
from backend_world import config, ticks
from graphs import flying_graph

from benchmark.stream import increments_of
from sparser_ros.backend.process.wire import decode, increment_message
from sparser_ros.backend.session.graph_store import GraphStore, merged, thinned
from sparser_ros.backend.session.session import Session
from sparser_ros.linalg.rotations import aligned_errors, rotvec_to_matrix

TICKS = 6


def tilted(robot):
    """(graph, truth): the odometry of a robot claims another vertical."""
    graph, truth = flying_graph(7, steps=20, beacons=4)
    # Odometry in a frame that is turned: up = R^T n, n not e_z.
    frame = rotvec_to_matrix(np.array([[0.5, 0.0, 0.0]]))[0]
    own = graph.poses.robot[graph.verticals.i] == robot
    up = np.where(
        own[:, None], np.einsum('kji,j->ki', truth.rotation[graph.verticals.i], frame[:, 2]),
        graph.verticals.up)
    return graph.replaced(verticals=graph.verticals.replaced(up=up)), truth


def driven(graph, truth, name=None, since=0):
    """(solution, rows of the truth) by increment; wrong verticals are known from `since` on."""
    session = Session(config(3))
    solutions = ticks(session, [
        one.replaced(unlevelled=(name,)) if name and number >= since else one
        for number, one in enumerate(increments_of(graph, TICKS))])
    poses = session.graph.poses
    rows = poses.robot * (len(truth.rotation) // 2) + poses.index
    return [(one, rows[:len(one.estimate.translation)]) for one in solutions]


def test_the_map_is_made_anew_without_them():
    since = 4
    graph, truth = tilted(1)
    late, never = driven(graph, truth, 'B', since), driven(graph, truth, 'B')

    def error(solution, rows):
        return np.max(aligned_errors(solution.estimate.translation, truth.translation[rows]))

    assert error(*never[-1]) < 0.3 and error(*late[-1]) < 0.3
    assert error(*late[since - 1]) > 2 * error(*late[-1])
    assert late[-1][0].stats.cost_final == pytest.approx(
        never[-1][0].stats.cost_final, rel=1e-3)


def test_the_map_stays_upright_where_it_is_the_gauge_robot():
    """The verticals of the others, and all heights, count; the map stands as they say."""
    graph, truth = tilted(0)
    solution, rows = driven(graph, truth, 'A')[-1]
    turn = np.einsum('kij,klj->kil', solution.estimate.rotation, truth.rotation[rows])
    assert np.min(turn[:, 2, 2]) > np.cos(0.15)
    assert all(robot.location.value == 'located' for robot in solution.robots)


@pytest.mark.parametrize('count', [1, 2])
def test_two_known_beacons_hold_a_map_that_knows_the_vertical(count):
    """Robots are where they truly are in the frame of the beacons; one leaves a heading open."""
    graph, truth = flying_graph(7, steps=20, beacons=4)
    marks = graph.landmarks
    solution, rows = driven(graph.replaced(landmarks=type(marks)(
        marks.names, truth.landmarks, np.arange(len(marks)) < count)), truth)[-1]
    assert solution.anchored == (count == 2)
    if count == 2:
        assert all(robot.location.value == 'located' for robot in solution.robots)
        error = np.linalg.norm(solution.estimate.translation - truth.translation[rows], axis=1)
        assert np.max(error) < 0.5


def test_they_stay_out_through_pipe_and_thinning():
    increments = increments_of(tilted(1)[0], TICKS)
    increments[-1] = increments[-1].replaced(unlevelled=('B',))
    drop = np.arange(sum(len(one.poses) for one in increments)) == 10
    piped = decode(increment_message(merged(increments))).body
    for one in (piped, thinned(increments, drop, 1000).increment):
        store = GraphStore(3)
        store.add(one, first=0)
        graph = store.graph
        assert store.unlevelled == ('B',)
        assert set(graph.poses.robot[graph.verticals.i]) == {0}


def test_gravity_and_heights_place_no_robot():
    graph, _ = flying_graph(robots=1, beacons=0, steps=20)
    session = Session(config(3, robots=graph.robots))
    solution = ticks(session, increments_of(graph, TICKS))[-1]
    (robot,) = solution.robots
    assert len(session.graph.heights) and robot.location.value == 'unlocated'
    assert robot.missing.startswith('nothing but odometry is known of it')
