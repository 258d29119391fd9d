"""What known beacons, fixes and priors fix of the frame."""

import numpy as np
import pytest
from backend_world import World, graph_of

from sparser_ros.backend.observability.datum import frame_missing
from sparser_ros.graph import PosePriors, Ranges, empty


def heard(beacons, known, dimension=2):
    start = [[1.0, 1.0, 1.0][:dimension]]
    world = World(['curved'], start, beacons=beacons, known=known, dimension=dimension, steps=6)
    return graph_of(world.increments(1), dimension)


NONE, POSITION, MIRRORED = 'no known beacon', 'a position only', 'its mirror image'


@pytest.mark.parametrize(('known', 'missing'), [
    ((), NONE), ((0,), POSITION), ((0, 1), MIRRORED), ((0, 1, 2), MIRRORED), ((0, 1, 3), '')])
def test_known_beacons_of_the_plane(known, missing):
    words = frame_missing(heard([[0, 0], [5, 0], [9, 0], [3, 7]], known))
    assert missing in words and bool(words) == bool(missing)
    assert not words or all(f'L{k}' in words for k in known)


@pytest.mark.parametrize(('known', 'missing'), [
    ((0, 1), POSITION), ((0, 1, 2), MIRRORED), ((0, 1, 2, 3), '')])
def test_known_beacons_of_space(known, missing):
    beacons = [[0, 0, 0], [5, 0, 0], [0, 5, 0], [1, 2, 6]]
    words = frame_missing(heard(beacons, known, 3))
    assert missing in words and bool(words) == bool(missing)


def test_beacons_that_are_not_heard_do_not_count():
    graph = heard([[0, 0], [5, 0]], (0, 1)).replaced(ranges=empty(Ranges, 2))
    assert NONE in frame_missing(graph)


def test_one_known_beacon_is_said_to_leave_the_heading_open():
    assert 'heading is unobservable' in frame_missing(heard([[0, 0]], (0,)))


def test_a_prior_on_a_pose_fixes_the_frame():
    graph = heard([[0, 0]], ()).replaced(pose_priors=PosePriors(
        np.array([0]), np.eye(2)[None], np.zeros((1, 2)), np.ones(1), np.ones(1),
        np.zeros(1, dtype=np.int64)))
    assert frame_missing(graph) == ''
