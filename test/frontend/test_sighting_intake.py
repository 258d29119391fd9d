"""Landmark sightings: from messages to rows of the graph, and what is refused on the way."""

from dataclasses import replace
from types import SimpleNamespace as M

import numpy as np
import pytest
from frontend_world import (
    Frontend,
    Robot,
    config,
    drive,
    graph_of,
    ns,
    range_sample,
    sighting_sample,
    truth,
)

from sparser_ros.config import ConfigError, SparserConfig
from sparser_ros.frontend import Inputs
from sparser_ros.frontend.frames import mounting
from sparser_ros.frontend.motion import rotation_rows
from sparser_ros.graph import squared_residuals

TAGS = {'17': np.array([4.0, 1.0, 0.0]), '18': np.array([-3.0, 2.0, 0.0])}


def world(dimension=2, **values):
    """A front-end that has heard ten seconds of two robots."""
    robots = [Robot(name, dimension, seed) for seed, name in enumerate('AB')]
    frontend = Frontend(config(dimension=dimension, **{
        'sightings.new_landmark_sightings': 1, **values}))
    drive(frontend, robots, 10.0)
    return frontend, robots


@pytest.mark.parametrize('dimension', [2, 3])
def test_between_keyframes_the_odometry_joins_the_sighting(dimension):
    frontend, robots = world(dimension)
    for k in range(40):
        tag = ('17', '18')[k % 2]
        frontend.add(sighting_sample(robots[k % 2], 0.13 + 0.23 * k, tag, TAGS[tag]))
    graph = graph_of(frontend)
    assert len(graph.sightings) == 40 and sorted(graph.landmarks.names) == ['17', '18']
    assert np.all(graph.sightings.point < 0)
    true = truth(graph, robots, TAGS)
    assert np.max(squared_residuals(graph, true)['sightings']) < 1e-12
    distance = np.linalg.norm(graph.sightings.translation, axis=1)
    # Odometry between stamp and keyframe is part of the position, not of the noise.
    assert np.all(graph.sightings.tau <= 1 / 0.05**2)
    assert graph.sightings.tau == pytest.approx(1 / (0.05**2 + (0.03 * distance) ** 2), rel=0.3)
    assert frontend.counters.sightings.accepted == 40 and frontend.counters.sightings.balanced


@pytest.mark.parametrize('dimension', [2, 3])
@pytest.mark.parametrize('key', ['eye', 'A'])
def test_a_camera_that_looks_aside(dimension, key):
    """The position and its covariance are turned from the optical frame into the base frame."""
    mounted = [0.3, -0.1, 0.4, -np.pi / 2, 0.0, -0.3]
    frontend, robots = world(dimension, **{'sightings.sensor_poses': {key: mounted}})
    sensor = mounting(mounted)
    turn, move = np.array(rotation_rows(sensor[3:])), np.array(sensor[:3])
    plain = sighting_sample(robots[0], 3.0, '17', TAGS['17'])
    optical = {
        'position_xyz': turn.T @ (plain.position_xyz - move), 'frame_id': 'eye',
        'covariance': np.diag([0.01, 0.02, 0.09])}
    frontend.add(sighting_sample(robots[0], 3.0, '17', TAGS['17'], **optical))
    graph = graph_of(frontend)
    table = graph.sightings
    assert squared_residuals(graph, truth(graph, robots, TAGS))['sightings'][0] < 1e-12
    # The optical axis, of 0.3 m noise, is the horizontal one.
    wanted = np.mean(np.diagonal(turn @ optical['covariance'] @ turn.T)[:dimension])
    assert 1 / table.tau[0] == pytest.approx(wanted)


NAN = float('nan')


@pytest.mark.parametrize(('changes', 'reason'), [
    ({'robot': 'Z'}, 'unknown_robot'),
    ({'landmark': ''}, 'no_landmark'),
    ({'landmark': 'B'}, 'robot_seen'),
    ({'position_xyz': np.array([NAN, 0.0, 0.0])}, 'not_finite'),
    ({'position_xyz': np.array([1e9, 0.0, 0.0])}, 'out_of_bounds'),
    ({'position_xyz': np.zeros(3)}, 'too_near'),
    ({'position_xyz': np.array([200.0, 0.0, 0.0])}, 'too_far'),
    ({'frame_id': 'camera'}, 'unknown_frame'),
    ({'stamp_ns': 2**62}, 'stamp_out_of_bounds'),
    ({'stamp_ns': ns(500.0)}, 'in_the_future'),
    ({'stamp_ns': ns(-50.0)}, 'before_odometry'),
])
def test_what_is_no_sighting_is_counted_by_reason(changes, reason):
    frontend, robots = world()
    sample = sighting_sample(robots[0], 3.0, '17', TAGS['17'])
    frontend.add(replace(sample, **changes))
    assert len(graph_of(frontend).sightings) == 0
    assert frontend.counters.sightings.dropped == {reason: 1}
    if reason == 'unknown_frame':
        (one,) = [f for f in frontend.findings if f.kind == 'sighting_frame']
        assert "'camera'" in one.text and 'sightings.sensor_poses' in one.text


@pytest.mark.parametrize('spread', [
    np.full((3, 3), NAN), -np.eye(3), np.diag([1e300, 1e300, 1e300])])
def test_a_bad_covariance_gives_way_to_the_configured_noise(spread):
    frontend, robots = world()
    frontend.add(sighting_sample(robots[0], 3.0, '17', TAGS['17'], covariance=spread))
    (tau,) = graph_of(frontend).sightings.tau
    assert 1e-3 < 1 / tau < 1.0
    assert sum(frontend.counters.sightings.warnings.values()) == 1


def test_copies_and_pictures_in_a_row_count_once():
    frontend, robots = world()
    for t in (2.0, 2.0, 2.03, 2.06, 2.5):
        frontend.add(sighting_sample(robots[0], t, '17', TAGS['17']))
    assert len(graph_of(frontend).sightings) == 2
    assert frontend.counters.sightings.dropped == {'duplicate': 1, 'decimated': 2}


def test_a_name_counts_once_it_was_seen_often_enough():
    frontend, robots = world(**{'sightings.new_landmark_sightings': 3})
    for k in range(3):
        frontend.add(sighting_sample(robots[0], 1.0 + k, '17', TAGS['17']))
        if k < 2:
            assert len(graph_of(frontend, flush=False).sightings) == 0
    frontend.add(sighting_sample(robots[0], 2.0, '4711', TAGS['18']))
    # Without an end of the data the other name stays what it is, a number read once.
    assert graph_of(frontend, flush=False).landmarks.names == ('17',)
    assert frontend.counters.sightings.accepted == 3 and frontend.counters.sightings.waiting == 1


def test_unknown_landmarks_are_ignored_on_request():
    frontend, robots = world(**{
        'sightings.unknown_landmarks': 'ignore', 'radios': {'17': {'beacon': 'door'}}})
    for tag in TAGS:
        frontend.add(sighting_sample(robots[0], 2.0, tag, TAGS[tag]))
    assert graph_of(frontend).landmarks.names == ('door',)
    assert frontend.counters.sightings.dropped == {'unknown_landmark': 1}


def test_a_tag_on_a_beacon_is_the_landmark_that_ranges_are_to():
    known = {'door': {'beacon': 'door', 'position': [4.0, 1.0]}, '17': {'beacon': 'door'}}
    frontend, robots = world(radios=known)
    frontend.add(range_sample('A', 'door', 2.0, 5.0))
    frontend.add(sighting_sample(robots[0], 3.0, '17', TAGS['17']))
    graph = graph_of(frontend)
    assert graph.landmarks.names == ('door',) and graph.landmarks.fixed.tolist() == [True]
    assert graph.ranges.target.tolist() == graph.sightings.point.tolist() == [~0]


def message(kind, place, stamp_ns):
    """A `geometry_msgs` message by its field names."""
    point = M(x=place[0], y=place[1], z=place[2])
    header = M(frame_id='', stamp=M(sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9))
    if kind == 'PointStamped':
        return M(header=header, point=point)
    pose = M(position=point, orientation=None)
    return M(header=header, pose=pose if kind == 'PoseStamped' else M(
        pose=pose, covariance=np.eye(6).ravel() * 0.04))


@pytest.mark.parametrize('kind', ['PointStamped', 'PoseStamped', 'PoseWithCovarianceStamped'])
@pytest.mark.parametrize('topic', [
    '/{robot}/tags/(?P<landmark>[^/]+)/pose', '/(?P<robot>[^/]+)/tags/(?P<landmark>[^/]+)/pose'])
def test_topics_of_single_landmarks(kind, topic):
    frontend, robots = world(**{'sightings.inputs': {'tags': {
        'topic': topic, 'adapter': 'pose_topic', 'landmark_format': 'tag{id}',
        'type': f'geometry_msgs/msg/{kind}'}}})
    inputs = Inputs(frontend.config)
    assert inputs.match('/A/tags/17/other') is None
    route = inputs.match('/A/tags/17/pose')
    assert (route.kind, route.type) == ('sightings', f'geometry_msgs/msg/{kind}')
    sample = sighting_sample(robots[0], 2.0, '17', TAGS['17'])
    frontend.feed(route, message(kind, sample.position_xyz, sample.stamp_ns), sample.received_ns)
    graph = graph_of(frontend)
    assert graph.landmarks.names == ('tag17',)
    assert squared_residuals(graph, truth(graph, robots, {'tag17': TAGS['17']}))[
        'sightings'][0] < 1e-12
    if kind == 'PoseWithCovarianceStamped':
        assert 1 / graph.sightings.tau[0] == pytest.approx(0.04)


@pytest.mark.parametrize(('values', 'words'), [
    ({'sightings.inputs': {'x': {'topic': '/t/(', 'adapter': 'pose_topic'}}}, 'regular expression'),
    ({'sightings.inputs': {'x': {'topic': '/{robot}/t', 'adapter': 'pose_topic'}}}, 'landmark'),
    ({'sightings.inputs': {'x': {'topic': '/(?P<landmark>.*)', 'adapter': 'pose_topic'}}}, 'robot'),
    ({'sightings.sensor_poses': {'eye': [1.0, 2.0]}}, 'sightings.sensor_poses.eye'),
    ({'sightings.min_m': 200.0}, 'sightings.min_m'),
])
def test_what_is_no_configuration_is_named(values, words):
    with pytest.raises(ConfigError, match=words):
        SparserConfig.from_mapping({'robots': ['A', 'B'], **values})
