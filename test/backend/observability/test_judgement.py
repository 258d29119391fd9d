"""What a solve says of its own solution: parts without one place, and false measurements."""

import numpy as np
import pytest
from graphs import world
from report_paths import reported

from sparser_ros import Graph, SolverConfig
from sparser_ros.backend.observability.judgement import judge
from sparser_ros.cli.main import main
from sparser_ros.io import graph_file, pyfg
from sparser_ros.solver import solve

MARKS = {'left': (30.0, 10.0), 'right': (10.0, -8.0)}
TURNS = 0.03 * np.sin(np.arange(60) / 5)


def drive(turn, seed=0, robot='A', builder=None):
    """A noisy drive of 1 m steps, and noisy ranges to the marks from every pose."""
    random = np.random.default_rng(seed)
    builder = Graph.builder() if builder is None else builder
    angle = np.concatenate([[0.0], np.cumsum(turn)])
    ahead = np.stack([np.cos(angle[:-1]), np.sin(angle[:-1])], axis=1)
    path = np.concatenate([np.zeros((1, 2)), np.cumsum(ahead, axis=0)])
    builder.add_odometry(
        robot, random.normal((1.0, 0.0), 0.02, (len(turn), 2)), turn + random.normal(
            0, 0.01, len(turn)), sigma_m=0.02, sigma_rad=0.01)
    for name, where in MARKS.items():
        distance = np.linalg.norm(path - where, axis=1) + random.normal(0, 0.1, len(path))
        builder.add_range((robot, np.arange(len(path))), name, distance, sigma_m=0.1)
    return builder, path


def judged(builder):
    graph = builder.build()
    result = solve(graph, SolverConfig())
    return judge(graph, result.estimate, result.stats.weights), result.estimate


@pytest.mark.parametrize('seed', range(4))
def test_a_straight_drive_does_not_tell_left_from_right(seed):
    """The path bends to suit either side, which makes the other one look worse than it is."""
    judgement, estimate = judged(drive(0.1 * TURNS, seed)[0])
    assert set(judgement.other_places) == {'left', 'right'} and not judgement.undetermined
    for (name, y), here in zip(
            (('left', 10.0), ('right', 8.0)), estimate.landmarks, strict=True):
        assert judgement.other_places[name].distance_m == pytest.approx(2 * y, abs=2.5)
        assert np.linalg.norm(judgement.other_places[name].position - here) == pytest.approx(
            judgement.other_places[name].distance_m)
    assert 'landmark left is ambiguous: another place' in judgement.warnings[0].text


@pytest.mark.parametrize('seed', range(4))
def test_a_drive_with_turns_does(seed):
    judgement, _ = judged(drive(TURNS, seed)[0])
    assert judgement == type(judgement)()


def test_one_range_is_a_circle_and_two_are_two_places():
    builder, _ = drive(TURNS)
    builder.add_range(('A', 10), 'circle', 5.0, sigma_m=0.1)
    builder.add_range(('A', [20, 30]), 'pair', [7.0, 7.0], sigma_m=0.1)
    judgement, _ = judged(builder)
    (lost,) = judgement.undetermined
    assert lost.text == 'landmark circle has 1 range: 3 at least give one place'
    assert set(judgement.other_places) == {'pair'}
    assert judgement.other_places['pair'].distance_m == pytest.approx(9.8, abs=0.5)


@pytest.mark.parametrize('count', [1, 2])
def test_a_robot_that_two_ranges_tie_can_turn(count):
    builder, _ = drive(TURNS)
    builder.add_odometry('B', np.tile([1.0, 0.0], (20, 1)), np.zeros(20), sigma_m=0.02,
                         sigma_rad=0.01)
    at = [0, 20][:count]
    builder.add_range(('A', at), ('B', at), [4.0, 5.0][:count], sigma_m=0.1)
    judgement, _ = judged(builder)
    (lost,) = judgement.undetermined
    assert f'robot B: {count} range' in lost.text
    assert 'leave its place or heading free' in lost.text


def test_a_straight_path_past_two_beacons_is_mirrored_about_their_line():
    builder, _ = drive(TURNS)
    drive(np.zeros(20), 1, 'B', builder)
    judgement, _ = judged(builder)
    assert not judgement.undetermined and set(judgement.other_places) == {'B'}
    across = np.array(MARKS['left']) - MARKS['right']
    normal = np.array([-across[1], across[0]]) / np.linalg.norm(across)
    # B ends at (20, 0); its image is as far on the other side of the line of the beacons.
    expected = 2 * abs(normal @ (np.array([20.0, 0.0]) - MARKS['right']))
    assert judgement.other_places['B'].distance_m == pytest.approx(expected, abs=0.6)
    assert 'robot B is ambiguous: another place, its newest pose' in judgement.warnings[0].text


def test_a_single_known_beacon_leaves_the_map_free_to_turn():
    builder, _ = drive(TURNS)
    builder.add_prior('left', MARKS['left'])
    judgement, _ = judged(builder)
    assert not judgement.undetermined
    assert 'its heading is unobservable' in judgement.warnings[0].text


@pytest.mark.parametrize('seed', range(3))
def test_a_prior_of_one_pose_holds_robots_that_closures_tie_together(seed):
    """What ties them to map coincides to the last digit: a residual is no distance."""
    random = np.random.default_rng(seed)
    builder = Graph.builder()
    for robot in 'AB':
        builder.add_odometry(
            robot, random.normal([1.0, 0.0], 0.02, (10, 2)), random.normal(0.3, 0.01, 10),
            sigma_m=0.02, sigma_rad=0.01)
    builder.add_closure(('A', [0, 5]), ('B', [0, 5]), [[9.0, 0.0]] * 2, 0.0, sigma_m=0.1,
                        sigma_rad=0.02)
    builder.add_range(('A', [0, 5]), ('B', [0, 5]), [9.1, 8.9], sigma_m=0.1)
    builder.add_prior(('A', 0), [30.0, 40.0], 0.5, sigma_m=0.1, sigma_rad=0.01)
    assert judged(builder)[0].undetermined == ()


@pytest.mark.parametrize('seed', range(2))
def test_verticals_that_heights_contradict_do_not_tell_a_heading(seed):
    random = np.random.default_rng(seed)
    builder = Graph.builder(dimension=3)
    builder.add_odometry('A', [[1.0, 0.0, 0.3]] * 12, [[0.0, 0.2, 0.4]] * 12, sigma_m=0.02,
                         sigma_rad=0.01)
    truth = builder.build().poses
    distance = np.linalg.norm(truth.translation - [3.0, 6.0, 2.0], axis=1)
    builder.add_range(('A', np.arange(13)), 'desk', distance, sigma_m=0.1)
    builder.add_vertical(('A', np.arange(13)), truth.rotation[:, 2], sigma_rad=0.02)
    builder.add_height(('A', np.arange(13)), truth.translation[:, 2] + random.normal(0, 1.0, 13),
                       sigma_m=0.1)
    builder.add_prior(('A', 0), [0.0, 0.0, 0.0], sigma_m=0.1)
    assert 'its heading is unobservable' in judged(builder)[0].warnings[0].text


@pytest.mark.parametrize('seed', range(2))
def test_residuals_of_sightings_do_not_tell_the_heading_of_a_map_with_one_fix(seed):
    graph = world(seed, robots=1, length=10, landmarks=3, sightings=12, absolute='f', noise=1.0)
    graph = graph.replaced(point_priors=graph.point_priors.take([0]))
    judgement = judge(graph, solve(graph, SolverConfig()).estimate)
    assert 'its heading is unobservable' in judgement.warnings[0].text


@pytest.mark.parametrize('count', [20, 250])
def test_places_without_odometry_are_one_sentence(tmp_path, count):
    """Ranges do not tell which way a robot looks, however many places there are."""
    random = np.random.default_rng(count)
    beacons = {'L0': (0.0, 0.0), 'L1': (20.0, 0.0), 'L2': (0.0, 20.0)}
    lines = [f'VERTEX_XY{kind} {name} {x} {y}'
             for kind in ('', ':FIX') for name, (x, y) in beacons.items()]
    for k, place in enumerate(random.uniform(2, 18, (count, 2))):
        lines.append(f'VERTEX_SE2 {k} A{k} {place[0]} {place[1]} 0')
        lines += [f'EDGE_RANGE {k} A{k} {name} {np.linalg.norm(place - beacon)} 0.01'
                  for name, beacon in beacons.items()]
    (tmp_path / 'places.pyfg').write_text('\n'.join(lines))
    graph = pyfg.read(tmp_path / 'places.pyfg')
    (lost,) = judge(graph, solve(graph, SolverConfig()).estimate).undetermined
    assert f'robot A: {count} stretches of its path' in lost.text


def test_known_positions_that_contradict_each_other_are_told():
    builder, _ = drive(TURNS)
    builder.add_prior('left', MARKS['left'], sigma_m=0.1)
    builder.add_prior('left', np.add(MARKS['left'], 6.0), sigma_m=0.1)
    builder.add_prior('right', MARKS['right'], sigma_m=0.1)
    assert any('3 known positions are' in text.text for text in judged(builder)[0].warnings)


def test_the_command_names_them(tmp_path, capsys):
    builder, _ = drive(np.zeros(60))
    builder.add_range(('A', [5, 25, 45]), 'left', [60.0, 55.0, 50.0], sigma_m=0.1)
    path = tmp_path / 'straight.pyfg'
    pyfg.write(path, builder.build())
    fields = reported(tmp_path, 'solve', path, '--gnc')
    shown = capsys.readouterr()
    assert set(fields['other_places']) == set(graph_file.read(path).landmarks.names)
    assert all('is ambiguous: another place' in text for text in fields['warnings'])
    assert shown.err.count('is ambiguous') == 2
    assert main(['solve', str(path)]) == 0
    assert '--gnc finds the false ones' in capsys.readouterr().err


@pytest.mark.parametrize('options', [[], ['--kernel', 'gm'], ['--init', 'random', '--seed', '3']])
def test_poses_that_no_measurement_ties_to_the_others_are_named(tmp_path, capsys, options):
    path = tmp_path / 'alone.g2o'
    path.write_text(
        'VERTEX_SE2 0 0 0 0\nVERTEX_SE2 1 1 0 0\nVERTEX_SE2 2 2 0 0\nVERTEX_SE2 7 5 5 0\n'
        'VERTEX_SE2 11 6 5 0\nVERTEX_SE2 12 7 5 0\nEDGE_SE2 11 12 1 0 0 100 0 0 100 0 400\n'
        'EDGE_SE2 0 1 1 0 0 100 0 0 100 0 400\nEDGE_SE2 1 2 1 0 0 100 0 0 100 0 400\n'
        'EDGE_SE2 0 2 2.1 0 0 100 0 0 100 0 400\n')
    report = reported(tmp_path, 'solve', path, *options, '--covariance', code=3)
    shown = capsys.readouterr()
    assert 'undetermined: 1 pose of robot A from A7 on' in shown.err
    assert 'undetermined: 2 poses of robot A from A11 on' in shown.err
    assert 'A: undetermined' in shown.out
    assert report['cost_final'] == pytest.approx(1 / 3, rel=1e-3)
