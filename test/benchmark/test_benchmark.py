"""Benchmarks on graphs of a few poses: every command runs and shows what is right; generators."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmark import datasets, formulations, incremental, isolated, practitioner, scale, synthetic
from benchmark.generators import network_of, sphere
from sparser_ros.cli.main import main as sparser
from sparser_ros.config import ConfigError, SolverConfig
from sparser_ros.graph import cost, estimate_of, range_residuals, squared_residuals
from sparser_ros.io import graph_file
from sparser_ros.solver import solve
from sparser_ros.solver.formulations import FORMULATIONS

POSES = 120


@pytest.fixture(scope='module')
def small_sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[datasets.Dataset]]:
    """A folder of data sets with one small pose graph and one with ranges, and their best costs."""
    folder = tmp_path_factory.mktemp('data')
    known = []
    for name, file, graph in (
        ('lattice', 'g2o/lattice.g2o', synthetic.pose_graph(POSES, closures=1.0)),
        ('ranging', 'pyfg/ranging.pyfg', synthetic.range_graph(POSES, robots=2)),
    ):
        path = folder / file
        path.parent.mkdir()
        graph_file.write(path, graph)
        graph = graph_file.read(path)
        relaxed = solve(graph, SolverConfig(init='random', rank=5, cost_tolerance=1e-9))
        final = min(
            solve(graph, SolverConfig(init='auto', seed=s)).stats.cost_final for s in range(3))
        known.append(datasets.Dataset(
            name, file, relaxed.stats.cost_relaxed, final, 1.0, 1.0, 'SE-Sync'))
    return folder, known


@pytest.fixture
def data(small_sets, monkeypatch) -> Path:
    """The folder of the small sets, which stand in for those of the paper."""
    folder, known = small_sets
    monkeypatch.setattr(datasets, 'PAPER', tuple(known))
    return folder


@pytest.mark.parametrize('make', [synthetic.pose_graph, synthetic.range_graph])
def test_noise_of_synthetic_graphs_is_as_stated(make, dimension):
    graph = make(3000, dimension=dimension, seed=1).validate()
    parts = squared_residuals(graph, estimate_of(graph))
    # In units of variance: d of the translation; each angle counts twice in 2D, once in 3D.
    expected = dimension + (2 if dimension == 2 else 3)
    assert np.mean(parts['relative_poses']) == pytest.approx(expected, rel=0.1)
    if len(graph.ranges):
        spread = np.std(range_residuals(graph, estimate_of(graph)))
        assert spread == pytest.approx(synthetic.RANGE_SIGMA_M, rel=0.1)
    step = np.linalg.norm(np.diff(graph.poses.translation[:, :2], axis=0), axis=1)
    assert np.median(step) == 1
    again = make(3000, dimension=dimension, seed=1)
    assert cost(again, estimate_of(again)) == cost(graph, estimate_of(graph))


def test_sphere_has_the_geometry_and_counts_of_create_sphere():
    graph = sphere(laps=200).validate()
    assert graph.n_poses == 10_000
    assert np.count_nonzero(~graph.relative_poses.odometry) == 29_403
    assert np.allclose(np.linalg.norm(graph.poses.translation, axis=1), 100)
    assert graph.poses.translation[0] == pytest.approx([0, 0, 100])
    assert graph.poses.translation[-1, 2] < -99.9
    # 3 from the translation; |R - R'|^2 = 8 |q|^2, so kappa = 1 / (2 s^2) makes it 4 x 3.
    mean = cost(graph, estimate_of(graph)) / len(graph.relative_poses)
    assert mean == pytest.approx(3 + 12, rel=0.05)


def test_network_of_a_pose_graph_keeps_lengths_and_weights():
    graph = sphere(laps=2)
    network = network_of(graph).validate()
    edges = graph.relative_poses
    assert (network.n_poses, network.n_landmarks) == (0, 100)
    assert np.allclose(network.ranges.distance_m, np.linalg.norm(edges.translation, axis=1))
    assert np.array_equal(network.ranges.precision, edges.tau)
    result = solve(network, SolverConfig(init='random', rank=5, cost_tolerance=1e-9))
    assert result.stats.cost_final <= cost(network, estimate_of(network))


def test_paper_protocol_by_the_command_which_refuses_an_unknown_table(data, tmp_path, capsys):
    out = tmp_path / 'out'
    assert sparser(['bench', 'practitioner', '--relaxed', '--data', str(data), '--seeds', '2',
                    '--out', str(out)]) == 0
    assert 'reached: 2/2' in capsys.readouterr().out
    assert sparser(['bench', 'nothing']) == 2
    rows = json.loads((out / 'paper.json').read_text())['rows']
    assert [row['reached'] for row in rows] == ['2/2', '2/2']
    assert all(row['cpu_s'] > 0 and row['seconds'] > 0 for row in rows)
    best = datasets.PAPER[0].relaxed_cost
    assert all(run['trace'][-1][1] <= 1.01 * best for run in rows[0]['runs'])
    assert '| lattice |' in (out / 'paper.md').read_text()


def test_practitioner_protocol(data: Path, tmp_path: Path):
    out = tmp_path / 'out'
    assert practitioner.main([
        '--data', str(data), '--seeds', '2', '--range-seeds', '2', '--out', str(out), '--no-gtsam',
    ]) == 0
    rows = json.loads((out / 'practitioner.json').read_text())['rows']
    assert [row['reached'] for row in rows] == ['2/2', '2/2']


@pytest.mark.parametrize(('name', 'start'), [('lattice', 'lago'), ('ranging', 'odometry')])
def test_gtsam_solves_the_same_objective(data: Path, tmp_path: Path, name: str, start: str):
    pytest.importorskip('gtsam', reason='GTSAM is not installed')
    dataset = datasets.chosen([name])[0]
    arrays = tmp_path / 'arrays.npz'
    practitioner.export(graph_file.read(data / dataset.file), arrays)
    figures = isolated.run_command([sys.executable, str(practitioner.SCRIPT)], {
        'arrays': str(arrays), 'start': start, 'method': 'LM', 'runs': 1,
        'best': dataset.final_cost, 'tolerance': 1e-3}, 60)
    assert 'error' not in figures
    assert figures['trace'][-1][1] <= figures['trace'][0][1]
    if name == 'lattice':
        assert figures['cost'] == pytest.approx(dataset.final_cost, rel=1e-3)


def test_scale(tmp_path: Path):
    assert scale.main(['--poses', '75', '150', '--runs', '2', '--out', str(tmp_path)]) == 0
    rows = json.loads((tmp_path / 'scale.json').read_text())['rows']
    assert [(row['graph'], row['result']) for row in rows] == [
        ('pose', 'converged'), ('pose', 'converged'), ('range', 'converged'),
        ('range', 'converged')]
    assert all(row['cpu_s'] > 0 and row['first_gib'] > 0.01 for row in rows)


def test_sphere_sweep(tmp_path: Path):
    assert formulations.main(
        ['--poses', '100', '150', '--seeds', '1', '--out', str(tmp_path)]) == 0
    rows = json.loads((tmp_path / 'sweep.json').read_text())['rows']
    assert [row['poses'] for row in rows] == [100, 150]
    assert set(rows[0]['figures']) == set(FORMULATIONS)
    assert all(row['dense_ms'] > row['ours_ms'] > 0 for row in rows)


def test_live_updates(data: Path, tmp_path: Path):
    assert incremental.main([
        '--data', str(data), '--sets', 'ranging', '--kernels', 'gm', '--graphs', 'range', 'pose',
        '--poses', '300', '--out', str(tmp_path)]) == 0
    rows = json.loads((tmp_path / 'incremental.json').read_text())['rows']
    streamed = [row for row in rows if row['kernel'] == 'gm']
    assert streamed[-1]['poses'] == POSES
    synthetic_rows = [row for row in rows if row['kernel'] == 'none']
    assert [row['poses'] for row in synthetic_rows] == [300, 300]
    assert all(row['whole_ms'] > 0 and row['followed_ms'] > 0 for row in synthetic_rows)
    assert all(row['gap_sigma'] < 0.2 for row in synthetic_rows)
    assert int(synthetic_rows[0]['followed'].split('/')[0]) > 10


def test_unknown_sets_and_absent_data_are_named(data: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match="'moon'; known: lattice, ranging"):
        datasets.chosen(['moon'])
    monkeypatch.delenv('SPARSER_DATA', raising=False)
    with pytest.raises(ConfigError, match='--data DIR'):
        datasets.directory(None)


def test_a_job_that_takes_too_long_is_ended(data: Path):
    figures = isolated.run({
        'kind': 'solve', 'graph': str(data / 'g2o/lattice.g2o'), 'seeds': [0]}, 0.01)
    assert 'no result within' in figures['error']
