"""Messages of other drivers and SLAM front-ends, by field names alone; topics that do not fit."""

import math
from dataclasses import make_dataclass
from types import SimpleNamespace as M

import numpy as np
import pytest
from frontend_world import Robot, config, drive, feed, graph_of, ns

from sparser_ros.config import ConfigError, SparserConfig
from sparser_ros.frontend import Frontend, Inputs
from sparser_ros.frontend.inputs import ODOMETRY_TYPE, topic_findings
from sparser_ros.frontend.samples import Refused

RECEIVED = 5_000_000_000
UWB, UNUSED = 'sparser_ros/msg/UwbRange', {
    '/B/odom': ODOMETRY_TYPE, '/A/truth': ODOMETRY_TYPE, '/C/odom': ODOMETRY_TYPE,
    '/camera': 'sensor_msgs/msg/Image'}
PAIRS = {'ranges': {'inputs': {'tof': {
    'topic': '/tof/(?P<source>.*)/(?P<target>.*)', 'adapter': 'pair_topic'}}}}


def time(seconds):
    return M(sec=int(seconds), nanosec=round(seconds % 1 * 1e9))


def header(seconds, frame=''):
    return M(stamp=time(seconds), frame_id=frame)


PLACE, UPRIGHT = M(x=1.0, y=2.0, z=3.0), M(x=0.0, y=0.0, z=0.0, w=1.0)
POSE = M(position=PLACE, orientation=UPRIGHT)
TRANSFORM = M(translation=PLACE, rotation=UPRIGHT)


def inputs(kind='ranges', **spec):
    return Inputs(config(**{kind: {'inputs': {'x': spec}}}))


def decoded(found, topic, message, type_name=''):
    return list(found.match(topic, type_name).decode(message, RECEIVED))


def test_pair_topics():
    found = inputs(topic=r'/uwb/tof/n_(?P<source>\d+)/n_(?P<target>\d+)/distance',
                   adapter='pair_topic', radio_format='n{id}', scale=0.01)
    assert found.pattern_kinds
    assert found.match('/uwb/tof/n_1/distance') is None
    topic = '/uwb/tof/n_1/n_12/distance'
    assert found.match(topic, 'std_msgs/msg/Float64').type == 'std_msgs/msg/Float64'
    message = M(header=header(2.5), range=350.0, max_range=0.0, variance=4.0)
    (sample,) = decoded(found, topic, message)
    assert (sample.source, sample.target, sample.stamp_ns) == ('n1', 'n12', 2_500_000_000)
    assert sample.range_m == pytest.approx(3.5)
    assert sample.variance == pytest.approx(4e-4)
    (bare,) = decoded(found, topic, M(data=200.0))
    assert (bare.stamp_ns, bare.received_ns, bare.range_m) == (0, RECEIVED, 2.0)
    (beyond,) = decoded(found, topic, M(header=header(1.0), range=900.0, max_range=800.0))
    assert beyond == Refused('ranges', 'beyond_sensor')
    assert decoded(found, topic, M(text='?')) == [Refused('ranges', 'unreadable')]


def test_a_path_that_leads_nowhere_is_told_with_the_fields_that_there_are():
    found = inputs(topic='/uwb', adapter='fields', type='px4_msgs/msg/Ranges', source='tag',
                   fields={'range': 'info.rnge', 'target': 'anchor'})
    frontend = Frontend(SparserConfig.from_mapping({'robots': ['A']}))
    route = found.match('/uwb', 'px4_msgs/msg/Ranges')
    info = make_dataclass('Info', ['metres', 'sigma'])(2.0, 0.1)
    for _ in range(3):
        feed(frontend, route, M(anchor=7, info=info), RECEIVED)
    finding, = frontend.findings
    assert (finding.kind, finding.subject) == ('refused_unreadable', '/uwb')
    assert finding.text == ("3 of the messages on /uwb dropped: fields.range: Info has no field "
                            "'rnge'; it has metres, sigma")
    assert frontend.counters['ranges'].dropped == {'unreadable': 3}


def test_parallel_arrays():
    found = inputs(topic='/uwb', adapter='fields', type='px4_msgs/msg/Ranges', source='tag',
                   fields={'list': 'distance', 'range': '', 'target': 'anchor_id[]',
                           'nlos': 'nlos[]', 'sigma': 'error'})
    message = M(distance=np.array([1.5, 2.5], dtype=np.float32), error=0.5,
                anchor_id=np.array([7, 9], dtype=np.uint16), nlos=[0, 1])
    first, second = decoded(found, '/uwb', message)
    assert (first.source, first.target, first.range_m, first.los) == ('tag', '7', 1.5, 1)
    assert (second.target, second.range_m, second.los, second.variance) == ('9', 2.5, 2, 0.25)
    assert decoded(found, '/uwb', M(distance=[1.0, 2.0], anchor_id=[7], nlos=[0, 0], error=0.1))[
        1] == Refused('ranges', 'unreadable')


@pytest.mark.parametrize(('spec', 'name'), [
    ({'fields': {'list': 'data(0)'}, 'targets': ['a']}, 'fields.list'),
    ({'fields': {'list': 'data', 'range': '', 'target': ''}}, 'targets'),
    ({'fields': {'range': 'distance[]', 'target': 'id'}}, 'fields.list'),
    ({'fields': {'range': 'distance'}, 'targets': ['a']}, 'fields.list'),
    ({'fields': {'range': 'd', 'target': 'id'}, 'target_format': 'a{id:z}'}, 'target_format'),
    ({'fields': {'range': 'd', 'target': 'id'}, 'source_format': 'a{nr}'}, 'source_format'),
    ({'fields': {'range': 'd', 'target': 'id'}, 'source': ''}, 'source'),
])
def test_paths_and_formats_that_are_none_are_named(spec, name):
    with pytest.raises(ConfigError, match=rf'ranges\.inputs\.x\..*{name}'):
        inputs(**{'topic': '/uwb', 'adapter': 'fields', 'type': 'a_msgs/msg/B', 'source': 'tag',
                  **spec})


@pytest.mark.parametrize('use', ['auto', 'position', 'pose'])
def test_positions_without_covariance_are_fixes(use):
    when = header(ns(0.5) * 1e-9, 'map')
    for kind, message in (
        ('PoseStamped', M(header=when, pose=POSE)),
        ('PointStamped', M(header=when, point=PLACE)),
    ):
        chosen = config(robots=['A'], fixes={
            'topic': '/{robot}/tag', 'type': f'geometry_msgs/msg/{kind}', 'use': use,
            'sigma_m': 0.25})
        (sample,) = Inputs(chosen).match('/A/tag').decode(message, ns(0.5))
        frontend = Frontend(chosen)
        drive(frontend, [Robot('A', 2, 1)], 1.0)
        assert frontend.add(sample)
        graph = graph_of(frontend)
        if use == 'pose' and kind == 'PoseStamped':
            assert graph.pose_priors.tau == pytest.approx([0.25**-2])
            assert graph.pose_priors.kappa == pytest.approx([chosen.fixes.sigma_rad**-2])
        else:
            assert graph.point_priors.precision == pytest.approx([0.25**-2])


def test_fields_of_a_list():
    found = inputs(
        topic='/{robot}/uwb', adapter='fields', type='my_msgs/msg/Ranges', scale=0.001,
        radio_format='id{id}', fields={
            'list': 'data.items', 'source': 'me', 'target': 'peer[1]', 'range': 'mm',
            'sigma': 'std', 'rx_rssi': 'power.total', 'nlos': 'blocked', 'stamp': 'when'})
    item = M(peer=[0, 7], mm=2500, std=100.0, power=M(total=-80.0), blocked=True)
    bad = M(peer=[0], mm=2500, std=100.0, power=M(total=-80.0), blocked=False)
    message = M(me=3, when=time(4.0), data=M(items=[item, bad]))
    first, second = decoded(found, '/B/uwb', message)
    assert (first.source, first.target, first.range_m) == ('id3', 'id7', 2.5)
    assert first.variance == pytest.approx(0.01)
    assert (first.stamp_ns, first.los, first.rx_rssi) == (4_000_000_000, 2, -80.0)
    assert second == Refused('ranges', 'unreadable')


def test_several_inputs_of_one_topic_are_all_read_and_must_have_one_type():
    both = {f'r{k}': {
        'topic': '/{robot}/uwb', 'adapter': 'fields', 'type': 'my_msgs/msg/Two',
        'fields': {'range': f'd{k}', 'target': f't{k}'}} for k in (0, 1)}
    found = Inputs(config(**{'ranges.inputs': both}))
    route, = [route for route in found.routes if route.topic == '/A/uwb']
    message = M(d0=1.0, t0='a', d1=2.0, t1='b')
    assert [(s.target, s.range_m) for s in route.decode(message, RECEIVED)] == [
        ('a', 1.0), ('b', 2.0)]
    assert found.match('/A/uwb') is route
    both['r1']['type'] = 'my_msgs/msg/Other'
    with pytest.raises(ConfigError, match=r'/A/uwb.*my_msgs/msg/Two and my_msgs/msg/Other'):
        Inputs(config(**{'ranges.inputs': both}))


def test_whole_numbers_of_an_array_are_nanoseconds():
    found = inputs(
        topic='/{robot}/uwb', adapter='fields', type='my_msgs/msg/Ranges', targets=['x', 'y'],
        fields={'list': 'distances', 'range': '', 'stamp': 'stamps[]'})
    message = M(distances=np.array([2.5, 3.5]), stamps=np.array([4_000_000_000, 4_100_000_000]))
    samples = decoded(found, '/B/uwb', message)
    assert [sample.stamp_ns for sample in samples] == [4_000_000_000, 4_100_000_000]


def link_node(number, distance, role=1):
    return M(role=role, id=number, dis=distance, fp_rssi=-82.5, rx_rssi=-79.0)


def test_linktrack_frames():
    found = inputs(topic='/{robot}/nlink', adapter='linktrack')
    frame = M(role=2, id=5, local_time=10, system_time=1000,
              nodes=[link_node(0, 3.5), link_node(5, 1.25, role=2)])
    first, second = decoded(found, '/A/nlink', frame)
    assert (first.source, first.target, first.range_m) == ('tag5', 'anchor0', 3.5)
    assert second.target == 'tag5'
    assert (first.first_path_rssi, first.rx_rssi, first.stamp_ns) == (-82.5, -79.0, 0)
    # Some drivers publish the last frame over and over.
    assert decoded(found, '/A/nlink', frame) == [Refused('ranges', 'repeated_frame')] * 2
    frame.system_time, frame.header = 1020, header(3.0)
    assert decoded(found, '/A/nlink', frame)[0].stamp_ns == 3_000_000_000
    empty = M(role=2, id=5, local_time=0, system_time=0, nodes=[link_node(0, 0.0)])
    assert decoded(found, '/A/nlink', empty) == [Refused('ranges', 'no_frame_yet')]
    # A tag frame has a fixed array; 0 marks anchors that were not heard.
    frame = M(role=2, id=9, local_time=10, system_time=7, stamp=time(2.0),
              dis_arr=[0.0, 4.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0])
    first, second = decoded(found, '/A/nlink', frame)
    assert (first.target, first.range_m, first.stamp_ns) == ('anchor1', 4.0, 2_000_000_000)
    assert (second.target, second.range_m) == ('anchor3', 5.0)


def test_kimera_pose_graphs():
    found = inputs('closures', topic='/{robot}/pose_graph', adapter='kimera',
                   robots={'0': 'A', '1': 'B'})
    covariance = np.diag([1.0, 2, 3, 4, 5, 6]).ravel()
    edge = M(header=header(9.0), key_from=3, key_to=8, robot_from=0, robot_to=1, type=1,
             pose=POSE, covariance=covariance)
    odometry = M(**{**vars(edge), 'type': 0})
    assert decoded(found, '/A/pose_graph', M(nodes=[], edges=[odometry, edge])) == [
        Refused('closures', 'unknown_keyframe')]
    nodes = [M(header=header(1.0), robot_id=0, key=3), M(header=header(2.0), robot_id=1, key=8)]
    (sample,) = decoded(found, '/B/pose_graph', M(nodes=nodes, edges=[edge]))
    assert (sample.from_robot, sample.from_stamp_ns) == ('A', 1_000_000_000)
    assert (sample.to_robot, sample.to_stamp_ns) == ('B', 2_000_000_000)
    # GTSAM has the rotation first.
    assert np.diag(sample.covariance).tolist() == [4, 5, 6, 1, 2, 3]
    assert decoded(found, '/A/pose_graph', M(nodes=nodes, edges=[edge])) == []


def test_swarm_slam_closures():
    found = inputs('closures', topic='/cslam/inter_robot_loop_closure', adapter='swarm_slam',
                   keyframe_topic='/{robot}/cslam/keyframe_odom')
    closure = M(robot0_keyframe_id=4, robot0_id=0, robot1_keyframe_id=6, robot1_id=1,
                success=True, transform=TRANSFORM)
    topic = '/cslam/inter_robot_loop_closure'
    assert decoded(found, topic, closure) == [Refused('closures', 'unknown_keyframe')]
    for robot, key, seconds in (('A', 4, 1.0), ('B', 6, 2.0)):
        assert decoded(found, f'/{robot}/cslam/keyframe_odom',
                       M(id=key, odom=M(header=header(seconds)))) == []
    (sample,) = decoded(found, topic, closure)
    assert (sample.from_robot, sample.to_robot) == ('A', 'B')
    assert (sample.from_stamp_ns, sample.to_stamp_ns) == (1_000_000_000, 2_000_000_000)
    assert not sample.covariance.any()
    closure.success = False
    assert decoded(found, topic, closure) == [Refused('closures', 'not_successful')]


def test_rtabmap_graphs():
    found = inputs('closures', topic='/{robot}/mapData', adapter='rtabmap')
    information = np.diag([4.0, 4, 4, 100, 100, 100]).ravel()
    links = [M(from_id=2, to_id=1, type=kind, transform=TRANSFORM, information=information)
             for kind in (0, 1)]
    landmark = M(from_id=1, to_id=-5, type=8, transform=TRANSFORM, information=information)
    message = M(graph=M(links=[*links, landmark]),
                nodes=[M(id=1, stamp=1.5), M(id=2, stamp=2.5)])
    (sample,) = decoded(found, '/B/mapData', message)
    assert (sample.from_robot, sample.to_robot) == ('B', 'B')
    assert (sample.from_stamp_ns, sample.to_stamp_ns) == (2_500_000_000, 1_500_000_000)
    assert np.diag(sample.covariance) == pytest.approx([0.25] * 3 + [0.01] * 3)
    assert decoded(found, '/B/mapData', message) == []
    assert len(decoded(found, '/A/mapData', message)) == 1
    # A system that starts again numbers other keyframes like these; after a reset all is new.
    later = M(graph=message.graph, nodes=[M(id=1, stamp=51.5), M(id=2, stamp=52.5)])
    assert len(decoded(found, '/B/mapData', later)) == 1
    assert decoded(found, '/B/mapData', later) == []
    found.reset()
    assert len(decoded(found, '/B/mapData', later)) == 1


def satellite(latitude, longitude, altitude=0.0, status=0, kind=2):
    return M(header=header(1.0, 'gps'), status=M(status=status), latitude=latitude,
             longitude=longitude, altitude=altitude,
             position_covariance=np.diag([4.0, 1.0, 9.0]).ravel(), position_covariance_type=kind)


def test_satellite_fixes():
    options = config(fixes={
        'topic': '/{robot}/gps', 'type': 'sensor_msgs/msg/NavSatFix',
        'datum': [52.0, 4.4, 10.0], 'datum_heading_rad': math.pi / 2})
    found = Inputs(options)
    (fix,) = decoded(found, '/A/gps', satellite(52.0001, 4.4, 12.0))
    # x points north, y west: 1e-4 degrees of latitude are 11.13 m there.
    assert fix.position_xyz == pytest.approx([11.127, 0.0, 2.0], abs=2e-3)
    assert np.diag(fix.covariance)[:3] == pytest.approx([1.0, 4.0, 9.0])
    assert fix.quat_xyzw is None
    (unknown,) = decoded(found, '/A/gps', satellite(52.0, 4.4, kind=0))
    assert not unknown.covariance.any()
    assert decoded(found, '/A/gps', satellite(52.0, 4.4, status=-1)) == [
        Refused('fixes', 'no_satellite_fix')]
    assert decoded(found, '/A/gps', satellite(math.nan, 4.4)) == [
        Refused('fixes', 'not_finite')]
    frontend, route = Frontend(options), found.match('/A/gps')
    drive(frontend, [Robot('A', 2, 1)], 3.0)
    for latitude, longitude in ((0.0, 0.0), (-52.0, 4.4), (52.0, 14.4), (95.0, 4.4)):
        assert not feed(frontend, route, satellite(latitude, longitude), ns(1.0))
    assert feed(frontend, route, satellite(52.01, 4.41), ns(1.0))
    assert frontend.counters['fixes'].dropped == {'far_from_datum': 3, 'out_of_bounds': 1}
    (told,) = [one for one in frontend.findings if 'far_from_datum' in one.kind]
    assert told.subject == '/A/gps' and told.value == 3
    assert told.text.startswith('3 of the messages on /A/gps dropped')


def test_the_initial_pose_of_rviz_is_a_fix_of_one_robot():
    route = Inputs(config()).match('/initialpose')
    assert route.kind == 'fixes'
    options = SparserConfig.from_mapping(
        {'robots': ['A', 'B'], 'fixes.initial_pose_robot': 'B'})
    message = M(header=header(3.5, 'map'), pose=M(pose=POSE, covariance=[0.25] * 36))
    sample, = Inputs(options).match('initialpose').decode(message, 0)
    assert (sample.robot, sample.stamp_ns, sample.initial) == ('B', 3_500_000_000, True)


@pytest.mark.parametrize('kind', ['PointStamped', 'PoseStamped', 'PoseWithCovarianceStamped'])
@pytest.mark.parametrize('topic', [
    '/{robot}/tags/(?P<landmark>[^/]+)/pose', '/(?P<robot>[^/]+)/tags/(?P<landmark>[^/]+)/pose'])
def test_topics_of_single_landmarks(kind, topic):
    found = inputs('sightings', topic=topic, adapter='pose_topic', landmark_format='tag{id}',
                   type=f'geometry_msgs/msg/{kind}')
    assert found.match('/A/tags/17/other') is None
    assert found.match('/A/tags/17/pose').type == f'geometry_msgs/msg/{kind}'
    message = {
        'PointStamped': M(header=header(2.0), point=PLACE),
        'PoseStamped': M(header=header(2.0), pose=POSE),
        'PoseWithCovarianceStamped': M(header=header(2.0), pose=M(
            pose=POSE, covariance=np.eye(6).ravel() * 0.04))}[kind]
    (sample,) = decoded(found, '/A/tags/17/pose', message)
    assert (sample.robot, sample.landmark, sample.stamp_ns) == ('A', 'tag17', 2_000_000_000)
    assert list(sample.position_xyz) == [1.0, 2.0, 3.0]
    assert np.allclose(sample.covariance, 0.04 * np.eye(3) * (kind[4:8] == 'With'))


@pytest.mark.parametrize(('values', 'topics', 'said'), [
    ({}, {'/A/odom': ODOMETRY_TYPE, '/uwb/ranges': UWB}, []),
    ({}, {'/A/odometry': ODOMETRY_TYPE, '/ranges': UWB}, [
        'there is no topic /A/odom (odometry.topic); is /A/odometry meant?',
        'there is no topic /uwb/ranges (ranges.inputs); is /ranges meant?']),
    ({}, {'/A/odom': ODOMETRY_TYPE, '/uwb/ranges': UWB,
          '/amcl_pose': 'geometry_msgs/msg/PoseWithCovarianceStamped'}, []),
    # Closures are optional, ranges are not.
    ({}, {'/A/odom': ODOMETRY_TYPE}, ['there is no topic /uwb/ranges (ranges.inputs)']),
    ({}, {'/A/odom': 'geometry_msgs/msg/PoseStamped', '/uwb/ranges': UWB}, [
        '/A/odom is a geometry_msgs/msg/PoseStamped, but odometry.topic expects '
        'nav_msgs/msg/Odometry']),
    ({}, {'/A/odom': ODOMETRY_TYPE, '/uwb/ranges': UWB, **UNUSED}, ['/B/odom, /C/odom']),
    (PAIRS, {'/A/odom': ODOMETRY_TYPE}, ['no topic matches the regular expressions'])])
def test_what_is_said_of_topics(values, topics, said):
    found = topic_findings(Inputs(SparserConfig.from_mapping(
        {'robots': ['A'], **values})), topics, ['/A/truth'])
    assert all(words in one.text for one, words in zip(found, said, strict=True))
