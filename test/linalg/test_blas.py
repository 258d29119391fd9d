"""Threads of BLAS in solver processes."""

import json
import subprocess
import sys

PROGRAM = '''
import json
import numpy, scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits
from sparser_ros.backend.process.endpoint import begin_process

def threads():
    return [one['num_threads'] for one in threadpool_info() if one['user_api'] == 'blas']

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
