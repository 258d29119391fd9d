"""Rotations and bearings: projection, retraction, multipliers, rounding to rank d."""

import numpy as np
import pytest
from dense import packed
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.solver.manifold import Manifold, reduce_rank, round_to_rotations

# Square and lifted, as the solver has them: kernels of others are compiled for a test alone.
CASES = [
    (d, p, homogenised) for d in (2, 3) for p in (d, 5) for homogenised in (False, True)]


def sample(d: int, p: int, homogenised: bool, seed: int = 0):
    random = np.random.default_rng(seed)
    manifold = Manifold(d, 4, 3, homogenised)
    y = manifold.random_point(p, random)
    return manifold, y, random.normal(size=y.shape)


@pytest.mark.parametrize('d, p, homogenised', CASES)
def test_projection_is_an_orthogonal_projection(d, p, homogenised):
    manifold, y, v = sample(d, p, homogenised)
    _, _, w = sample(d, p, homogenised, 1)
    tangent = manifold.project(y, v)
    assert np.abs(manifold.project(y, tangent) - tangent).max() < 1e-13
    assert np.sum(tangent * w) == pytest.approx(np.sum(v * manifold.project(y, w)), abs=1e-11)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(CASES), st.integers(0, 10**6), st.floats(0.01, 30))
def test_retraction_is_the_nearest_point(case, seed, length):
    d, p, homogenised = case
    manifold, y, v = sample(d, p, homogenised, seed)
    v = length * manifold.project(y, v)
    assert np.allclose(manifold.retract(y, v), manifold.nearest_point(y + v), atol=1e-9)


def lifted(d: int, p: int, homogenised: bool, seed: int = 0):
    """A rank-d point of rotations, turned within p columns unless its frame is held."""
    random = np.random.default_rng(seed)
    manifold = Manifold(d, 6, 4, homogenised)
    blocks = np.linalg.qr(random.normal(size=(6, d, d)))[0]
    blocks[..., 0] *= np.linalg.det(blocks)[:, None]
    bearings = random.normal(size=(4, d))
    bearings /= np.linalg.norm(bearings, axis=1, keepdims=True)
    y = packed(manifold, np.swapaxes(blocks, 1, 2), bearings)
    frame = np.linalg.qr(random.normal(size=(p, p)))[0]
    z = manifold.lift(y, p)
    return manifold, y, z if homogenised else z @ frame


@pytest.mark.parametrize('homogenised', (False, True))
@pytest.mark.parametrize('d, p', [(2, 2), (2, 5), (3, 3), (3, 5)])
def test_a_tight_solution_is_recovered(d, p, homogenised):
    manifold, y, z = lifted(d, p, homogenised)
    rounded = round_to_rotations(manifold, z)
    # The same Gram matrix: equal up to one common rotation.
    assert np.allclose(rounded @ rounded.T, y @ y.T, atol=1e-10)
    assert np.allclose(np.linalg.det(rounded[: 6 * d].reshape(6, d, d)), 1)
    if homogenised:
        assert np.allclose(rounded, y, atol=1e-12)


@pytest.mark.parametrize('homogenised', (False, True))
@pytest.mark.parametrize('d, p, rank', [(2, 5, 3), (3, 6, 4), (2, 4, 4)])
def test_reduced_points_lie_on_the_manifold(d, p, rank, homogenised):
    manifold = Manifold(d, 6, 4, homogenised)
    y = manifold.random_point(p, np.random.default_rng(0))
    z = reduce_rank(manifold, y, rank)
    assert z.shape == (manifold.rows, rank)
    assert np.allclose(manifold.nearest_point(z), z, atol=1e-12)
