"""The demo in miniature: real processes, a bag made from a graph, results in a folder."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from report_paths import check_fields
from waiting import PATIENCE_S, alive, parent_of, until

from sparser_ros.config import ConfigError, SolverConfig, SparserConfig
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.demo import demo, demo_data
from sparser_ros.demo.demo_data import latencies
from sparser_ros.demo.processes import Child
from sparser_ros.graph import Estimate, cost, estimate_of
from sparser_ros.io import pyfg, report
from sparser_ros.io.atomic import write_parameters
from sparser_ros.io.simulation import Simulation, graph_of, node_config, write_bag
from sparser_ros.linalg.rotations import aligned_errors
from sparser_ros.solver import solve


@pytest.fixture(scope='module')
def graph_file(tmp_path_factory):
    """A minute of two robots and four beacons; range stamps that a bag keeps apart."""
    run = Simulation(SimulationConfig(
        robots=2, beacons=4, minutes=1.0, odometry_rate=3.0, range_rate=4.0, radius=15.0,
        range_sigma=0.05, range_sigma_per_m=0.0, outliers=0.0, truth_rate=0.0, seed=3))
    path = tmp_path_factory.mktemp('graph') / 'tiny.pyfg'
    pyfg.write(path, graph_of(run))
    return path


def demo_process(*arguments):
    return subprocess.Popen(
        [sys.executable, '-m', 'sparser_ros.demo.demo', *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def test_graph_to_map(graph_file, tmp_path):
    out, options = tmp_path / 'out', tmp_path / 'options.yaml'
    # Costs are compared: nothing is taken off measurements, whenever an audit of a busy machine is.
    options.write_text('backend: {integrity: {doubt_ranges: false, doubt_odometry: false, '
                       'solve_odometry: false}}\n')
    process = demo_process(graph_file, '--rate', 8, '--out', out, '--config', options)
    try:
        text, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        with_group(process, signal.SIGKILL)
    assert process.returncode == 0, text + (out / 'node.log').read_text()
    report = json.loads((out / 'report.json').read_text())
    check_fields('demo', report, whole=False)
    graph = pyfg.read(graph_file)
    kinds = report['messages']['kinds']
    assert kinds['odometry']['received'] == graph.n_poses == kinds['odometry']['accepted']
    assert kinds['ranges']['received'] == len(graph.ranges)
    assert report['messages']['unaccounted'] == 0 and report['messages']['lost'] == {}
    assert report['robots'] == {'A': 'located', 'B': 'located'}
    assert report['settled_after_s'] < PATIENCE_S
    # The positions of the file are true. A busy machine may have none fixed within these seconds.
    assert report['ate_rmse_m'] < 0.5 and report['stated']
    assert all(abs(sum(shares.values()) - 1) < 1e-6 for shares in report['fix_share'].values())
    assert report['n_poses'] == graph.n_poses
    # The least cost at unit weights, and that of a robust optimum: both continued from the truth.
    # The node has an optimum of its own, by the noise that its audits have found by then.
    least = solve(graph, SolverConfig(), initial=estimate_of(graph)).stats.cost_final
    node = SparserConfig.from_yaml(out / 'parameters.yaml').solver
    robust = solve(graph, node, initial=estimate_of(graph)).estimate
    assert least <= report['cost_on_file'] * (1 + 1e-6)
    assert report['cost_on_file'] <= 1.2 * cost(graph, robust)
    assert report['cost_on_file_solved'] == pytest.approx(least, rel=1e-5)
    assert report['tf_stamps_not_increasing'] == 0
    # None where the audit of a busy machine ends after the 8 s of the bag: TF needs /clock.
    assert set(report['tf_count']) <= {'A/odom', 'B/odom'}
    assert max(report['tf_gap_max_s'].values(), default=0.0) < 5.0, 'TF has stopped'
    assert report['node_exit_code'] == 0
    lines = report['log_lines']
    assert lines['info'] <= 16 and not set(lines) - {'info', 'warn'}, (out / 'node.log').read_text()
    assert {'dataset', 'dimension', 'n_relative', 'rank', 'init', 'status', 'seconds',
            'cost_final', 'rejected', 'ate_m'} <= set(report)
    for robot in 'AB':
        assert len(np.loadtxt(out / f'{robot}.tum')) == graph.n_poses // 2
    assert (out / 'map.png').stat().st_size > 5000
    assert 'located' in text and 'cost' in text


def with_group(process, number):
    """Signal the demo's group, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def test_interrupted_demo_leaves_no_process(graph_file, tmp_path):
    out, left = tmp_path / 'out', []
    process = demo_process(graph_file, '--rate', 1, '--out', out)
    try:
        until(lambda: (out / 'node.log').exists() and children(process.pid), 'the node')
        time.sleep(1.0)
        left = children(process.pid)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
        until(lambda: not any(map(alive, left)), 'the end of all its processes')
    finally:
        with_group(process, signal.SIGKILL)
        for pid in filter(alive, left):
            os.kill(pid, signal.SIGKILL)


def children(pid):
    """Process ids of the live children, and of theirs."""
    own = [int(task) for task in os.listdir('/proc')
           if task.isdigit() and alive(int(task)) and parent_of(int(task)) == pid]
    return [*own, *(inner for child in own for inner in children(child))]


def test_bad_input_says_what_to_do(tmp_path, capsys):
    assert demo.main([str(tmp_path / 'missing.pyfg'), '--out', str(tmp_path / 'out')]) == 2
    assert 'missing.pyfg' in capsys.readouterr().err
    broken = tmp_path / 'broken.pyfg'
    broken.write_text('VERTEX_SE2 0.0 A0 1 2\n')
    assert demo.main([str(broken), '--out', str(tmp_path / 'out')]) == 2
    assert 'broken.pyfg:1' in capsys.readouterr().err


def test_a_folder_is_emptied_of_results_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / 'out'
    (out / 'folder').mkdir(parents=True)
    (out / 'thesis.tex').write_text('do not delete')
    for chosen in (None, Path('out'), out):
        with pytest.raises(ConfigError, match='not empty and not from an earlier demo'):
            demo.emptied(chosen)
    assert (out / 'thesis.tex').exists()
    (out / 'parameters.yaml').touch()
    assert list(demo.emptied(None).iterdir()) == []


@pytest.mark.parametrize(('arguments', 'said'), [
    (('--rate', '0'), '--rate: must be above zero and finite, not 0'),
    (('--clock', 'nan'), '--clock: must be above'), (('--settle', '-1'), '--settle: must be above'),
    (('--seed', '-1'), 'seed: -1 is below'), (('--out', 'file'), '--out file: no such folder')])
def test_bad_options_are_named_before_anything_starts(
        arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'file').touch()
    try:
        code = demo.main(list(arguments))
    except SystemExit as ended:
        code = ended.code
    assert code == 2 and said in capsys.readouterr().err


def test_the_truth_in_a_recording_is_read(tmp_path):
    """Not for robots and times of which nothing is recorded."""
    run = Simulation(SimulationConfig(robots=2, beacons=2, minutes=0.2, truth_rate=10.0))
    write_bag(tmp_path / 'bag', run)
    parameters = node_config(run)
    del parameters['backend']['truth_topics']['B']
    write_parameters(tmp_path / 'bag.yaml', parameters)
    data = demo_data.prepare(tmp_path / 'bag', tmp_path / 'bag.yaml', tmp_path)
    saved = graph_of(run)
    truth = demo_data.truth_of(data, saved).translation
    known = np.isfinite(truth[:, 0])
    assert set(saved.poses.robot[known]) == {saved.robots.index('A')}
    true = saved.poses.translation
    error = aligned_errors(true[known], truth[known])
    assert len(error) > 10 and error.max() < 0.02
    other = Estimate(saved.poses.rotation, true + np.where(known[:, None], 0.0, 5.0),
                     saved.landmarks.position)
    assert report.ate(other, demo_data.truth_of(data, saved)) == pytest.approx(error.mean())
    del parameters['backend']['truth_topics']['A']
    write_parameters(tmp_path / 'none.yaml', parameters)
    assert demo_data.prepare(tmp_path / 'bag', tmp_path / 'none.yaml', tmp_path).truth is None


def test_what_the_draft_for_a_recording_leaves_open_is_said(tmp_path, capsys):
    sample = Path(__file__).parents[2] / 'docs' / 'samples' / 'two_robots.mcap'
    assert demo_data.prepare(sample, None, tmp_path).config.robots == ['A', 'B']
    said = capsys.readouterr().err
    assert 'no --config: drafted' in said and '4 radios are drafted as beacons' in said


@pytest.mark.parametrize('rate', [1.0, 400.0, 1e6])
def test_parameters_of_fast_time_are_within_their_bounds(rate):
    assert SparserConfig.from_mapping({'robots': ['A'], **demo.in_faster_time({}, rate)})


def test_processor_time_of_a_group_of_processes(tmp_path):
    program = ('import subprocess, sys, time\n'
               'inner = "import time\\nwhile time.process_time() < 0.5: pass\\ntime.sleep(60)"\n'
               'subprocess.run([sys.executable, "-c", inner])')
    with Child([sys.executable, '-c', program], tmp_path / 'log') as process:
        until(lambda: process.cpu_seconds() >= 0.45, 'half a second of processor time')
        assert process.cpu_seconds() < 5


def test_data_wait_for_the_first_solution_that_contains_them():
    # Every 2 s of data a solution, 0.5 s after its newest datum: waits from 0.5 to 2.5 s.
    found = latencies([(2.5 + 2 * k, 2.0 + 2 * k) for k in range(20)], rate=1.0)
    assert found['max'] == pytest.approx(2.5)
    assert found['p50'] == pytest.approx(1.5, abs=0.05)
    assert found['p95'] == pytest.approx(2.4, abs=0.05)
