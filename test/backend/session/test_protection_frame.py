"""Errors beside the map: no common motion counts, and what is left is that of an alignment."""

import numpy as np
import pytest

from sparser_ros.backend.session.protection_frame import relative_to
from sparser_ros.linalg.dense.alignment import align
from sparser_ros.linalg.dense.rotations import angle_to_matrix, rotvec_to_matrix


@pytest.mark.parametrize('dimension', [2, 3])
def test_a_displacement_is_what_an_alignment_leaves(dimension):
    random = np.random.default_rng(dimension)
    points = random.normal(scale=5.0, size=(6, dimension))
    small = 1e-4 * random.normal(size=points.shape)
    turn = angle_to_matrix(1e-4) if dimension == 2 else rotvec_to_matrix(
        np.array([1e-4, -2e-4, 1e-4]))
    moved = points @ turn.T + 1e-3 + small
    relative = relative_to(points[0], points[1:])
    rotation, shift = align(moved[1:], points[1:])
    left = rotation @ moved[0] + shift - points[0]
    np.testing.assert_allclose(relative @ (moved - points).ravel(), left, atol=3e-7)
    only = points @ turn.T - points + 1e-3
    np.testing.assert_allclose(relative @ only.ravel(), 0, atol=3e-7)


@pytest.mark.parametrize('dimension', [2, 3])
def test_too_few_points_leave_a_rotation_open(dimension):
    points = np.random.default_rng(1).normal(size=(4, dimension))
    line = np.outer(np.arange(4.0), np.ones(dimension))
    assert relative_to(points[0], points[1:1]) is None
    assert relative_to(points[0], points[1:dimension]) is None
    assert (relative_to(points[0], line) is None) is (dimension == 3)
    assert relative_to(points[0], np.ones((4, dimension))) is None
