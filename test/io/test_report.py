"""Reports, shares of time with a fix, TUM files."""

import json
from pathlib import Path

import numpy as np
import pytest
from evo.tools import file_interface
from graphs import random_graph
from report_paths import check_fields, declared, reported, simulated

from sparser_ros.graph import Estimate, Poses, empty_graph, estimate_of, squared_residuals
from sparser_ros.io import availability, report, tum
from sparser_ros.linalg.rotations import angle_to_matrix, quat_to_matrix
from sparser_ros.solver.result import SolveStats, SolveStatus

SECOND = 10**9


def stats(**parts):
    return SolveStats(
        rank=5, init='random', formulation='schur', backend='cpu', kernel='gm', **parts)


def test_what_is_not_finite_or_not_known_is_null(tmp_path):
    graph = random_graph(1)
    content = report.build(
        graph, stats(seconds={'setup': 1.0}, trace=((0.0, 2.0), (0.5, 1.0)),
                     cost_final=float('nan'), lambda_min=np.float64('inf')),
        SolveStatus.CONVERGED, estimate=estimate_of(graph), dataset='x',
        seconds={'load': 0.5, 'total': 9.0})
    report.write(tmp_path / 'r.json', content)
    back = json.loads((tmp_path / 'r.json').read_text())
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


def test_fields_of_replay_and_calibrate(tmp_path: Path):
    bag, config = simulated(tmp_path, '--robots 2 --beacons 4 --known-beacons 3 --minutes 0.7 '
                                      '--closures 4 --outliers 0.1')
    whole = reported(tmp_path, 'replay', bag, '--config', config, '--run', tmp_path / 'run')
    in_folder = json.loads((tmp_path / 'run' / 'report.json').read_text(encoding='utf-8'))
    check_fields('replay', whole | {'covariance': in_folder['covariance']})
    check_fields('calibrate', reported(tmp_path, 'calibrate', bag, '--config', config))


def test_paths_are_declared_once_for_each_writer_and_others_are_noticed():
    for writer in ('solve', 'replay', 'calibrate', 'demo'):
        listed = declared(writer)
        assert len(listed) == len(set(listed)) > 5
    with pytest.raises(AssertionError, match=r"declare in .*'not_declared'"):
        check_fields('solve', {'not_declared': 1})


def track(positions, seconds):
    count = len(positions)
    return empty_graph(2).replaced(robots=('A',), poses=Poses(
        np.zeros(count, dtype=np.int64), np.arange(count), np.asarray(seconds) * SECOND,
        np.tile(np.eye(2), (count, 1, 1)), np.asarray(positions, dtype=float)))


def test_shares_are_of_data_time_and_hold_until_the_next_state():
    seen = availability.Availability()
    assert seen.shares == {}
    for now, fixes in ((5.0, {'A': 0}), (7.0, {'A': 1, 'B': 0}), (10.0, {'A': 2, 'B': 2}),
                       (15.0, {'A': 2, 'B': 1}), (15.0, {'A': 0, 'B': 1})):
        seen.note(now, fixes)
    assert seen.shares['A'] == {'none': 0.2, 'float': 0.3, 'fixed': 0.5}
    assert seen.shares['B'] == pytest.approx({'none': 3 / 8, 'float': 0.0, 'fixed': 5 / 8})
    assert availability.share_text(seen.shares['B']) == 'fixed 62 %, none 38 %'


def test_each_map_is_laid_on_the_truth_by_itself_and_fixes_are_told_apart():
    random = np.random.default_rng(3)
    truth = np.cumsum(random.normal(size=(2000, 2)), axis=0)
    stamps, seen, sigma = np.arange(len(truth)) * SECOND, availability.Availability(), 0.05
    for count in range(1000, 2001):
        path = truth[:count] @ angle_to_matrix(count / 50).T + np.array([count, -3.0])
        fix = 2 if count % 2 else 1
        error = random.normal(scale=sigma, size=2) * (1 if fix == 2 else 3)
        seen.draw({'A': (stamps[:count], path)}, [
            availability.StatedPose('A', fix, int(stamps[count - 1]), path[-1] + error,
                                    np.eye(2) * sigma**2)])
    found = seen.accuracy(availability.positions_of(track(truth, np.arange(len(truth)))))
    assert found['fixed']['rmse_m'] == pytest.approx(sigma * 2**0.5, rel=0.1)
    assert found['float']['rmse_m'] == pytest.approx(3 * sigma * 2**0.5, rel=0.1)
    assert found['fixed']['poses'] == 500 and found['float']['poses'] == 501
    assert found['fixed']['inside_95'] == pytest.approx(0.95, abs=0.03)
    assert found['float']['inside_95'] < 0.5
    assert availability.accuracy_lines(found)[0].startswith('fixed poses as published: RMSE 0.07')


def test_a_map_is_laid_on_the_truth_by_robots_that_are_fixed():
    """A robot that is 30 m off must not make a right one look wrong; one unknown is left out."""
    truth, stamps = np.column_stack([np.arange(20.0), np.arange(20.0)**2 / 20]), np.arange(20)
    known = availability.positions_of(track(truth, stamps))
    far = truth @ angle_to_matrix(2.0).T + 30.0
    np.testing.assert_allclose(known('A', np.array([1.5e9])), [[1.5, 0.125]])
    assert np.isnan(known('A', np.array([20 * SECOND]))).all()
    assert np.isnan(known('B', np.array([SECOND]))).all()
    seen, path = availability.Availability(), stamps * SECOND
    seen.draw({'A': (path, truth), 'B': (path, far)}, [
        availability.StatedPose('A', 2, int(path[-1]), truth[-1], np.eye(2)),
        availability.StatedPose('B', 1, int(path[-1]), far[-1], np.eye(2))])
    seen.draw({}, [])
    assert set(seen.accuracy(known)) == {'fixed'}
    found = seen.accuracy(lambda _, at: known('A', at))
    assert found['fixed']['rmse_m'] < 1e-9 < 20 < found['float']['rmse_m']


def test_written_trajectories(tmp_path, d):
    graph = random_graph(1, d)
    paths = tum.write(tmp_path / 'new', graph, estimate_of(graph), graph.poses.stamp_ns)
    assert [p.name for p in paths] == ['A.tum', 'B.tum']
    rows = np.flatnonzero(graph.poses.robot == 1)
    lines = paths[1].read_text().splitlines()
    assert lines[0].split()[0] == '1.123456796'
    values = np.array([[float(x) for x in line.split()] for line in lines])
    np.testing.assert_allclose(values[:, 1:1 + d], graph.poses.translation[rows], atol=1e-9)
    np.testing.assert_allclose(
        quat_to_matrix(values[:, 4:])[:, :d, :d], graph.poses.rotation[rows], atol=1e-8)
    assert np.all(values[:, 7] >= 0)
    assert file_interface.read_tum_trajectory_file(paths[1]).num_poses == len(rows)
    path, _ = tum.write(tmp_path, graph, estimate_of(graph), 0 * graph.poses.stamp_ns)
    assert [line.split()[0] for line in path.read_text().splitlines()] == [
        f'{k}.000000000' for k in range(5)]


def test_names_stay_in_the_folder_and_two_robots_never_share_a_file(tmp_path):
    graph = random_graph(3, robots=('/fleet/one', '..'))
    tum.write(tmp_path, graph, estimate_of(graph), graph.poses.stamp_ns)
    assert {p.name for p in tmp_path.iterdir()} == {'fleet_one.tum', '...tum'}
    names = tum.safe_names(['A_B', 'A/B', '/A/B', 'A_B~2'])
    assert len(set(names)) == 4 and names[0] == 'A_B'
    assert not any('/' in name for name in names)
