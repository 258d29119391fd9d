"""What robots say of the vertical and of their height: from messages to rows of the graph."""

from types import SimpleNamespace

import numpy as np
import pytest
from frontend_world import NAN, SECOND, START, Robot, config, ns

from sparser_ros.config import ConfigError
from sparser_ros.frontend import Frontend, RangeSample
from sparser_ros.frontend.inputs import Inputs
from sparser_ros.frontend.levels import SharedErrors, standard_height
from sparser_ros.linalg.rotations import matrix_to_quat, rotvec_to_matrix

LASER = {'topic': '/{robot}/laser', 'type': 'sensor_msgs/msg/Range', 'measures': 'ground',
         'lever_arm': [0.1, 0.0, -0.2], 'correlation_s': 0.0}


def fed(options, messages, seconds=5.0, robots=('A', 'B')):
    """(increment, front-end, robots) of odometry at 10 Hz and of [(time, topic, message)]."""
    setup = config(dimension=3, **options)
    frontend, inputs = Frontend(setup), Inputs(setup)
    world = [Robot(name, 3, seed) for seed, name in enumerate(robots)]
    for k in range(int(seconds * 10) + 1):
        for robot in world:
            assert frontend.add(robot.odometry(k / 10))
    for time, topic, message in messages:
        route = inputs.match(topic)
        assert route is not None
        frontend.feed(route, message, ns(time))
    return frontend.take(flush=True), frontend, world


def header(time):
    return SimpleNamespace(stamp=SimpleNamespace(
        sec=ns(time) // SECOND, nanosec=ns(time) % SECOND), frame_id='')


def odometry_frame(robot, time):
    """Rotation and translation of T_odom_base: its odometry starts at the identity."""
    start, _ = robot.start
    rotation, translation = robot.pose(time)
    return start.T @ rotation, start.T @ (translation - robot.start[1])


def test_every_keyframe_says_where_up_is_in_its_odometry():
    increment, _, _ = fed({}, [])
    table = increment.verticals
    assert len(table) == len(increment.poses)
    np.testing.assert_array_equal(np.sort(table.i), np.arange(len(table)))
    up = np.einsum('kij,kj->ki', increment.poses.rotation[table.i], table.up)
    np.testing.assert_allclose(up, np.tile([0, 0, 1.0], (len(up), 1)), atol=1e-12)


def test_together_they_count_as_one_within_the_correlation_time():
    increment, _, _ = fed(
        {'odometry.tilt_sigma_rad': 0.01, 'odometry.tilt_correlation_s': 20.0}, [], seconds=10.0)
    of_a = increment.verticals.precision[increment.poses.robot[increment.verticals.i] == 0]
    assert of_a[0] == pytest.approx(1e4)
    assert np.sum(of_a[1:]) == pytest.approx(1e4 * 10 / 20, rel=0.06)
    alone = SharedErrors()
    assert [alone.share('A', stamp * SECOND, 10.0) for stamp in (5, 6, 30)] == [1.0, 0.1, 1.0]


@pytest.mark.parametrize(('options', 'robots'), [
    ({'odometry.vertical': 'free'}, set()), ({'odometry.vertical_of': {'A': 'free'}}, {1})])
def test_free_odometry_says_nothing(options, robots):
    increment, _, _ = fed(options, [])
    assert set(increment.poses.robot[increment.verticals.i]) == robots


def test_a_beam_to_the_ground_ends_there_however_the_robot_leans():
    time, distance = 1.23, 3.0
    increment, frontend, world = fed(
        {'heights': {'inputs': {'laser': LASER}}},
        [(time, '/A/laser', SimpleNamespace(header=header(time), range=distance))])
    assert frontend.counters.heights.accepted == 1
    heights = increment.heights
    pose = increment.poses
    row = int(heights.point[0])
    spot = pose.translation[row] + pose.rotation[row] @ heights.lever[0]
    rotation, translation = odometry_frame(world[0], time)
    np.testing.assert_allclose(
        spot, translation + rotation @ np.array([0.1, 0.0, -0.2 - distance]), atol=1e-6)
    assert heights.height_m[0] == 0.0


def test_airframes_have_their_own_offsets_and_lever_arms():
    time, arm = 1.0, [0.0, 0.1, -0.4]
    own = {'offset_m': 0.5, 'offset_m_of': {'B': 2.0}, 'lever_arm_of': {'B': arm}}
    message = SimpleNamespace(header=header(time), range=3.0)
    for sensor, low, expected in (
            (LASER, -3.0, [0.5, 2.0]), ({**LASER, 'measures': 'height'}, 0.0, [3.5, 5.0])):
        increment, _, world = fed(
            {'heights': {'inputs': {'laser': {**sensor, **own}}}},
            [(time, f'/{name}/laser', message) for name in 'AB'])
        heights, pose = increment.heights, increment.poses
        order = np.argsort(pose.robot[heights.point])
        assert heights.height_m[order].tolist() == expected
        for k, robot, lever in zip(order, world, (LASER['lever_arm'], arm), strict=True):
            row = heights.point[k]
            spot = pose.translation[row] + pose.rotation[row] @ heights.lever[k]
            rotation, translation = odometry_frame(robot, time)
            np.testing.assert_allclose(
                spot, translation + rotation @ np.add(lever, [0.0, 0.0, low]), atol=1e-6)


@pytest.mark.parametrize(('values', 'words'), [
    ({'odometry': {'vertical_of': {'X': 'free'}}}, r'vertical_of\.X'),
    ({'heights': {'inputs': {'laser': {**LASER, 'offset_m_of': {'X': 1.0}}}}},
     r'heights\.inputs\.laser\.offset_m_of\.X'),
    ({'heights': {'inputs': {'laser': {**LASER, 'lever_arm_of': {'B': [1.0]}}}}},
     r'lever_arm_of\.B'),
    ({'heights': {'inputs': {'x': {'type': 'px4_msgs/msg/Any'}}}}, r'heights\.inputs\.x\.field'),
    ({'heights': {'inputs': {'x': {'topic': '/altitude'}}}}, r'\{robot\}')])
def test_what_is_no_configuration_is_named(values, words):
    with pytest.raises(ConfigError, match=words):
        config(dimension=3, **values)


def test_a_barometer_starts_at_zero_and_wanders():
    low, high = 101325.0, 101205.0
    options = {'topic': '/{robot}/pressure', 'type': 'sensor_msgs/msg/FluidPressure',
               'measures': 'pressure', 'sigma_m': 0.5, 'sigma_m_per_sqrt_s': 0.1,
               'correlation_s': 0.0}
    increment, _, _ = fed({'heights': {'inputs': {'baro': options}}}, [
        (time, '/B/pressure', SimpleNamespace(header=header(time), fluid_pressure=pressure))
        for time, pressure in ((0.5, low), (4.5, high))])
    assert increment.heights.height_m[0] == 0.0
    # 12 Pa per metre near the ground.
    assert increment.heights.height_m[1] == pytest.approx(10.0, rel=0.02)
    np.testing.assert_allclose(1 / increment.heights.precision, [0.25, 0.25 + 4 * 0.01])
    assert standard_height(89874.6) == pytest.approx(1000.0, abs=1.0)


def test_a_barometer_that_has_wandered_says_no_more_of_height_however_often():
    times = np.arange(0.5, 4.76, 0.25)
    options = {'topic': '/{robot}/up', 'sigma_m': 1e-3, 'sigma_m_per_sqrt_s': 0.5,
               'correlation_s': 0.0}
    increment, _, _ = fed({'heights': {'inputs': {'baro': options}}}, [
        (time, '/A/up', SimpleNamespace(header=header(time), point=SimpleNamespace(z=0.0)))
        for time in times])
    # In all 1 / (q t) from the age t on, the information of its error then.
    assert np.sum(increment.heights.precision[9:]) == pytest.approx(
        (1 / 2.0 - 1 / 4.25) / 0.25, rel=0.15)


def test_numbers_without_a_stamp_and_of_named_fields():
    increment, frontend, _ = fed({'heights': {'inputs': {
        'mavros': {'topic': '/{robot}/rel_alt', 'type': 'std_msgs/msg/Float64', 'offset_m': 2.0},
        'px4': {'topic': '/{robot}/local', 'type': 'px4_msgs/msg/VehicleLocalPosition',
                'field': 'z', 'scale': -1.0}}}}, [
        (2.0, '/A/rel_alt', SimpleNamespace(data=5.0)),
        (2.5, '/A/local', SimpleNamespace(z=-7.0)),
        (3.5, '/A/local', SimpleNamespace(z=NAN)),
        (4.5, '/A/local', SimpleNamespace(y=1.0))])
    assert sorted(increment.heights.height_m) == [7.0, 7.0]
    assert frontend.counters.heights.dropped == {'not_finite': 1, 'unreadable': 1}


def test_trusted_odometry_says_how_high():
    increment, _, _ = fed({'odometry': {'height': 'trusted'}}, [])
    np.testing.assert_allclose(
        increment.heights.height_m, increment.poses.translation[increment.heights.point, 2])


def test_an_imu_speaks_for_odometry_that_knows_no_vertical():
    time, mount = 2.04, np.array([0.3, -0.2, 0.5])
    world = Robot('A', 3, 0)
    roll, pitch, yaw = mount
    turn = (rotvec_to_matrix(np.array([[0, 0, yaw]]))[0] @ rotvec_to_matrix(
        np.array([[0, pitch, 0]]))[0] @ rotvec_to_matrix(np.array([[roll, 0, 0]]))[0])

    def imu(robot, unknown=0.0):
        rotation, _ = robot.pose(time)
        quat = matrix_to_quat((rotation @ turn)[None])[0]
        return SimpleNamespace(
            header=header(time), orientation_covariance=[unknown] + [0.0] * 8,
            orientation=SimpleNamespace(**dict(zip('xyzw', quat, strict=True))))

    options = {'odometry.vertical_of': {'A': 'free'}, 'attitudes': {
        'topic': '/{robot}/imu', 'mounts': {'A': mount.tolist()}}}
    increment, frontend, robots = fed(options, [
        (time, '/A/imu', imu(world)), (time, '/B/imu', imu(Robot('B', 3, 1))),
        (time + 1, '/A/imu', imu(world, unknown=-1.0))])
    own = increment.poses.robot[increment.verticals.i] == 0
    assert np.sum(own) == 1
    assert frontend.counters.attitudes.dropped == {'odometry_says': 1, 'no_orientation': 1}
    row = int(increment.verticals.i[own][0])
    # Up in map, as the pose of the keyframe in map has it.
    at = (increment.poses.stamp_ns[row] - START) / 1e9
    rotation, _ = robots[0].pose(at)
    np.testing.assert_allclose(
        rotation @ increment.verticals.up[own][0], [0, 0, 1], atol=1e-6)


@pytest.mark.parametrize(('options', 'beacon', 'height', 'sigma'), [
    ({}, {'height_m': 2.5}, 2.5, 0.1), ({}, {}, None, None),
    # Near the ground, where robots measure heights.
    ({'heights': {'inputs': {'laser': LASER}}}, {}, 0.0, 10.0),
    ({'heights': {'inputs': {'laser': LASER}, 'beacon_sigma_m': 0.0}}, {}, None, None)])
def test_heights_of_beacons_at_unknown_places(options, beacon, height, sigma):
    frontend, robot = Frontend(config(dimension=3, radios={
        'L0': {'beacon': 'L0', **beacon}}, **options)), Robot('A', 3, 0)
    for k in range(30):
        assert frontend.add(robot.odometry(k / 10))
    frontend.add(RangeSample('A', 'L0', ns(1.0), ns(1.0), 4.0, 0.01))
    table = frontend.take(flush=True).heights
    assert table.height_m.tolist() == ([] if height is None else [height])
    if height is not None:
        assert table.point.tolist() == [-1] and table.precision == pytest.approx(sigma**-2)
