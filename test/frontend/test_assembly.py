"""Measurements between keyframes act through lever arms, exactly where motion is noise-free."""

import numpy as np
import pytest
from frontend_world import Robot, config, driven, graph_of, ns, range_sample, truth

from sparser_ros.frontend import Frontend
from sparser_ros.frontend.frames import mounting
from sparser_ros.frontend.motion import rotation_rows
from sparser_ros.graph import squared_residuals

LEVERS = {'a1': np.array([0.3, -0.2, 0.4]), 'b1': np.array([-0.1, 0.25, 0.4])}
BEACON = np.array([3.0, -2.0, 0.4])
TAGS = {'17': np.array([4.0, 1.0, 0.0]), '18': np.array([-3.0, 2.0, 0.0])}
RADIOS = {'a1': {'robot': 'A', 'lever_arm': LEVERS['a1'].tolist()},
          'b1': {'robot': 'B', 'lever_arm': LEVERS['b1'].tolist()},
          'L1': {'beacon': 'L1', 'position': BEACON.tolist()}}
SPARSE = {'distance_m': float('inf'), 'angle_rad': float('inf'), 'time_s': 1.0}


def looking(seconds=10.0, dimension=2, often=1, **values):
    """Two robots that take every tag for a landmark once they have seen it so often."""
    return driven(seconds, dimension, **{'sightings.new_landmark_sightings': often, **values})


@pytest.mark.parametrize(('table', 'count', 'use'), [
    ('ranges', 54, 'auto'), ('relative_poses', 23, 'auto'), ('point_priors', 4, 'position'),
    ('pose_priors', 4, 'pose'), ('sightings', 20, 'auto')])
def test_measurements_between_keyframes_are_exact(dimension, table, count, use):
    lever = np.array([0.2, 0.1, 0.3])
    frontend, (a, b) = looking(6.0, dimension, radios=RADIOS, keyframes=SPARSE, fixes={
        'topic': '/{robot}/fix', 'use': use, 'lever_arms': {'A': lever.tolist()}})
    if table == 'ranges':
        for k, t in enumerate(np.linspace(0.05, 5.87, 40)):
            one, other = a.antenna(t, LEVERS['a1']), b.antenna(t, LEVERS['b1'])
            assert frontend.add(range_sample('a1', 'b1', t, np.linalg.norm(one - other)))
            if k % 3 == 0:
                frontend.add(range_sample('a1', 'L1', t, np.linalg.norm(one - BEACON)))
    elif table == 'relative_poses':
        for t, s in np.random.default_rng(3).uniform(0.0, 5.9, (10, 2)):
            assert frontend.add(a.closure(t, b, s))
        frontend.add(a.closure(0.3, a, 5.2))
    elif table == 'sightings':
        for k in range(20):
            tag = ('17', '18')[k % 2]
            assert frontend.add((a, b)[k % 2].sighting(0.13 + 0.29 * k, tag, TAGS[tag]))
    else:
        for t in (0.0, 0.33, 1.7, 3.96):
            assert frontend.add(a.fix(t, lever))
    graph = graph_of(frontend).validate()
    assert graph.n_poses == 14
    assert len(graph.tables()[table]) == count
    # Stamps are whole nanoseconds: errors of a nanometre.
    residuals = squared_residuals(graph, truth(graph, [a, b], {'L1': BEACON, **TAGS}))
    assert residuals[table].max() < 1e-12


def test_offset_of_a_closure_turns_its_rotation_noise_into_translation_noise(dimension):
    frontend, (a, b) = driven(4.0, dimension, keyframes=SPARSE)
    frontend.add(a.closure(1.0, b, 2.0))
    frontend.add(a.closure(1.0, b, 2.4))
    frontend.add(a.closure(0.1, a, 0.2))
    graph = graph_of(frontend)
    tau = graph.relative_poses.tau[~graph.relative_poses.odometry]
    assert tau[0] == pytest.approx(1 / 0.01)
    turn, move = b.pose(2.0), b.pose(2.4)
    square = np.sum((turn[1] - move[1])[:dimension] ** 2)
    share = {2: square / 2, 3: 2 * square / 3}[dimension]
    assert 1 / tau[1] == pytest.approx(0.01 + 0.002 * share, rel=1e-9)
    assert frontend.counters['closures'].dropped == {'same_keyframe': 1}


def test_the_heading_of_a_fix_counts_if_its_covariance_vouches_for_it():
    frontend, (a, _) = driven(1.0, fixes={'topic': '/{robot}/fix'})
    frontend.add(a.fix(0.2))
    frontend.add(a.fix(0.4, orientation_covariance=np.diag([0, 0, 100.0])))
    frontend.add(a.fix(0.6, orientation_covariance=np.zeros((3, 3))))
    graph = graph_of(frontend)
    assert graph.pose_priors.kappa == pytest.approx([100.0])
    assert graph.pose_priors.tau == pytest.approx([25.0])
    assert graph.point_priors.precision == pytest.approx([25.0, 25.0])


def test_a_pose_given_by_hand_is_that_of_the_base_whatever_is_said_of_the_sensor(dimension):
    """In space the button of RViz says 0 for z, roll and pitch."""
    frontend, (a, _) = driven(1.0, dimension, keyframes={'every_message': True}, fixes={
        'topic': '/{robot}/fix', 'use': 'position', 'lever_arms': {'A': [1.0, 0.0, 0.0]},
        'min_interval_s': 1.0, 'time_offsets': {'A': 0.3}})
    frontend.add(a.fix(0.1))
    given = a.fix(0.5, covariance=np.diag([0.25, 0.25, 0, 0, 0, 0.07]), initial=True)
    frontend.add(given)
    graph = graph_of(frontend)
    assert graph.point_priors.stamp_ns.tolist() == [ns(0.4)]
    poses, high = graph.pose_priors, a.odometry(0.5).position_xyz[2]
    assert poses.stamp_ns.tolist() == [ns(0.5)]
    assert poses.translation[0] == pytest.approx([*given.position_xyz[:2], high][:dimension])
    assert (poses.tau[0], poses.kappa[0]) == pytest.approx(
        {2: (4.0, 1 / 0.07), 3: (2.0, 0.5 / 0.07)}[dimension])


def test_a_known_beacon_with_sigma_gets_a_prior_and_a_guess():
    frontend, _ = driven(1.0, radios={
        'x': {'beacon': 'L7', 'position': [1.0, 2.0], 'sigma_m': 0.5}})
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
    frontend, _ = driven(1.0, radios={
        'tag': {'robot': 'A', 'lever_arm': [0.0, 0.0, 0.5]},
        'high': {'beacon': 'high', 'height_m': 3.5},
        'unknown': {'beacon': 'unknown'}})
    for target, distance in (('high', 5.0), ('high', 2.9), ('unknown', 5.0)):
        frontend.add(range_sample('tag', target, 0.5 + 0.01 * distance, distance, variance=0.01))
    graph = graph_of(frontend)
    assert sorted(graph.ranges.distance_m) == pytest.approx([4.0, 5.0])
    flat = graph.ranges.distance_m < 4.5
    # r = sqrt(d^2 - h^2): sigma grows by d / r.
    assert graph.ranges.precision[flat] == pytest.approx([100 * (4.0 / 5.0) ** 2])
    assert frontend.counters['ranges'].dropped == {'shorter_than_height_difference': 1}


def test_ranges_wait_for_odometry_and_time_out_in_data_time():
    frontend, (a, _) = driven(1.0, stamps={'timeout_s': 2.0})
    frontend.add(range_sample('A', 'B', 1.15, 3.0))
    frontend.add(range_sample('A', 'B', 1.6, 3.0))
    graph = graph_of(frontend, flush=False)
    assert len(graph.ranges) == 0
    assert frontend.counters['ranges'].waiting == 2
    for step in range(11, 50):
        frontend.add(a.odometry(step * 0.1))
    graph = graph_of(frontend, flush=False, graph=graph)
    # B ended at 1.0: 0.15 s can be bridged, 0.6 s cannot.
    assert len(graph.ranges) == 1
    assert frontend.counters['ranges'].as_dict() == {
        'received': 2, 'accepted': 1, 'merged': 0, 'waiting': 0,
        'dropped': {'after_odometry': 1}, 'warnings': {}}


def test_no_interpolation_across_a_gap_and_none_before_the_start():
    frontend, a = Frontend(config()), Robot('A', 2, 1)
    for t in (0.0, 0.1, 5.0, 5.1):
        frontend.add(a.odometry(t))
    for t in (-1.0, -0.1, 0.2, 2.5, 4.9):
        frontend.add(range_sample('A', 'L1', t, 3.0))
    assert len(graph_of(frontend).ranges) == 3
    assert frontend.counters['ranges'].dropped == {'before_odometry': 1, 'odometry_gap': 1}


def test_odometry_that_is_always_slow_is_interpolated():
    frontend, a = Frontend(config()), Robot('A', 2, 1)
    for t in (0.0, 2.5, 5.0, 7.5, 17.5):
        frontend.add(a.odometry(t))
    for t in (1.2, 3.7, 6.1, 12.0):
        frontend.add(range_sample('A', 'L1', t, 3.0))
    # Nothing tells at first that the rate is usual, and 10 s are a gap at this one too.
    assert len(graph_of(frontend).ranges) == 2
    assert frontend.counters['ranges'].dropped == {'odometry_gap': 2}


@pytest.mark.parametrize('key', ['eye', 'A'])
def test_a_camera_that_looks_aside(dimension, key):
    mounted = [0.3, -0.1, 0.4, -np.pi / 2, 0.0, -0.3]
    frontend, robots = looking(
        dimension=dimension, **{'sightings.sensor_poses': {key: mounted}})
    sensor = mounting(mounted)
    turn, move = np.array(rotation_rows(sensor[3:])), np.array(sensor[:3])
    plain = robots[0].sighting(3.0, '17', TAGS['17'])
    covariance = np.diag([0.01, 0.02, 0.09])
    frontend.add(robots[0].sighting(
        3.0, '17', TAGS['17'], frame_id='eye', covariance=covariance,
        position_xyz=turn.T @ (plain.position_xyz - move)))
    graph = graph_of(frontend)
    assert squared_residuals(graph, truth(graph, robots, TAGS))['sightings'][0] < 1e-12
    # The optical axis, of 0.3 m noise, is the horizontal one.
    wanted = np.mean(np.diagonal(turn @ covariance @ turn.T)[:dimension])
    assert 1 / graph.sightings.tau[0] == pytest.approx(wanted)


def test_copies_and_pictures_in_a_row_count_once():
    frontend, (a, _) = looking()
    for t in (2.0, 2.0, 2.03, 2.06, 2.5):
        frontend.add(a.sighting(t, '17', TAGS['17']))
    table = graph_of(frontend).sightings
    distance = np.linalg.norm(table.translation, axis=1)
    # Odometry between stamp and keyframe is part of the position, not of the noise.
    assert table.tau == pytest.approx(1 / (0.05**2 + (0.03 * distance) ** 2), rel=0.3)
    assert len(table) == 2 and np.all(table.tau <= 1 / 0.05**2)
    assert frontend.counters['sightings'].dropped == {'duplicate': 1, 'decimated': 2}


def test_a_name_counts_once_it_was_seen_often_enough():
    frontend, (a, _) = looking(often=3)
    for k in range(3):
        frontend.add(a.sighting(1.0 + k, '17', TAGS['17']))
        if k < 2:
            assert len(graph_of(frontend, flush=False).sightings) == 0
    frontend.add(a.sighting(2.0, '4711', TAGS['18']))
    # Without an end of the data the other name stays what it is, a number read once.
    assert graph_of(frontend, flush=False).landmarks.names == ('17',)
    counted = frontend.counters['sightings']
    assert (counted.accepted, counted.waiting) == (3, 1)


def test_a_tag_on_a_beacon_is_the_landmark_that_ranges_are_to():
    known = {'door': {'beacon': 'door', 'position': [4.0, 1.0]}, '17': {'beacon': 'door'}}
    frontend, (a, _) = looking(radios=known)
    frontend.add(range_sample('A', 'door', 2.0, 5.0))
    frontend.add(a.sighting(3.0, '17', TAGS['17']))
    graph = graph_of(frontend)
    assert graph.landmarks.names == ('door',) and graph.landmarks.fixed.tolist() == [True]
    assert graph.ranges.target.tolist() == graph.sightings.point.tolist() == [~0]
