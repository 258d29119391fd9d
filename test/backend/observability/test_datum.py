"""The datum: what is common to all places is taken off, what is left is that of an alignment."""

import numpy as np
import pytest

from sparser_ros.backend.observability.datum import motions, relative_to, spans
from sparser_ros.linalg.rotations import align, angle_to_matrix, rotvec_to_matrix


def turned(vector):
    """Rotation matrix of a rotation vector (1,) or (3,)."""
    return angle_to_matrix(vector[0]) if len(vector) == 1 else rotvec_to_matrix(vector)


def places(dimension, count=6):
    """A pose's place, the points of a datum, and a small rotation vector."""
    random = np.random.default_rng(dimension)
    points = random.normal(scale=5.0, size=(count + 1, dimension)) + 100.0
    return points[0], points[1:], 1e-5 * random.normal(size=1 if dimension == 2 else 3)


@pytest.mark.parametrize('dimension', [2, 3])
def test_a_common_shift_and_rotation_leaves_nothing(dimension):
    place, points, turn = places(dimension)
    shift = 0.3 * np.arange(1.0, dimension + 1)
    motion = relative_to(place, points)
    assert motion.shape == (dimension + len(turn), dimension * len(points))
    rotation = turned(turn)
    moves = motion @ (points @ rotation.T + shift - points).ravel()
    np.testing.assert_allclose(
        place @ rotation.T + shift - place - moves[:dimension], 0, atol=1e-7)
    np.testing.assert_allclose(turn - moves[dimension:], 0, atol=1e-9)
    # To first order there is no error at all.
    for column in motions(np.vstack([points, place])).T:
        own = column[-dimension:]
        np.testing.assert_allclose(
            (motion @ column[:-dimension])[:dimension], own, atol=1e-10 * np.abs(column).max())


@pytest.mark.parametrize('dimension', [2, 3])
def test_what_is_left_is_that_of_an_alignment(dimension):
    place, points, turn = places(dimension)
    random = np.random.default_rng(7)
    before = np.vstack([place, points])
    moved = before @ turned(turn).T + 1e-3 + 1e-4 * random.normal(size=before.shape)
    rotation, shift = align(moved[1:], points)
    moves = relative_to(place, points) @ (moved - before)[1:].ravel()
    np.testing.assert_allclose(
        (moved - before)[0] - moves[:dimension], rotation @ moved[0] + shift - place, atol=2e-7)
    np.testing.assert_allclose(turned(-moves[dimension:]), rotation, atol=1e-8)


@pytest.mark.parametrize('dimension', [2, 3])
def test_it_does_not_depend_on_the_origin_nor_on_the_order(dimension):
    place, points, _ = places(dimension)
    motion = relative_to(place, points)
    np.testing.assert_allclose(relative_to(place - 5e3, points - 5e3), motion, atol=1e-9)
    blocks = motion.reshape(-1, len(points), dimension)
    np.testing.assert_allclose(
        relative_to(place, points[::-1]).reshape(blocks.shape), blocks[:, ::-1], atol=1e-12)


@pytest.mark.parametrize('dimension', [2, 3])
def test_too_few_points_leave_a_rotation_open(dimension):
    _, points, _ = places(dimension)
    line = 100.0 + np.outer(np.arange(4.0), np.ones(dimension))
    alike = np.full((4, dimension), 3.0)
    for few in (points[:0], points[:1], points[:dimension - 1], alike):
        assert not spans(few) and relative_to(points[-1], few) is None
    assert spans(line) is (dimension == 2)
    assert (relative_to(points[-1], line) is None) is (dimension == 3)
    assert spans(points[:dimension]) and relative_to(points[-1], points[:dimension]) is not None


def test_points_all_but_in_line_leave_a_rotation_open_in_space():
    line = np.outer(np.arange(4.0), np.ones(3))
    beside = np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert not spans(line + 1e-4 * beside) and spans(line + 0.1 * beside)
