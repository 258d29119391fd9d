"""Reports: promised and declared fields, rejected measurements, errors after alignment."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import random_graph
from report_paths import check_fields, declared

from sparser_ros.cli.main import main
from sparser_ros.graph import Estimate, estimate_of, squared_residuals
from sparser_ros.io import report
from sparser_ros.linalg.rotations import angle_to_matrix
from sparser_ros.solver.result import SolveStats, SolveStatus

PROMISED = """dataset dimension n_poses n_landmarks n_relative n_ranges rank init formulation
backend kernel status iterations cg_steps cg_stops seconds cost_relaxed cost_final cost_robust
certified suboptimality lambda_min rejected ate_m ate_rmse_m trace"""


def stats(**parts):
    return SolveStats(
        rank=5, init='random', formulation='schur', backend='cpu', kernel='gm', **parts)


def test_promised_fields_and_null_for_what_is_not_finite(tmp_path):
    graph = random_graph(1)
    content = report.build(
        graph, stats(seconds={'setup': 1.0}, trace=((0.0, 2.0), (0.5, 1.0)),
                     cost_final=float('nan'), lambda_min=np.float64('inf')),
        SolveStatus.CONVERGED, estimate=estimate_of(graph), dataset='x',
        seconds={'load': 0.5, 'total': 9.0})
    report.write(tmp_path / 'r.json', content)
    back = json.loads((tmp_path / 'r.json').read_text())
    assert set(PROMISED.split()) <= set(back)
    assert back['seconds'] == {
        'load': 0.5, 'setup': 1.0, 'solve': None, 'refine': None, 'certify': None, 'total': 9.0}
    assert back['trace'] == [[0.0, 2.0], [0.5, 1.0]]
    assert (back['status'], back['n_poses'], back['ate_m']) == ('converged', 10, None)
    assert back['cost_final'] is None and back['lambda_min'] is None


def test_rejected_measurements():
    graph = random_graph(2)
    estimate = estimate_of(graph)
    weights = np.ones(len(graph.ranges))
    weights[3] = 0.05
    (one,) = report.build(
        graph, stats(weights={'ranges': weights}), SolveStatus.CONVERGED,
        estimate=estimate)['rejected']
    assert one == {
        'index': 3, 'type': 'ranges', 'weight': 0.05,
        'from': graph.endpoint_name(int(graph.ranges.source[3])),
        'to': graph.endpoint_name(int(graph.ranges.target[3])),
        'whitened_residual': pytest.approx(
            np.sqrt(squared_residuals(graph, estimate)['ranges'][3]))}


def test_headings_of_the_plane_count_once():
    """A heading off by one sigma is a whitened residual of one, although it costs two."""
    graph = random_graph(3)
    table = graph.relative_poses
    sigma = 1e-4
    graph = graph.replaced(relative_poses=table.replaced(kappa=np.full(len(table), sigma**-2)))
    k = 0
    i, j = table.i[k], table.j[k]
    rotation, translation = graph.poses.rotation.copy(), graph.poses.translation.copy()
    rotation[j] = rotation[i] @ table.rotation[k] @ angle_to_matrix(np.array(sigma))
    translation[j] = translation[i] + rotation[i] @ table.translation[k]
    residual = report.whitened(graph, Estimate(rotation, translation, graph.landmarks.position))
    assert residual['relative_poses'][k] == pytest.approx(1, rel=1e-6)


def test_error_after_alignment():
    graph = random_graph(4, length=30)
    truth = estimate_of(graph)
    moved = truth.moved(angle_to_matrix(np.array(2.0)), np.array([5.0, -3.0]))
    assert report.ate(moved, truth) == pytest.approx(0, abs=1e-12)
    off = Estimate(truth.rotation, truth.translation + np.tile([[0.1, 0], [-0.1, 0]], (30, 1)),
                   truth.landmarks)
    assert report.ate(off, truth) == pytest.approx(0.1, rel=0.05)
    assert report.ate(None, truth) is None


SAMPLES = Path(__file__).resolve().parents[2] / 'docs' / 'samples'


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp('reports')


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    path = folder / f'{arguments[0]}.json'
    assert main([*arguments, '--report', str(path)]) == 0
    return json.loads(path.read_text(encoding='utf-8'))


def test_fields_of_solve(folder: Path):
    check_fields('solve', run(
        folder, 'solve', str(SAMPLES / 'two_robots.pyfg'), '--gnc', '--covariance', '--calibrate'))


def test_fields_of_replay_and_calibrate(folder: Path):
    bag, config = str(folder / 'bag'), str(folder / 'bag.yaml')
    assert main([
        'simulate', '-o', bag, '--config', config, '--robots', '2', '--beacons', '4',
        '--known-beacons', '3', '--minutes', '0.7', '--closures', '4', '--outliers', '0.1']) == 0
    whole = run(folder, 'replay', bag, '--config', config, '--run', str(folder / 'run'))
    in_folder = json.loads((folder / 'run' / 'report.json').read_text(encoding='utf-8'))
    check_fields('replay', whole | {'covariance': in_folder['covariance']})
    check_fields('calibrate', run(folder, 'calibrate', bag, '--config', config))


def test_paths_are_declared_once_for_each_writer():
    for writer in ('solve', 'replay', 'calibrate', 'demo'):
        listed = declared(writer)
        assert len(listed) == len(set(listed)) > 5


def test_what_is_not_declared_is_noticed():
    with pytest.raises(AssertionError, match=r"declare in .*'not_declared'"):
        check_fields('solve', {'not_declared': 1})
