"""Bad input is counted with its reason, none of it reaches the graph; good data after it do."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from frontend_world import NAN, Robot, config, driven, feed, graph_of, ns, range_sample
from graphs import with_landmarks
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sparser_ros.frontend import Frontend, counters
from sparser_ros.frontend.inputs import Route
from sparser_ros.frontend.samples import AttitudeSample, FrameSample, Refused, in_nanoseconds

A, B = Robot('A', 2, 1), Robot('B', 2, 2)
DOOR = np.array([4.0, 1.0, 0.0])
SINCE_1970 = in_nanoseconds(1_700_000_000, 2**32 - 1)
RADIOS = {
    'fixed1': {'beacon': 'F1', 'position': [0.0, 0.0]},
    'fixed2': {'beacon': 'F2', 'position': [5.0, 0.0]},
    'a2': {'robot': 'A', 'lever_arm': [0.2, 0.0]},
}
SAMPLES = {
    'odometry': A.odometry(1.1), 'range': range_sample('A', 'B', 0.5, 3.0),
    'closure': A.closure(0.1, B, 0.5), 'fix': A.fix(0.5),
    'sighting': A.sighting(0.5, 'door', DOOR),
    'frame': FrameSample('/a', 'b', np.array([0.1, 0.0, 0.2]), np.array([0.0, 0.0, 0.0, 1.0])),
    'unreadable': Refused('ranges', 'unreadable'),
}
NO_NUMBER, NO_TURN = np.array([0, NAN, 0]), np.zeros(4)
NO_UNIT = np.full(4, 0.7)


@pytest.mark.parametrize(('kind', 'changes', 'reason'), [
    *((kind, {'position_xyz': NO_NUMBER}, 'not_finite')
      for kind in ('odometry', 'closure', 'fix', 'sighting', 'frame')),
    *((kind, {'quat_xyzw': quat}, reason) for kind in ('odometry', 'closure', 'fix', 'frame')
      for quat, reason in ((NO_TURN, 'zero_quaternion'), (NO_UNIT, 'quaternion_not_unit'))),
    *((kind, {'stamp_ns': stamp}, reason) for kind in ('odometry', 'range', 'sighting')
      for stamp, reason in ((ns(1e6), 'in_the_future'), (2**62, 'stamp_out_of_bounds'),
                            (-(2**63), 'stamp_out_of_bounds'), (2**80, 'stamp_out_of_bounds'))),
    *((kind, {'stamp_ns': 0, 'received_ns': 0}, 'no_stamp') for kind in ('odometry', 'range')),
    ('odometry', {'position_xyz': np.array([np.inf, 0, 0])}, 'not_finite'),
    ('odometry', {'quat_xyzw': np.array([0, 0, NAN, 1])}, 'not_finite'),
    ('odometry', {'quat_xyzw': np.array([0, 0, 0.5, 0])}, 'quaternion_not_unit'),
    ('odometry', {'robot': 'C'}, 'unknown_robot'),
    ('odometry', {'stamp_ns': ns(1.0)}, 'duplicate'),
    ('odometry', {'stamp_ns': ns(-5.0)}, 'time_backwards'),
    # No clock writes so many nanoseconds; read as a number it would be up to 4.3 s ahead.
    ('odometry', {'stamp_ns': SINCE_1970}, 'stamp_out_of_bounds'),
    ('range', {'range_m': NAN}, 'not_finite'),
    ('range', {'range_m': np.inf}, 'not_finite'),
    ('range', {'range_m': 0.0}, 'not_positive'),
    ('range', {'range_m': -3.0}, 'not_positive'),
    ('range', {'range_m': 0.01}, 'too_short'),
    ('range', {'range_m': 1e4}, 'too_long'),
    ('range', {'target': 'A'}, 'self_range'),
    ('range', {'target': 'a2'}, 'self_range'),
    ('range', {'target': ''}, 'unknown_radio'),
    ('range', {'target': 'stranger'}, 'unknown_radio'),
    ('range', {'source': 'fixed1', 'target': 'fixed2'}, 'between_known_beacons'),
    ('range', {'los': 2}, 'blocked'),
    ('range', {'rx_rssi': -80.0, 'first_path_rssi': -95.0}, 'blocked'),
    ('range', {'stamp_ns': -5}, 'no_stamp'),
    ('closure', {'to_robot': 'C'}, 'unknown_robot'),
    ('closure', {'from_stamp_ns': 0}, 'no_stamp'),
    ('closure', {'to_stamp_ns': ns(1e6)}, 'in_the_future'),
    ('closure', {'confidence': 0.1}, 'low_confidence'),
    ('closure', {'position_xyz': np.array([90.0, 0, 0])}, 'too_long'),
    ('fix', {'robot': 'C'}, 'unknown_robot'),
    ('fix', {'frame_id': 'A/odom'}, 'wrong_frame'),
    ('sighting', {'robot': 'Z'}, 'unknown_robot'),
    ('sighting', {'landmark': ''}, 'no_landmark'),
    ('sighting', {'landmark': 'B'}, 'robot_seen'),
    ('sighting', {'landmark': 'window'}, 'unknown_landmark'),
    ('sighting', {'position_xyz': np.array([1e9, 0.0, 0.0])}, 'out_of_bounds'),
    ('sighting', {'position_xyz': np.zeros(3)}, 'too_near'),
    ('sighting', {'position_xyz': np.array([200.0, 0.0, 0.0])}, 'too_far'),
    ('sighting', {'frame_id': 'camera'}, 'unknown_frame'),
    ('sighting', {'stamp_ns': ns(-50.0)}, 'before_odometry'),
    ('frame', {'child': ''}, 'no_frame'),
    ('frame', {'child': 'a'}, 'own_parent'),
    ('frame', {'position_xyz': np.array([0.0, 1e9, 0.0])}, 'out_of_bounds'),
    ('unreadable', {}, 'unreadable'),
])
def test_what_is_no_measurement_is_counted_by_reason(kind, changes, reason):
    frontend, _ = driven(
        1.0, radios={**RADIOS, 'door': {'beacon': 'door'}},
        closures={'min_confidence': 0.5, 'max_translation_m': 50.0},
        sightings={'unknown_landmarks': 'ignore'},
        ranges={'unknown_radios': 'ignore', 'nlos': 'drop', 'nlos_rssi_gap_db': 10.0})
    assert graph_of(frontend).n_poses > 0
    sample = replace(SAMPLES[kind], **changes)
    believed = frontend.add(sample)
    assert frontend.take(flush=True) is None and not frontend.time_jump
    # Frames of cameras may still come, and odometry of then.
    assert not believed or reason in ('unknown_frame', 'before_odometry')
    counted = frontend.counters[sample.kind]
    assert counted.dropped == {reason: 1} and counted.balanced
    assert frontend.newest_stamp_ns == ns(1.0)
    if reason == 'unknown_frame':
        (finding,) = [f for f in frontend.findings if f.kind == 'sighting_frame']
        assert "'camera'" in finding.text and 'sightings.sensor_poses' in finding.text


def test_every_reason_of_refusal_is_told_in_words():
    rooms = Path(counters.__file__).parent.glob('*.py')
    lines = re.findall(r"(?:return |reason = |drop\(|Refused\(|^ +'\w+' if ).*",
                       '\n'.join(path.read_text(encoding='utf-8') for path in rooms), re.MULTILINE)
    written = {name for line in lines for name in re.findall("'([a-z]+(?:_[a-z]+)*)'", line)}
    composed = {'unconfirmed_landmark', 'unconfirmed_radio'}
    assert counters.REASONS.keys() - written == composed, 'no such reason'
    # What else is returned: why odometry is not believed at once, why covariances are unusable.
    others = {'base', 'covariance_not_growing', 'gap', 'item', 'jump', 'odom', 'pause', 'restart',
              'stable', 'too_large', 'xyz', 'zero', *counters.KINDS}
    assert written - others - counters.REASONS.keys() == set(), 'not in counters.REASONS'


@pytest.mark.parametrize(('values', 'sample', 'reason', 'words'), [
    ({'dimension': 3, 'attitudes.topic': '/{robot}/imu'}, AttitudeSample(
        'A', ns(0.5), ns(0.5), np.array([0.0, 0.0, 0.0, 1.0])), 'odometry_says', 'vertical: free'),
    ({}, Robot('a', 2, 1).sighting(0.5, 'door', DOOR), 'unknown_robot', 'in `robots`')])
def test_a_kind_of_input_of_which_all_is_refused_is_told(values, sample, reason, words):
    frontend = Frontend(config(**values))
    for count in range(20):
        assert frontend.findings == (), count
        assert not frontend.add(sample)
    (finding,) = frontend.findings
    assert finding.subject == sample.kind and words in finding.text
    assert f'all 20 {sample.kind} are refused, 20 as {reason}: ' in finding.text


def test_an_angle_in_all_four_components_is_no_rotation_even_where_its_norm_is_1():
    """In the plane the heading was 90 degrees wrong; 1 of 100 such quaternions passes by chance."""
    frontend = Frontend(config())
    for step in range(200):
        frontend.add(A.odometry(
            step / 10, quat_xyzw=np.full(4, math.sin(step / 10) + 0.003)))
    assert frontend.counters['odometry'].accepted == 0 and frontend.take(flush=True) is None
    assert frontend.counters['odometry'].dropped['among_absurd'] > 10
    # What is right is believed from the tenth message on.
    for step in range(200, 230):
        frontend.add(A.odometry(step / 10))
    frontend.take(flush=True)
    assert frontend.counters['odometry'].accepted == 21


@pytest.mark.parametrize(('covariance', 'warning'), [
    (np.zeros((6, 6)), 'covariance_zero'),
    (np.full((6, 6), NAN), 'covariance_not_finite'),
    (np.diag([1.0, 1, 1, 1, 1, -1]), 'covariance_not_positive'),
    (np.diag([1.0, 0, 1, 1, 1, 1]), 'covariance_not_positive'),
    (np.array(np.eye(6) + 2 * np.eye(6)[::-1]), 'covariance_not_positive'),
    (np.eye(6), 'covariance_not_growing'),
])
def test_unusable_odometry_covariance_falls_back_to_the_configured_noise(
        covariance, warning, dimension):
    covariance = covariance.copy()
    if dimension == 2 and covariance[0, 5]:
        covariance[0, 1] = covariance[1, 0] = 2.0
    frontend = Frontend(config(
        dimension=dimension, keyframes={'every_message': True}, odometry_noise=(
            'pose_accumulated' if warning == 'covariance_not_growing' else 'pose_increment')))
    robot = Robot('A', dimension, 1)
    for t in (0.0, 0.5):
        frontend.add(robot.odometry(t, covariance))
        covariance = covariance / 2
    graph = graph_of(frontend).validate()
    assert frontend.counters['odometry'].warnings == {warning: 1}
    assert frontend.counters['odometry'].accepted == 2
    travel = np.linalg.norm(robot.velocity) * 0.5
    turn = robot.rate * 0.5 * np.linalg.norm(robot.axis)
    move = 0.02**2 * travel + 0.01**2 * turn + 0.002**2 * 0.5
    assert 1 / graph.relative_poses.tau == pytest.approx([move])


def test_unusable_covariances_of_other_kinds_fall_back_as_well():
    frontend, _ = driven(1.0, **{'sightings.new_landmark_sightings': 1})
    frontend.add(A.closure(0.1, B, 1.0, covariance=np.zeros((6, 6))))
    frontend.add(A.closure(0.2, B, 1.0, covariance=np.full((6, 6), NAN)))
    frontend.add(A.fix(0.5, position_covariance=np.zeros((3, 3)), quat_xyzw=None))
    for k, spread in enumerate((
            np.full((3, 3), NAN), -np.eye(3), np.diag([1e300, 1e300, 1e300]))):
        frontend.add(A.sighting(0.2 + 0.3 * k, 'door', DOOR, covariance=spread))
    graph = graph_of(frontend).validate()
    closures = ~graph.relative_poses.odometry
    assert graph.relative_poses.kappa[closures] == pytest.approx([1 / 0.03**2] * 2)
    assert graph.point_priors.precision == pytest.approx([1.0])
    assert len(graph.sightings) == 3 and np.all(np.abs(np.log10(graph.sightings.tau)) < 3)
    assert frontend.counters['closures'].warnings == {'covariance_not_finite': 1}
    assert frontend.counters['fixes'].warnings == {'covariance_zero': 1}
    assert frontend.counters['sightings'].warnings.total() == 3


def test_no_kind_is_more_certain_than_its_floor(dimension):
    frontend = Frontend(config(dimension=dimension, odometry_noise='pose_increment'))
    robots = [Robot('A', dimension, 1), Robot('B', dimension, 2)]
    tiny, point = np.eye(6) * 1e-300, np.eye(3) * 1e-320
    for k in range(50):
        for robot in robots:
            frontend.add(robot.odometry(0.1 * k, tiny))
    frontend.add(range_sample('A', 'B', 1.0, 5.0, variance=1e-320))
    frontend.add(robots[0].closure(1.0, robots[1], 2.0, covariance=tiny))
    frontend.add(robots[0].sighting(2.0, 'L1', np.array([3.0, 2.0, 0.0]), covariance=point))
    frontend.add(robots[0].fix(2.0, position_covariance=point, orientation_covariance=point))
    graph = graph_of(frontend)
    edges = graph.relative_poses
    rotation = 1.0 if dimension == 2 else 0.5
    assert edges.tau[edges.odometry] == pytest.approx(1e8)
    assert edges.kappa[edges.odometry] == pytest.approx(rotation * 1e10)
    assert edges.tau[~edges.odometry] == pytest.approx([1e4])
    assert edges.kappa[~edges.odometry] == pytest.approx([rotation * 1e6])
    for weight in (graph.ranges.precision, graph.sightings.tau, graph.pose_priors.tau):
        assert weight == pytest.approx([1 / 0.005**2])
    assert frontend.counters['closures'].warnings == {'too_certain': 1}
    assert frontend.counters['fixes'].warnings == {'too_certain': 1}


EXTREMES = [0.0, 1e-320, 1e-160, 1e-12, 1.0, -1.0, 1e6, 1e160, -1e160, 1e200, 1e308, -1e308,
            math.inf, -math.inf, math.nan]
STAMPS = [0, 1, -1, ns(0), ns(3000), ns(-3000), 2**62, 2**63 - 1, 2**63, -(2**63), 2**100]
KINDS = ['odometry', 'odometry_noise', 'range', 'range_noise', 'sighting', 'sighting_noise',
         'closure', 'closure_noise', 'fix', 'fix_noise', 'take', 'flush']
MODES = ['pose_increment', 'pose_accumulated', 'twist', 'configured']
NAMES = ['A', 'A', 'B', 'C', 'L1', 'a2', 'fixed1', '']
value, stamp, name = (st.sampled_from(values) for values in (EXTREMES, STAMPS, NAMES))


def bad_sample(kind, robots, v, stamps, names, t):
    a, b = robots
    kind, _, noise = kind.partition('_')
    when = {'stamp_ns': stamps[0] if stamps[0] != 1 else ns(t), 'received_ns': stamps[1]}
    pose = {'position_xyz': np.array(v[:3]), 'quat_xyzw': np.array(v[3:7])}
    covariance, position, orientation = (
        np.where(np.eye(size, dtype=bool), values[:size], values[-1])
        for values, size in ((v[:7], 6), (v[:4], 3), (v[4:8], 3)))
    changes = {} if noise else {
        'odometry': {**pose, **when, 'robot': names[0]},
        'range': {'range_m': v[0], 'rx_rssi': v[2], 'first_path_rssi': v[3], **when},
        'closure': {**pose, 'confidence': v[7], 'to_robot': names[0],
                    'from_stamp_ns': when['stamp_ns'], 'to_stamp_ns': when['received_ns']},
        'sighting': {'position_xyz': pose['position_xyz'], 'robot': names[0], **when},
        'fix': {**pose, **when, 'robot': names[0]}}[kind]
    if kind == 'odometry':
        return a.odometry(t, covariance, twist_covariance=covariance, **changes)
    if kind == 'range':
        return range_sample(*names, t, 5.0, variance=v[1], **changes)
    if kind == 'closure':
        return a.closure(t, b, t, covariance=covariance, **changes)
    if kind == 'sighting':
        return a.sighting(t, 'L1' if noise else names[1], np.array([3.0, 2.0, 1.0]),
                          covariance=position if noise else orientation, **changes)
    return a.fix(t, position_covariance=position, orientation_covariance=orientation, **changes)


def assert_bounded(graph):
    """Every number of a graph is finite, and squares of weighted residuals stay far from 1e308."""
    for table in ('poses', *graph.tables()):
        for column, values in vars(getattr(graph, table)).items():
            if values.dtype.kind == 'f' and column not in ('kappa', 'tau', 'precision'):
                assert np.all(np.abs(values) < 1e9), (table, column)
            elif values.dtype.kind == 'f':
                assert np.all((values >= 1e-9) & (values < 1e13)), (table, column, values)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([2, 3]), st.sampled_from(MODES), st.lists(
    st.tuples(st.sampled_from(KINDS), st.lists(value, min_size=8, max_size=8),
              st.tuples(stamp, stamp), st.tuples(name, name), st.floats(0.0, 10.0)),
    min_size=1, max_size=20))
# An unstamped range that is received an hour ahead, and let out at once.
@example(2, 'configured', [('range', [1.0] * 8, (0, 4_000_000_000_000), ('A', 'B'), 0.0),
                           ('flush', [0.0] * 8, (0, 0), ('A', 'A'), 0.0)])
def test_whatever_comes_all_is_counted_the_graph_is_bounded_and_good_data_are_taken(
        dimension, mode, events):
    radios = {one: {**spec, **({'position': [0.0, 5.0, 1.0]} if 'position' in spec else {
        'lever_arm': [0.2, 0.0, 0.1]})} for one, spec in RADIOS.items()}
    frontend, robots = driven(5.0, dimension, odometry_noise=mode, radios=radios)
    graph = graph_of(frontend, flush=False)
    for number, (kind, values, stamps, names, t) in enumerate(events):
        if kind in ('take', 'flush'):
            graph = graph_of(frontend, flush=kind == 'flush', graph=graph)
        else:
            frontend.add(bad_sample(
                kind, robots, values, stamps, names, min(t, 5.0 + 0.01 * number)))
        assert all(frontend.counters[one].balanced for one in counters.KINDS)
    before = {k: frontend.counters[k].accepted for k in ('odometry', 'ranges', 'closures')}
    for step in range(60, 160):
        for robot in robots:
            frontend.add(robot.odometry(0.1 * step))
        frontend.add(range_sample('A', 'B', 0.1 * step, 5.0))
        if step % 10 == 0:
            graph = graph_of(frontend, flush=False, graph=graph)
    frontend.add(robots[0].closure(9.0, robots[1], 9.5))
    graph = graph_of(frontend, graph=graph)
    graph = with_landmarks(graph, position=np.nan_to_num(graph.landmarks.position)).validate()
    assert_bounded(graph)
    for kind in counters.KINDS:
        count = frontend.counters[kind]
        assert count.balanced and count.waiting == 0, (kind, count)
    assert frontend.counters.internal_errors == 0
    # Recovery: what is good is taken again, but for the few that decide about a jump.
    counted = frontend.counters
    assert counted['odometry'].accepted - before['odometry'] >= 200 - 8
    assert counted['ranges'].accepted - before['ranges'] >= 100 - 8
    assert counted['closures'].accepted - before['closures'] >= 1
    assert len(graph.ranges) == counted['ranges'].accepted
    assert len(graph.sightings) == counted['sightings'].accepted
    assert len(graph.pose_priors) + np.sum(
        graph.point_priors.point >= 0) == counted['fixes'].accepted


def test_errors_of_a_message_and_of_this_package_are_told_apart(caplog, monkeypatch):
    frontend = Frontend(config())

    def unreadable(message, received_ns):
        raise TypeError('no such field')
        yield

    assert feed(frontend, Route('/a', 't', 'odometry', unreadable), None, 0) == 0
    assert frontend.counters['odometry'].dropped == {'unreadable': 1}
    assert frontend.counters.internal_errors == 0

    monkeypatch.setattr(frontend._odometry, 'add', lambda *_: 1 / 0)
    route = Route('/a', 't', 'odometry', lambda message, _: [message])
    assert feed(frontend, route, A.odometry(0.0), 0) == 0
    assert frontend.counters['odometry'].dropped == {'unreadable': 1, 'internal_error': 1}
    assert frontend.counters.internal_errors == 1
    assert 'ZeroDivisionError' in caplog.text
    assert any('errors of this package' in found.text for found in frontend.findings)
    monkeypatch.undo()
    assert feed(frontend, route, A.odometry(0.1), 0) == 1


def test_foreign_frames_and_units_that_driving_must_tell_are_pointed_out():
    frontend, _ = driven(1.0)
    assert frontend.findings == ()
    frontend.add(A.odometry(1.1, frame_id='world'))
    assert any('world' in found.text for found in frontend.findings)
    for k in range(60):
        frontend.add(range_sample('A', 'B', 0.5 + k * 0.001, 4500.0 + k))
    # 45 m in centimetres or 4.5 m in millimetres: nothing has moved yet.
    assert any('centimetres or millimetres' in found.text for found in frontend.findings)


@pytest.mark.parametrize(('factor', 'scale', 'unit'), [
    (1.0, 1.0, ''), (100.0, 1.0, 'centimetres'), (1000.0, 1.0, 'millimetres'), (1000.0, 0.001, '')])
@pytest.mark.parametrize('far_m', [3.0, 20.0, 250.0])
def test_units_are_judged_by_motion_whatever_the_distance(factor, scale, unit, far_m):
    frontend = Frontend(config(ranges={'max_m': 1e6, 'scale': scale}))
    rng = np.random.default_rng(1)
    walker = Robot('A', 2, 3)
    walker.velocity = np.array([1.5, 0.3, 0.0])
    beacon = walker.position + np.array([far_m, 0.5 * far_m, 0.0])
    for step in range(1500):
        t = 0.1 * step
        frontend.add(walker.odometry(t))
        distance = np.linalg.norm(walker.pose(t)[1] - beacon) + rng.normal() * 0.2
        frontend.add(range_sample('A', 'L1', t, factor * max(distance, 0.1)))
    texts = [found.text for found in frontend.findings if found.kind == 'range_unit']
    assert [unit in text for text in texts] == ([True] if unit else [])
