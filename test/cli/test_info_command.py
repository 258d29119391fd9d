"""`sparser info` says the useful thing of bags, graphs and configurations."""

import re

import numpy as np
import pytest
from report_paths import simulated

from sparser_ros.cli.main import main
from sparser_ros.config.inputs_config import CLOSURE_TYPES
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.frontend.draft_config import draft
from sparser_ros.io.bag import SensorBagWriter
from sparser_ros.io.bag_survey import TopicSurvey, survey

ODOMETRY, RANGE = 'nav_msgs/msg/Odometry', 'sensor_msgs/msg/Range'


@pytest.fixture(scope='module')
def bag(tmp_path_factory):
    """Two robots, three beacons, ground truth; and the graph of the same."""
    folder = tmp_path_factory.mktemp('info')
    simulated(folder, f'--graph {folder}/g.pyfg --robots 2 --beacons 3 --minutes 0.5 '
                      '--odometry-rate 5 --outliers 0')
    return folder


@pytest.mark.parametrize('kind', ['bag', 'graph', 'two known beacons'])
def test_prospects_tell_noise_and_how_soon_robots_are_placed(bag, tmp_path, capsys, kind):
    data, options = bag / 'g.pyfg', []
    if kind == 'bag':
        data, options = bag / 'bag', ['--config', str(tmp_path / 'c.yaml')]
        assert main(['info', str(data), *options]) == 0
    elif kind != 'graph':
        data = tmp_path / 'known.pyfg'
        assert main([
            'simulate', '-o', str(tmp_path / 'known'), '--graph', str(data), '--robots', '2',
            '--beacons', '6', '--known-beacons', '2', '--minutes', '0.5', '--radius', '20',
            '--seed', '2', '--outliers', '0']) == 0
    assert main(['info', str(data), *options, '--prospects']) == 0
    shown = capsys.readouterr().out
    times = float(re.search(r'noise of ranges: ([\d.e+-]+) times', shown)[1])
    assert 0.5 < times < 2 and 'range_sigma_m' in shown
    shares = {name: int(share) for name, share in re.findall(
        r'^  ([AB]): (\d+) % of the time', shown, re.MULTILINE)}
    assert shares['A'] >= shares['B'] and set(shares) == {'A', 'B'}
    assert 'ranges twice as often: ' in shown and 'one more beacon: ' in shown


def test_a_drafted_configuration_replays(bag, tmp_path, capsys):
    config = tmp_path / 'c.yaml'
    assert main(['info', str(bag / 'bag'), '--config', str(config)]) == 0
    shown = capsys.readouterr().out
    assert '/A/odom' in shown and '5.0 Hz' in shown and 'robots: A, B' in shown
    drafted = SparserConfig.from_yaml(config)
    assert list(drafted.robots) == ['A', 'B'] and drafted.odometry.topic == '/{robot}/odom'
    assert set(drafted.radio_specs()) == {'L0', 'L1', 'L2'}
    assert drafted.backend.truth_topics == {'A': '/A/ground_truth', 'B': '/B/ground_truth'}
    assert main(['info', str(bag / 'bag'), '--config', str(config)]) == 0
    assert 'missing' not in capsys.readouterr().out


def test_a_wrong_configuration_is_named(bag, tmp_path, capsys):
    config = tmp_path / 'c.yaml'
    config.write_text('robots: [A, C]\nradios: {L0: {beacon: door}}\n')
    assert main(['info', str(bag / 'bag'), '--config', str(config)]) == 3
    shown = capsys.readouterr().out
    assert 'missing: there is no topic /C/odom (odometry.topic); is /B/odom meant?' in shown
    assert "radio 'L1' is not configured" in shown and "'L0'" not in shown
    config.write_text('robots: [A]\nradios: {B: {beacon: B}}\n')
    assert main(['info', str(bag / 'bag'), '--config', str(config)]) == 0
    assert 'warning: not used, although' in capsys.readouterr().out


def test_centimetres_and_gaps_are_named(tmp_path, capsys):
    with SensorBagWriter(tmp_path / 'bag') as writer:
        for k in (*range(40), *range(60, 100)):
            writer.uwb_range('A', 'L0', 10**8 * (k + 10), 500.0 + k, 0.01)
    assert main(['info', str(tmp_path / 'bag')]) == 3
    shown = capsys.readouterr().out
    assert 'looks like centimetres' in shown and 'missing: odometry' in shown
    (one,) = survey(tmp_path / 'bag')
    assert (one.count, one.gaps, one.radios) == (80, 1, {'A', 'L0'})
    assert one.longest_gap_s == pytest.approx(2.1) and one.rate_hz == pytest.approx(79 / 9.9)
    with SensorBagWriter(tmp_path / 'alone') as writer:
        writer.odometry('A', 10**9, np.zeros(3), np.array([0, 0, 0, 1.0]), np.eye(6))
    assert main(['info', str(tmp_path / 'alone')]) == 3
    assert 'missing: ranges, sightings, closures or fixes' in capsys.readouterr().out


@pytest.mark.parametrize(('scale', 'radius'), [(1.0, 4.0), (100.0, 4.0), (1.0, 300.0)])
def test_units_are_drafted_from_the_motion(tmp_path, scale, radius):
    """Who carries what is decided in metres; acoustic ranges of half a kilometre are none in cm."""
    with SensorBagWriter(tmp_path / 'bag') as writer:
        # One robot on a loop, a tag on it and three anchors.
        for k in range(240):
            stamp = 10**8 * (k + 10)
            at = np.array([radius * np.sin(k / 9), radius * np.cos(k / 14), 0.0])
            writer.odometry('A', stamp, at, np.array([0, 0, 0, 1.0]), np.eye(6) * 1e-4)
            name, place = [('n1', (6, 1)), ('n2', (-7, 2)), ('n3', (1, -9))][k % 3]
            distance = np.hypot(*(at[:2] - np.array(place) * radius / 4))
            writer.uwb_range('t1', name, stamp, float(scale * distance), 0.01)
    values, notes = draft(survey(tmp_path / 'bag'))
    assert values['ranges']['inputs']['uwb'].get('scale', 1.0) == 1 / scale
    assert values['radios'] == {
        't1': {'robot': 'A'}, **{name: {'beacon': name} for name in ('n1', 'n2', 'n3')}}
    assert any('looks like' in note for note in notes) == (scale > 1)
    assert values['ranges'].get('max_m', 0.0) > 1000 or radius < 100


def test_frames_are_drafted_from_the_messages():
    def frames_of(**frames):
        topics = [TopicSurvey(f'/{robot}/odom', ODOMETRY, 9, frames=both)
                  for robot, both in frames.items()]
        return draft(topics)[0].get('frames')

    assert frames_of(A=('/odom', 'base_link')) == {'odom': 'odom', 'base': 'base_link'}
    assert frames_of(A=('A_odom', 'A'), B=('B_odom', 'B')) == {
        'odom': '{robot}_odom', 'base': '{robot}'}
    assert frames_of(**{'1': ('r1/odom', 'r1/base'), '11': ('r11/odom', 'r11/base')}) == {
        'odom': 'r{robot}/odom', 'base': 'r{robot}/base'}
    assert frames_of(A=('A/odom', 'A/base_link')) is None  # the defaults
    assert frames_of(A=('odom', 'base_link'), B=('odom', 'base_link')) is None  # which is whose?


def test_a_graph(bag, tmp_path, capsys):
    assert main(['info', str(bag / 'g.pyfg')]) == 0
    shown = capsys.readouterr().out
    assert 'robot A: 150 poses' in shown and '3 landmarks, 0 of them' in shown
    lines = [line for line in (bag / 'g.pyfg').read_text().splitlines() if 'RANGE' not in line]
    path = tmp_path / 'apart.pyfg'
    path.write_text('\n'.join(lines) + '\n')
    assert main(['info', str(path)]) == 3
    assert 'missing: robot B: no measurement' in capsys.readouterr().out
    path.write_text('VERTEX_XY L0 0 0\nVERTEX_XY L1 3 0\nEDGE_RANGE 0 L0 L1 3 0.01\n')
    assert main(['info', str(path), '--prospects']) == 2
    assert 'it has no poses' in capsys.readouterr().err


@pytest.mark.parametrize(('topics', 'template', 'robots'), [
    (['/alice/odom', '/grace/odom'], '/{robot}/odom', ['alice', 'grace']),
    (['/robot/odom', '/robot_2/odom'], '/{robot}/odom', ['robot', 'robot_2']),
    (['/uav/odom', '/uav2/odom'], '/{robot}/odom', ['uav', 'uav2']),
    (['/alpha/odom', '/alpha_alpha/odom'], '/{robot}/odom', ['alpha', 'alpha_alpha']),
    (['/a_x/odom', '/b_x/odom'], '/{robot}_x/odom', ['a', 'b']),
    (['/husky/odom', '/hunter/odom'], '/{robot}/odom', ['husky', 'hunter']),
    (['/uav1/odom', '/ugv1/odom'], '/{robot}/odom', ['uav1', 'ugv1']),
    (['/A/odom', '/B/odom', '/C/vio/odom'], '/{robot}/odom', ['A', 'B']),
    (['/odom_A', '/odom_B'], '/odom_A', ['robot'])])
def test_names_of_robots_are_told_from_their_topics(topics, template, robots):
    values, notes = draft([TopicSurvey(topic, ODOMETRY, 9) for topic in topics])
    assert (values['odometry']['topic'], values['robots']) == (template, robots)
    left = [topic for topic in topics if topic not in {
        template.replace('{robot}', robot) for robot in robots}]
    assert [topic for topic in topics if any(
        'odometry that is not used' in note and topic in note for note in notes)] == left
    SparserConfig.from_mapping(values)


def test_loop_closures_are_drafted_or_told():
    flown = TopicSurvey('/A/odom', ODOMETRY, 9)
    values, notes = draft([flown, TopicSurvey('/lc', CLOSURE_TYPES['loop_closure'], 9)])
    assert [one.topic for one in SparserConfig.from_mapping(values).closure_inputs().values()] == [
        '/lc']
    assert not any('loop closures' in note for note in notes)
    values, notes = draft([flown, TopicSurvey('/A/mapData', CLOSURE_TYPES['rtabmap'], 9)])
    assert 'closures' not in values
    assert any('/A/mapData' in note and 'adapter: rtabmap' in note for note in notes)


def test_names_with_numbers_stay_whole():
    topics = [TopicSurvey(f'/cali/turtle0{k}/odom', ODOMETRY, 300) for k in (1, 3, 4)]
    topics += [TopicSurvey(f'/turtle0{k}/odom', ODOMETRY, 0) for k in (1, 3)]
    topics += [TopicSurvey(f'/uwb/tof/n_{a}/n_{b}/distance', RANGE, 100)
               for a, b in ((1, 2), (1, 3), (2, 3))]
    values, notes = draft(topics)
    assert values['odometry']['topic'] == '/cali/turtle{robot}/odom'
    assert values['robots'] == ['01', '03', '04']
    assert sorted(values['radios']) == ['n_1', 'n_2', 'n_3']
    assert any('Those that a robot carries need' in note for note in notes)
    SparserConfig.from_mapping(values)


def test_the_draft_for_tiers_names_the_radios_of_the_robots_that_move(data_dir):
    """Nodes 7 and 3 ride on robots 01 and 03; their names alone would say 1 and 3."""
    values, notes = draft(survey(data_dir / 'bags' / 'tiers_shortbag'))
    assert values['robots'] == ['01', '03']
    carried = {name: one['robot'] for name, one in values['radios'].items() if 'robot' in one}
    assert carried == {'n_7': '01', 'n_3': '03'}
    assert values['backend']['truth_topics']['01'] == '/vrpn_client_node/turtlebot1_cap/pose'
    assert any('stand still in this recording: 04, 05' in note for note in notes)
    SparserConfig.from_mapping(values)


def test_what_cannot_be_decided_is_a_question_in_the_draft(tmp_path):
    """One robot and one other radio: either may ride. Names such as 81:00 stay text in YAML."""
    with SensorBagWriter(tmp_path / 'bag') as writer:
        for k in range(60):
            stamp, at = 10**9 * (k + 1), np.array([4 * np.sin(k / 9), 3 * np.cos(k / 7), 0.0])
            writer.odometry('A', stamp, at, np.array([0, 0, 0, 1.0]), np.eye(6) * 1e-4)
            writer.uwb_range('81:00', '0x6958', stamp, float(np.linalg.norm(at - [5, 1, 0])), 0.01)
    assert main(['info', str(tmp_path / 'bag'), '--config', str(tmp_path / 'c.yaml')]) == 0
    text = (tmp_path / 'c.yaml').read_text()
    assert '# question: 81:00 rides on A in this draft' in text
    assert '# question: 0x6958 stands still in this draft' in text
    radios = SparserConfig.from_yaml(tmp_path / 'c.yaml').radio_specs()
    assert radios['81:00'].robot == 'A' and radios['0x6958'].beacon == '0x6958'


@pytest.mark.parametrize(('options', 'vertical', 'attitudes', 'heights'), [
    ('', 'gravity', '', True), ('--no-altimeter', 'gravity', '', False),
    ('--no-gravity --imu', 'free', '/{robot}/imu', True)])
def test_what_flying_robots_say_of_the_vertical_is_drafted(
        tmp_path, options, vertical, attitudes, heights):
    """That such a draft replays is tested with the README (test_printed_commands.py)."""
    path, _ = simulated(
        tmp_path, f'--robots 2 --beacons 3 --minutes 0.3 --dimension 3 --seed 4 {options}')
    values, notes = draft(survey(path))
    assert any(note.startswith('dimension 3: ') and ' climbs ' in note for note in notes)
    config = SparserConfig.from_mapping(values)
    assert config.dimension == 3 and config.odometry.vertical == vertical
    assert config.attitudes.topic == attitudes
    assert any('no topic of heights' in note for note in notes) is not heights
    assert bool(config.height_inputs()) is heights


def test_sonars_are_no_radios(tmp_path):
    with SensorBagWriter(tmp_path / 'bag') as writer:
        for k, (topic, field_of_view) in enumerate((
                *((f'/{robot}/sonar/{side}', 0.3) for robot in 'AB' for side in ('left', 'right')),
                *((f'/uwb/{robot}/to/n{end}', 6.28 * (end > 0)) for robot in 'AB'
                  for end in range(3)))):
            writer._write(topic, RANGE, 10**9 + k, '', 0, field_of_view, 0.0, 0.0, 3.0)
    topics = survey(tmp_path / 'bag')
    assert [topic.topic for topic in topics if topic.ranges_m] == [
        f'/uwb/{robot}/to/n{end}' for robot in 'AB' for end in range(3)]
    values, notes = draft(topics)
    (source,) = values['ranges']['inputs'].values()
    assert source['topic'] == '/uwb/(?P<source>[^/]+)/to/(?P<target>[^/]+)'
    assert any('not used: /A/sonar/left, ' in note for note in notes)


def test_topics_of_autopilots_are_known():
    """One altimeter is drafted: what a flight controller says has its barometer in it."""
    local, laser = 'px4_msgs/msg/VehicleLocalPosition', 'px4_msgs/msg/DistanceSensor'
    flown = TopicSurvey('/d1/odom', ODOMETRY, 9, track=[
        (k, 0.3 * k, 0.0, 0.4 * k) for k in range(9)])
    topics = [
        flown, TopicSurvey('/d1/fmu/out/vehicle_local_position', local, 9),
        TopicSurvey('/d1/fmu/out/distance_sensor', laser, 9), TopicSurvey(
            '/d1/imu', 'sensor_msgs/msg/Imu', 9, attitudes=9)]
    values, notes = draft(topics)
    assert values['heights']['inputs']['altimeter'] == {
        'topic': '/{robot}/fmu/out/distance_sensor', 'type': laser, 'field': 'current_distance',
        'measures': 'ground'}
    assert any('/{robot}/fmu/out/vehicle_local_position' in note for note in notes)
    assert 'attitudes' not in values and 'vertical' not in values['odometry']
    (height,) = draft(topics[:2])[0]['heights']['inputs'].values()
    assert (height['field'], height['scale']) == ('z', -1.0)
    SparserConfig.from_mapping(draft(topics[:2])[0])
    # Sensors that look ahead, ranges of radios and ground truth are no altimeters.
    ahead = [TopicSurvey('/d1/laser_front', RANGE, 9), TopicSurvey(
        '/d1/uwb/n_1/n_2/distance', RANGE, 9), TopicSurvey(
        '/d1/ground_truth', 'geometry_msgs/msg/PointStamped', 9)]
    assert 'heights' not in draft([flown, *ahead])[0]
    # Odometry of the autopilot alone: it is in other axes.
    assert any('docs/flying.md' in note for note in draft([TopicSurvey(
        '/fmu/out/vehicle_odometry', 'px4_msgs/msg/VehicleOdometry', 9)])[1])
