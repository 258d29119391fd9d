"""A process that starts finds all kernels compiled, once any process has."""

import os
import subprocess
import sys

import pytest

from sparser_ros.config import SolverConfig
from sparser_ros.solver.warm_up import warm_up

WARM_UP = ('from sparser_ros.config import SolverConfig; '
           'from sparser_ros.solver.warm_up import warm_up; warm_up({}, SolverConfig())')


@pytest.mark.timeout(300)
@pytest.mark.parametrize('dimension', [2, 3])
def test_no_kernel_is_compiled_twice(dimension):
    warm_up(dimension, SolverConfig())
    log = subprocess.run(
        [sys.executable, '-c', WARM_UP.format(dimension)], text=True, check=True,
        capture_output=True, env={**os.environ, 'NUMBA_DEBUG_CACHE': '1'}).stdout
    assert 'data loaded' in log
    assert 'data saved' not in log
