"""Every kind of bad input is counted with its reason, and none of it reaches the graph."""

import itertools
import math

import numpy as np
import pytest
from frontend_world import (
    NAN,
    SECOND,
    Robot,
    closure_sample,
    config,
    drive,
    fix_sample,
    graph_of,
    ns,
    range_sample,
    sighting_sample,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparser_ros.frontend import Frontend, Refused
from sparser_ros.frontend.counters import KINDS
from sparser_ros.frontend.decode import in_nanoseconds

A, B = Robot('A', 2, 1), Robot('B', 2, 2)
RADIOS = {
    'fixed1': {'beacon': 'F1', 'position': [0.0, 0.0]},
    'fixed2': {'beacon': 'F2', 'position': [5.0, 0.0]},
    'a2': {'robot': 'A', 'lever_arm': [0.2, 0.0]},
}


def prepared(**values):
    """A front-end that has seen a second of odometry of both robots."""
    frontend = Frontend(config(radios=RADIOS, **values))
    drive(frontend, [A, B], 1.0)
    return frontend


BAD_ODOMETRY = [
    (A.odometry(1.1, position_xyz=np.array([NAN, 0, 0])), 'not_finite'),
    (A.odometry(1.1, position_xyz=np.array([np.inf, 0, 0])), 'not_finite'),
    (A.odometry(1.1, quat_xyzw=np.array([0, 0, NAN, 1])), 'not_finite'),
    (A.odometry(1.1, quat_xyzw=np.zeros(4)), 'zero_quaternion'),
    (A.odometry(1.1, quat_xyzw=np.full(4, 0.7)), 'quaternion_not_unit'),
    (A.odometry(1.1, quat_xyzw=np.array([0, 0, 0.5, 0])), 'quaternion_not_unit'),
    (A.odometry(1.1, robot='C'), 'unknown_robot'),
    (A.odometry(1.0), 'duplicate'),
    (A.odometry(-5.0), 'time_backwards'),
    (A.odometry(1.1, stamp_ns=ns(1e6)), 'in_the_future'),
    (A.odometry(1.1, stamp_ns=0, received_ns=0), 'no_stamp'),
]
BAD_RANGES = [(range_sample('A', 'B', 0.5, 3.0, **changes), reason) for changes, reason in [
    ({'range_m': NAN}, 'not_finite'),
    ({'range_m': np.inf}, 'not_finite'),
    ({'range_m': 0.0}, 'not_positive'),
    ({'range_m': -3.0}, 'not_positive'),
    ({'range_m': 0.01}, 'too_short'),
    ({'range_m': 1e4}, 'too_long'),
    ({'target': 'A'}, 'self_range'),
    ({'target': 'a2'}, 'self_range'),
    ({'target': ''}, 'unknown_radio'),
    ({'target': 'stranger'}, 'unknown_radio'),
    ({'source': 'fixed1', 'target': 'fixed2'}, 'between_known_beacons'),
    ({'los': 2}, 'blocked'),
    ({'rx_rssi': -80.0, 'first_path_rssi': -95.0}, 'blocked'),
    ({'stamp_ns': ns(1e6)}, 'in_the_future'),
    ({'stamp_ns': 0, 'received_ns': 0}, 'no_stamp'),
    ({'stamp_ns': -5}, 'no_stamp'),
]]
BAD_CLOSURES = [(closure_sample(A, 0.1, B, 0.5, **changes), reason) for changes, reason in [
    ({'position_xyz': np.array([0, NAN, 0])}, 'not_finite'),
    ({'quat_xyzw': np.zeros(4)}, 'zero_quaternion'),
    ({'quat_xyzw': np.full(4, 0.7)}, 'quaternion_not_unit'),
    ({'to_robot': 'C'}, 'unknown_robot'),
    ({'from_stamp_ns': 0}, 'no_stamp'),
    ({'to_stamp_ns': ns(1e6)}, 'in_the_future'),
    ({'confidence': 0.1}, 'low_confidence'),
    ({'position_xyz': np.array([90.0, 0, 0])}, 'too_long'),
]]
BAD_FIXES = [(fix_sample(A, 0.5, **changes), reason) for changes, reason in [
    ({'position_xyz': np.array([0, NAN, 0])}, 'not_finite'),
    ({'quat_xyzw': np.zeros(4)}, 'zero_quaternion'),
    ({'quat_xyzw': np.full(4, 0.7)}, 'quaternion_not_unit'),
    ({'robot': 'C'}, 'unknown_robot'),
    ({'frame_id': 'A/odom'}, 'wrong_frame'),
]]


@pytest.mark.parametrize(('sample', 'reason'), [
    *BAD_ODOMETRY, *BAD_RANGES, *BAD_CLOSURES, *BAD_FIXES,
    (Refused('ranges', 'unreadable'), 'unreadable')])
def test_what_is_no_measurement_is_counted_by_reason(sample, reason):
    frontend = prepared(
        closures={'min_confidence': 0.5, 'max_translation_m': 50.0},
        ranges={'unknown_radios': 'ignore', 'nlos': 'drop', 'nlos_rssi_gap_db': 10.0})
    assert graph_of(frontend).n_poses > 0
    assert frontend.add(sample) is False
    counters = frontend.counters.kind(sample.kind)
    assert counters.dropped == {reason: 1} and counters.balanced
    assert frontend.take(flush=True) is None and not frontend.time_jump


def test_an_angle_in_all_four_components_is_no_rotation_even_where_its_norm_is_1():
    """In the plane the heading was 90 degrees wrong; 1 of 100 such quaternions passes by chance."""
    frontend = Frontend(config())
    for step in range(200):
        frontend.add(A.odometry(
            step / 10, quat_xyzw=np.full(4, math.sin(step / 10) + 0.003)))
    assert frontend.counters.odometry.accepted == 0 and frontend.take(flush=True) is None
    assert frontend.counters.odometry.dropped['among_absurd'] > 10
    # What is right is believed from the tenth message on.
    for step in range(200, 230):
        frontend.add(A.odometry(step / 10))
    frontend.take(flush=True)
    assert frontend.counters.odometry.accepted == 21


@pytest.mark.parametrize(('covariance', 'warning'), [
    (np.zeros((6, 6)), 'covariance_zero'),
    (np.full((6, 6), NAN), 'covariance_not_finite'),
    (np.diag([1.0, 1, 1, 1, 1, -1]), 'covariance_not_positive'),
    (np.diag([1.0, 0, 1, 1, 1, 1]), 'covariance_not_positive'),
    (np.array(np.eye(6) + 2 * np.eye(6)[::-1]), 'covariance_not_positive'),
])
@pytest.mark.parametrize('dimension', [2, 3])
def test_unusable_odometry_covariance_falls_back_to_the_configured_noise(
        covariance, warning, dimension):
    covariance = covariance.copy()
    if dimension == 2 and covariance[0, 5]:
        covariance[0, 1] = covariance[1, 0] = 2.0
    frontend = Frontend(config(
        dimension=dimension, odometry_noise='pose_increment', keyframes={'every_message': True}))
    robot = Robot('A', dimension, 1)
    for t in (0.0, 0.5):
        frontend.add(robot.odometry(t, covariance))
    graph = graph_of(frontend).validate()
    assert frontend.counters.odometry.warnings == {warning: 1}
    assert frontend.counters.odometry.accepted == 2
    travel = np.linalg.norm(robot.velocity) * 0.5
    turn = robot.rate * 0.5 * np.linalg.norm(robot.axis)
    move = 0.02**2 * travel + 0.01**2 * turn + 0.002**2 * 0.5
    assert 1 / graph.relative_poses.tau == pytest.approx([move])


def test_unusable_closure_and_fix_covariances_fall_back():
    frontend = prepared()
    frontend.add(closure_sample(A, 0.1, B, 1.0, covariance=np.zeros((6, 6))))
    frontend.add(closure_sample(A, 0.2, B, 1.0, covariance=np.full((6, 6), NAN)))
    frontend.add(fix_sample(A, 0.5, position_covariance=np.zeros((3, 3)), quat_xyzw=None))
    graph = graph_of(frontend).validate()
    closures = ~graph.relative_poses.odometry
    assert closures.sum() == 2
    assert graph.relative_poses.kappa[closures] == pytest.approx(1 / 0.03**2)
    assert graph.point_priors.precision == pytest.approx([1.0])
    assert frontend.counters.closures.warnings == {'covariance_not_finite': 1}
    assert frontend.counters.fixes.warnings == {'covariance_zero': 1}


def test_foreign_frames_and_units_that_driving_must_tell_are_pointed_out():
    frontend = prepared()
    assert frontend.warnings == () and frontend.findings == ()
    frontend.add(A.odometry(1.1, frame_id='world'))
    assert 'world' in frontend.warnings[0]
    for k in range(60):
        frontend.add(range_sample('A', 'B', 0.5 + k * 0.001, 4500.0 + k))
    # 45 m in centimetres or 4.5 m in millimetres: nothing has moved yet.
    assert any('centimetres or millimetres' in found.text for found in frontend.findings)


@pytest.mark.parametrize(('factor', 'unit'), [(1.0, ''), (100.0, 'centimetres'),
                                              (1000.0, 'millimetres')])
@pytest.mark.parametrize('far_m', [3.0, 20.0, 250.0])
def test_units_are_judged_by_motion_whatever_the_distance(factor, unit, far_m):
    frontend = Frontend(config(ranges={'max_m': 1e6}))
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


def test_a_source_without_stamps_is_placed_by_the_lag_of_the_others():
    late = 40_000 * SECOND
    frontend = Frontend(config(stamps={'timeout_s': 2.0}))
    jitter = itertools.cycle([0, 3_000_000, 1_000_000])
    for step in range(60):
        t = step * 0.1
        frontend.add(B.odometry(t, stamp_ns=0, received_ns=ns(t) + late))
        frontend.add(A.odometry(t, received_ns=ns(t) + late + next(jitter)))
    graph = graph_of(frontend)
    assert frontend.counters.odometry.accepted == 120
    mine = graph.poses.stamp_ns[graph.poses.robot == 1]
    other = graph.poses.stamp_ns[graph.poses.robot == 0]
    assert abs(int(mine[0]) - int(other[0])) < 5_000_000


@pytest.mark.parametrize('names', [['B'], ['*']])
def test_stamps_that_are_not_believed_count_as_of_their_arrival(names):
    """B's clock is an hour ahead; its odometry is placed by the lag of A, or by arrival alone."""
    frontend = Frontend(config(stamps={'by_arrival': names}))
    for step in range(60):
        t = step * 0.1
        frontend.add(B.odometry(t, stamp_ns=ns(t + 3600.0), received_ns=ns(t + 0.3)))
        frontend.add(A.odometry(t, received_ns=ns(t + 0.3)))
        if step % 10 == 5:
            frontend.add(range_sample('A', 'B', t, 5.0, received_ns=ns(t + 0.3)))
    graph = graph_of(frontend)
    assert frontend.counters.odometry.accepted == 120
    assert frontend.counters.ranges.accepted == 6
    stamp, robot = graph.poses.stamp_ns, graph.poses.robot
    assert stamp[robot == 0][0] == stamp[robot == 1][0] == ns(0.0 if names == ['B'] else 0.3)
    assert np.all(stamp <= ns(6.2))


def test_without_any_stamps_reception_time_counts():
    frontend = Frontend(config())
    for step in range(60):
        frontend.add(A.odometry(step * 0.1, stamp_ns=0, received_ns=ns(step * 0.1)))
        if step == 10:
            assert frontend.take() is None
            assert frontend.counters.odometry.waiting == 11
    graph = graph_of(frontend, flush=False)
    assert graph.poses.stamp_ns[0] == ns(0.0)
    assert frontend.counters.odometry.accepted == 60


def test_time_offsets_shift_a_source():
    frontend = Frontend(config(odometry={'time_offsets': {'A': 0.5, '*': -0.25}}))
    for t in (0.9, 1.0):  # the first message is believed once another goes with it
        assert frontend.latest_odometry('A') is None
        frontend.add(A.odometry(t))
        frontend.add(B.odometry(t))
    assert frontend.latest_odometry('A')[0] == ns(1.5)
    assert frontend.latest_odometry('B')[0] == ns(0.75)


def test_closures_live_in_the_time_of_the_odometry():
    frontend = Frontend(config(
        keyframes={'every_message': True}, odometry={'time_offsets': {'A': 0.5, 'B': -30.0}}))
    drive(frontend, [A, B], 3.0)
    frontend.add(closure_sample(A, 1.0, B, 2.0))
    graph = graph_of(frontend)
    closure = ~graph.relative_poses.odometry
    assert graph.poses.stamp_ns[graph.relative_poses.i[closure]].tolist() == [ns(1.5)]
    assert graph.poses.stamp_ns[graph.relative_poses.j[closure]].tolist() == [ns(-28.0)]


values = st.one_of(
    st.floats(-10, 400), st.sampled_from([NAN, np.inf, 0.0, -1.0]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(
    st.sampled_from(['odometry', 'range', 'sighting', 'closure', 'fix', 'take', 'flush']),
    st.floats(-3, 8), values, st.sampled_from(['A', 'B', 'C', 'L1', 'a2', '']),
    st.sampled_from(['A', 'B', 'fixed1', 'L1']))
    , max_size=60))
def test_whatever_comes_the_counts_balance_and_the_graph_is_valid(events):
    frontend = prepared()
    graph = graph_of(frontend, flush=False)
    for kind, t, value, one, other in events:
        if kind == 'odometry':
            frontend.add(A.odometry(
                t, robot=one, position_xyz=np.array([value, t, 0.0])))
        elif kind == 'range':
            frontend.add(range_sample(one, other, t, value, variance=value))
        elif kind == 'sighting':
            frontend.add(sighting_sample(
                A, t, other, np.zeros(3), robot=one, position_xyz=np.array([value, t, 0.0])))
        elif kind == 'closure':
            frontend.add(closure_sample(
                A, t, B, abs(t), to_robot=one, covariance=np.diag([value] * 6)))
        elif kind == 'fix':
            frontend.add(fix_sample(A, t, robot=one, position_covariance=np.diag([value] * 3)))
        else:
            graph = graph_of(frontend, flush=kind == 'flush', graph=graph)
        for name in KINDS:
            assert frontend.counters.kind(name).balanced
    graph = graph_of(frontend, graph=graph)
    guess = np.nan_to_num(graph.landmarks.position)
    graph.replaced(landmarks=type(graph.landmarks)(
        graph.landmarks.names, guess, graph.landmarks.fixed)).validate()
    for name in KINDS:
        counters = frontend.counters.kind(name)
        assert counters.waiting == 0
        assert counters.balanced
    assert len(graph.ranges) == frontend.counters.ranges.accepted
    assert len(graph.sightings) == frontend.counters.sightings.accepted
    assert len(graph.pose_priors) + np.sum(graph.point_priors.point >= 0) == \
        frontend.counters.fixes.accepted


def test_a_stamp_of_more_nanoseconds_than_a_second_has_is_refused():
    """No clock writes it; read as a number it would be up to 4.3 s ahead."""
    assert in_nanoseconds(5, 999_999_999) == 5_999_999_999
    frontend = prepared()
    sample = A.odometry(2.1)
    sample = type(sample)(**{**vars(sample), 'stamp_ns': in_nanoseconds(1_700_000_000, 2**32 - 1)})
    assert not frontend.add(sample)
    assert frontend.counters.odometry.dropped == {'stamp_out_of_bounds': 1}
