"""Derivatives of rotated vectors by finite differences."""

import numpy as np
from graphs import exponential

from sparser_ros.linalg.rotations import rotation_jacobian


def test_the_jacobian_is_that_of_small_rotations(d):
    vectors, step = np.random.default_rng(0).standard_normal((7, d)), 1e-6
    turns = np.eye(1 if d == 2 else 3) * step
    differences = (exponential(turns) - exponential(-turns)) / (2 * step)
    found = np.einsum('tij,kj->kit', differences, vectors)
    np.testing.assert_allclose(rotation_jacobian(vectors), found, atol=1e-9)
