"""`sparser bag` and `sparser simulate`; of a bag the front-end makes the graph anew."""

import json

import numpy as np
import pytest
import yaml
from graphs import random_graph

from sparser_ros.cli.main import main
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.frontend import decode
from sparser_ros.frontend.frontend import Frontend
from sparser_ros.graph import (
    Estimate,
    empty_graph,
    estimate_of,
    extended,
    squared_residuals,
)
from sparser_ros.io import pyfg
from sparser_ros.io.bag import BagReader
from sparser_ros.io.graph_bag import pose_stamps, range_stamps

LENGTH = 30


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


def test_simulate(tmp_path, capsys):
    assert main([
        'simulate', '-o', str(tmp_path / 's.mcap'), '--minutes', '0.2', '--robots', '2',
        '--beacons', '3', '--known-beacons', '1', '--seed', '4', '--outliers', '0.2',
        '--graph', str(tmp_path / 's.pyfg'), '--config', str(tmp_path / 's.yaml')]) == 0
    assert '2 robots, 0.2 min; 240 odometry' in capsys.readouterr().out
    graph = pyfg.read(tmp_path / 's.pyfg')
    assert (graph.robots, graph.n_poses, graph.n_landmarks) == (('A', 'B'), 240, 3)
    assert BagReader(tmp_path / 's.mcap').counts['/uwb/ranges'] == len(graph.ranges)
    values = yaml.safe_load((tmp_path / 's.yaml').read_text())['/**']['ros__parameters']
    assert 'position' in values['radios']['L0'] and 'position' not in values['radios']['L1']
    SparserConfig.from_yaml(tmp_path / 's.yaml')


def test_replay_names_the_beacons_without_a_place(tmp_path, capsys):
    """Twelve seconds of driving place no beacon; costs are for -v, rejected shares for all."""
    bag, config = str(tmp_path / 'bag'), str(tmp_path / 'bag.yaml')
    assert main(['simulate', '-o', bag, '--config', config, '--robots', '1', '--beacons', '4',
                 '--minutes', '0.2', '--seed', '1']) == 0
    capsys.readouterr()
    main(['replay', bag, '--config', config, '--report', str(tmp_path / 'r.json')])
    shown = capsys.readouterr().out
    report = json.loads((tmp_path / 'r.json').read_text())
    lost = [name for name, one in report['beacons'].items() if not one['located']]
    assert lost and f'{4 - len(lost)} of 4 beacons located (not {", ".join(lost)})' in shown
    assert f'{len(report["rejected"])} of {report["n_ranges"]} ranges' in shown
    assert 'cost' not in shown and 'no map' not in shown
    main(['replay', bag, '--config', config, '-v'])
    assert f'cost {report["cost_final"]:.8g}' in capsys.readouterr().out


def rebuilt(bag, config):
    """The graph that the front-end makes of a bag, and its counters."""
    frontend = Frontend(config)
    for message in BagReader(bag):
        time, robot = message.bag_time_ns, message.topic.split('/')[1]
        if message.topic == '/uwb/ranges':
            frontend.add(decode.uwb_range(message.msg, time))
        elif message.topic == '/landmark_sightings':
            frontend.add(decode.landmark_sighting(message.msg, time))
        elif message.topic == '/loop_closures':
            frontend.add(decode.loop_closure(message.msg, time))
        elif message.topic.endswith('/odom'):
            frontend.add(decode.odometry(message.msg, time, robot))
        else:
            frontend.add(decode.fix(message.msg, time, robot))
    increment = frontend.take(flush=True)
    return extended(empty_graph(config.dimension), increment), frontend.counters.as_dict()


def compared(graph, back, place):
    """(table, squared residuals of the graph, those of the other) at the graph's vertices.

    `place`: rows in `graph` of the poses of `back`.
    """
    marks = [graph.landmarks.names.index(name) for name in back.landmarks.names]
    truth = estimate_of(graph)
    moved = Estimate(truth.rotation[place], truth.translation[place], truth.landmarks[marks])
    wanted, residuals = squared_residuals(graph, truth), squared_residuals(back, moved)
    return [(name, wanted[name], residuals[name]) for name in wanted]


@pytest.mark.parametrize(('d', 'levers'), [(2, False), (2, True), (3, False)])
def test_frontend_gives_the_graph_back(tmp_path, d, levers):
    graph = random_graph(d, d, length=LENGTH, levers=False, ranges=80, closures=6)
    table = graph.ranges
    keep = ~range_stamps(graph, pose_stamps(graph)).wrong_pose
    if levers:
        arm = np.array([0.3, -0.2])
        table = table.replaced(
            lever_source=np.where((table.source >= 0)[:, None], arm, 0),
            lever_target=np.where((table.target >= 0)[:, None], arm, 0))
    graph = graph.replaced(
        ranges=table.take(keep), sightings=graph.sightings.take(
            graph.sightings.point < 0)).validate()
    assert len(graph.sightings) == 4
    # A heading known to worse than a turn or so is no heading to the front-end.
    priors = graph.pose_priors
    graph = graph.replaced(pose_priors=priors.replaced(kappa=np.maximum(priors.kappa, 0.1)))
    # Ranges between two poses of one robot have no message.
    ends = graph.ranges.source, graph.ranges.target
    own = np.all([e >= 0 for e in ends], axis=0) & (ends[0] // LENGTH == ends[1] // LENGTH)
    graph = graph.replaced(ranges=graph.ranges.take(~own))
    paths = [str(tmp_path / name) for name in ('g.pyfg', 'bag', 'c.yaml')]
    pyfg.write(paths[0], graph)
    assert main(['bag', paths[0], '-o', paths[1], '--config', paths[2]]) == 0
    back, counters = rebuilt(paths[1], SparserConfig.from_yaml(paths[2]))
    for kind in ('odometry', 'ranges', 'sightings', 'closures', 'fixes'):
        assert counters[kind]['dropped'] == {} and counters[kind]['merged'] == 0, kind
    # The front-end numbers poses in order of time, landmarks in order of appearance.
    place = np.empty(back.n_poses, dtype=int)
    for number, robot in enumerate(back.robots):
        rows = np.flatnonzero(back.poses.robot == number)
        place[rows] = graph.robots.index(robot) * LENGTH + np.arange(len(rows))
    for name, wanted, residuals in compared(graph, back, place):
        np.testing.assert_allclose(
            np.sort(residuals), np.sort(wanted), rtol=1e-9, atol=1e-9, err_msg=name)


def test_every_measurement_of_a_file_comes_back(data_dir, tmp_path):
    """Five robots, some of which pause for longer than a message usually waits."""
    paths = [str(data_dir / 'pyfg' / 'mrclam5a.pyfg'),
             *(str(tmp_path / name) for name in ('bag', 'c.yaml'))]
    assert main(['bag', paths[0], '-o', paths[1], '--config', paths[2]]) == 0
    graph = pyfg.read(paths[0])
    back, counters = rebuilt(paths[1], SparserConfig.from_yaml(paths[2]))
    assert counters['sightings']['accepted'] == len(graph.sightings) == 1127
    assert counters['ranges']['accepted'] == len(graph.ranges) == 316
    place = np.empty(back.n_poses, dtype=int)
    for number, robot in enumerate(back.robots):
        place[back.poses.robot == number] = graph.pose_rows(graph.robots.index(robot))
    for name, wanted, residuals in compared(graph, back, place):
        assert np.sum(residuals) == pytest.approx(np.sum(wanted), rel=1e-6), name
