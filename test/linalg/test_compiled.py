"""Kept kernels load without numba tables and give the same bits; memory and threads."""

import ast
import importlib
import json
import os
import sys
from pathlib import Path

import pytest
from waiting import python

import sparser_ros.linalg

TABLES = 'numba.cpython.printimpl'
"""A module that numba imports with its tables only."""
KERNEL = '''
import sys
import numpy as np
from sparser_ros.linalg.compiled import compiled

@compiled(error_model='numpy')
def doubled(values):
    """With an allocation, a list and LAPACK, as kernels have them."""
    parts = [values, np.copy(values)]
    return np.linalg.solve(0.5 * np.eye(len(values)), 0.5 * (parts[0] + parts[1]))

@compiled()
def negated(value):
    return -value
'''
USE = '''
from kernel_of_test import doubled, negated
import numpy as np, sys
for name in sys.argv[1:]:
    found = doubled(np.array([1.0, 2.0, 3.0])).tolist() if name == 'heavy' else negated(
        np.dtype(name).type(1))
    print(found, TABLES in sys.modules)
'''


def run(folder, *names: str, **environment: str) -> list[str]:
    source = folder / 'kernel_of_test.py'
    if not source.exists():
        source.write_text(KERNEL)
    path = os.pathsep.join([str(folder), *sys.path])
    return python(
        '-c', f'TABLES = {TABLES!r}\n{USE}', *names, PYTHONPATH=path,
        NUMBA_CACHE_DIR=str(folder / 'kept'), **environment).stdout.splitlines()


def test_a_kept_kernel_loads_without_tables(tmp_path):
    assert run(tmp_path, 'heavy', 'f8') == ['[2.0, 4.0, 6.0] True', '-1.0 True']
    # Another type is compiled, after a kept one was loaded.
    assert run(tmp_path, 'heavy', 'f8', 'f4') == [
        '[2.0, 4.0, 6.0] False', '-1.0 False', '-1.0 True']
    assert run(tmp_path, 'heavy', 'f4', 'f8') == [
        '[2.0, 4.0, 6.0] False', '-1.0 False', '-1.0 False']


def test_without_compiling_the_function_itself_is_used(tmp_path):
    assert run(tmp_path, 'heavy', NUMBA_DISABLE_JIT='1') == ['[2.0, 4.0, 6.0] False']


KERNELS = [path for path in sorted(Path(sparser_ros.linalg.__file__).parent.glob('*.py'))
           if 'import numpy' in path.read_text() and '.compiled import' in path.read_text()]


def called_by_kernels(path: Path) -> dict[str, object]:
    """Compiled functions that other compiled functions of a module call, by name."""
    module = importlib.import_module(f'sparser_ros.linalg.{path.stem}')
    calls = {
        call.func.id
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef) and function.decorator_list
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}
    return {call: getattr(module, call) for call in calls
            if hasattr(getattr(module, call, None), 'targetoptions')}


@pytest.mark.parametrize('path', KERNELS, ids=lambda path: path.stem)
def test_functions_with_fast_sums_are_inlined(path):
    for name, function in called_by_kernels(path).items():
        options = function.targetoptions
        assert not options.get('fastmath') or options.get('forceinline'), name


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
    out = python('-c', COUNT.format(keep=keep)).stdout.split()
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
    before, after = json.loads(python('-c', PROGRAM).stdout)
    assert max(before) == 2
    assert set(after) == {1}
