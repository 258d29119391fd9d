"""The same solve on a GPU's array backend: equal products, equal costs, and a way back."""

import logging
from unittest.mock import patch

import emulator
import numpy as np
import pytest
from dense import reduced
from graphs import world

from sparser_ros.config import RobustConfig, SolverConfig, SolverError
from sparser_ros.linalg import arrays
from sparser_ros.linalg.arrays import HOST
from sparser_ros.linalg.gpu import device as cuda
from sparser_ros.linalg.gpu.device_arrays import DeviceArrays
from sparser_ros.solver import compute_backend, solve, stages
from sparser_ros.solver.compute_backend import ComputeBackend, Device, choose
from sparser_ros.solver.formulations import FORMULATIONS
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.trust_region import StoppingRule, TruncatedCG

WORLDS = [
    {'d': 2, 'ranges': 0, 'closures': 12}, {'d': 3, 'ranges': 0, 'closures': 12}, {'d': 2},
    {'d': 3}, {'d': 2, 'absolute': 'pfk'}, {'d': 3, 'absolute': 'k', 'landmarks': 3},
]


class OpenDevice(Device):
    def __init__(self, arrays):
        super().__init__()
        self._arrays = arrays


class NoDevice(Device):
    def open(self):
        raise SolverError('no CUDA device can be used: there is none')


@pytest.mark.parametrize(('kind', 'options'), [
    *((kind, {'init': init}) for init in ('auto', 'random') for kind in WORLDS),
    (WORLDS[0], {'robust': RobustConfig(kernel='gm', gnc=True)})])
def test_solves_agree(device, monkeypatch, kind, options):
    monkeypatch.setattr(
        stages, 'choose', lambda config, graph: choose(config, graph, OpenDevice(device)))
    graph = world(5, **kind, noise=0.3)
    here, there = (
        solve(graph, SolverConfig(backend=backend, cost_tolerance=1e-9, **options)).stats
        for backend in ('cpu', 'gpu'))
    assert there.cost_final == pytest.approx(here.cost_final, rel=1e-6)
    assert (there.cost_robust or 0) == pytest.approx(here.cost_robust or 0, rel=1e-6)
    assert here.backend == 'cpu' and here.backend_reason == 'as configured'
    assert 'as configured' in there.backend_reason
    if options != {'init': 'auto'}:
        assert there.backend == 'gpu'


def run_there(arrays, eager=False, **options):
    """A run that goes there, if a trial speaks for it: (machine, run, the same run on the CPU)."""
    schur, _, y = reduced(world(3, 2, noise=1.0), seed=4)
    where = ComputeBackend(arrays, 'there', eager=eager, **options)
    space, rule = FORMULATIONS['schur'](schur), StoppingRule()
    run = space.minimise(y, RegularisedQ(schur), rule, backend=where)
    return where, run, space.minimise(y, RegularisedQ(schur), rule)


@pytest.mark.parametrize(('after', 'eager'), [
    *((after, True) for after in (0, 1, 40, 300)), (0, False)])
@pytest.mark.parametrize('error', [MemoryError('out of memory'), OSError('device lost')])
def test_what_fails_is_done_again_on_the_cpu(emulated, monkeypatch, caplog, error, after, eager):
    """While a problem is placed or in the midst of CG; in a trial it troubles nobody."""
    launch, launches, seen = emulated.runtime.launch, [], []

    def breaking(*arguments):
        launches.append(1)
        if len(launches) > after:
            raise error
        launch(*arguments)

    monkeypatch.setattr(emulated.runtime, 'launch', breaking)
    monkeypatch.setattr(emulated, 'errors', (MemoryError, OSError))
    with caplog.at_level(logging.DEBUG, compute_backend.__name__):
        where, run, expected = run_there(emulated, eager=eager, lost=seen.append)
    assert len(launches) == after + 1
    assert run.cost == pytest.approx(expected.cost)
    assert where.ran == 'cpu' and str(error) in where.reason and str(error) in caplog.text
    assert {record.levelno for record in caplog.records} == {
        logging.WARNING if eager else logging.DEBUG}
    assert seen == [error] and where.arrays is HOST


def test_a_device_that_is_lost_or_refuses_is_not_asked_again(emulated, monkeypatch):
    device, asked = OpenDevice(emulated), []
    device.failed(MemoryError('out of memory'))
    assert device.open() is emulated
    device.failed(OSError('device lost'))
    with pytest.raises(SolverError, match='device lost'):
        device.open()

    def refuse():
        asked.append(1)
        raise SolverError('no CUDA device can be used: driver too old')

    monkeypatch.setattr(cuda, 'open_device', refuse)
    device = Device()
    for _ in range(3):
        with pytest.raises(SolverError, match='driver too old'):
            device.open()
    assert len(asked) == 1


@pytest.mark.parametrize(('options', 'there', 'least', 'where', 'reason', 'warned'), [
    ({}, True, None, 'cpu', 'fewer than', False), ({}, True, 10, 'gpu', 'emulator', False),
    ({}, False, 10, 'cpu', 'there is none', False),
    ({'backend': 'gpu'}, False, None, 'cpu', 'there is none', True),
    ({'backend': 'gpu', 'formulation': 'original'}, True, None, 'cpu', 'original', True),
    ({'backend': 'gpu', 'formulation': 'dense'}, True, None, 'cpu', 'dense', True)])
def test_the_choice_says_why(emulated, caplog, options, there, least, where, reason, warned):
    least = least or compute_backend.LEAST_VARIABLES
    with patch.object(compute_backend, 'LEAST_VARIABLES', least), caplog.at_level(logging.WARNING):
        chosen = choose(SolverConfig(**options), world(0, 2),
                        OpenDevice(emulated) if there else NoDevice())
    assert chosen.arrays is (emulated if where == 'gpu' else HOST) and reason in chosen.reason
    assert ('solving on the CPU' in caplog.text) == warned == bool(caplog.text)


@pytest.fixture
def planted(emulated, monkeypatch, tmp_path):
    """An emulator of kernels in which a text is replaced by another."""
    text = emulator.SOURCE.read_text()
    # It takes the place of the other emulator's arrays, until the end of the test.
    monkeypatch.setitem(arrays._BY_TYPE, emulator.EmulatedArray, emulated)

    def plant(right, wrong):
        assert right in text
        monkeypatch.setattr(emulator, 'SOURCE', tmp_path / 'kernels.cu')
        emulator.SOURCE.write_text(text.replace(right, wrong))
        return DeviceArrays(emulator.Emulator())

    return plant


@pytest.fixture(autouse=True)
def placed_soon(monkeypatch):
    """`auto` tries a device after a few CG steps: these graphs take no more."""
    monkeypatch.setattr(compute_backend, 'PLACING_CG_STEPS', 4)


def faster_there(cg, arrays):
    return {'gpu': 1e-4, 'cpu': 1e-3}[arrays.name]


@pytest.mark.parametrize(('found', 'right', 'wrong'), [
    ('retraction', 'double t = 1 / (s *', 'double t = 1.000001 / (s *'),
    ('operator', 'double a = data[e];', 'double a = e == 7 ? 0 : data[e];'),
    ('Hessian product', 's -= lambda[i * D + j]', 's -= lambda[j]'),
    ('step', 'double beta = rz /', 'double beta = 1.0001 * rz /'),
])
def test_auto_finds_a_wrong_kernel(planted, monkeypatch, caplog, found, right, wrong):
    """Before the solve, which the CPU then makes; nobody is troubled."""
    monkeypatch.setattr(compute_backend, 'step_seconds', faster_there)
    seen: list[str] = []
    with caplog.at_level(logging.DEBUG, compute_backend.__name__):
        where, run, expected = run_there(planted(right, wrong), left=seen.append)
    assert where.ran == 'cpu' and where.arrays is HOST and seen == [where.reason]
    assert where.reason.startswith(f'{found}: the GPU is off')
    assert np.array_equal(run.y, expected.y)
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]
    assert where.reason in caplog.text


def test_auto_stays_where_a_cg_step_is_faster(emulated, monkeypatch, caplog):
    with caplog.at_level(logging.DEBUG, compute_backend.__name__):
        slower, run, expected = run_there(emulated)
    assert slower.ran == 'cpu' and np.array_equal(run.y, expected.y)
    assert 'a CG step takes' in slower.reason and slower.reason in caplog.text
    monkeypatch.setattr(compute_backend, 'step_seconds', faster_there)
    faster, run, expected = run_there(emulated)
    assert faster.ran == 'gpu' and run.cost == pytest.approx(expected.cost, rel=1e-6)
    # What the CPU did before counts.
    assert run.trace[0] == expected.trace[0] and sorted(run.trace) == run.trace
    assert sum(run.cg_stops.values()) == run.iterations >= len(run.trace) - 1
    assert run.cg_steps == pytest.approx(expected.cg_steps, rel=0.5)
    assert faster.reason == 'there; a CG step takes 0.1 ms on the GPU, 1 ms on the CPU'


def test_auto_keeps_short_refinements_on_the_cpu(emulated, monkeypatch):
    """A few CG steps do not pay for a partitioned inverse, unless there is one already."""
    monkeypatch.setattr(
        stages, 'choose', lambda config, graph: choose(config, graph, OpenDevice(emulated)))
    graph = world(5, 2, ranges=0, closures=12, noise=0.3)
    monkeypatch.setattr(compute_backend, 'LEAST_VARIABLES', 10)
    monkeypatch.setattr(compute_backend, 'step_seconds', faster_there)
    assert solve(graph, SolverConfig()).stats.backend == 'cpu'
    assert solve(graph, SolverConfig(init='random')).stats.backend == 'gpu'


@pytest.mark.parametrize('kind', WORLDS)
def test_a_repeated_step_allocates_nothing(emulated, monkeypatch, kind):
    """A recorded one would write to memory that has long been given to others."""
    schur, manifold, start = reduced(world(3, **kind, noise=1.0), seed=4)
    y = emulated.put(start)
    qy = schur(y)
    cg = TruncatedCG(schur, manifold, RegularisedQ(schur), emulated, y)
    cg.stand_at(y, manifold.multipliers(y, qy))
    cg.step(manifold.project(y, qy), np.inf, StoppingRule(max_cg_steps=1), 0.0)
    made = []

    def owning(self, memory):
        self.memory = memory
        if memory.flags.owndata:
            made.append(memory.shape)

    monkeypatch.setattr(emulator.EmulatedArray, '__init__', owning)
    cg.reach()
    cg.turn()
    assert not made
    emulated.empty((3,))
    assert made == [(3,)]
