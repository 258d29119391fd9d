"""`sparser doctor`: what this installation has, what it lacks, and what that costs."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import time
from collections.abc import Iterator

from .exit_codes import NOT_CONVERGED, SOLVED

REQUIRED = ('numpy', 'scipy', 'numba', 'threadpoolctl', 'PyYAML', 'rosbags', 'rich')
OPTIONAL = {
    'scikit-sparse': 'CHOLMOD; without it SciPy factorises, which takes many times as long',
    'matplotlib': 'pictures (--plot)',
    'cupy-cuda12x': 'solving on an NVIDIA GPU (experimental)',
}
EARLIEST_PLAUSIBLE_S = 1_577_836_800
"""2020-01-01: a clock before that was never set, and stamps will jump when it is."""
Line = tuple[str, str, str]
"""Verdict (`ok`, `missing`, `problem`), subject, and what it means."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser doctor`."""
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
        from .compile_kernels import compile_kernels

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
    libraries = [one for one in threadpool_info() if one['user_api'] == 'blas']
    if not libraries:
        yield ('missing', 'BLAS', 'no OpenBLAS, BLIS or MKL is loaded: with the reference BLAS '
               'CHOLMOD takes twice as long (apt install libopenblas0-serial)')
    for one in libraries:
        yield 'ok', 'BLAS', f'{one["internal_api"]} {one["version"]} ({one["filepath"]})'


def _cholmod() -> Line:
    from ..linalg.sparse.cholesky import cholmod_available

    if cholmod_available():
        return 'ok', 'factorisation', 'CHOLMOD of SuiteSparse'
    return ('missing', 'factorisation',
            'SciPy; CHOLMOD is much faster: apt install libsuitesparse-dev, then '
            'pip install scikit-sparse (before SuiteSparse 7.4: "scikit-sparse<0.5")')


def _kernels() -> Line:
    """Whether numba's cache holds compiled kernels of this checkout."""
    from .compile_kernels import cache_folders, compiled_functions

    count, where = compiled_functions(), ', '.join(map(str, cache_folders()))
    if count:
        return 'ok', 'kernels', f'{count} compiled functions in {where}'
    return ('missing', 'kernels', f'none compiled in {where}: the first solve takes a minute '
            'longer; sparser doctor --compile compiles them now')


def _gpu() -> Line:
    from ..config import SolverError
    from ..linalg.gpu.cupy_runtime import open_device

    try:
        return 'ok', 'GPU', str(open_device())
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
