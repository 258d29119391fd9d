"""Measurements between keyframes act through lever arms, exactly where motion is noise-free."""

import numpy as np
import pytest
from frontend_world import (
    Robot,
    closure_sample,
    config,
    drive,
    fix_sample,
    graph_of,
    range_sample,
    truth,
)

from sparser_ros.frontend import Frontend
from sparser_ros.graph import squared_residuals

LEVERS = {'a1': np.array([0.3, -0.2, 0.4]), 'b1': np.array([-0.1, 0.25, 0.4])}
BEACON = np.array([3.0, -2.0, 0.4])


def setting(dimension, **values):
    """Two robots with antennas off their base, sparse keyframes."""
    robots = [Robot('A', dimension, 1), Robot('B', dimension, 2)]
    frontend = Frontend(config(
        dimension=dimension,
        radios={'a1': {'robot': 'A', 'lever_arm': LEVERS['a1'].tolist()},
                'b1': {'robot': 'B', 'lever_arm': LEVERS['b1'].tolist()},
                'L1': {'beacon': 'L1', 'position': BEACON.tolist()}},
        keyframes={'distance_m': float('inf'), 'angle_rad': float('inf'), 'time_s': 1.0},
        **values))
    return frontend, robots


@pytest.mark.parametrize('dimension', [2, 3])
@pytest.mark.parametrize(('table', 'count', 'use'), [
    ('ranges', 54, 'auto'), ('relative_poses', 11, 'auto'), ('point_priors', 4, 'position'),
    ('pose_priors', 4, 'pose')])
def test_measurements_between_keyframes_are_exact(dimension, table, count, use):
    lever = np.array([0.2, 0.1, 0.3])
    frontend, (a, b) = setting(dimension, fixes={
        'topic': '/{robot}/fix', 'use': use, 'lever_arms': {'A': lever.tolist()}})
    drive(frontend, [a, b], 6.0)
    if table == 'ranges':
        for k, t in enumerate(np.linspace(0.05, 5.87, 40)):
            one, other = a.antenna(t, LEVERS['a1']), b.antenna(t, LEVERS['b1'])
            assert frontend.add(range_sample('a1', 'b1', t, np.linalg.norm(one - other)))
            if k % 3 == 0:
                frontend.add(range_sample('a1', 'L1', t, np.linalg.norm(one - BEACON)))
    elif table == 'relative_poses':
        for t, s in np.random.default_rng(3).uniform(0.0, 5.9, (10, 2)):
            assert frontend.add(closure_sample(a, t, b, s))
        frontend.add(closure_sample(a, 0.3, a, 5.2))
    else:
        for t in (0.0, 0.33, 1.7, 3.96):
            assert frontend.add(fix_sample(a, t, lever))
    graph = graph_of(frontend).validate()
    assert graph.n_poses == 14
    assert len(graph.tables()[table]) == count + (12 if table == 'relative_poses' else 0)
    # Stamps are whole nanoseconds: errors of a nanometre.
    residuals = squared_residuals(graph, truth(graph, [a, b], {'L1': BEACON}))
    assert residuals[table].max() < 1e-14


@pytest.mark.parametrize('dimension', [2, 3])
def test_offset_of_a_closure_turns_its_rotation_noise_into_translation_noise(dimension):
    frontend, (a, b) = setting(dimension)
    drive(frontend, [a, b], 4.0)
    frontend.add(closure_sample(a, 1.0, b, 2.0))
    frontend.add(closure_sample(a, 1.0, b, 2.4))
    graph = graph_of(frontend)
    tau = graph.relative_poses.tau[~graph.relative_poses.odometry]
    assert tau[0] == pytest.approx(1 / 0.01)
    turn, move = b.pose(2.0), b.pose(2.4)
    square = np.sum((turn[1] - move[1])[:dimension] ** 2)
    share = {2: square / 2, 3: 2 * square / 3}[dimension]
    assert 1 / tau[1] == pytest.approx(0.01 + 0.002 * share, rel=1e-9)


def test_the_heading_of_a_fix_counts_if_its_covariance_vouches_for_it():
    frontend, (a, b) = setting(2, fixes={'topic': '/{robot}/fix'})
    drive(frontend, [a, b], 1.0)
    frontend.add(fix_sample(a, 0.2))
    frontend.add(fix_sample(a, 0.4, orientation_covariance=np.diag([0, 0, 100.0])))
    frontend.add(fix_sample(a, 0.6, orientation_covariance=np.zeros((3, 3))))
    graph = graph_of(frontend)
    assert (len(graph.pose_priors), len(graph.point_priors)) == (1, 2)
    assert graph.pose_priors.kappa == pytest.approx([100.0])
    assert graph.pose_priors.tau == pytest.approx([25.0])
    assert graph.point_priors.precision == pytest.approx([25.0, 25.0])


def test_a_known_beacon_with_sigma_gets_a_prior_and_a_guess():
    frontend = Frontend(config(radios={
        'x': {'beacon': 'L7', 'position': [1.0, 2.0], 'sigma_m': 0.5}}))
    robots = [Robot('A', 2, 1), Robot('B', 2, 2)]
    drive(frontend, robots, 1.0)
    frontend.add(range_sample('A', 'x', 0.5, 4.0))
    frontend.add(range_sample('B', 'new', 0.5, 4.0))
    graph = graph_of(frontend)
    assert graph.landmarks.names == ('L7', 'new')
    assert not graph.landmarks.fixed.any()
    assert graph.landmarks.position[0].tolist() == [1.0, 2.0]
    assert np.isnan(graph.landmarks.position[1]).all()
    assert graph.point_priors.point.tolist() == [-1]
    assert graph.point_priors.precision == pytest.approx([4.0])


def test_slant_ranges_are_reduced_to_the_plane():
    frontend = Frontend(config(radios={
        'tag': {'robot': 'A', 'lever_arm': [0.0, 0.0, 0.5]},
        'high': {'beacon': 'high', 'height_m': 3.5},
        'unknown': {'beacon': 'unknown'}}))
    drive(frontend, [Robot('A', 2, 1)], 1.0)
    for target, distance in (('high', 5.0), ('high', 2.9), ('unknown', 5.0)):
        frontend.add(range_sample('tag', target, 0.5 + 0.01 * distance, distance,
                                        variance=0.01))
    graph = graph_of(frontend)
    assert sorted(graph.ranges.distance_m) == pytest.approx([4.0, 5.0])
    flat = graph.ranges.distance_m < 4.5
    # r = sqrt(d^2 - h^2): sigma grows by d / r.
    assert graph.ranges.precision[flat] == pytest.approx([100 * (4.0 / 5.0) ** 2])
    assert frontend.counters.ranges.dropped == {'shorter_than_height_difference': 1}


def test_ranges_wait_for_odometry_and_time_out_in_data_time():
    frontend = Frontend(config(stamps={'timeout_s': 2.0}))
    a, b = Robot('A', 2, 1), Robot('B', 2, 2)
    drive(frontend, [a, b], 1.0)
    frontend.add(range_sample('A', 'B', 1.15, 3.0))
    frontend.add(range_sample('A', 'B', 1.6, 3.0))
    graph = graph_of(frontend, flush=False)
    assert len(graph.ranges) == 0
    assert frontend.counters.ranges.waiting == 2
    for step in range(11, 50):
        frontend.add(a.odometry(step * 0.1))
    graph = graph_of(frontend, flush=False, graph=graph)
    # B ended at 1.0: 0.15 s can be bridged, 0.6 s cannot.
    assert len(graph.ranges) == 1
    assert frontend.counters.ranges.as_dict() == {
        'received': 2, 'accepted': 1, 'merged': 0, 'waiting': 0,
        'dropped': {'after_odometry': 1}, 'warnings': {}}


def test_no_interpolation_across_a_gap_and_none_before_the_start():
    frontend = Frontend(config())
    a = Robot('A', 2, 1)
    for t in (0.0, 0.1, 5.0, 5.1):
        frontend.add(a.odometry(t))
    for t in (-1.0, -0.1, 0.2, 2.5, 4.9):
        frontend.add(range_sample('A', 'L1', t, 3.0))
    assert len(graph_of(frontend).ranges) == 3
    assert frontend.counters.ranges.dropped == {'before_odometry': 1, 'odometry_gap': 1}


def test_a_closure_of_one_keyframe_with_itself_says_nothing():
    frontend, (a, b) = setting(2)
    drive(frontend, [a, b], 1.0)
    frontend.add(closure_sample(a, 0.1, a, 0.2))
    graph_of(frontend)
    assert frontend.counters.closures.dropped == {'same_keyframe': 1}
