"""The compiled kernels compute the formulas."""

from types import SimpleNamespace

import formulas
import numpy as np
import pytest
from helpers import world
from tangents import tangent_basis

from sparser_ros.linalg.arrays import HOST
from sparser_ros.linalg.compiled import csr
from sparser_ros.linalg.tangent_kernels import Bearings, complements, tangent_kernels
from sparser_ros.solver import manifold as scaled_blocks
from sparser_ros.solver.manifold import Manifold, manifold_of
from sparser_ros.solver.preconditioner import NewtonPreconditioner, rotation_tangents
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator

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


@pytest.mark.parametrize('d, p', RANKS)
def test_tangent_coordinates(d, p):
    """Kernels to and from coordinates, without measurements that couple bearings."""
    manifold = Manifold(d, N, K)
    y, v, _ = sample(manifold, p)
    basis = rotation_tangents(manifold, y)
    q = basis.shape[3]
    assert np.allclose(
        np.einsum('napx,napy->nxy', basis, basis), np.broadcast_to(np.eye(q), (N, q, q)), **EXACT)
    Y, V = cut(manifold, y, v)
    x = formulas.coordinates(basis, V.rotations)
    assert np.allclose(
        formulas.ambient(basis, x), formulas.project_rotations(Y.rotations, V.rotations), **EXACT)
    normal = np.empty((K, p - 1, p))
    complements(Y.bearings, normal)
    assert np.allclose(np.einsum('kap,kp->ka', normal, Y.bearings), 0, atol=1e-14)
    kernel = tangent_kernels(d, p, q)
    bearings = Bearings(
        np.full((K, 2), -1, dtype=np.int64), normal, np.ones(K), np.zeros((K, 2, p - 1, q + p)))
    found, z = np.empty(N * (q + p)), np.empty((K, p - 1))
    kernel.coordinates(v, basis, bearings, found, z)
    assert np.allclose(found.reshape(N, q + p)[:, :q], x, **EXACT)
    assert np.allclose(z, np.einsum('kap,kp->ka', normal, V.bearings), **EXACT)
    back = np.empty_like(v)
    kernel.ambient(found, z, basis, bearings, back)
    assert np.allclose(back, manifold.project(y, v), **EXACT)


@pytest.mark.parametrize('d, p', RANKS)
@pytest.mark.parametrize('ranges', [0, 6])
def test_assembled_blocks_are_the_tangent_hessian(d, p, ranges):
    """T^T (Q - Lambda) T block by block, bearings eliminated, is the dense Schur complement."""
    problem = QuadraticProblem(world(1, d, ranges=ranges))
    schur, manifold = SchurOperator(problem), problem.manifold
    y = manifold.random_point(p, np.random.default_rng(p))
    n, k = manifold.n, manifold.k
    newton = NewtonPreconditioner(schur)
    blocks = newton._assembled(y)
    q = newton.turns.shape[3]
    full = schur.full().toarray()
    multipliers, scalars = manifold.multipliers(y, schur(y))
    # Far from a minimum bearings may be indefinite; positive multipliers keep pivots positive.
    scalars = -np.abs(scalars)
    newton.kernel.subtract_curvature(multipliers, newton.turns, newton.diagonal, blocks)
    own = full.diagonal()[n * d : n * d + k]
    b = q + p
    bearings = Bearings(
        newton.nodes, newton.normal, own - scalars, np.empty((k, 2, p - 1, b)))
    newton.kernel.eliminate(
        csr(newton.full), newton.node, newton.turns, bearings, newton.pairs, blocks)
    found = dense_of(newton, blocks)

    rows = manifold.rows
    kept = full[rows:].shape[0]
    basis = tangent_basis(manifold, y, kept).toarray()
    shifted = full.copy()
    for i in range(n):
        shifted[i * d : i * d + d, i * d : i * d + d] -= multipliers[i]
    at = np.arange(n * d, n * d + k)
    shifted[at, at] -= scalars
    hessian = basis.T @ np.kron(shifted, np.eye(p)) @ basis
    if not ranges:
        turned = formulas.tangent_hessian(newton.turns, full[: n * d, : n * d], multipliers)
        assert np.allclose(turned.reshape(n * q, n * q), hessian[: n * q, : n * q], atol=1e-8)
    bearing = np.zeros(len(hessian), dtype=bool)
    bearing[n * q : n * q + k * (p - 1)] = True
    expected = hessian[~bearing][:, ~bearing]
    if k:
        side = hessian[bearing][:, ~bearing]
        expected = expected - side.T @ np.linalg.solve(hessian[bearing][:, bearing], side)
    # Rows of `found`: rotation coordinates of all nodes, then positions of those that are kept.
    nodes = newton.node[rows:]
    order = np.concatenate([
        (np.arange(n)[:, None] * b + np.arange(q)).ravel(),
        (nodes[:, None] * b + q + np.arange(p)).ravel()])
    assert np.allclose(
        found[np.ix_(order, order)], expected, atol=1e-9 * np.abs(expected).max())


def dense_of(newton: NewtonPreconditioner, blocks: np.ndarray) -> np.ndarray:
    """The symmetric matrix of lower blocks in the order of the nodes."""
    symbolic = newton.symbolic
    assert symbolic is not None
    m, b = symbolic.m, symbolic.b
    node = np.argsort(symbolic.rank)
    out = np.zeros((m, b, m, b))
    for j in range(m):
        for e in range(symbolic.starts[j], symbolic.starts[j + 1]):
            i = symbolic.rows[e]
            out[node[i], :, node[j], :] = blocks[e]
            out[node[j], :, node[i], :] = blocks[e].T
    return out.reshape(m * b, m * b)
