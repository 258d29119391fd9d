"""`sparser doctor`: what this installation has, what it lacks, and what that costs.

With --compile all of the package runs once on small data: numba compiles what it meets, and keeps
it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ..config import RobustConfig, SolverConfig, SparserConfig
from ..config.calibration_config import CalibrationConfig
from ..config.simulation_config import SimulationConfig
from ..config.solver_config import LIVE_SOLVER
from .console import NOT_CONVERGED, SOLVED

REQUIRED = ('numpy', 'scipy', 'numba', 'threadpoolctl', 'PyYAML', 'rosbags', 'rich')
OPTIONAL = {
    'scikit-sparse': 'CHOLMOD, which orders sparse matrices; without it SuperLU does, more slowly',
    'matplotlib': 'pictures (--plot)',
    'cupy-cuda12x': 'solving on an NVIDIA GPU (experimental)',
}
EARLIEST_PLAUSIBLE_S = 1_577_836_800
"""2020-01-01: a clock before that was never set, and stamps will jump when it is."""
DIMENSIONS = (2, 3)
CLIMB_RANKS = (5, 6)
"""Ranks that certificates of recorded range graphs climb to. Each takes 16 to 22 s of processor
time on a busy machine; higher ones compile when met."""
Line = tuple[str, str, str]
"""Verdict (`ok`, `missing`, `problem`), subject, and what it means."""


def add_doctor(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        'doctor', help='check this installation',
        description='Versions, SuiteSparse and BLAS, compiled kernels, GPU, ROS and clock. Exit '
        'code 0: all that is required is there; 3: something required is not.')
    parser.add_argument('--compile', action='store_true', help=(
        'first compile all kernels that are not compiled yet (a few minutes, once), so that the '
        'first start is as fast as later ones'))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one line per subject; 0 nothing required is missing."""
    if args.compile:
        compile_kernels()
    lines = list(examined())
    width = max(len(subject) for _, subject, _ in lines)
    for verdict, subject, text in lines:
        print(f'{verdict:8}{subject:{width}}  {text}')
    return NOT_CONVERGED if any(verdict == 'problem' for verdict, _, _ in lines) else SOLVED


def examined() -> Iterator[Line]:
    """All subjects, the required ones first."""
    yield 'ok', 'python', f'{platform.python_version()}, {platform.platform()}'
    yield 'ok', 'processors', f'{len(os.sched_getaffinity(0))} usable'
    yield from _packages()
    yield from _blas()
    yield _cholmod()
    yield _kernels()
    yield _gpu()
    yield from _ros()
    yield _clock()


def _packages() -> Iterator[Line]:
    for name in REQUIRED:
        version = _version(name)
        yield ('ok' if version else 'problem'), name, version or f'missing: pip install {name}'
    for name, use in OPTIONAL.items():
        version = _version(name)
        yield ('ok' if version else 'missing'), name, f'{version or "not installed"}: {use}'


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ''


def _blas() -> Iterator[Line]:
    """The BLAS libraries that numpy and CHOLMOD load; the reference BLAS is named."""
    from threadpoolctl import threadpool_info

    _cholmod()
    libraries = [entry for entry in threadpool_info() if entry['user_api'] == 'blas']
    if not libraries:
        yield ('missing', 'BLAS', 'no OpenBLAS, BLIS or MKL is loaded: with the reference BLAS '
               'dense algebra takes longer (apt install libopenblas0-serial)')
    for entry in libraries:
        yield 'ok', 'BLAS', f'{entry["internal_api"]} {entry["version"]} ({entry["filepath"]})'


def _cholmod() -> Line:
    from ..linalg.ordering import cholmod_available

    if cholmod_available():
        return 'ok', 'ordering', 'CHOLMOD of SuiteSparse'
    return ('missing', 'ordering',
            'SuperLU orders sparse matrices; CHOLMOD is faster: apt install libsuitesparse-dev, '
            'then pip install scikit-sparse (before SuiteSparse 7.4: "scikit-sparse<0.5")')


def _kernels() -> Line:
    """Whether numba's cache, by default beside the source, holds compiled kernels."""
    where = Path(os.environ.get('NUMBA_CACHE_DIR') or Path(__file__).resolve().parent.parent)
    # One of another version of its source counts too.
    count = sum(1 for _ in where.rglob('*.nbi'))
    if count:
        return 'ok', 'kernels', f'{count} compiled functions in {where}'
    return ('missing', 'kernels', f'none compiled in {where}: the first solve takes a minute '
            'longer; sparser doctor --compile compiles them now')


def _gpu() -> Line:
    from ..config import SolverError
    from ..linalg.gpu.device import open_device

    try:
        return 'ok', 'GPU', open_device().description
    except SolverError as error:
        return 'missing', 'GPU', f'{error} (not needed: solving on a GPU is experimental)'


def _ros() -> Iterator[Line]:
    distribution = os.environ.get('ROS_DISTRO', '')
    node = 'the node, sparser play and dev/demo need it; solve, replay and info do not'
    try:
        # Named by text: the command must work, and say so, where there is no ROS.
        importlib.import_module('rclpy')
    except ImportError as error:
        yield 'missing', 'ROS 2', f'{error}: {node}'
        return
    yield 'ok', 'ROS 2', f'rclpy, distribution {distribution or "not set (wheels)"}'
    middleware = os.environ.get('RMW_IMPLEMENTATION', 'the default')
    yield ('ok', 'DDS', f'{middleware}, domain {os.environ.get("ROS_DOMAIN_ID", "0")}')
    try:
        importlib.import_module('sparser_ros.msg')
    except ImportError as error:
        yield 'missing', 'messages', f'{error}: colcon build, then source install/setup.bash'
    else:
        yield 'ok', 'messages', 'sparser_ros.msg'


def _clock() -> Line:
    now = time.time()
    shown = time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(now))
    if now < EARLIEST_PLAUSIBLE_S:
        return 'problem', 'clock', f'{shown}: was never set; stamps will jump when it is'
    return 'ok', 'clock', shown


def compile_kernels() -> None:
    """Solve, prove, calibrate and replay simulated recordings, in the plane and in space.

    What is compiled already is loaded. Where nothing is, it takes minutes of processor time.
    """
    from ..backend.replay.study import in_processes

    with in_processes(compile_dimension, DIMENSIONS, len(DIMENSIONS)) as futures:
        for future in futures:
            future.result()


def compile_dimension(dimension: int) -> None:
    """The same for the plane (2) or space (3).

    The two run side by side and share a third of their kernels. They come to those at different
    times: the later one finds them compiled.
    """
    from ..backend.observability.observability import warm_up as warm_up_comparison
    from ..solver.warm_up import warm_up, warm_up_climb

    begin = partial(warm_up, dimension, LIVE_SOLVER)
    compare = partial(warm_up_comparison, dimension)
    climb = partial(warm_up_climb, dimension, CLIMB_RANKS)
    graphs, replays = partial(_graphs, dimension), partial(_replay, dimension)
    for step in (begin, compare, climb, graphs, replays) if dimension == 2 else (
            climb, compare, begin, replays, graphs):
        step()


def _graphs(dimension: int) -> None:
    """With and without ranges, with and without a robust kernel; radios and covariances."""
    from ..backend.calibrate.self_calibration import self_calibrate
    from ..io.simulation import Simulation, graph_of
    from ..solver import solve
    from ..solver.covariance import marginal_covariance

    robust = SolverConfig(robust=RobustConfig(kernel='gm', gnc=True))
    # One robot without beacons has no ranges: a pose graph.
    for robots, beacons in ((1, 0), (2, 4)):
        graph = graph_of(Simulation(SimulationConfig(
            robots=robots, beacons=beacons, minutes=0.3, closures=12, dimension=dimension,
            odometry_rate=4.0)))
        estimate = solve(graph, SolverConfig(certify=True)).estimate
        solve(graph, robust)
        if estimate is not None:
            marginal_covariance(graph, estimate, [graph.n_poses - 1], range(graph.n_landmarks))
            if beacons:
                self_calibrate(graph, estimate, CalibrationConfig(rounds=2), robust)


def _replay(dimension: int) -> None:
    from ..backend.replay import replay
    from ..io.simulation import Simulation, node_config, write_bag

    simulation = Simulation(SimulationConfig(
        robots=2, beacons=4, minutes=0.5, closures=4, dimension=dimension))
    with TemporaryDirectory() as folder:
        bag = Path(folder) / 'bag'
        write_bag(bag, simulation, storage='sqlite3', overwrite=False)
        replay.run(bag, SparserConfig.from_mapping(node_config(simulation)))
