"""Kept kernels load without numba's tables, give the same, and are compiled anew where asked."""

import os
import subprocess
import sys

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
'''
USE = '''
from kernel_of_test import doubled
import numpy as np, sys
for kind in sys.argv[1:]:
    print(doubled(np.array([1.0, 2.0, 3.0], dtype=kind)).tolist(), TABLES in sys.modules)
'''


def run(folder, *kinds: str, **environment: str) -> list[str]:
    source = folder / 'kernel_of_test.py'
    if not source.exists():
        source.write_text(KERNEL)
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, '-c', f'TABLES = {TABLES!r}\n{USE}', *kinds], capture_output=True,
        text=True, check=True, env={
            **os.environ, 'PYTHONPATH': path, 'NUMBA_CACHE_DIR': str(folder / 'kept'),
            **environment}).stdout.splitlines()


def test_a_kept_kernel_loads_without_tables(tmp_path):
    assert run(tmp_path, 'f8') == ['[2.0, 4.0, 6.0] True']
    assert run(tmp_path, 'f8') == ['[2.0, 4.0, 6.0] False']
    # Another type is compiled, after a kept one was loaded.
    assert run(tmp_path, 'f8', 'f4') == ['[2.0, 4.0, 6.0] False', '[2.0, 4.0, 6.0] True']
    assert run(tmp_path, 'f4', 'f8') == ['[2.0, 4.0, 6.0] False', '[2.0, 4.0, 6.0] False']


def test_without_compiling_the_function_itself_is_used(tmp_path):
    assert run(tmp_path, 'f8', NUMBA_DISABLE_JIT='1') == ['[2.0, 4.0, 6.0] False']
