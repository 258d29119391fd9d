"""`sparser bag`, `sparser simulate`, `sparser replay` and `sparser calibrate`."""

import pytest
from faulty_world import radio_world
from graphs import random_graph, with_landmarks
from report_paths import reported, simulated

from sparser_ros.cli.main import main
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import with_estimate
from sparser_ros.io import pyfg
from sparser_ros.io.bag import BagReader


def test_bag(tmp_path, capsys):
    pyfg.write(tmp_path / 'g.pyfg', random_graph(1, levers=False))
    arguments = ['bag', str(tmp_path / 'g.pyfg'), '-o', str(tmp_path / 'bag')]
    assert main([*arguments, '--config', str(tmp_path / 'c.yaml')]) == 0
    shown = capsys.readouterr()
    assert '10 odometry' in shown.out and '4 sightings' in shown.out
    assert 'left out' not in shown.err and 'poses too far apart' in shown.err
    assert BagReader(tmp_path / 'bag').topics['/A/odom'] == 'nav_msgs/msg/Odometry'
    config = SparserConfig.from_yaml(tmp_path / 'c.yaml')
    assert list(config.robots) == ['A', 'B'] and config.keyframes.every_message
    assert main(arguments) == 2
    assert 'exists already' in capsys.readouterr().err
    assert main([*arguments, '--force', '--storage', 'mcap']) == 0
    assert list((tmp_path / 'bag').glob('*.mcap'))
    text = (tmp_path / 'g.pyfg').read_text()
    (tmp_path / 'g.pyfg').write_text(text.replace(' L3 ', ' L3.a ').replace(' L5 ', ' L3 '))
    assert main([*arguments, '--config', str(tmp_path / 'c.yaml'), '--force']) == 2
    assert 'unknown parameter radios.L3.a.beacon' in capsys.readouterr().err


def test_replay_names_the_beacons_without_a_place(tmp_path, capsys):
    bag, config = simulated(tmp_path, '--robots 1 --beacons 4 --minutes 0.2 --seed 1')
    assert '1 robots, 0.2 min; 120 odometry' in capsys.readouterr().out
    report = reported(tmp_path, 'replay', bag, '--config', config, code=3)
    shown = capsys.readouterr().out
    lost = [name for name, one in report['beacons'].items() if not one['located']]
    assert lost and f'{4 - len(lost)} of 4 beacons located (not {", ".join(lost)})' in shown
    assert f'{len(report["rejected"])} of {report["n_ranges"]} ranges' in shown
    assert 'cost' not in shown and 'no map' not in shown
    main(['replay', str(bag), '--config', str(config), '-v'])
    assert f'cost {report["cost_final"]:.8g}' in capsys.readouterr().out


@pytest.mark.parametrize('with_truth', [False, True])
def test_biases_go_to_yaml_and_report(tmp_path, capsys, with_truth):
    world = radio_world(8, sigma_factor=1.0, steps=120)
    measured, truth = tmp_path / 'm.pyfg', tmp_path / 't.pyfg'
    # A file has no unknown places: all vertices are at the origin.
    pyfg.write(measured, with_landmarks(world.measured, position=0 * world.truth.landmarks))
    pyfg.write(truth, with_estimate(world.measured, world.truth))
    options = ['--truth', truth]
    if not with_truth:
        # Dotted names beside blocks: what was written before must not come again.
        (tmp_path / 'c.yaml').write_text(
            'robots: [A, B, C]\nranges: {max_m: 90.0}\nranges.sigma_per_m: 0.5\nradios.A.robot: A\n'
            'radios.A.bias_m: 0.0\n')
        options = ['--config', tmp_path / 'c.yaml']
    whole = reported(tmp_path, 'calibrate', measured, *options, '-o', tmp_path / 'r.yaml')
    shown = capsys.readouterr().out
    assert 'calibration: applied' in shown and 'radio L0: bias' in shown
    _, told = shown.split(f"written: {tmp_path / 'r.yaml'}\n")
    assert told.startswith('  bias_m of A, B, C, L0, L1, L2, L3, L4, L5\n  range_sigma_m of A, B')
    assert '  lever_arm as configured\n' in told
    assert f"written: {tmp_path / 'calibrate.json'}" in told
    written = SparserConfig.from_yaml(tmp_path / 'r.yaml')
    assert written.ranges.sigma_per_m < 0.5
    specs = written.radio_specs()
    assert not any(row['significant'] for row in whole['lever_arms'])
    assert shown.count('agrees with the configuration') == 3
    rows = {row['name']: row for row in whole['calibration']['radios']}
    assert len(rows) == 9 and len(whole['calibration']['pairs']) == 21
    near = [name for name, row in rows.items() if abs(row['bias_m']) <= row['bias_sigma_m']]
    assert not near or f'standard deviation): bias_m of {", ".join(near)}\n' in told
    assert shown.count(' (not significant), sigma') == sum(
        rows[name]['determined'] for name in near)
    for name, bias_m in zip(sorted(rows), world.bias_m, strict=True):
        assert abs(specs[name].bias_m - bias_m) < 3.5 * rows[name]['bias_sigma_m'] < 0.5
