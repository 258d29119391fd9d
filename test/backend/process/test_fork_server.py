"""Solver processes are forks of one process that has imported everything, and nothing else."""

import os
import signal
import subprocess
import sys

from backend_world import World, config
from waiting import alive, parent_of, until

from sparser_ros.backend.process.worker import SolverWorker
from sparser_ros.config.backend_config import WatchdogConfig

PRELOADED = """
import sys, threading
import sparser_ros.backend.process.preloaded
print('PRELOADED', threading.active_count(), flush=True)
before = set(sys.modules)
from sparser_ros.backend.observability.observability import warm_up as warm_up_comparison
from sparser_ros.config.solver_config import LiveSolverConfig
from sparser_ros.solver.warm_up import warm_up
warm_up(2, LiveSolverConfig())
warm_up_comparison(2)
print('IMPORTED', sorted(set(sys.modules) - before))
"""


def pids(worker):
    return worker.state.pid, worker.state.auditor_pid


def test_both_are_forks_of_one_process_and_start_again_where_it_dies():
    increments = World(['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 7]]).increments(2)
    with SolverWorker(config()) as worker:
        worker.submit(increments[0])
        until(lambda: all(pids(worker)) and not worker.state.auditor_missing, 'the processes')
        server, = {parent_of(pid) for pid in pids(worker)}
        assert parent_of(server) == os.getpid()
        first = pids(worker)
        os.kill(server, signal.SIGKILL)
        until(lambda: worker.state.restarts == 2, 'new processes')
        worker.submit(increments[1])
        request = worker.request_solve(full=True)
        until(lambda: worker.answered(request), 'an answer')
        assert worker.newest.sequence == 1 and worker.newest.status.solved
        assert not set(first) & set(pids(worker))
        assert {parent_of(pid) for pid in pids(worker)} not in ({server}, {os.getpid()})


def test_one_that_does_not_answer_is_replaced():
    increment, = World(['curved'], [[0, 0]], steps=5).increments(1)
    with SolverWorker(config()) as worker:
        until(lambda: worker.state.pid and not worker.state.restarting, 'the process')
        server = parent_of(worker.state.pid)
        os.kill(server, signal.SIGSTOP)
        os.kill(worker.state.pid, signal.SIGKILL)
        worker.configure(config(watchdog=WatchdogConfig(start_timeout_s=5.0)))
        until(lambda: not alive(server), 'the end of the fork server')
        # The next one may take longer than that on a busy machine.
        worker.configure(config())
        worker.submit(increment)
        worker.request_solve()
        until(lambda: worker.newest is not None, 'a solution')
        assert worker.newest.status.solved


def test_a_fork_imports_nothing_more_and_no_kernel_is_compiled_before_it():
    """Compiling takes minutes, during which a fork server would not answer; threads do not fork."""
    log = subprocess.run(
        [sys.executable, '-c', PRELOADED], text=True, check=True, capture_output=True,
        env={**os.environ, 'NUMBA_DEBUG_CACHE': '1'}).stdout
    before, after = log.split('PRELOADED 1\n')
    assert before == ''
    assert 'data loaded' in after or 'data saved' in after
    assert after.endswith('IMPORTED []\n')
