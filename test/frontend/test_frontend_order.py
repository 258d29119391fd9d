"""Duplicates, the two directions of one exchange, and topics that deliver in any order."""

import numpy as np
import pytest
from frontend_world import Robot, config, drive, graph_of, range_sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparser_ros.frontend import Frontend

A, B = Robot('A', 2, 1), Robot('B', 2, 2)


def prepared(**values):
    frontend = Frontend(config(**values))
    drive(frontend, [A, B], 2.0)
    return frontend


def test_the_two_directions_of_one_exchange_count_once():
    frontend = prepared()
    frontend.add(range_sample('A', 'B', 0.500, 3.0, variance=0.04))
    frontend.add(range_sample('B', 'A', 0.515, 3.2, variance=0.01))
    frontend.add(range_sample('B', 'A', 0.560, 4.0))
    graph = graph_of(frontend)
    assert graph.ranges.distance_m == pytest.approx([3.1, 4.0])
    assert graph.ranges.precision[0] == pytest.approx(100.0)
    assert frontend.counters.ranges.merged == 1
    assert frontend.counters.ranges.accepted == 2


def test_a_direction_that_comes_after_its_other_left_is_not_counted_again():
    frontend = prepared()
    frontend.add(range_sample('A', 'B', 0.500, 3.0))
    graph = graph_of(frontend, flush=False)
    assert len(graph.ranges) == 1
    assert frontend.add(range_sample('B', 'A', 0.505, 3.2))
    assert frontend.take(flush=True) is None
    assert frontend.counters.ranges.merged == 1


def test_duplicates():
    frontend = prepared()
    assert frontend.add(range_sample('A', 'B', 0.5, 3.0))
    assert not frontend.add(range_sample('A', 'B', 0.5, 3.0))
    assert len(graph_of(frontend).ranges) == 1
    assert not frontend.add(range_sample('A', 'B', 0.5, 3.0))
    assert frontend.counters.ranges.dropped == {'duplicate': 2}


def test_decimation_keeps_one_range_per_pair_and_interval():
    frontend = prepared(ranges={'min_interval_s': 0.5})
    for k in range(19):
        frontend.add(range_sample('A', 'L1', 0.1 * k, 3.0))
        frontend.add(range_sample('B', 'L1', 0.1 * k, 3.0))
    graph = graph_of(frontend)
    assert len(graph.ranges) == 8
    assert frontend.counters.ranges.dropped == {'decimated': 30}


def test_bias_scale_and_noise():
    frontend = prepared(
        radios={'A': {'robot': 'A', 'bias_m': 0.3}, 'L1': {'beacon': 'L1', 'bias_m': 0.2}},
        ranges={'scale': 2.0, 'bias_m': 0.1, 'sigma_m': 0.3, 'sigma_per_m': 0.1,
                'nlos': 'inflate', 'nlos_sigma_scale': 3.0})
    frontend.add(range_sample('A', 'L1', 0.5, 2.3))
    frontend.add(range_sample('A', 'L1', 0.7, 2.3, variance=0.01))
    frontend.add(range_sample('A', 'L1', 0.9, 2.3, variance=0.01, los=2))
    graph = graph_of(frontend)
    assert graph.ranges.distance_m == pytest.approx([4.0] * 3)
    assert 1 / graph.ranges.precision == pytest.approx([0.09 + 0.16, 0.04, 0.36])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False), st.integers(0, 6))
def test_the_order_of_topics_within_the_window_does_not_matter(random, takes):
    """Odometry of each robot in order, everything else delayed at random by up to the window."""
    frontends = []
    for shuffled in (False, True):
        frontend = Frontend(config(stamps={'reorder_window_s': 0.3}))
        events = []
        for step in range(41):
            for robot in (A, B):
                events.append((step * 0.1, step * 0.1, 0, robot.odometry(step * 0.1)))
        for k in range(60):
            t = 0.05 + 0.06 * k
            pair = ('A', 'B') if k % 2 else ('B', 'A')
            delay = random.uniform(0.0, 0.25) if shuffled else 0.0
            events.append((t + delay, t, 1, range_sample(*pair, t, 1.0 + k)))
            if k % 5 == 0:
                late = random.uniform(0.0, 0.25) if shuffled else 0.0
                events.append((t + late, t, 2, range_sample(*pair[::-1], t + 0.004, 2.0 + k)))
        graph = None
        for number, event in enumerate(sorted(events, key=lambda e: e[:3])):
            frontend.add(event[3])
            if shuffled and takes and number % (takes * 11) == 0:
                graph = graph_of(frontend, flush=False, graph=graph)
        graph = graph_of(frontend, graph=graph)
        names = [
            (graph.endpoint_name(int(i)), graph.endpoint_name(int(j)), d, *a, *b)
            for i, j, d, a, b in zip(
                graph.ranges.source, graph.ranges.target, graph.ranges.distance_m,
                graph.ranges.lever_source.tolist(), graph.ranges.lever_target.tolist(),
                strict=True)]
        frontends.append((sorted(names), frontend.counters.as_dict()))
    assert frontends[0] == frontends[1]


def test_time_does_not_go_back_while_ranges_are_of_the_present():
    frontend = prepared()
    graph_of(frontend)
    for step in range(8):
        assert not frontend.add(A.odometry(0.05 * step))
        if step % 2:
            frontend.add(range_sample('A', 'L1', 2.0 + 0.05 * step, 5.0))
    assert not frontend.time_jump
    assert frontend.counters.odometry.dropped == {'time_backwards': 8}
    for step in range(3):
        frontend.add(A.odometry(0.4 + 0.05 * step))
    assert frontend.time_jump


def test_time_going_backwards_raises_a_flag_until_a_reset():
    frontend = prepared()
    graph_of(frontend)
    for t in (0.0, 0.1):
        assert not frontend.add(A.odometry(t))
    # Single messages with bad stamps are no jump.
    assert frontend.add(A.odometry(2.1))
    for t in (0.2, 0.3):
        assert not frontend.add(A.odometry(t))
    assert not frontend.time_jump
    for t in (0.4, 0.5):
        assert not frontend.add(A.odometry(t))
    assert frontend.time_jump
    assert frontend.counters.time_jumps == 1
    assert frontend.counters.odometry.dropped == {'time_backwards': 6}
    assert any('backwards' in text for text in frontend.warnings)
    frontend.reset()
    assert not frontend.time_jump
    drive(frontend, [A, B], 1.0)
    increment = frontend.take(flush=True)
    assert increment.sequence == 0
    assert increment.poses.index.min() == 0
    assert frontend.counters.odometry.dropped == {}


def test_a_reset_can_keep_the_beacons_where_they_were_found():
    frontend = prepared(radios={'L2': {'beacon': 'L2', 'position': [1.0, 1.0]}})
    frontend.add(range_sample('A', 'L1', 0.5, 3.0))
    frontend.reset(keep_beacons=True, positions={'L1': [4.0, 5.0], 'L2': [9.0, 9.0]}, sigma_m=0.2)
    drive(frontend, [A], 1.0)
    for beacon in ('L1', 'L2'):
        frontend.add(range_sample('A', beacon, 0.5, 3.0))
    graph = graph_of(frontend)
    assert dict(zip(graph.landmarks.names, graph.landmarks.position.tolist(), strict=True)) == {
        'L1': [4.0, 5.0], 'L2': [1.0, 1.0]}
    assert graph.landmarks.fixed[graph.landmarks.names.index('L2')]
    assert graph.point_priors.precision == pytest.approx([25.0])


def test_the_antenna_frame_of_a_message_chooses_the_lever_arm():
    frontend = prepared(radios={
        'front': {'robot': 'A', 'lever_arm': [1.0, 0.0]},
        'A': {'robot': 'A', 'lever_arm': [-1.0, 0.0]}})
    for k, frame in enumerate(('front', '', 'nowhere')):
        frontend.add(range_sample('A', 'L1', 0.5 + 0.1 * k, 3.0, frame_id=frame))
    graph = graph_of(frontend)
    frontends = [prepared(radios={'A': {'robot': 'A', 'lever_arm': lever}})
                 for lever in ([1.0, 0.0], [-1.0, 0.0])]
    for k, other in enumerate((frontends[0], frontends[1], frontends[1])):
        other.add(range_sample('A', 'L1', 0.5 + 0.1 * k, 3.0))
    expected = [graph_of(f).ranges.lever_source for f in frontends]
    assert graph.ranges.lever_source == pytest.approx(np.concatenate(expected))
    assert frontend.counters.ranges.warnings == {'unknown_antenna_frame': 1}
