"""The compiled kernels compute the formulas."""

from types import SimpleNamespace

import formulas
import numpy as np
import pytest

from sparser_ros.solver.manifold import Manifold

N, K = 5, 4
RANKS = [(d, p) for d in (2, 3) for p in (d, 5)]
"""Square and lifted, as the solver has them: kernels of others are compiled for a test alone."""
CASES = [
    (d, p, k, homogenised)
    for d, p in RANKS for k in (0, K) for homogenised in (False, True)]
EXACT = {'rtol': 1e-12, 'atol': 1e-12}


def sample(manifold: Manifold, p: int):  # type: ignore[no-untyped-def]
    """A point, and two ambient vectors."""
    random = np.random.default_rng(p)
    return manifold.random_point(p, random), *random.normal(size=(2, manifold.rows, p))


def cut(manifold: Manifold, *arrays: np.ndarray) -> list[SimpleNamespace]:
    """The rotation blocks (n, d, p), bearings (k, p) and held rows of arrays (rows, p)."""
    d, n, k = manifold.d, manifold.n, manifold.k
    return [
        SimpleNamespace(
            rotations=a[: n * d].reshape(n, d, -1), bearings=a[n * d : n * d + k],
            held=a[n * d + k :]) for a in arrays]


@pytest.mark.parametrize('d, p, k, homogenised', CASES)
def test_projection_multipliers_and_hessian(d, p, k, homogenised):
    manifold = Manifold(d, N, k, homogenised)
    y, v, g = sample(manifold, p)
    Y, V, G = cut(manifold, y, v, g)
    (projected,) = cut(manifold, manifold.project(y, v))
    assert np.allclose(
        projected.rotations, formulas.project_rotations(Y.rotations, V.rotations), **EXACT)
    assert np.allclose(
        projected.bearings, formulas.project_bearings(Y.bearings, V.bearings), **EXACT)
    assert np.all(projected.held == 0)

    blocks, scalars = manifold.multipliers(y, g)
    assert np.allclose(
        blocks, formulas.rotation_multipliers(Y.rotations, G.rotations), **EXACT)
    assert np.allclose(
        scalars, formulas.bearing_multipliers(Y.bearings, G.bearings), **EXACT)

    (hessian,) = cut(manifold, manifold.hessian(y, g, v, blocks, scalars, np.empty_like(y)))
    assert np.allclose(
        hessian.rotations,
        formulas.rotation_hessian(Y.rotations, G.rotations, V.rotations, blocks), **EXACT)
    assert np.allclose(
        hessian.bearings,
        formulas.bearing_hessian(Y.bearings, G.bearings, V.bearings, scalars), **EXACT)
    assert np.all(hessian.held == 0)


@pytest.mark.parametrize('d, p, k, homogenised', CASES)
def test_retraction(d, p, k, homogenised):
    manifold = Manifold(d, N, k, homogenised)
    y, v, _ = sample(manifold, p)
    v = manifold.project(y, v)
    Y, V, moved = cut(manifold, y, v, manifold.retract(y, v))
    # Newton's iteration for the polar factor ends at 1e-8 squared.
    assert np.allclose(
        moved.rotations, formulas.retract_rotations(Y.rotations, V.rotations), atol=1e-11)
    assert np.allclose(
        moved.bearings, formulas.retract_bearings(Y.bearings, V.bearings), **EXACT)
    assert np.array_equal(moved.held, Y.held)
