"""Finite extremes at the door: nothing of them enters, and good data afterwards are taken."""

import math

import numpy as np
import pytest
from frontend_world import (
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

from sparser_ros.frontend import Frontend, counters
from sparser_ros.frontend.inputs import Route

EXTREMES = [0.0, 1e-320, 1e-160, 1e-12, 1.0, -1.0, 1e6, 1e160, -1e160, 1e200, 1e308, -1e308,
            math.inf, -math.inf, math.nan]
STAMPS = [0, 1, -1, ns(0), ns(3000), ns(-3000), 2**62, 2**63 - 1, 2**63, -(2**63), 2**100]
value, stamp = st.sampled_from(EXTREMES), st.sampled_from(STAMPS)


def matrix(values, size):
    return np.where(np.eye(size, dtype=bool), values[:size], values[-1])


def bad_sample(kind, robots, v, stamps, t):
    """A sample of a kind with extreme values in every field."""
    a, b = robots
    when = {'stamp_ns': stamps[0] if stamps[0] != 1 else ns(t), 'received_ns': stamps[1]}
    covariance = matrix(v[:7], 6)
    if kind == 'odometry':
        return a.odometry(t, covariance, position_xyz=np.array(v[:3]), quat_xyzw=np.array(v[3:7]),
                          twist_covariance=covariance, **when)
    if kind == 'odometry_noise':
        return a.odometry(t, covariance, twist_covariance=covariance)
    if kind == 'range':
        return range_sample('A', 'L1', t, v[0], variance=v[1], rx_rssi=v[2],
                            first_path_rssi=v[3], **when)
    if kind == 'range_noise':
        return range_sample('A', 'L1', t, 5.0, variance=v[1])
    if kind == 'closure':
        return closure_sample(a, t, b, t, position_xyz=np.array(v[:3]), quat_xyzw=np.array(v[3:7]),
                              covariance=covariance, confidence=v[7],
                              from_stamp_ns=when['stamp_ns'], to_stamp_ns=when['received_ns'])
    if kind == 'closure_noise':
        return closure_sample(a, t, b, t, covariance=covariance)
    position = matrix(v[:4], 3)
    if kind == 'sighting':
        return sighting_sample(a, t, 'L1', np.zeros(3), position_xyz=np.array(v[:3]),
                               covariance=matrix(v[4:8], 3), **when)
    if kind == 'sighting_noise':
        return sighting_sample(a, t, 'L1', np.array([3.0, 2.0, 1.0]), covariance=position)
    if kind == 'fix':
        return fix_sample(a, t, position_xyz=np.array(v[:3]), position_covariance=position,
                          quat_xyzw=np.array(v[3:7]), orientation_covariance=matrix(v[4:8], 3),
                          **when)
    return fix_sample(a, t, position_covariance=position, orientation_covariance=matrix(v[4:8], 3))


KINDS = ['odometry', 'odometry_noise', 'range', 'range_noise', 'sighting', 'sighting_noise',
         'closure', 'closure_noise', 'fix', 'fix_noise']
MODES = ['pose_increment', 'pose_accumulated', 'twist', 'configured']


def assert_bounded(graph):
    """Every number of a graph is finite, and squares of weighted residuals stay far from 1e308."""
    for table in ('poses', *graph.tables()):
        for name, column in vars(getattr(graph, table)).items():
            if column.dtype.kind == 'f' and name not in ('kappa', 'tau', 'precision'):
                assert np.all(np.abs(column) < 1e9), (table, name)
            elif column.dtype.kind == 'f':
                assert np.all((column >= 1e-9) & (column < 1e13)), (table, name, column)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([2, 3]), st.sampled_from(MODES), st.lists(
    st.tuples(st.sampled_from(KINDS), st.lists(value, min_size=8, max_size=8),
              st.tuples(stamp, stamp), st.floats(0.0, 10.0)), min_size=1, max_size=20))
def test_after_finite_extremes_good_data_are_taken(dimension, mode, events):
    frontend = Frontend(config(dimension=dimension, odometry_noise=mode))
    robots = [Robot('A', dimension, 1), Robot('B', dimension, 2)]
    drive(frontend, robots, 5.0)
    graph = graph_of(frontend, flush=False)
    for number, (kind, values, stamps, t) in enumerate(events):
        frontend.add(bad_sample(kind, robots, values, stamps, min(t, 5.0 + 0.01 * number)))
    before = {k: frontend.counters.kind(k).accepted for k in ('odometry', 'ranges', 'closures')}
    for step in range(60, 160):
        for robot in robots:
            frontend.add(robot.odometry(0.1 * step))
        frontend.add(range_sample('A', 'B', 0.1 * step, 5.0))
        if step % 10 == 0:
            graph = graph_of(frontend, flush=False, graph=graph)
    frontend.add(closure_sample(robots[0], 9.0, robots[1], 9.5))
    graph = graph_of(frontend, graph=graph)
    assert_bounded(graph)
    for kind in counters.KINDS:
        count = frontend.counters.kind(kind)
        assert count.balanced and count.waiting == 0, (kind, count)
    assert frontend.counters.internal_errors == 0
    # Recovery: what is good is taken again, but for the few that decide about a jump.
    assert frontend.counters.odometry.accepted - before['odometry'] >= 200 - 8
    assert frontend.counters.ranges.accepted - before['ranges'] >= 100 - 8
    assert frontend.counters.closures.accepted - before['closures'] >= 1


@pytest.mark.parametrize('dimension', [2, 3])
def test_no_kind_is_more_certain_than_its_floor(dimension):
    frontend = Frontend(config(dimension=dimension, odometry_noise='pose_increment'))
    robots = [Robot('A', dimension, 1), Robot('B', dimension, 2)]
    tiny = np.eye(6) * 1e-300
    for k in range(50):
        for robot in robots:
            frontend.add(robot.odometry(0.1 * k, tiny))
    frontend.add(range_sample('A', 'B', 1.0, 5.0, variance=1e-320))
    frontend.add(closure_sample(robots[0], 1.0, robots[1], 2.0, covariance=tiny))
    frontend.add(sighting_sample(
        robots[0], 2.0, 'L1', np.array([3.0, 2.0, 0.0]), covariance=np.eye(3) * 1e-320))
    frontend.add(fix_sample(robots[0], 2.0, position_covariance=np.eye(3) * 1e-320,
                                orientation_covariance=np.eye(3) * 1e-320))
    graph = graph_of(frontend)
    edges = graph.relative_poses
    rotation = 1.0 if dimension == 2 else 0.5
    assert edges.tau[edges.odometry] == pytest.approx(1e8)
    assert edges.kappa[edges.odometry] == pytest.approx(rotation * 1e10)
    assert edges.tau[~edges.odometry] == pytest.approx([1e4])
    assert edges.kappa[~edges.odometry] == pytest.approx([rotation * 1e6])
    assert graph.ranges.precision == pytest.approx([1 / 0.005**2])
    assert graph.sightings.tau == pytest.approx([1 / 0.005**2])
    assert graph.pose_priors.tau == pytest.approx([1 / 0.005**2])
    assert frontend.counters.closures.warnings == {'too_certain': 1}
    assert frontend.counters.fixes.warnings == {'too_certain': 1}


def test_errors_of_a_message_and_of_this_package_are_told_apart(caplog, monkeypatch):
    frontend = Frontend(config())
    robot = Robot('A', 2, 1)

    def unreadable(message, received_ns):
        raise TypeError('no such field')
        yield

    def good(message, received_ns):
        yield message

    assert frontend.feed(Route('/a', 't', 'odometry', unreadable), None, 0) == 0
    assert frontend.counters.odometry.dropped == {'unreadable': 1}
    assert frontend.counters.internal_errors == 0

    monkeypatch.setattr(frontend._odometry, 'add', lambda *_: 1 / 0)
    route = Route('/a', 't', 'odometry', good)
    assert frontend.feed(route, robot.odometry(0.0), 0) == 0
    assert frontend.counters.odometry.dropped == {'unreadable': 1, 'internal_error': 1}
    assert frontend.counters.internal_errors == 1
    assert 'ZeroDivisionError' in caplog.text
    assert any('errors of this package' in text for text in frontend.warnings)
    monkeypatch.undo()
    assert frontend.feed(route, robot.odometry(0.1), 0) == 1
