"""Clocks that are wrong are named, late and jittered data are not; stamps, time that goes back."""

import itertools

import numpy as np
import pytest
from frontend_world import SECOND, Robot, config, drive, driven, graph_of, ns, range_sample

from sparser_ros.frontend import Frontend

ROBOTS = ('A', 'B', 'C')
A, B = Robot('A', 2, 1), Robot('B', 2, 2)


def played(offset=None, delay=None, jitter_s=0.01, seconds=30.0, seed=1, robots=ROBOTS, since=None,
           recorded=0.0, **values):
    """Of clock offsets by source, a radio's name or ('odometry', robot), and delays by kind.

    `since`: seconds at which robots are switched on; `recorded`: seconds of receptions before data.
    """
    offset, delay, since = offset or {}, delay or {}, since or {}
    rng = np.random.default_rng(seed)
    frontend = Frontend(config(robots=list(robots), **values))
    bodies = [Robot(name, 2, number + 1) for number, name in enumerate(robots)]
    events = []

    def send(source, kind, t, make):
        late = delay.get(kind, 0.0) + rng.uniform(0.0, jitter_s)
        events.append((
            t + late, make(ns(t + offset.get(source, 0.0)), ns(t + late + recorded))))

    for k in range(round(seconds * 10)):
        for body in bodies:
            t = 0.1 * k + rng.uniform(0, 0.02)
            if t < since.get(body.name, 0.0):
                continue
            send(('odometry', body.name), 'odometry', t, lambda s, r, b=body, t=t: b.odometry(
                t, stamp_ns=s, received_ns=r))
            if k % 3 == 0:
                send(body.name, 'ranges', t, lambda s, r, b=body: range_sample(
                    b.name, 'L1', 0.0, 20.0, stamp_ns=s, received_ns=r))
    for _, sample in sorted(events, key=lambda e: e[0]):
        frontend.add(sample)
    return frontend


def clocks(frontend):
    return {f.subject: f for f in frontend.findings if f.kind.endswith('_clock')}


@pytest.mark.parametrize('seed', range(2))
@pytest.mark.parametrize('ahead', [0.5, 3.0, 20.0, 3000.0])
def test_a_radio_ahead_is_named_and_its_ranges_are_shifted_back(ahead, seed):
    frontend = played({'B': ahead}, seed=seed)
    found = clocks(frontend)
    assert set(found) == {'B'}
    assert f"radio B's clock is {ahead:.1f} s ahead of the others" in found['B'].text
    graph = graph_of(frontend)
    assert frontend.counters['ranges'].accepted >= 300 - 25
    end = ns(30.5)
    assert graph.ranges.stamp_ns.max() < end
    assert len(graph.poses.stamp_ns) and frontend.newest_stamp_ns < end


@pytest.mark.parametrize('behind', [11.0, 60.0])
def test_a_robot_that_is_behind_and_first_does_not_shut_out_the_others(behind):
    frontend = played(
        {'C': -behind, ('odometry', 'C'): -behind}, since={'A': 5.0, 'B': 5.0}, seconds=40.0)
    poses = graph_of(frontend).poses
    assert frontend.newest_stamp_ns > ns(39.0)
    assert all(np.max(poses.stamp_ns[poses.robot == k]) > ns(38.0) for k in (0, 1))
    assert frontend.counters['odometry'].dropped.get('in_the_future', 0) < 2 * 12


@pytest.mark.parametrize('recorded', [0.0, 3600.0])
def test_a_radio_ahead_and_steady_does_not_shut_out_the_others(recorded):
    """In a bag that was recorded an hour after the data as well."""
    frontend = played({'B': 60.0}, recorded=recorded)
    assert frontend.newest_stamp_ns < ns(31.0)


@pytest.mark.parametrize('ahead', [2.0, 18.0])
def test_fixes_of_a_clock_ahead_are_shifted_back(ahead):
    """As those of a receiver that says GPS time, which is 18 s ahead of UTC."""
    frontend = Frontend(config(dimension=3, fixes={'topic': '{robot}/fix'}))
    body = Robot('A', 3, 1)
    for k in range(300):
        t = 0.1 * k
        frontend.add(body.odometry(t, stamp_ns=ns(t), received_ns=ns(t)))
        if k % 3 == 0:
            frontend.add(body.fix(t, stamp_ns=ns(t + ahead), received_ns=ns(t)))
    assert 'its stamps are shifted back' in clocks(frontend)['A'].text
    priors = graph_of(frontend).pose_priors
    assert len(priors) > 60
    assert abs(np.median(priors.stamp_ns) - ns(15.0)) < ns(3.0)


def test_a_radio_behind_is_named_but_not_shifted():
    found = clocks(played({'B': -20.0}))
    assert set(found) == {'B'} and 'late, or its clock is behind' in found['B'].text


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('case', [
    {}, {'delay': {'ranges': 2.0}}, {'delay': {'odometry': 0.5}}, {'jitter_s': 0.25},
    {'jitter_s': 0.25, 'delay': {'ranges': 2.0}},
])
@pytest.mark.parametrize('robots', [('A',), ('A', 'B'), ROBOTS])
def test_late_and_jittered_data_are_no_fault_of_a_clock(case, seed, robots):
    frontend = played(seed=seed, robots=robots, **case)
    assert clocks(frontend) == {}
    dropped = frontend.counters['odometry'].dropped
    # The first ones that come out of order, until newer ones wait for them.
    late = 3 * len(robots) if 'jitter_s' in case else 0
    assert dropped.total() == dropped['out_of_order'] <= late
    assert frontend.counters['ranges'].dropped == {}


def test_the_odometry_of_one_robot_ahead_is_named_and_its_radio_with_it():
    frontend = played({('odometry', 'B'): 3.0, 'B': 3.0})
    kinds = {(f.kind, f.subject) for f in frontend.findings if f.kind.endswith('_clock')}
    assert ('odometry_clock', 'B') in kinds
    # One clock for both: the radio's ranges go with its odometry and are not shifted away from it.
    assert not any('shifted' in finding.text for finding in frontend.findings)


def test_a_source_without_stamps_is_placed_by_the_lag_of_the_others():
    late = 40_000 * SECOND
    frontend = Frontend(config(stamps={'timeout_s': 2.0}))
    jitter = itertools.cycle([0, 3_000_000, 1_000_000])
    for step in range(60):
        t = step * 0.1
        frontend.add(B.odometry(t, stamp_ns=0, received_ns=ns(t) + late))
        frontend.add(A.odometry(t, received_ns=ns(t) + late + next(jitter)))
    poses = graph_of(frontend).poses
    assert frontend.counters['odometry'].accepted == 120
    first = [int(poses.stamp_ns[poses.robot == robot][0]) for robot in (0, 1)]
    assert abs(first[1] - first[0]) < 5_000_000


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
    poses = graph_of(frontend).poses
    assert frontend.counters['odometry'].accepted == 120
    assert frontend.counters['ranges'].accepted == 6
    assert [poses.stamp_ns[poses.robot == robot][0] for robot in (0, 1)] == [
        ns(0.0 if names == ['B'] else 0.3)] * 2
    assert np.all(poses.stamp_ns <= ns(6.2))


def test_without_any_stamps_reception_time_counts():
    frontend = Frontend(config())
    for step in range(60):
        frontend.add(A.odometry(step * 0.1, stamp_ns=0, received_ns=ns(step * 0.1)))
        if step == 10:
            assert frontend.take() is None
            assert frontend.counters['odometry'].waiting == 11
    graph = graph_of(frontend, flush=False)
    assert graph.poses.stamp_ns[0] == ns(0.0)
    assert frontend.counters['odometry'].accepted == 60


def test_time_offsets_shift_a_source_and_its_closures():
    frontend = Frontend(config(
        keyframes={'every_message': True}, odometry={'time_offsets': {'A': 0.5, '*': -30.0}}))
    drive(frontend, [A, B], 3.0)
    assert [frontend.latest_odometry(robot)[0] for robot in 'AB'] == [ns(3.5), ns(-27.0)]
    frontend.add(A.closure(1.0, B, 2.0))
    graph = graph_of(frontend)
    table, stamp = graph.relative_poses.take(~graph.relative_poses.odometry), graph.poses.stamp_ns
    assert (stamp[table.i].tolist(), stamp[table.j].tolist()) == ([ns(1.5)], [ns(-28.0)])


def test_time_does_not_go_back_while_ranges_are_of_the_present():
    frontend, _ = driven(2.0)
    graph_of(frontend)
    for step in range(8):
        assert not frontend.add(A.odometry(0.05 * step))
        if step % 2:
            frontend.add(range_sample('A', 'L1', 2.0 + 0.05 * step, 5.0))
    assert not frontend.time_jump
    assert frontend.counters['odometry'].dropped == {'time_backwards': 8}
    for step in range(3):
        frontend.add(A.odometry(0.4 + 0.05 * step))
    assert frontend.time_jump


def test_time_going_backwards_raises_a_flag_until_a_reset():
    frontend, _ = driven(2.0)
    graph_of(frontend)
    for t in (0.0, 0.1):
        assert not frontend.add(A.odometry(t))
    assert frontend.add(A.odometry(2.1))
    for t in (0.2, 0.3, 0.4, 0.5):
        assert not frontend.time_jump or t == 0.5
        assert not frontend.add(A.odometry(t))
    assert frontend.time_jump and frontend.counters.time_jumps == 1
    assert frontend.counters['odometry'].dropped == {'time_backwards': 6}
    # What is measured since the clock was set back is no measurement of a second ago.
    assert not frontend.add(range_sample('A', 'L1', 0.5, 3.0))
    assert frontend.add(range_sample('A', 'L1', 2.0, 3.0))
    assert frontend.counters['ranges'].dropped == {'time_backwards': 1}
    assert any('time went backwards' in found.text for found in frontend.findings)
    frontend.reset()
    assert not frontend.time_jump
    drive(frontend, [A, B], 1.0)
    increment = frontend.take(flush=True)
    assert increment.sequence == increment.poses.index.min() == 0
    assert frontend.counters['odometry'].dropped == {}
