"""What known beacons, fixes and priors fix of the frame."""

import numpy as np
import pytest
from backend_world import World, graph_of

from sparser_ros.backend.observability.absolute_data import Determined, absolute_data
from sparser_ros.graph import PosePriors, Ranges, empty


def heard(beacons, known, dimension=2):
    start = [[1.0, 1.0, 1.0][:dimension]]
    world = World(['curved'], start, beacons=beacons, known=known, dimension=dimension, steps=6)
    return graph_of(world.increments(1), dimension)


@pytest.mark.parametrize(('known', 'determined'), [
    ((), Determined.NOTHING), ((0,), Determined.POSITION), ((0, 1), Determined.MIRRORED),
    ((0, 1, 2), Determined.MIRRORED), ((0, 1, 3), Determined.FRAME)])
def test_known_beacons_of_the_plane(known, determined):
    found = absolute_data(heard([[0, 0], [5, 0], [9, 0], [3, 7]], known))
    assert found.determined is determined
    assert found.points == tuple(f'L{k}' for k in known)


@pytest.mark.parametrize(('known', 'determined'), [
    ((0, 1), Determined.POSITION), ((0, 1, 2), Determined.MIRRORED),
    ((0, 1, 2, 3), Determined.FRAME)])
def test_known_beacons_of_space(known, determined):
    beacons = [[0, 0, 0], [5, 0, 0], [0, 5, 0], [1, 2, 6]]
    assert absolute_data(heard(beacons, known, 3)).determined is determined


def test_beacons_that_are_not_heard_do_not_count():
    graph = heard([[0, 0], [5, 0]], (0, 1)).replaced(ranges=empty(Ranges, 2))
    assert absolute_data(graph).determined is Determined.NOTHING


def test_one_known_beacon_is_said_to_leave_the_heading_open():
    assert 'heading is unobservable' in absolute_data(heard([[0, 0]], (0,))).words


def test_a_prior_on_a_pose_fixes_the_frame():
    graph = heard([[0, 0]], ()).replaced(pose_priors=PosePriors(
        np.array([0]), np.eye(2)[None], np.zeros((1, 2)), np.ones(1), np.ones(1),
        np.zeros(1, dtype=np.int64)))
    assert absolute_data(graph).determined is Determined.FRAME
