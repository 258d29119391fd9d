"""Pieces of segments and the odometry that joins them."""

import numpy as np
import pytest
from backend_world import World, graph_of

from sparser_ros.backend.observability.pieces import MOST_UNKNOWNS, cut
from sparser_ros.graph.parts import find_segments


def pieces_of(kinds, dimension=2, steps=400, bend_m=0.05):
    world = World(
        kinds, 5.0 * np.eye(len(kinds), dimension), dimension=dimension, steps=steps, pairs=[])
    graph = graph_of(world.increments(1), dimension)
    return cut(graph, world.truth, find_segments(graph), bend_m)


@pytest.mark.parametrize(('dimension', 'turns'), [(2, 0.25), (3, 0.5)])
def test_joints_are_strained_as_much_as_the_noise_of_their_edges(dimension, turns):
    joints = pieces_of(['curved', 'curved', 'curved'], dimension).joints
    squares = np.einsum('kij,kj->ki', joints.whitener, joints.offset) ** 2
    assert squares.size > 100
    # The edges of this world claim four times the variance that they have; in space their kappa
    # means half the variance of a turn that it means in the plane.
    assert np.mean(squares[:, dimension:]) == pytest.approx(turns, rel=0.35)
    assert 0.15 < np.mean(squares[:, :dimension]) < 0.6


def test_pieces_follow_each_other_along_their_segment():
    pieces = pieces_of(['curved', 'straight'])
    assert np.all(pieces.segment[pieces.joints.before] == pieces.segment[pieces.joints.after])
    assert np.all(pieces.joints.after == pieces.joints.before + 1)
    assert np.array_equal(pieces.segment[pieces.first], [0, 1])
    assert np.array_equal(pieces.segment[pieces.last], [0, 1])
    # Rows of the two robots alternate.
    own = pieces.parts.of_pose[0::2]
    assert np.all(np.diff(own) >= 0)
    assert len(np.unique(own)) == np.sum(pieces.segment == 0)


def test_precise_odometry_needs_one_piece_and_the_number_of_pieces_is_bounded():
    assert len(pieces_of(['still'], steps=40, bend_m=1.0).segment) == 1
    many = pieces_of(['straight'] * 5, 3, steps=300, bend_m=0.05)
    assert 5 < len(many.segment) <= MOST_UNKNOWNS // 6
