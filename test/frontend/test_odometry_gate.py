"""Odometry is believed within reason: each rule on seeded robots, in the plane and in space."""

import random
from dataclasses import replace

import numpy as np
import pytest
from frontend_world import Robot, config, graph_of, range_sample
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sparser_ros.frontend import Frontend
from sparser_ros.frontend.odometry import STEP_SLACK_M


@pytest.fixture(params=[1, 2])
def seed(request):
    return request.param


def readings(robot, seconds, period=0.1, **changes):
    return [robot.odometry(k * period, **changes) for k in range(round(seconds / period) + 1)]


def later(sample, seconds):
    shift = round(seconds * 1e9)
    return replace(
        sample, stamp_ns=sample.stamp_ns + shift, received_ns=sample.received_ns + shift)


def moved(sample, offset):
    return replace(sample, position_xyz=sample.position_xyz + offset)


def fed(samples, dimension=2, **values):
    frontend = Frontend(config(dimension=dimension, **values))
    for sample in samples:
        frontend.add(sample)
    return frontend, graph_of(frontend)


def segments(graph, robot=0):
    """Number of odometry segments of a robot: its keyframes less the edges between them."""
    edges = graph.relative_poses
    mine = graph.poses.robot[edges.j] == robot
    return int(np.sum(graph.poses.robot == robot) - np.sum(mine & edges.odometry))


def kinds(frontend):
    return [found.kind for _, found in frontend.events]


def texts(frontend):
    return ' '.join(found.text for _, found in frontend.events)


@pytest.mark.parametrize('period', [0.02, 0.1, 1.0])
def test_possible_motion_is_one_segment_and_no_word(dimension, seed, period):
    frontend = Frontend(config(dimension=dimension))
    for number, sample in enumerate(readings(Robot('A', dimension, seed), 40.0, period)):
        frontend.add(sample)
        assert not number or frontend.latest_odometry('A')[0] == sample.stamp_ns, 'it waits'
    assert segments(graph_of(frontend)) == 1
    assert frontend.findings == () and not frontend.events
    assert frontend.counters['odometry'].accepted == frontend.counters['odometry'].received


@pytest.mark.parametrize('metres', [2.0, 38.0, 4000.0])
def test_a_jump_begins_a_segment_and_is_named(dimension, seed, metres):
    samples = readings(Robot('A', dimension, seed), 20.0)
    samples[100:] = [moved(s, np.array([metres, 0.0, 0.0])) for s in samples[100:]]
    heard = [range_sample('A', 'L1', 0.1 * k + 0.03, 5.0) for k in range(1, len(samples), 2)]
    frontend, graph = fed(
        sorted([*samples, *heard], key=lambda sample: sample.stamp_ns), dimension)
    assert segments(graph) == 2
    assert kinds(frontend) == ['odometry_jump']
    (finding,) = frontend.findings
    assert finding.subject == 'A' and 'the odometry of A jumped by' in finding.text
    assert finding.value == pytest.approx(metres, abs=0.5)
    assert '10.0 s after its start' in finding.text
    assert frontend.counters['odometry'].accepted == len(samples)
    assert frontend.counters['ranges'].accepted == len(heard)
    assert np.linalg.norm(graph.ranges.lever_source, axis=1).max() < 2.0
    edges = graph.relative_poses
    assert np.linalg.norm(edges.translation, axis=1).max() < 1.0


def test_a_restart_at_the_origin_begins_a_segment_also_after_a_silence(dimension, seed):
    robot = Robot('A', dimension, seed)
    robot.velocity = robot.velocity / np.linalg.norm(robot.velocity)
    for silence in (0.1, 4.0, 30.0):
        samples = readings(robot, 20.0)
        late = [later(sample, 20 + silence) for sample in readings(robot, 10.0)]
        frontend, graph = fed(samples + late, dimension)
        assert segments(graph) == 2, silence
        (kind,) = kinds(frontend)
        assert kind in ('odometry_jump', 'odometry_restart')
        assert frontend.counters['odometry'].accepted == len(samples) + len(late)


@pytest.mark.parametrize('absurd', [8.0, 1e6])
@pytest.mark.parametrize('at', [0, 2, 50, 199])
def test_one_absurd_message_is_dropped_and_named(dimension, seed, absurd, at):
    samples = readings(Robot('A', dimension, seed), 20.0)
    clean = fed(samples[:at] + samples[at + 1:], dimension)[1]
    samples[at] = moved(samples[at], np.array([0.0, absurd, 0.0]))
    frontend, graph = fed(samples, dimension)
    assert frontend.counters['odometry'].dropped == {'implausible': 1}
    assert kinds(frontend) == ['odometry_outlier']
    assert segments(graph) == 1
    assert np.array_equal(graph.poses.translation, clean.poses.translation)


def test_two_sources_on_one_topic_are_told(dimension, seed):
    samples = readings(Robot('A', dimension, seed), 20.0)
    other = [later(moved(sample, np.array([3.0, 8.0, 0.0])), 0.01) for sample in samples]
    both = samples[:6] + [one for k in range(6, len(samples)) for one in (samples[k], other[k])]
    frontend, graph = fed(both, dimension)
    assert segments(graph) == 1 and set(kinds(frontend)) == {'odometry_outlier', 'odometry_sources'}
    assert 'as if two sources published it' in texts(frontend)
    assert frontend.counters['odometry'].accepted == len(samples)


@pytest.mark.parametrize(('last', 'count'), [(600, 1), (1600, 2)])
def test_a_silence_widens_the_edge_and_a_long_one_begins_a_segment(dimension, seed, last, count):
    samples = [s for k, s in enumerate(readings(Robot('A', dimension, seed), 0.1 * last + 20.0))
               if not 200 < k < last]
    frontend, graph = fed(samples, dimension)
    assert segments(graph) == count and kinds(frontend) == ['odometry_gap']
    seconds = frontend.events[0][1].value
    assert seconds == pytest.approx(0.1 * (last - 200))
    assert f'{seconds:.1f} s' in texts(frontend)
    if count == 1:
        edges = graph.relative_poses
        assert np.min(edges.tau) < np.median(edges.tau) / 10


def test_a_robot_that_falls_silent_is_named_while_it_is():
    frontend = Frontend(config())
    a, b = Robot('A', 2, 1), Robot('B', 2, 2)
    for k in range(300):
        frontend.add(a.odometry(0.1 * k))
        if k < 100 or k > 200:
            frontend.add(b.odometry(0.1 * k))
        named = [f.subject for f in frontend.findings if f.kind == 'odometry_silent']
        assert named == (['B'] if 150 <= k <= 201 else []), k


def test_messages_out_of_order_are_sorted_in(dimension, seed):
    robot, rng = Robot('A', dimension, seed), np.random.default_rng(seed)
    samples = readings(robot, 60.0)
    order = np.argsort([k * 0.1 + rng.uniform(0.0, 0.25) for k in range(len(samples))])
    frontend, graph = fed([samples[k] for k in order], dimension)
    assert segments(graph) == 1
    counters = frontend.counters['odometry']
    # All but the first one, until newer ones wait for older ones.
    assert counters.dropped == {'out_of_order': 1} and not frontend.events
    assert counters.accepted == len(samples) - 1


def test_one_robot_whose_clock_goes_back_does_not_erase_the_map_of_the_others():
    a, b = (readings(Robot(name, 2, seed), 19.9) for name, seed in (('A', 1), ('B', 2)))
    a[100:] = [replace(sample, stamp_ns=sample.stamp_ns - 60_000_000_000) for sample in a[100:]]
    frontend, _ = fed(sample for both in zip(a, b, strict=True) for sample in both)
    assert not frontend.time_jump
    assert any(f.kind == 'odometry_backwards' and f.subject == 'A' for f in frontend.findings)


@pytest.mark.parametrize('metres', [0.0, 1e3])
@pytest.mark.parametrize('ahead_s', [0.25, 0.5, 2.0, 4.9, 9.0])
def test_one_stamp_somewhat_ahead_costs_that_message_and_not_the_map(ahead_s, metres):
    """One robot: nobody else's odometry says that time goes on."""
    samples = readings(Robot('A', 2, 1), 19.9)
    samples[100] = replace(moved(samples[100], np.array([metres, 0.0, 0.0])),
                           stamp_ns=samples[100].stamp_ns + round(ahead_s * 1e9))
    frontend, _ = fed(samples)
    assert not frontend.time_jump
    counters = frontend.counters['odometry']
    # Fewer than JUMP_MESSAGES periods ahead it is believed, and the right ones are late.
    assert counters.accepted >= 199 - (3 if ahead_s < 0.3 else 0), counters.as_dict()


def test_one_stamp_far_ahead_is_dropped_and_several_are_a_jump():
    robot = Robot('A', 2, 1)
    for bad in (1, 2, 40):
        frontend = Frontend(config())
        for k in range(100):
            frontend.add(robot.odometry(0.1 * k))
        for k in range(bad):
            frontend.add(robot.odometry(
                3000 + 10 + 0.1 * k, received_ns=robot.odometry(10 + 0.1 * k).received_ns))
        if bad < 3:
            for k in range(bad, 100):
                assert frontend.add(robot.odometry(10 + 0.1 * k))
            assert frontend.counters['odometry'].dropped == {'in_the_future': bad}
            assert any('3000' in f.text and f.subject == 'A' for f in frontend.findings)
        else:
            graph = graph_of(frontend)
            assert frontend.counters['odometry'].dropped['in_the_future'] <= 3
            assert segments(graph) == 2


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False), st.sampled_from([2, 3]),
       st.lists(st.tuples(st.integers(5, 150), st.floats(-1e7, 1e7), st.integers(1, 12)),
                max_size=6))
@example(random.Random(2), 2, [(96, 10.0, 6), (101, 17.0, 3)])
def test_whatever_jumps_each_segment_is_smooth_and_all_is_counted(draw, dimension, jumps):
    robot = Robot('A', dimension, draw.randint(1, 5))
    samples = readings(robot, 20.0)
    for begin, offset, length in jumps:
        for k in range(begin, min(begin + length, len(samples))):
            samples[k] = moved(samples[k], np.array([offset, 0.0, 0.0]))
    frontend, graph = fed(samples, dimension)
    counters = frontend.counters['odometry']
    assert counters.balanced and counters.waiting == 0
    # Beside positions beyond all bounds good ones are not believed, either.
    assert counters.accepted >= len(samples) - 1 - counters.dropped['among_absurd'] - sum(
        length for _, _, length in jumps)
    edges = graph.relative_poses
    assert segments(graph) >= 1
    assert np.all(np.isfinite(edges.translation))
    # Whatever is believed, no robot is faster than the configuration allows.
    seconds = (graph.poses.stamp_ns[edges.j] - graph.poses.stamp_ns[edges.i]) * 1e-9
    most = seconds * (config().odometry.max_speed_m_per_s + STEP_SLACK_M / 0.1)
    assert np.all(np.linalg.norm(edges.translation, axis=1) <= most + 1e-6)
