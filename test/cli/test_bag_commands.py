"""`sparser bag`, `sparser simulate` and `sparser replay`."""

from graphs import random_graph
from report_paths import reported

from sparser_ros.cli.main import main
from sparser_ros.config.sparser import SparserConfig
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


def test_replay_names_the_beacons_without_a_place(tmp_path, capsys):
    bag, config = str(tmp_path / 'bag'), str(tmp_path / 'bag.yaml')
    assert main(['simulate', '-o', bag, '--config', config, '--robots', '1', '--beacons', '4',
                 '--minutes', '0.2', '--seed', '1']) == 0
    assert '1 robots, 0.2 min; 120 odometry' in capsys.readouterr().out
    report = reported(tmp_path, 'replay', bag, '--config', config, code=3)
    shown = capsys.readouterr().out
    lost = [name for name, one in report['beacons'].items() if not one['located']]
    assert lost and f'{4 - len(lost)} of 4 beacons located (not {", ".join(lost)})' in shown
    assert f'{len(report["rejected"])} of {report["n_ranges"]} ranges' in shown
    assert 'cost' not in shown and 'no map' not in shown
    main(['replay', bag, '--config', config, '-v'])
    assert f'cost {report["cost_final"]:.8g}' in capsys.readouterr().out
