"""How long data wait for a trajectory that contains them."""

import sys
import time

import pytest

from sparser_ros.demo.demo_data import latencies
from sparser_ros.demo.processes import Child


def test_data_wait_for_the_first_solution_that_contains_them():
    # Every 2 s of data a solution, 0.5 s after its newest datum: waits from 0.5 to 2.5 s.
    published = [(2.5 + 2 * k, 2.0 + 2 * k) for k in range(20)]
    found = latencies(published, rate=1.0)
    assert found['max'] == pytest.approx(2.5)
    assert found['p50'] == pytest.approx(1.5, abs=0.05)
    assert found['p95'] == pytest.approx(2.4, abs=0.05)
    assert found['p95_full_size'] == pytest.approx(found['p95'], abs=0.1)


def test_the_last_fifth_of_the_data_is_the_full_size():
    published = [(k + (0.1 if k < 90 else 5.0), float(k)) for k in range(100)]
    found = latencies(published, 1.0)
    assert found['p50'] < 1.2
    assert found['p95_full_size'] > 5


def test_processor_time_of_a_group_of_processes(tmp_path):
    program = ('import subprocess, sys, time\n'
               'inner = "import time\\nwhile time.process_time() < 0.5: pass\\ntime.sleep(60)"\n'
               'subprocess.run([sys.executable, "-c", inner])')
    with Child([sys.executable, '-c', program], tmp_path / 'log') as process:
        end = time.monotonic() + 300
        while process.cpu_seconds() < 0.45 and time.monotonic() < end:
            time.sleep(0.05)
        assert 0.45 <= process.cpu_seconds() < 5


def test_stamps_of_another_clock_are_waits_beside_the_quickest_solution():
    published = [(k + 0.2 + 0.1 * (k % 2), float(k)) for k in range(40)]
    days = [(at + 4e6, newest) for at, newest in published]
    near, far = latencies(published, 1.0), latencies(days, 1.0)
    assert far['p95'] == pytest.approx(near['p95'] - 0.2, abs=0.01)
