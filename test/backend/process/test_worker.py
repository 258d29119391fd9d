"""The solver process: nothing is lost when it dies, nothing is left when its parent does."""

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import faulty_world
import numpy as np
import pytest
from backend_world import config, longer, of_robot, two_robots
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import PATIENCE_S, alive, parent_of, python, until

from sparser_ros.backend.integrity.radio_errors import BIAS
from sparser_ros.backend.process import solver_process
from sparser_ros.backend.process.solver_process import CREDIT_S, AuditRest
from sparser_ros.backend.process.worker import SolverWorker
from sparser_ros.config.backend_config import AuditConfig, IntegrityConfig, WatchdogConfig
from sparser_ros.config.calibration_config import CalibrationConfig
from sparser_ros.config.solver_config import LIVE_SOLVER

QUIET = AuditConfig(period_s=0.0)
"""Audits when the graph has grown, or when asked for."""


def polled(worker, field, sequence):
    """A solution that includes this increment, or one whose map an audit of it has placed."""
    def newest():
        solution = worker.poll()
        reached = solution is not None and getattr(solution, field) >= sequence
        return solution if reached else None

    return until(newest, f'{field} {sequence}')


def answer(worker):
    """The newest solution once an audit that is asked for now is answered."""
    request = worker.request_solve(full=True)
    until(lambda: worker.answered(request), 'an answer')
    return worker.newest


def submit(worker, increments):
    for one in increments:
        worker.submit(one)


@pytest.fixture
def increments():
    return two_robots(2).increments(4)


def test_paused_nothing_is_solved_but_on_request(increments):
    often = AuditConfig(period_s=0.05)
    with SolverWorker(config(worker='thread', audit=often), paused=True) as worker:
        submit(worker, increments[:2])
        asked = answer(worker)
        assert asked.sequence == increments[1].sequence
        submit(worker, increments[2:])
        # Audits of the auditor's own accord would come within a fraction of this.
        time.sleep(1.5)
        assert worker.newest is asked
        worker.pause(False)
        polled(worker, 'audited_sequence', increments[-1].sequence)
        with worker.lock:
            # A reset drops what is on its way to the processes.
            worker.pause(True)
            worker.reset()
        submit(worker, increments)
        time.sleep(1.5)
        assert worker.newest is None and worker.kept_map is None


def test_no_call_of_the_client_blocks():
    """Not even while the process stands still and what is sent fills the pipe (64 kB)."""
    large = two_robots(1, steps=600).increments(3)
    patient = WatchdogConfig(hang_timeout_s=2 * PATIENCE_S)
    with SolverWorker(config(audit=QUIET, watchdog=patient)) as worker:
        until(lambda: worker.state.pid and not worker.state.restarting, 'the process')
        pid = worker.state.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            for one in large:
                assert sum(column.nbytes for column in vars(one.relative_poses).values()) > 2**15
                worker.submit(one)
                worker.request_solve(full=True)
                assert worker.poll() is None and worker.state.busy
        finally:
            os.kill(pid, signal.SIGCONT)
        assert polled(worker, 'sequence', 2).status.solved


@pytest.mark.parametrize(('which', 'how'), [
    ('pid', signal.SIGKILL), ('pid', signal.SIGSTOP), ('auditor_pid', signal.SIGKILL)])
def test_a_process_that_dies_or_hangs_is_started_again_and_nothing_is_lost(
        increments, which, how):
    dog = WatchdogConfig(hang_timeout_s=5.0 if how == signal.SIGSTOP else PATIENCE_S)
    with SolverWorker(config(watchdog=dog, audit=QUIET)) as worker:
        submit(worker, increments[:2])
        worker.request_solve(full=True)
        before = polled(worker, 'audited_sequence', 1)
        first = getattr(worker.state, which)
        worker.submit(increments[2])
        worker.request_solve(full=True)
        os.kill(first, how)
        worker.submit(increments[3])
        answer(worker)
        assert worker.newest.audited_sequence == 3
        assert worker.state.restarts == 1 and getattr(worker.state, which) != first
        place, n = worker.newest.estimate.translation, len(before.estimate.translation)
        assert len(place) == 80
        np.testing.assert_allclose(place[:n], before.estimate.translation, atol=0.3)
    assert not alive(first)


@pytest.mark.parametrize('stopped', [False, True])
def test_closing_ends_the_process_even_in_a_solve(increments, stopped):
    worker = SolverWorker(config())
    until(lambda: worker.state.pid and not worker.state.restarting, 'the process')
    pid = worker.state.pid
    submit(worker, increments)
    worker.request_solve(full=True)
    if stopped:
        os.kill(pid, signal.SIGSTOP)
    worker.close()
    worker.close()
    assert not alive(pid)


def test_silence_brings_an_audit_of_the_newest_data(increments):
    """Growth alone would not: every increment but the first adds less than it asks for."""
    with SolverWorker(config(audit=AuditConfig(growth=100.0, period_s=0.3))) as worker:
        assert worker.poll() is None
        for one in increments:
            worker.submit(one)
            worker.request_solve()
            # A small graph may be solved before anybody looks.
            assert worker.state.busy or worker.newest.sequence == one.sequence
            assert polled(worker, 'sequence', one.sequence).status.solved
        until(lambda: worker.state.settled, 'the worker to settle')
        worker.poll()
        assert worker.poll() is None and worker.newest.audited_sequence == 3
        assert {robot.location.value for robot in worker.newest.robots} == {'located'}


def test_the_answer_to_an_audit_outlives_the_solutions_after_it(increments):
    """Nobody polls between the answer and the next ticks, as when a node is busy."""
    with SolverWorker(config(worker='thread', audit=QUIET)) as worker:
        worker.submit(increments[0])
        answer(worker)
        audit = worker.audited_solution
        assert audit is not None and audit.full and worker.state.pid is None
        worker.submit(increments[1])
        later = worker.request_solve()
        until(lambda: worker.answered(later) and worker.newest is not audit, 'a tick')
        assert worker.newest.sequence == 1 and worker.audited_solution is audit
        worker.reset()
        assert worker.audited_solution is None


@pytest.mark.parametrize('starting', [True, False])
def test_live_options_reach_the_processes(increments, starting):
    with SolverWorker(config(audit=QUIET)) as worker:
        submit(worker, increments[:3])
        if starting:
            until(lambda: worker.state.pid, 'the process')
        else:
            assert answer(worker).robots[1].location.value == 'located'
        strict = type(config().backend.observability)(heading_sigma_rad=1e-3)
        worker.configure(config(audit=QUIET, observability=strict))
        assert worker.state.restarting == starting
        answer(worker)
        assert worker.newest.robots[1].location.value != 'located'


def test_a_verdict_that_cannot_be_followed_is_told_until_another_one_can(monkeypatch, increments):
    with SolverWorker(config(worker='thread', audit=QUIET)) as worker:
        monkeypatch.setattr(solver_process.Tracker, 'adopt', lambda *_: 1 / 0)
        submit(worker, increments[:2])
        answer(worker)
        assert 'ZeroDivisionError' in worker.state.failed
        monkeypatch.undo()
        submit(worker, increments[2:])
        assert answer(worker).audited_sequence == 3 and not worker.state.failed


def parent(tmp_path, body):
    """A process that begins a worker in a context and goes on with some lines."""
    script = tmp_path / 'parent.py'
    script.write_text(
        'import os, signal, time\n'
        'if __name__ == "__main__":\n'
        '    # A shell starts background jobs with SIGINT ignored.\n'
        '    signal.signal(signal.SIGINT, signal.default_int_handler)\n'
        '    from backend_world import config\n'
        '    from sparser_ros.backend.process.worker import SolverWorker\n'
        '    with SolverWorker(config()) as worker:\n' + textwrap.indent(body, 8 * ' '))
    test = Path(__file__).parents[2]
    paths = os.pathsep.join(
        [str(test.parent), str(test / 'support'), os.environ.get('PYTHONPATH', '')])
    return subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, 'PYTHONPATH': paths})


@pytest.mark.parametrize('how', [signal.SIGKILL, signal.SIGINT])
def test_the_process_ends_with_its_parent(tmp_path, how):
    process = parent(tmp_path, 'while worker.state.restarting:\n    time.sleep(0.01)\n'
                     'print(worker.state.pid, flush=True)\ntime.sleep(1000)\n')
    try:
        child = int(process.stdout.readline())
        assert alive(child)
        process.send_signal(how)
        until(lambda: not alive(child), 'the solver process to end')
    finally:
        process.kill()
        process.communicate()


def test_an_interrupt_of_the_group_does_not_reach_a_starting_solver(tmp_path):
    """In a process of its own: only its first child is started before the resource tracker is."""
    process = parent(
        tmp_path, 'while not worker.state.pid:\n    time.sleep(0.001)\n'
        'os.kill(worker.state.pid, signal.SIGINT)\nwhile worker.state.restarting:\n'
        '    time.sleep(0.01)\nos.kill(worker.state.pid, signal.SIGINT)\ntime.sleep(0.5)\n'
        'print(worker.state.restarts)\n')
    assert process.communicate(timeout=PATIENCE_S) == ('0\n', '')


@pytest.mark.parametrize('asked', [True, False])
def test_a_map_is_bounded_when_asked_for_or_at_rest(monkeypatch, increments, asked):
    monkeypatch.setattr(solver_process, '_AT_REST_S', 3600.0 if asked else 0.5)
    often = AuditConfig(period_s=0.05)
    with SolverWorker(config(worker='thread', audit=often)) as worker:
        submit(worker, increments)
        polled(worker, 'audited_sequence', 3)
        if asked:
            assert worker.bound is None
            worker.request_solve(full=True)
        bound = until(lambda: worker.bound, 'a bound')
        assert bound.sequence == 3 and 0 < bound.lower <= bound.cost * (1 + 1e-9)


def test_audits_of_the_newest_data_owe_no_rest_once_no_more_come(monkeypatch, increments):
    """The share would make the auditor rest for hours."""
    monkeypatch.setattr(solver_process, '_AT_REST_S', 0.5)
    monkeypatch.setattr(solver_process, '_REST_WITHOUT_REASON', 1e6)
    monkeypatch.setattr(AuditRest.__init__, '__defaults__', (1e-6,))
    with SolverWorker(config(worker='thread', audit=AuditConfig(period_s=0.05))) as worker:
        submit(worker, increments[:2])
        polled(worker, 'audited_sequence', 1)
        submit(worker, increments[2:])
        polled(worker, 'audited_sequence', 3)


@pytest.mark.parametrize('starved', [True, False])
def test_an_audit_that_waits_for_a_processor_tells_that_others_are_busy(
        monkeypatch, increments, starved):
    monkeypatch.setattr(solver_process, '_LONG_S', 0.0)
    clock = (lambda: 0.0) if starved else time.monotonic
    monkeypatch.setattr(solver_process.time, 'thread_time', clock)
    with SolverWorker(config(worker='thread')) as worker:
        submit(worker, increments)
        solution = polled(worker, 'audited_sequence', 3)
    texts = [finding.text for finding in solution.findings if finding.kind == 'processor_busy']
    assert len(texts) == starved
    assert all('other processes keep all processors busy' in text for text in texts)


@settings(deadline=None, max_examples=30)
@given(share=st.floats(0.05, 1.0), audit_s=st.floats(0.01, 5.0), scratch_s=st.floats(0.01, 20.0),
       seed=st.integers(0, 100), free=st.floats(0.1, 1.0))
def test_audits_and_starts_from_scratch_together_keep_the_share(
        share, audit_s, scratch_s, seed, free):
    """Both are always wanted, and other processes leave `free` of the processor."""
    random, rest = np.random.default_rng(seed), AuditRest(0.0, share)
    now = worked_s = 0.0
    while now < 200 * (audit_s + scratch_s) / min(share, free):
        now = max(now, rest.audit_from_s)
        audit = audit_s * random.uniform(0.5, 2.0)
        scratch = scratch_s * random.uniform(0.5, 2.0) if now >= rest.scratch_from_s else 0.0
        end = now + (audit + scratch) / free
        rest.worked(now, end, audit + scratch, scratch / free)
        worked_s, now = worked_s + audit + scratch, end
    # The last ones are not rested for yet, and at first there is something to draw on.
    assert worked_s <= share * (now + CREDIT_S) + 4 * (audit_s + scratch_s)
    if free <= share / 2:
        # On a busy machine there is nothing to rest for.
        assert worked_s / now == pytest.approx(free)


PRELOADED = """
import sys, threading
import sparser_ros.backend.process.preloaded
print('PRELOADED', threading.active_count(), flush=True)
before = set(sys.modules)
from sparser_ros.backend.observability.observability import warm_up as warm_up_comparison
from sparser_ros.config.solver_config import LIVE_SOLVER
from sparser_ros.solver.warm_up import warm_up
warm_up(2, LIVE_SOLVER)
warm_up_comparison(2)
print('IMPORTED', sorted(set(sys.modules) - before))
"""


def pids(worker):
    return worker.state.pid, worker.state.auditor_pid


def test_both_are_forks_of_one_process_and_start_again_where_it_dies():
    increments = two_robots(1).increments(2)
    with SolverWorker(config()) as worker:
        worker.submit(increments[0])
        until(lambda: all(pids(worker)) and not worker.state.auditor_missing, 'the processes')
        server, = {parent_of(pid) for pid in pids(worker)}
        assert parent_of(server) == os.getpid()
        first = pids(worker)
        os.kill(server, signal.SIGKILL)
        until(lambda: worker.state.restarts == 2, 'new processes')
        worker.submit(increments[1])
        answer(worker)
        assert worker.newest.sequence == 1 and worker.newest.status.solved
        assert not set(first) & set(pids(worker))
        assert {parent_of(pid) for pid in pids(worker)} not in ({server}, {os.getpid()})


def test_a_fork_imports_nothing_more_and_no_kernel_is_compiled_before_it():
    """Compiling takes minutes, during which a fork server would not answer; threads do not fork."""
    log = python('-c', PRELOADED, NUMBA_DEBUG_CACHE='1').stdout
    before, after = log.split('PRELOADED 1\n')
    assert before == ''
    assert 'data loaded' in after or 'data saved' in after
    assert after.endswith('IMPORTED []\n')


def test_a_bias_is_told_with_a_verdict_and_taken_off(monkeypatch):
    monkeypatch.setattr(solver_process, '_REST_OF_CALIBRATION', 0.0)
    options = dataclasses.replace(
        config(robots=('A', 'B', 'C'), solver=LIVE_SOLVER, worker='thread', audit=QUIET,
               # Else the bias is taken off as a fault, without a calibration.
               integrity=IntegrityConfig(doubt_ranges=False)),
        calibration=CalibrationConfig(live=True, mode='apply'))
    made = faulty_world.world(steps=60, known=range(6))
    found, costs, end = {}, [], time.monotonic() + PATIENCE_S
    with SolverWorker(options) as worker:
        for one in made.increments(4):
            worker.submit(longer(one, 0.4 * of_robot(one.ranges, 1, 3)))
        while time.monotonic() < end and ('B' not in found or costs[-1] > 0.7 * costs[0]):
            solution = answer(worker)
            found = {one.subject: one for one in solution.findings if one.kind == BIAS}
            costs.append(solution.stats.cost_robust or solution.stats.cost_final)
            # An audit that is asked for comes before the steps of the calibration.
            time.sleep(1.5)
    assert found['B'].value == pytest.approx(0.4, abs=0.1)
    assert 'too long' in found['B'].text and 'that is taken off' in found['B'].text
    assert costs[-1] < 0.7 * costs[0]
