"""From a lifted point back to rotations."""

import numpy as np
import pytest
from dense import packed

from sparser_ros.solver.manifold import Manifold, reduce_rank, round_to_rotations


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
