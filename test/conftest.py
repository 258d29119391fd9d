"""Fixtures of all tests: data sets, a ROS domain per run, GPU backends, no process left behind."""

import ctypes
import importlib.util
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from emulator import Emulator
from hypothesis import settings
from waiting import compiled_by_dev_run

from sparser_ros.config import SolverError
from sparser_ros.linalg.gpu.device import open_device
from sparser_ros.linalg.gpu.device_arrays import DeviceArrays

# Before anything imports rclpy: parallel test runs, and robots on the same network, stay apart.
# Workers of one run have domains that differ in their remainder, below those of nodes in processes
# of their own.
_WORKERS = int(os.environ.get('PYTEST_XDIST_WORKER_COUNT', '1'))
_WORKER = int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw'))
os.environ['ROS_DOMAIN_ID'] = str(1 + _WORKER + _WORKERS * secrets.randbelow(30 // _WORKERS))
os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'

# Ctrl-C reaches what the tests start, also where a shell runs them in the background.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Containers often keep Python from writing bytecode. Each of some hundred processes would then
# compile the package again, which is a quarter of its start.
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)
sys.dont_write_bytecode = False

# Property tests draw new examples on a developer's machine; a build server repeats its own.
settings.register_profile('ci', derandomize=True)
if os.environ.get('CI'):
    settings.load_profile('ci')

_LONGEST = (
    'test_printed_commands.py', 'benchmark/test_integrity.py', 'backend/process/test_worker.py',
    'backend/session/test_odometry_faults.py', 'backend/session/test_exchanged_radios.py',
    'backend/session/test_lasting_faults.py', 'test_lint.py', 'demo/test_demo.py',
    'node/test_controls.py', 'node/test_crashes.py', 'backend/session/test_belief.py',
    'backend/replay/test_absurd_messages.py', 'benchmark/test_benchmark.py',
    'backend/session/test_noise.py', 'solver/test_compute_backend.py', 'node/test_old_data.py',
    'solver/test_certificate.py', 'node/test_intake.py', 'node/test_node.py',
    'backend/replay/test_replay.py', 'frontend/test_frontend_roundtrip.py',
    'cli/test_doctor_command.py', 'linalg/gpu/test_device_kernels.py')
"""Files that take 20 s and more, longest first. One begun last would leave other cores idle."""
_PR_SET_CHILD_SUBREAPER = 36
_COMPILE = """
import sys
from sparser_ros.backend.observability.observability import warm_up as warm_up_comparison
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.solver.warm_up import warm_up
warm_up_comparison(int(sys.argv[1]))
for robust in (RobustConfig(), RobustConfig(kernel='gm', gnc=True)):
    warm_up(int(sys.argv[1]), SolverConfig(robust=robust))
"""
_MISSING = [name for name in ('rclpy', 'tf2_msgs', 'lifecycle_msgs', 'sparser_ros.msg')
            if importlib.util.find_spec(name) is None]


class NeedsRos(pytest.Module):
    """A module that cannot be imported here."""

    def collect(self):
        pytest.skip(f'needs {", ".join(_MISSING)}', allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    if _MISSING and module_path.parent.name in ('node', 'demo') and (
            module_path.name != 'test_launch.py'):
        return NeedsRos.from_parent(parent, path=module_path)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest files first, the others as they were found; `dev/test` keeps this order."""
    place = {Path(__file__).parent / name: number for number, name in enumerate(_LONGEST)}
    gone = [path.name for path in place if not path.exists()]
    assert not gone, f'_LONGEST names files that are gone: {gone}'
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the kernels of both dimensions before parallel workers would do so at the same time.

    Without workers each test compiles what it needs.
    """
    if compiled_by_dev_run() or not getattr(session.config.option, 'numprocesses', None):
        return
    root = Path(__file__).parents[1]
    running = [subprocess.Popen([sys.executable, '-c', _COMPILE, str(d)], cwd=root) for d in (2, 3)]
    assert [process.wait() for process in running] == [0, 0]


@pytest.fixture(params=[2, 3])
def dimension(request: pytest.FixtureRequest) -> int:
    """The test runs in the plane and in space."""
    return request.param


@pytest.fixture
def d(dimension: int) -> int:
    """The same, as formulas call it."""
    return dimension


@pytest.fixture(scope='session')
def data_dir() -> Path:
    """Directory with the real data sets; the test is skipped where there is none."""
    path = os.environ.get('SPARSER_DATA')
    if not path:
        pytest.skip('real data sets are not here: SPARSER_DATA is not set')
    directory = Path(path)
    if not directory.is_dir():
        pytest.fail(f'SPARSER_DATA={path} is not a directory')
    return directory


def _children() -> dict[int, str]:
    """Live children of this process, and of a fork server of it: command line by process id."""
    parents, children, servers = {}, {}, {os.getpid()}
    for stat in Path('/proc').glob('[0-9]*/stat'):
        try:
            state, parent = stat.read_text(errors='replace').rpartition(')')[2].split()[:2]
            command = (stat.parent / 'cmdline').read_text(errors='replace').replace('\0', ' ')
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != 'Z':
            parents[int(stat.parent.name)] = int(parent), command
    # Both helpers of multiprocessing end with their parent, by design.
    for process, (parent, command) in parents.items():
        if parent == os.getpid() and 'multiprocessing.forkserver' in command:
            servers.add(process)
    for process, (parent, command) in parents.items():
        if parent in servers - {process} and process not in servers and (
                'resource_tracker' not in command):
            children[process] = command
    return children


@pytest.fixture(scope='session', autouse=True)
def no_process_left_behind() -> Iterator[None]:
    """Fails the session if a child, or a child of a dead child, outlives it by five seconds."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = _children().keys()
    yield
    end = time.monotonic() + 5
    while (left := {p: c for p, c in _children().items() if p not in before}):
        if time.monotonic() > end:
            pytest.fail(f'processes left behind by the tests: {left}')
        time.sleep(0.1)


@pytest.fixture(scope='session')
def emulated() -> DeviceArrays:
    """The GPU's array backend on the emulator; the test is skipped without a C++ compiler."""
    try:
        return DeviceArrays(Emulator())
    except SolverError as error:
        pytest.skip(str(error))


@pytest.fixture(scope='session')
def cuda() -> DeviceArrays:
    """The array backend of a CUDA device; the test is skipped without one."""
    try:
        return DeviceArrays(open_device())
    except SolverError as error:
        pytest.skip(f'no CUDA device: {error}')


@pytest.fixture(scope='session', params=['emulated', 'cuda'])
def device(request: pytest.FixtureRequest) -> DeviceArrays:
    """The GPU's array backend, on the emulator and on a device where there is one."""
    return request.getfixturevalue(request.param)
