"""Freed memory and threads of BLAS in processes that solve."""

import json
import subprocess
import sys

import pytest

COUNT = '''
import resource
import numpy as np
from sparser_ros.linalg.process import keep_freed_memory
known = {keep}()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        [np.ones(2 * 10**5) for _ in range(40)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first = faults()
print(known, first, faults())
'''


def faults(keep: str) -> tuple[str, int, int]:
    """Page faults of 64 MB in arrays, three times, and again."""
    out = subprocess.run(
        [sys.executable, '-c', COUNT.format(keep=keep)], capture_output=True, text=True,
        check=True).stdout.split()
    return out[0], int(out[1]), int(out[2])


def test_large_arrays_are_faulted_in_once():
    known, first, later = faults('keep_freed_memory')
    if known == 'False':
        pytest.skip('the C library has no mallopt')
    assert first > 100
    assert later < first / 10
    assert faults('bool')[2] > 100


PROGRAM = '''
import json
import numpy, scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits
from sparser_ros.backend.process.solver_process import begin_process

def threads():
    return [pool['num_threads'] for pool in threadpool_info() if pool['user_api'] == 'blas']

threadpool_limits(2, user_api='blas')
before = threads()
begin_process()
print(json.dumps([before, threads()]))
'''


def test_a_solver_process_has_one_thread_of_blas():
    """Idle threads of BLAS spin: two of them took a quarter of a core from everything else."""
    done = subprocess.run(
        [sys.executable, '-c', PROGRAM], capture_output=True, text=True, check=True)
    before, after = json.loads(done.stdout)
    assert max(before) == 2
    assert set(after) == {1}
