"""What arrays leave stays with the process that said so."""

import subprocess
import sys

import pytest

COUNT = '''
import resource
import numpy as np
from sparser_ros.linalg.memory import keep_freed_memory
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
