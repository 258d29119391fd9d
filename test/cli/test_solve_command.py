"""`sparser solve` from the command line: exit codes, outputs, messages."""

import numpy as np
import pytest
from graphs import flying_graph, world
from report_paths import reported

from benchmark.generators import sensor_network
from sparser_ros.cli.console import rejected_text
from sparser_ros.cli.main import main
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.graph import cost, estimate_of, with_estimate
from sparser_ros.io import graph_file, pyfg, simulation
from sparser_ros.io.simulation import Simulation
from sparser_ros.linalg.rotations import rotvec_to_matrix

RING = 12


def ring_graph(folder):
    random = np.random.default_rng(1)
    lines = []
    for k in range(RING):
        dx, dy, turn = random.normal([1, 0, 2 * np.pi / RING], 0.01)
        lines.append(f'EDGE_SE2 {k} {(k + 1) % RING} {dx} {dy} {turn} 100 0 0 100 0 400')
    path = folder / 'ring.g2o'
    path.write_text('\n'.join(lines) + '\n')
    return path


@pytest.fixture(scope='module')
def field(tmp_path_factory):
    path = tmp_path_factory.mktemp('field') / 'field.pyfg'
    run = Simulation(SimulationConfig(
        robots=2, beacons=4, minutes=2.0, odometry_rate=2.0, outliers=0.0, radius=20.0, seed=3))
    pyfg.write(path, simulation.graph_of(run))
    return path


@pytest.mark.parametrize('heights', [False, True])
def test_an_upright_map_is_neither_tilted_nor_raised_onto_the_positions_in_the_file(
        tmp_path, heights):
    graph, truth = flying_graph(heights=heights)
    tilted = truth.moved(rotvec_to_matrix(np.array([[0.1, 0.0, 0.0]]))[0], np.ones(3))
    pyfg.write(tmp_path / 'tilted.pyfg', with_estimate(graph, tilted))
    report = reported(tmp_path, 'solve', tmp_path / 'tilted.pyfg', '--output',
                      tmp_path / 'solved.pyfg')
    solved = graph_file.read(tmp_path / 'solved.pyfg')
    assert cost(solved, estimate_of(solved)) == pytest.approx(report['cost_final'], rel=1e-6)


def test_every_output(tmp_path, field, capsys):
    out = tmp_path / 'out'
    report = reported(
        out, 'solve', field, '--seed', '1', '--covariance', '--output', out / 'solved.pyfg',
        '--tum', out, '--plot', out / 'map.png', '--residuals', out / 'h.png')
    assert {p.name for p in out.iterdir()} == {
        'solve.json', 'solved.pyfg', 'A.tum', 'B.tum', 'map.png', 'h.png'}
    assert report['dataset'] == 'field' and report['status'] == 'converged'
    assert report['ate_m'] <= report['ate_rmse_m'] < 1.0
    assert report['seconds']['total'] > report['seconds']['load'] > 0
    solved = graph_file.read(out / 'solved.pyfg')
    assert cost(solved, estimate_of(solved)) == pytest.approx(report['cost_final'], rel=1e-9)
    # Nothing absolute is in the graph, so the map lies where the file's reference lies.
    truth = graph_file.read(field)
    assert np.median(np.linalg.norm(
        solved.poses.translation - truth.poses.translation, axis=1)) < 1.0
    shown = capsys.readouterr()
    assert 'converged in' in shown.out and 'cost' not in shown.out and shown.err == ''
    assert 'ranges differ from the map by 0.' in shown.out and 'on the cpu' not in shown.out
    assert 'standard deviations relative to the first pose of A' in shown.out
    found = report['covariance']
    assert found['gauge'] == 'the first pose of A' and found['order'] == 'x y rz'
    assert set(found['newest_poses']) == {'A', 'B'} and len(found['landmarks']) == 4
    for values in [*found['newest_poses'].values(), *found['landmarks'].values()]:
        assert np.linalg.eigvalsh(values).min() > 0


@pytest.mark.parametrize(('dimension', 'anchors'), [(2, 0), (2, 4), (3, 5)])
def test_sensor_network(tmp_path, capsys, dimension, anchors):
    path, out = tmp_path / 'network.pyfg', tmp_path / 'out'
    network = sensor_network(
        40, anchors, dimension=dimension, radius_m=5.0 if dimension == 2 else 8.0,
        sigma_m=0.02, seed=4)
    pyfg.write(path, network)
    report = reported(out, 'solve', path, '--tum', out, '--output', out / 'solved.pyfg',
                      '--plot', out / 'map.png')
    assert (report['n_poses'], report['n_landmarks']) == (0, 40 + anchors)
    assert report['ate_m'] <= report['ate_rmse_m'] < 0.05
    solved = graph_file.read(out / 'solved.pyfg')
    assert cost(solved, estimate_of(solved)) == pytest.approx(report['cost_final'], rel=1e-9)
    assert np.abs(solved.landmarks.position - network.landmarks.position).max() < 0.2
    shown = capsys.readouterr().out
    assert f'{40 + anchors} landmarks' in shown
    assert f'RMSE {report["ate_rmse_m"]:.3f} m, mean {report["ate_m"]:.3f} m' in shown


@pytest.mark.parametrize(('options', 'code', 'status'), [
    (['--max-iterations', '1'], 3, 'max_iterations'),
    (['--init', 'random', '--target-cost', '1e9'], 0, 'target_reached')])
def test_limits_write_the_best(tmp_path, field, capsys, options, code, status):
    report = reported(
        tmp_path, 'solve', field, *options, '--output', tmp_path / 's.pyfg', code=code)
    assert report['status'] == status and (tmp_path / 's.pyfg').exists()
    assert ('Raise max_iterations' in capsys.readouterr().out) == (code == 3)
    if code == 0:
        assert report['cost_final'] is None and report['cost_relaxed'] <= 1e9


@pytest.mark.parametrize('formulation', ['schur', 'dense', 'original', 'original-varpro'])
def test_certificate_and_formulation_are_in_the_report(tmp_path, capsys, formulation):
    path = ring_graph(tmp_path)
    report = reported(tmp_path, 'solve', path, '-v', '--certify', '--formulation', formulation,
                      '--output', tmp_path / 's.g2o')
    solved = graph_file.read(tmp_path / 's.g2o')
    np.testing.assert_allclose(solved.poses.rotation[0], np.eye(2), atol=1e-12)
    np.testing.assert_allclose(solved.poses.translation[0], 0, atol=1e-12)
    # The file has no vertices of its own.
    assert cost(solved, estimate_of(solved)) == pytest.approx(report['cost_final'], rel=1e-9)
    assert report['certified'] is True
    assert 0 <= report['suboptimality'] <= 1e-6 * report['cost_final']
    assert report['formulation'] == formulation
    assert report['seconds']['certify'] > 0
    shown = capsys.readouterr().out
    assert 'certified: this is the best possible map' in shown
    assert 'on the cpu' in shown and '  cost 0.' in shown


def test_parts_without_a_measurement_are_no_solution(tmp_path, field, capsys):
    path = tmp_path / 'apart.pyfg'
    lines = [line for line in field.read_text().splitlines() if 'RANGE' not in line]
    path.write_text('\n'.join(lines) + '\n')
    assert len(reported(tmp_path, 'solve', path, code=3)['undetermined']) == 2
    shown = capsys.readouterr()
    assert 'undetermined: robot B: no measurement to the rest of the graph' in shown.err
    assert 'undetermined: 4 landmarks without any measurement' in shown.err
    assert 'converged in parts, the rest is undetermined' in shown.out
    assert main(['solve', str(path), '--partial']) == 0


def test_what_a_file_lacks_and_holds_beside_is_told(tmp_path, capsys):
    path = tmp_path / 'ring.g2o'
    steps = [f'EDGE_SE2 {k} {(k + 1) % RING} 1 0 {2 * np.pi / RING}' for k in range(RING)]
    path.write_text('\n'.join(steps + 3 * ['ROBOTLASER1 0 1 2']) + '\n')
    warnings = reported(tmp_path, 'solve', path)['warnings']
    shown = capsys.readouterr().err
    left_out = f'3 lines ROBOTLASER1 (first: line {RING + 1}) are left out'
    assert f'warning: {left_out}' in shown
    assert f'warning: {RING} lines EDGE_SE2 (first: line 1) are without an information' in shown
    assert warnings[0].startswith(left_out)
    assert main(['info', str(path)]) == 0
    assert left_out in capsys.readouterr().err
    assert main(['bag', str(path), '-o', str(tmp_path / 'bag')]) == 0
    assert left_out in capsys.readouterr().err


def two_squares(folder, backwards=False):
    """Two robots drive squares of 3 m side by side, keys of GTSAM; one closure of 34 is false."""
    random = np.random.default_rng(4)
    side = np.array([[k, 0] for k in range(3)])
    turn = np.array([[0, -1], [1, 0]])
    square = np.concatenate([side, [3, 0] + side @ turn.T, [3, 3] - side, [0, 3] - side @ turn.T])
    truth = np.concatenate([square, square + np.array([5, 0])])
    heading = np.tile(np.repeat(np.arange(4) * np.pi / 2, 3), 2)
    keys = [ord(letter) << 56 | k for letter in 'ab' for k in range(12)]

    def edge(i, j, sigma=0.03):
        cos, sin = np.cos(heading[i]), np.sin(heading[i])
        step = np.array([[cos, sin], [-sin, cos]]) @ (truth[j] - truth[i])
        noise = random.normal(0, sigma, 2)
        return (f'EDGE_SE2 {keys[i]} {keys[j]} {step[0] + noise[0]} {step[1] + noise[1]} '
                f'{heading[j] - heading[i]} 1000 0 0 1000 0 4000')

    steps = [(k, k + 1) for k in range(23) if k != 11]
    lines = [edge(*(pair[::-1] if backwards else pair)) for pair in steps]
    lines += [edge(i, j) for i, j in ((11, 0), (23, 12), (0, 12), (4, 20), (7, 14), (2, 21))]
    lines += [f'EDGE_SE2 {keys[11]} {keys[12]} 25 -12 0 1000 0 0 1000 0 4000']
    path = folder / 'squares.g2o'
    path.write_text('\n'.join(
        [f'VERTEX_SE2 {k} 0 0 0' for k in keys] + lines) + '\n')
    return path, truth


@pytest.mark.parametrize('backwards', [False, True])
def test_a_false_closure_between_neighbouring_keys(tmp_path, capsys, backwards):
    """From the last pose of one robot to the first of the next: rejected, as it is no odometry."""
    path, truth = two_squares(tmp_path, backwards)
    assert main(['solve', str(path), '--kernel', 'gm', '--gnc', '--tum', str(tmp_path),
                 '--output', str(tmp_path / 'out.g2o')]) == 0
    shown = capsys.readouterr().out
    assert '2 robots, 7 loop closures' in shown
    assert '1 of 7 loop closures (14.3 %) rejected' in shown
    place = []
    for name in 'ab':
        rows = np.loadtxt(tmp_path / f'{name}.tum')
        assert rows[:, 0].tolist() == list(range(12))
        place.append(rows[:, 1:3])
    assert np.abs(np.concatenate(place) - truth).max() < 0.2
    edges = [line for line in path.read_text().splitlines() if line.startswith('EDGE')]
    assert (tmp_path / 'out.g2o').read_text().splitlines()[24:] == edges
    bag = ['bag', str(path), '-o', str(tmp_path / 'bag')]
    assert main(bag) == 0
    assert '24 odometry, 0 ranges, 0 sightings, 7 loop closures' in capsys.readouterr().out


def test_what_is_about_a_kernel_chooses_one(tmp_path, capsys):
    ring = ['solve', str(ring_graph(tmp_path)), '-v']
    for flags in (['--gnc'], ['--threshold', '5']):
        assert main([*ring, *flags]) == 0
        assert 'with kernel gm' in capsys.readouterr().out
        assert main([*ring, *flags, '--kernel', 'none']) == 2
        assert f'--kernel none: {flags[0]} is about a robust kernel' in capsys.readouterr().err


def test_false_fixes_are_told():
    told = rejected_text({'point_priors': 1}, world(1, absolute='pf'))
    assert told.endswith(' and 0 of 1 pose fix and 1 of 2 position fixes (50 %) rejected')


def test_a_map_that_positions_leave_open_is_told(tmp_path, capsys):
    one = tmp_path / 'one.pyfg'
    one.write_text(
        'VERTEX_SE2 1 A0 0 0 0\nVERTEX_SE2 2 A1 1 0 0\n'
        'EDGE_SE2 2 A0 A1 1 0 0 0.01 0 0 0.01 0 0.01\n'
        'VERTEX_SE2:POSITION 2 A1 500 800 0.01 0 0.01 0 0\n')
    assert main(['solve', str(one)]) == 0
    assert 'known points give map a position only (position fixes)' in capsys.readouterr().err
    apart = tmp_path / 'apart.pyfg'
    apart.write_text(''.join(
        f'VERTEX_SE2 {k} A{k} {k} 0 0\nVERTEX_SE2:POSITION {k} A{k} {k} 0 0.01 0 0.01 0 0\n'
        for k in range(1, 4)))
    assert main(['solve', str(apart)]) == 3
    assert 'robot A: 2 stretches of its path, to which no odometry' in capsys.readouterr().err
