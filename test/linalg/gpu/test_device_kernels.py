"""Kernels of the GPU against the compiled loops of the CPU: the same text that a device runs.

L^-1 as a product of sparse factors gives the same solutions, whatever the grouping. `warps` runs
the text thread by thread in warps of 32 lanes, whose shuffles the emulator leaves out.
"""

import ctypes
import logging
from pathlib import Path
from unittest.mock import Mock, call, patch

import numpy as np
import pytest
import scipy.sparse as sp
from emulator import EmulatedArray, Emulator, _argument
from graphs import graph_matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.linalg import arrays as backends
from sparser_ros.linalg.arrays import HOST, arrays_of
from sparser_ros.linalg.cholesky import SymbolicCholesky, factorize
from sparser_ros.linalg.gpu import partitioned_inverse
from sparser_ros.linalg.gpu.device import SOURCE, _Recorded
from sparser_ros.linalg.gpu.device_arrays import DeviceArrays, DeviceFactor
from sparser_ros.linalg.gpu.partitioned_inverse import GROWTHS, InversePlan, PartitionedInverse
from sparser_ros.linalg.ordering import fill_reducing_order
from sparser_ros.linalg.trust_region_kernels import SIZE, Outcome, State
from sparser_ros.solver.manifold import Manifold

SIZES = [(2, 2), (2, 3), (2, 5), (3, 3), (3, 5), (3, 8)]


class Warps(Emulator):
    """The text as nvcc reads it, in blocks of two warps."""

    description, warp, block = 'warps', 32, 64

    def threads(self, wanted):
        return self.block * max(1, min(-(-wanted // self.block), 2))

    def launch(self, d, p, kernel, threads, *arguments):
        library = self._built.get((d, p)) or self._build(d, p)
        values = [_argument(value) for value in arguments]
        addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        block = min(threads, self.block)
        function = library[f'launch_{kernel}']
        function.restype = ctypes.c_bool
        assert function(threads // block, block, addresses), 'lanes wait for those that have ended'

    def sources(self):
        return ['-O1', f'-DKERNELS="{SOURCE}"', str(Path(__file__).with_name('warps.cpp'))]


@pytest.fixture(scope='module')
def warps(emulated):
    made = DeviceArrays(Warps())
    backends.register(EmulatedArray, emulated)
    return made


@pytest.fixture(params=['emulated', 'warps', 'cuda'])
def device(request, monkeypatch):
    made = request.getfixturevalue(request.param)
    if request.param == 'warps':
        monkeypatch.setitem(backends._BY_TYPE, EmulatedArray, made)
    return made


@pytest.mark.parametrize(('d', 'p', 'n', 'k', 'fixed'), [
    *((d, p, 11, 7, fixed) for d, p in SIZES for fixed in (False, True)),
    (2, 3, 0, 4, False), (2, 3, 4, 0, False)])
def test_manifold(device, d, p, n, k, fixed):
    manifold, random = Manifold(d, n, k, fixed), np.random.default_rng(d + p)
    y = manifold.random_point(p, random)
    v, w = random.normal(size=(2, *y.shape))
    with device.active():
        at, along, other = map(device.put, (y, v, w))
        assert arrays_of(at) is device
        projected = device.get(manifold.project(at, along))
        assert projected == pytest.approx(manifold.project(y, v), abs=1e-13)
        in_place = device.put(v)
        manifold.project(at, in_place, in_place)
        assert np.array_equal(device.get(in_place), projected)
        for step in (0.1, 1.0, 30.0):
            moved = manifold.retract(at, device.put(step * v))
            assert device.get(moved) == pytest.approx(manifold.retract(y, step * v), abs=1e-12)
        blocks, scalars = manifold.multipliers(at, along)
        expected = manifold.multipliers(y, v)
        assert device.get(blocks) == pytest.approx(expected[0], abs=1e-13)
        assert device.get(scalars) == pytest.approx(expected[1], abs=1e-13)
        out = device.empty(y.shape)
        manifold.hessian(at, along, other, blocks, scalars, out)
        assert device.get(out) == pytest.approx(
            manifold.hessian(y, v, w, *expected, np.empty_like(y)), abs=1e-12)


@pytest.mark.parametrize('p', [1, 2, 3, 5, 9])
@pytest.mark.parametrize('density', [0.002, 0.3])
def test_sparse_products(device, p, density):
    random = np.random.default_rng(p)
    matrix = sp.random(150, 90, density, 'csr', rng=random)
    x, base = random.normal(size=(90, p)), random.normal(size=(150, p))
    with device.active():
        placed, out = device.matrix(matrix), device.empty((150, p))
        placed.product(device.put(x), out)
        assert device.get(out) == pytest.approx(matrix @ x, abs=1e-13)
        rest = device.put(base)
        placed.subtract(device.put(x), rest)
        assert device.get(rest) == pytest.approx(base - matrix @ x, abs=1e-13)


@pytest.mark.parametrize('n', [1, 40, 600])
def test_solves(device, n):
    matrix = graph_matrix(n, n, 0.4)
    random = np.random.default_rng(n)
    with device.active():
        symbolic = device.symbolic(matrix)
        for scale, p in ((1.0, 5), (2.5, 2)):
            rhs = random.normal(size=(n, p))
            factor = symbolic.factorize(scale * matrix)
            x = device.put(rhs)
            factor.solve(x, x)
            expected = factorize(scale * matrix).solve(rhs)
            assert device.get(x) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_sums_repeat_to_the_last_bit(device):
    a, b = np.random.default_rng(0).normal(size=(2, 5000, 3))
    with device.active():
        x, y = device.put(a), device.put(b)
        sums = {device.dot(x, y) for _ in range(5)}
    assert len(sums) == 1 and sums.pop() == pytest.approx(np.sum(a * b), rel=1e-12)


@pytest.mark.parametrize(('radius', 'curvature', 'most', 'target', 'outcome'), [
    (np.inf, 1.0, 9, 1e-9, Outcome.RUNNING),
    (np.inf, 1.0, 9, 1e9, Outcome.CONVERGED),
    (np.inf, 1.0, 1, 1e-9, Outcome.EXHAUSTED),
    (0.05, 1.0, 9, 1e-9, Outcome.BOUNDARY),
    (np.inf, -1.0, 9, 1e-9, Outcome.BOUNDARY),
    (3.0, -1.0, 9, 1e-9, Outcome.BOUNDARY),
])
def test_a_step_of_cg(device, radius, curvature, most, target, outcome):
    random = np.random.default_rng(5)
    direction, s, r, z = random.normal(size=(4, 70, 3))
    hp, z = curvature * direction + 0.1 * r, r + 0.1 * z
    state = np.zeros(SIZE)
    state[[State.RZ, State.DD, State.MAX_STEPS]] = 7.0, 7.0, most
    state[State.RADIUS], state[State.TARGET] = radius, target

    def two_steps(arrays):
        with arrays.active():
            held = [arrays.put(x.copy()) for x in (state, direction, hp, s, r, z)]
            at, along, image, x, rest, gradient = held
            for _ in range(2 if outcome is not Outcome.RUNNING else 1):
                arrays.advance(at, along, image)
                arrays.move(at, along, image, x, rest)
                arrays.turn(at, rest, gradient)
                arrays.redirect(at, gradient, along)
            return [arrays.get(x) for x in held]

    expected, found = two_steps(HOST), two_steps(device)
    assert expected[0][State.DONE] == outcome
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-12, abs=1e-12)
    if outcome is not Outcome.RUNNING:
        assert found[0][State.STEPS] == 1


@pytest.mark.parametrize('fails', [False, True])
def test_a_step_is_recorded_the_second_time_where_it_can_be(caplog, fails):
    stream = Mock()
    stream.end_capture.return_value = stream
    if fails:
        stream.end_capture.side_effect = OSError('not allowed while a stream is captured')
    step = _Recorded(stream.step, stream, (OSError,))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            step()
    later = call.step() if fails else call.launch(stream)
    assert stream.method_calls == [
        call.step(), call.begin_capture(), call.step(), call.end_capture(), later, later]
    assert caplog.text.count('cannot be recorded') == fails


def solved(emulated, factor, rhs):
    inverse = PartitionedInverse(factor, InversePlan(factor))
    there = emulated.put(rhs)
    DeviceFactor(emulated.runtime, inverse).solve(there, there)
    return emulated.get(there)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 120), st.floats(0, 1.5),
       st.sampled_from((*GROWTHS, 1e9)),
       st.sampled_from(('amd', 'metis', 'natural')))
def test_solves_like_the_factor(emulated, seed, n, density, growth, ordering):
    matrix = graph_matrix(seed, n, density)
    order = np.arange(n) if ordering == 'natural' else fill_reducing_order(matrix, ordering)
    factor = SymbolicCholesky(matrix, order).factorize(matrix)
    rhs = np.random.default_rng(seed).normal(size=(n, 3))
    with patch.object(partitioned_inverse, 'GROWTHS', (growth,)):
        found = solved(emulated, factor, rhs)
    assert found == pytest.approx(factor.solve(rhs), rel=1e-10, abs=1e-12)


def test_an_empty_matrix(emulated):
    assert solved(emulated, factorize(sp.csc_matrix((0, 0))), np.zeros((0, 3))).shape == (0, 3)
