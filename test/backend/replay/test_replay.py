"""sparser replay: a bag through front-end and back-end, deterministic and without ROS."""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_paths import reported, simulated
from waiting import python

from sparser_ros.backend.replay import replay
from sparser_ros.backend.replay.replay import run_calibrated
from sparser_ros.backend.session.solution import Location
from sparser_ros.cli.main import main
from sparser_ros.config import SparserConfig

LONG_M = 0.3
"""Seen within a minute, although the 214 ranges have a noise of 0.8 m (median): the mean of all
pairs has a standard deviation of 0.09 m."""


@pytest.fixture(scope='module')
def bag(tmp_path_factory):
    folder = tmp_path_factory.mktemp('replay')
    simulated(folder, '--robots 2 --beacons 4 --minutes 0.7 --outliers 0 --radius 15 '
                      '--odometry-rate 5')
    return folder


def test_the_report_says_what_came_in_and_what_came_out(bag, tmp_path, capsys):
    report = reported(
        tmp_path, 'replay', bag / 'bag', '--config', bag / 'bag.yaml', '--tum', tmp_path / 'tum',
        '--plot', tmp_path / 'map.png')
    for kind in ('odometry', 'ranges'):
        counts = report['counts'][kind]
        assert counts['received'] > 200
        assert counts['received'] == (
            counts['accepted'] + counts['merged'] + sum(counts['dropped'].values()))
    assert report['counts']['ranges']['accepted'] == report['n_ranges']
    assert {r: v['location'] for r, v in report['locations'].items()} == {
        'A': 'located', 'B': 'located'}
    assert all(beacon['located'] for beacon in report['beacons'].values())
    assert report['status'] == 'converged'
    assert report['ate_m'] < 0.3
    assert report['range_residuals_m']['rms_whitened'] < 1.5
    assert report['seconds']['total'] > 0
    assert [solve['full'] for solve in report['solves']][-1]
    assert {p.name for p in (tmp_path / 'tum').iterdir()} == {'A.tum', 'B.tum', 'odometry_rate'}
    lines = sum(len((tmp_path / 'tum' / 'odometry_rate' / f'{robot}.tum').read_text().splitlines())
                for robot in 'AB')
    assert lines == report['counts']['odometry']['accepted']
    assert (tmp_path / 'map.png').stat().st_size > 10_000
    text = capsys.readouterr().out
    assert 'A: located' in text and 'ground truth' in text


def test_of_a_damaged_bag_is_used_what_can_be_read(bag, tmp_path, capsys):
    shutil.copytree(bag / 'bag', tmp_path / 'bag')
    (file,) = (tmp_path / 'bag').glob('*.db3')
    with closing(sqlite3.connect(file)) as database, database:
        row = database.execute(
            'SELECT messages.id FROM messages JOIN topics ON topic_id = topics.id '
            'WHERE name = "/uwb/ranges" LIMIT 1 OFFSET 50').fetchone()
        database.execute("UPDATE messages SET data = x'00010000ff' WHERE id = ?", row)
    (tmp_path / 'bag' / 'metadata.yaml').unlink()
    arguments = [tmp_path / 'bag', '--config', bag / 'bag.yaml']
    warnings = ' '.join(reported(tmp_path, 'replay', *arguments)['warnings'])
    assert 'metadata.yaml is missing' in warnings
    assert '1 of the messages on /uwb/ranges dropped' in warnings
    data = file.read_bytes()
    file.write_bytes(data[:len(data) * 9 // 10])
    capsys.readouterr()
    assert main(['replay', *map(str, arguments)]) == 2
    shown = capsys.readouterr().err
    assert str(file) in shown and '.recover' in shown and 'Traceback' not in shown


def test_two_runs_give_the_same_bits_in_processes_without_ros(bag, tmp_path):
    root = str(Path(__file__).parents[3])
    code = (
        'import sys\n'
        "sys.modules['rclpy'] = None\n"
        'from sparser_ros.cli.main import main\n'
        'sys.exit(main(sys.argv[1:]))\n')
    tums = []
    for number in range(2):
        folder = tmp_path / str(number)
        python('-c', code, 'replay', bag / 'bag', '--config', bag / 'bag.yaml', '--tum', folder,
               '--report', folder / 'r.json', PYTHONPATH=root, PYTHONHASHSEED=str(number))
        report = json.loads((folder / 'r.json').read_text())
        tums.append([(folder / f'{robot}.tum').read_bytes() for robot in 'AB']
                    + [report['cost_final'], [s['cost_final'] for s in report['solves']]])
    assert tums[0] == tums[1]


@pytest.mark.parametrize(('config', 'words'), [
    ('robots: [X, Y]\nranges: {inputs: {a: {topic: /none, adapter: uwb_range}}}\n',
     ['no topic of this bag is an input', '/A/odom']),
    ('robots: [A, B]\nranges: {inputs: {a: {topic: /uwb/range}}}\n',
     ['there is no topic /uwb/range (ranges.inputs); is /uwb/ranges meant?',
      'nothing was measured beside odometry']),
    ('robots: [A]\nradios:\n' + ''.join(
        f'  {name}: {{robot: A}}\n' for name in ('B', *(f'L{k}' for k in range(9)))),
     ['refused as ranges of a radio to itself: `radios` of the configuration',
      '(A: A, B, L0, L1,', 'sparser info BAG --config NEW.yaml'])])
def test_a_configuration_with_which_nothing_is_measured_is_bad_input(
        bag, tmp_path, capsys, config, words):
    (tmp_path / 'c.yaml').write_text(config)
    assert main(['replay', str(bag / 'bag'), '--config', str(tmp_path / 'c.yaml')]) == 2
    shown = capsys.readouterr().err
    assert [one for one in words if one not in shown] == []


def test_the_real_recording_places_everybody(data_dir):
    """TIERS: 01 and 03 drive; 04 and 05 stand still, so their headings are undetermined."""
    config = SparserConfig.from_yaml(Path(__file__).parents[3] / 'config' / 'tiers.yaml')
    state = replay.run(data_dir / 'bags' / 'tiers_shortbag', config)
    report = replay.report_of(state, 'tiers_shortbag')
    where = {robot.robot: robot.location for robot in state.solution.robots}
    assert where == {
        '01': Location.LOCATED, '03': Location.LOCATED,
        '04': Location.POSITION_ONLY, '05': Location.POSITION_ONLY}
    errors = {robot: one['ate_m'] for robot, one in report['truth']['robots'].items()}
    assert errors.keys() == where.keys()
    assert max(errors.values()) < 0.4
    assert report['range_residuals_m']['rms'] < 0.3


def test_without_a_configuration_one_is_drafted(bag, tmp_path, capsys):
    report = reported(tmp_path, 'replay', bag / 'bag')
    text = capsys.readouterr().err
    assert f'sparser info {bag / "bag"} --config FILE' in text
    assert 'drafted: A rides on A, B rides on B, by names and motion' in text
    assert {one['location'] for one in report['locations'].values()} == {'located'}
    assert report['ate_rmse_m'] < 0.5


def test_the_shipped_sample_is_compared_with_its_sparse_truth(tmp_path, capsys):
    sample = Path(__file__).parents[3] / 'docs' / 'samples' / 'two_robots'
    truth = reported(
        tmp_path, 'replay', f'{sample}.mcap', '--config', f'{sample}.yaml')['truth']
    assert truth['aligned_on'] == ['A', 'B']
    assert (truth['compared'], truth['keyframes']) == (130, 132)
    assert truth['ate_rmse_m'] < 0.12
    shown = capsys.readouterr()
    assert '130 of 132 keyframes' in shown.out and 'ground truth' not in shown.err


def test_a_configuration_that_fits_nothing_is_explained(bag, tmp_path, capsys):
    config = tmp_path / 'c.yaml'
    config.write_text('robots: [robot]\n')
    report = reported(tmp_path, 'replay', bag / 'bag', '--config', config, '--plot',
                      tmp_path / 'map.png', code=3)
    shown = capsys.readouterr()
    assert 'there is no topic /robot/odom (odometry.topic)' in shown.err
    assert 'undetermined: robot: no odometry' in shown.err
    assert 'no picture: no robot has odometry' in shown.err
    assert 'Traceback' not in shown.err and not (tmp_path / 'map.png').exists()
    assert report['undetermined'] and report['warnings']


def test_what_is_not_located_is_written_and_marked(tmp_path, capsys):
    bag, _ = simulated(
        tmp_path, '--robots 2 --beacons 0 --minutes 0.3 --range-rate 0.3 --odometry-rate 5')
    assert main(['replay', str(bag), '--tum', str(tmp_path), '--plot',
                 str(tmp_path / 'map.png'), '--run', str(tmp_path / 'run')]) == 3
    assert 'B: ambiguous (two places fit' in capsys.readouterr().out
    report = json.loads((tmp_path / 'run' / 'report.json').read_text())
    assert report['locations']['A']['location'] == 'located'
    assert report['locations']['B']['location'] == 'ambiguous'
    assert report['undetermined'] and report['undetermined'][0].startswith('B: two places fit')
    for folder in (tmp_path, tmp_path / 'odometry_rate'):
        first, *poses = (folder / 'B.tum').read_text().splitlines()
        assert first.startswith('# not trusted: B is ambiguous in map (')
        assert np.loadtxt(folder / 'B.tum').shape == (len(poses), 8) and len(poses) > 10
        assert not (folder / 'A.tum').read_text().startswith('#')
    assert (tmp_path / 'map.png').stat().st_size > 10_000
    assert main(['report', str(tmp_path / 'run')]) == 0
    assert 'robot B</td><td>ambiguous (' in (tmp_path / 'run/report.html').read_text()


def one_robot(folder, radio, options):
    """(bag, configuration in which the radio of robot A has these wrong values)."""
    bag, path = simulated(
        folder, f'--robots 1 --beacons 4 --known-beacons 4 {options}', 's.mcap')
    config = SparserConfig.from_yaml(path)
    return bag, replace(config, radios={**config.radios, 'A': {'robot': 'A', **radio}})


def applied(bag, config):
    calibration = replace(config.calibration, mode='apply')
    return run_calibrated(bag, replace(config, calibration=calibration))


def test_the_second_run_has_the_biases_of_the_first(tmp_path):
    bag, config = one_robot(
        tmp_path, {'bias_m': -LONG_M}, '--minutes 1 --seed 3 --outliers 0.05')
    state, found, _ = applied(bag, config)
    assert found is not None and found.applied
    specs = state.config.radio_specs()
    # One robot: only sums of its bias and a beacon's are determined.
    left = [specs['A'].bias_m + specs[name].bias_m for name in found.ends.names[1:]]
    assert left == pytest.approx([0.0] * 4, abs=0.2)
    assert sum(left) / 4 == pytest.approx(0.0, abs=0.15)
    before, none, _ = run_calibrated(bag, config)
    assert none is None
    assert state.solution.stats.cost_final < before.solution.stats.cost_final


def test_the_second_run_has_lever_arms_that_fit(tmp_path):
    state, found, (moved,) = applied(*one_robot(
        tmp_path, {'lever_arm': [0.5, -0.4, 0.0]},
        '--minutes 1.5 --seed 4 --outliers 0 --radius 12'))
    assert found is not None and not found.applied, 'antennas do not wait for biases'
    assert moved.robot == 'A' and moved.error_m == pytest.approx((-0.5, 0.4), abs=0.1)
    assert state.config.radio_specs()['A'].lever_arm == pytest.approx([0.0] * 3, abs=0.1)
    assert not state.solution.findings
    assert all(one.location.placed for one in state.solution.robots)
