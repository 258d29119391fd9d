"""The compiled kernels compute the formulas."""

from types import SimpleNamespace

import formulas
import numpy as np
import pytest

from sparser_ros.linalg.arrays import HOST
from sparser_ros.solver import manifold as scaled_blocks
from sparser_ros.solver.manifold import Manifold, manifold_of

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


@pytest.mark.parametrize('d, p', RANKS)
def test_scaled_rotations(d, p):
    """Blocks 1 and 3 have scales; the formulas of both kinds stand side by side."""
    manifold = manifold_of(d, N, K, False, (1, 3))
    y, v, g = sample(manifold, p)
    scaled = [1, 3]
    Y, V, G = (part.rotations[scaled] for part in cut(manifold, y, v, g))
    assert np.allclose(
        Y @ np.swapaxes(Y, 1, 2),
        scaled_blocks.block_scales(Y)[:, None, None] ** 2 * np.eye(d), **EXACT)
    (projected,) = cut(manifold, manifold.project(y, v))
    assert np.allclose(projected.rotations[scaled], scaled_blocks.project_scaled(Y, V), **EXACT)
    # The projection is orthogonal, and leaves what scales and turns a block.
    random = np.random.default_rng(0)
    turn = random.normal(size=(2, d, d))
    tangent = 0.3 * Y + (turn - np.swapaxes(turn, 1, 2)) @ Y
    assert np.allclose(scaled_blocks.project_scaled(Y, tangent), tangent, **EXACT)
    assert np.sum((V - scaled_blocks.project_scaled(Y, V)) * tangent) == pytest.approx(0, abs=1e-11)
    blocks, scalars = manifold.multipliers(y, g)
    assert np.allclose(blocks[scaled], scaled_blocks.scaled_multipliers(Y, G), **EXACT)
    (hessian,) = cut(manifold, manifold.hessian(y, g, v, blocks, scalars, np.empty_like(y)))
    assert np.allclose(
        hessian.rotations[scaled], scaled_blocks.scaled_hessian(Y, G, V, blocks[scaled]), **EXACT)
    (moved,) = cut(manifold, manifold.retract(y, 0.1 * manifold.project(y, v)))
    step = 0.1 * scaled_blocks.project_scaled(Y, V)
    assert np.allclose(moved.rotations[scaled], scaled_blocks.retract_scaled(Y, step), **EXACT)


@pytest.mark.parametrize('d, p', RANKS)
def test_hessian_is_the_derivative_of_the_gradient(d, p):
    """The formulas themselves: P_Y(d/dt P(Q Y)) along a retraction, by differences."""
    random = np.random.default_rng(p)
    manifold = Manifold(d, N, 0)
    q = random.normal(size=(manifold.rows,) * 2)
    q = q + q.T
    y, v, _ = sample(manifold, p)

    def blocks(x: np.ndarray) -> np.ndarray:
        return x.reshape(N, d, p)

    Y = blocks(y)
    V = formulas.project_rotations(Y, blocks(v))
    multipliers = formulas.rotation_multipliers(Y, blocks(q @ y))
    expected = formulas.rotation_hessian(Y, blocks(q @ V.reshape(y.shape)), V, multipliers)
    t, gradients = 1e-5, []
    for sign in (1, -1):
        at = formulas.retract_rotations(Y, sign * t * V)
        gradients.append(formulas.project_rotations(at, blocks(q @ at.reshape(y.shape))))
    found = formulas.project_rotations(Y, (gradients[0] - gradients[1]) / (2 * t))
    assert np.allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_change_of_cost():
    random = np.random.default_rng(0)
    q = random.normal(size=(6, 6))
    q = q + q.T
    y, moved = random.normal(size=(2, 6, 3))
    expected = np.trace(moved.T @ q @ moved) - np.trace(y.T @ q @ y)
    assert formulas.cost_change(y, moved, q @ y, q @ moved) == pytest.approx(expected)
    delta = moved - y
    assert HOST.dot(delta, q @ y + q @ moved) == pytest.approx(expected)
