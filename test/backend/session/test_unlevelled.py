"""Robots whose verticals are found to be wrong: these go, those of earlier increments as well."""

import numpy as np
import pytest
from backend_world import config, ticks
from flying_world import flying_graph

from benchmark.stream import increments_of
from sparser_ros.backend.session.session import Session
from sparser_ros.linalg.rotations import align, rotvec_to_matrix

TICKS = 6


def stream(since, tilt=0.5):
    """(increments, truth): the odometry of B claims another vertical; it is known from `since`."""
    graph, truth = flying_graph(7, steps=20, beacons=4)
    of_b = graph.poses.robot[graph.verticals.i] == 1
    # Odometry in a frame that is turned: up = R^T n, n not e_z.
    frame = rotvec_to_matrix(np.array([[tilt, 0.0, 0.0]]))[0]
    up = np.where(
        of_b[:, None], np.einsum('kji,j->ki', truth.rotation[graph.verticals.i], frame[:, 2]),
        graph.verticals.up)
    graph = graph.replaced(verticals=graph.verticals.replaced(up=up))
    increments = increments_of(graph, TICKS)
    return [one.replaced(unlevelled=('B',)) if number >= since else one
            for number, one in enumerate(increments)], truth


def test_the_map_is_made_anew_without_them():
    """It is as one that never had them; before it is bent."""
    since = 4
    increments, truth = stream(since)
    session, fresh = (Session(config(3)) for _ in range(2))
    bent = None
    for number, one in enumerate(increments):
        session.add(one)
        fresh.add(one.replaced(unlevelled=('B',)))
        solution = session.solve()
        bent = solution if number == since - 1 else bent
    expected = fresh.solve()
    stamps = session.graph.poses

    def error(one):
        place = one.estimate.translation
        own = stamps.robot[:len(place)] * (len(truth.rotation) // 2) + stamps.index[:len(place)]
        rotation, shift = align(place, truth.translation[own])
        return float(np.max(np.linalg.norm(
            place @ rotation.T + shift - truth.translation[own], axis=1)))

    assert error(expected) < 0.3 and error(solution) < 0.3
    assert error(bent) > 2 * error(solution)
    assert solution.stats.cost_final == pytest.approx(expected.stats.cost_final, rel=1e-3)


def test_the_map_stays_upright_where_it_is_the_gauge_robot():
    """The verticals of the others, and all heights, count; the map stands as they say."""
    graph, truth = flying_graph(7, steps=20, beacons=4)
    frame = rotvec_to_matrix(np.array([[0.5, 0.0, 0.0]]))[0]
    of_a = graph.poses.robot[graph.verticals.i] == 0
    up = np.where(
        of_a[:, None], np.einsum('kji,j->ki', truth.rotation[graph.verticals.i], frame[:, 2]),
        graph.verticals.up)
    graph = graph.replaced(verticals=graph.verticals.replaced(up=up))
    session = Session(config(3))
    for one in increments_of(graph, TICKS):
        session.add(one.replaced(unlevelled=('A',)))
        solution = session.solve()
    poses = session.graph.poses
    own = poses.robot * (len(truth.rotation) // 2) + poses.index
    turn = np.einsum('kij,klj->kil', solution.estimate.rotation, truth.rotation[own])
    assert np.min(turn[:, 2, 2]) > np.cos(0.15)
    assert all(robot.location.value == 'located' for robot in solution.robots)


@pytest.mark.parametrize('count', [1, 2])
def test_two_known_beacons_hold_a_map_that_knows_the_vertical(count):
    """Robots are where they truly are in the frame of the beacons; one leaves a heading open."""
    graph, truth = flying_graph(7, steps=20, beacons=4)
    marks = graph.landmarks
    graph = graph.replaced(landmarks=type(marks)(
        marks.names, truth.landmarks, np.arange(len(marks)) < count))
    session = Session(config(3))
    *_, solution = ticks(session, increments_of(graph, TICKS))
    assert solution.anchored == (count == 2)
    if count == 2:
        assert all(robot.location.value == 'located' for robot in solution.robots)
        poses = session.graph.poses
        own = poses.robot * (len(truth.rotation) // 2) + poses.index
        error = np.linalg.norm(solution.estimate.translation - truth.translation[own], axis=1)
        assert np.max(error) < 0.5
