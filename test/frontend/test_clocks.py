"""Clocks that are wrong are named; late and jittered data are not."""

import numpy as np
import pytest
from frontend_world import Robot, config, drive, graph_of, ns, range_sample

from sparser_ros.frontend import Frontend

ROBOTS = ('A', 'B', 'C')


def played(offset=None, delay=None, jitter_s=0.01, seconds=30.0, seed=1, robots=ROBOTS, **values):
    """A recording with a clock offset by source and a transport delay by kind.

    Keys are a radio's name, or 'odometry' and a robot.
    """
    offset, delay = offset or {}, delay or {}
    rng = np.random.default_rng(seed)
    frontend = Frontend(config(robots=list(robots), **values))
    bodies = [Robot(name, 2, number + 1) for number, name in enumerate(robots)]
    events = []

    def send(source, kind, t, make):
        late = delay.get(kind, 0.0) + rng.uniform(0.0, jitter_s)
        events.append((t + late, make(ns(t + offset.get(source, 0.0)), ns(t + late))))

    for k in range(round(seconds * 10)):
        for body in bodies:
            t = 0.1 * k + rng.uniform(0, 0.02)
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
    assert frontend.counters.ranges.accepted >= 300 - 25
    end = ns(30.5)
    assert graph.ranges.stamp_ns.max() < end
    assert len(graph.poses.stamp_ns) and frontend.newest_stamp_ns < end


@pytest.mark.parametrize('seed', range(3))
def test_a_radio_behind_is_named_but_not_shifted(seed):
    found = clocks(played({'B': -20.0}, seed=seed))
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
    dropped = frontend.counters.odometry.dropped
    # The first ones that come out of order, until newer ones wait for them.
    late = 3 * len(robots) if 'jitter_s' in case else 0
    assert dropped.total() == dropped['out_of_order'] <= late
    assert frontend.counters.ranges.dropped == {}


def test_the_odometry_of_one_robot_ahead_is_named_and_its_radio_with_it():
    frontend = played({('odometry', 'B'): 3.0, 'B': 3.0})
    kinds = {(f.kind, f.subject) for f in frontend.findings if f.kind.endswith('_clock')}
    assert ('odometry_clock', 'B') in kinds
    # One clock for both: the radio's ranges go with its odometry and are not shifted away from it.
    assert frontend._clock.sources.shift_ns(
        frontend._clock.source(range_sample('B', 'L1', 0.0, 1.0))) == 0


@pytest.mark.parametrize('sample_of', [
    lambda s: range_sample('A', 'L1', 0.0, 3.0, stamp_ns=s),
    lambda s: Robot('A', 2, 1).odometry(0.0, stamp_ns=s),
])
@pytest.mark.parametrize('stamp', [2**62, 2**63, 2**80, -(2**63)])
def test_stamps_beyond_all_time_are_refused(sample_of, stamp):
    frontend = Frontend(config())
    drive(frontend, [Robot('A', 2, 1)], 5.0)
    assert not frontend.add(sample_of(stamp))
    graph_of(frontend)
    assert frontend.newest_stamp_ns == ns(5.0)
