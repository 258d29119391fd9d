"""Derivatives of rotated vectors by finite differences."""

import numpy as np
import pytest

from sparser_ros.linalg.rotations import (
    angle_to_matrix,
    rotation_jacobian,
    rotvec_to_matrix,
)


@pytest.mark.parametrize('d', [2, 3])
def test_the_jacobian_is_that_of_small_rotations(d):
    vectors, step = np.random.default_rng(0).standard_normal((7, d)), 1e-6
    turns = np.eye(1 if d == 2 else 3) * step
    exp = rotvec_to_matrix if d == 3 else lambda angle: angle_to_matrix(angle[:, 0])
    differences = (exp(turns) - exp(-turns)) / (2 * step)
    found = np.einsum('tij,kj->kit', differences, vectors)
    np.testing.assert_allclose(rotation_jacobian(vectors), found, atol=1e-9)
