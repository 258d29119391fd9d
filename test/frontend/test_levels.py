"""What robots say of the vertical and of their height, and when they are not believed."""

from types import SimpleNamespace as M

import numpy as np
import pytest
from frontend_world import NAN, SECOND, START, Robot, driven, feed, ns, range_sample
from scipy.spatial.transform import Rotation

from sparser_ros.config import SparserConfig
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.frontend import Frontend
from sparser_ros.frontend.inputs import Inputs
from sparser_ros.frontend.levels import EVERY, LevelCheck, SharedErrors, standard_height
from sparser_ros.frontend.samples import AttitudeSample, HeightSample, OdometrySample
from sparser_ros.io.simulation import START_NS, Simulation, node_config
from sparser_ros.linalg.rotations import matrix_to_quat, rotvec_to_matrix

LASER = {'topic': '/{robot}/laser', 'type': 'sensor_msgs/msg/Range', 'measures': 'ground',
         'lever_arm': [0.1, 0.0, -0.2], 'correlation_s': 0.0}


def fed(options, messages, seconds=5.0):
    """(increment, front-end, robots) of odometry at 10 Hz and of [(time, topic, message)]."""
    frontend, world = driven(seconds, 3, **options)
    inputs = Inputs(frontend.config)
    for time, topic, message in messages:
        feed(frontend, inputs.match(topic), message, ns(time))
    return frontend.take(flush=True), frontend, world


def header(time):
    return M(stamp=M(sec=ns(time) // SECOND, nanosec=ns(time) % SECOND), frame_id='')


def test_every_keyframe_says_where_up_is_in_its_odometry_and_if_trusted_how_high_it_is():
    increment, _, _ = fed({'odometry': {'height': 'trusted'}}, [])
    table, heights = increment.verticals, increment.heights
    assert len(heights) == len(table) == len(increment.poses)
    np.testing.assert_array_equal(np.sort(table.i), np.arange(len(table)))
    up = np.einsum('kij,kj->ki', increment.poses.rotation[table.i], table.up)
    np.testing.assert_allclose(up, np.tile([0, 0, 1.0], (len(up), 1)), atol=1e-12)
    np.testing.assert_allclose(heights.height_m, increment.poses.translation[heights.point, 2])


def test_together_they_count_as_one_within_the_correlation_time():
    increment, _, _ = fed(
        {'odometry.tilt_sigma_rad': 0.01, 'odometry.tilt_correlation_s': 20.0}, [], seconds=10.0)
    of_a = increment.verticals.precision[increment.poses.robot[increment.verticals.i] == 0]
    assert of_a[0] == pytest.approx(1e4)
    assert np.sum(of_a[1:]) == pytest.approx(1e4 * 10 / 20, rel=0.06)
    alone = SharedErrors()
    assert [alone.share('A', stamp * SECOND, 10.0) for stamp in (5, 6, 30)] == [1.0, 0.1, 1.0]


def test_beams_and_heights_have_offsets_and_lever_arms_of_airframes_however_these_lean():
    time, arm = 1.23, [0.0, 0.1, -0.4]
    own = {'offset_m': 0.5, 'offset_m_of': {'B': 2.0}, 'lever_arm_of': {'B': arm}}
    message = M(header=header(time), range=3.0)
    for sensor, low, expected in (
            (LASER, -3.0, [0.5, 2.0]), ({**LASER, 'measures': 'height'}, 0.0, [3.5, 5.0])):
        increment, _, world = fed(
            {'heights': {'inputs': {'laser': {**sensor, **own}}}},
            [(time, f'/{name}/laser', message) for name in 'AB'])
        heights, poses = increment.heights, increment.poses
        order = np.argsort(poses.robot[heights.point])
        assert heights.height_m[order].tolist() == expected
        for k, robot, lever in zip(order, world, (LASER['lever_arm'], arm), strict=True):
            row, (turn, origin) = heights.point[k], robot.start
            # In the odometry frame, which starts at the identity.
            np.testing.assert_allclose(
                poses.translation[row] + poses.rotation[row] @ heights.lever[k],
                turn.T @ (robot.antenna(time, np.add(lever, [0.0, 0.0, low])) - origin), atol=1e-6)


def test_a_barometer_starts_at_zero_and_wanders():
    low, high = 101325.0, 101205.0
    options = {'topic': '/{robot}/pressure', 'type': 'sensor_msgs/msg/FluidPressure',
               'measures': 'pressure', 'sigma_m': 0.5, 'sigma_m_per_sqrt_s': 0.1,
               'correlation_s': 0.0}
    increment, _, _ = fed({'heights': {'inputs': {'baro': options}}}, [
        (time, '/B/pressure', M(header=header(time), fluid_pressure=pressure))
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
        (time, '/A/up', M(header=header(time), point=M(z=0.0)))
        for time in times])
    # In all 1 / (q t) from the age t on, the information of its error then.
    assert np.sum(increment.heights.precision[9:]) == pytest.approx(
        (1 / 2.0 - 1 / 4.25) / 0.25, rel=0.15)


def test_numbers_without_a_stamp_and_of_named_fields():
    increment, frontend, _ = fed({'heights': {'inputs': {
        'mavros': {'topic': '/{robot}/rel_alt', 'type': 'std_msgs/msg/Float64', 'offset_m': 2.0},
        'px4': {'topic': '/{robot}/local', 'type': 'px4_msgs/msg/VehicleLocalPosition',
                'field': 'z', 'scale': -1.0}}}}, [
        (2.0, '/A/rel_alt', M(data=5.0)),
        (2.5, '/A/local', M(z=-7.0)),
        (3.5, '/A/local', M(z=NAN)),
        (4.5, '/A/local', M(y=1.0))])
    assert sorted(increment.heights.height_m) == [7.0, 7.0]
    assert frontend.counters['heights'].dropped == {'not_finite': 1, 'unreadable': 1}


def test_an_imu_speaks_for_odometry_that_knows_no_vertical():
    time, mount = 2.04, np.array([0.3, -0.2, 0.5])
    turn = Rotation.from_euler('xyz', mount).as_matrix()

    def imu(robot, unknown=0.0):
        rotation, _ = robot.pose(time)
        quat = matrix_to_quat((rotation @ turn)[None])[0]
        return M(
            header=header(time), orientation_covariance=[unknown] + [0.0] * 8,
            orientation=M(**dict(zip('xyzw', quat, strict=True))))

    options = {'odometry.vertical_of': {'A': 'free'}, 'attitudes': {
        'topic': '/{robot}/imu', 'mounts': {'A': mount.tolist()}}}
    increment, frontend, robots = fed(options, [
        (time, '/A/imu', imu(Robot('A', 3, 1))), (time, '/B/imu', imu(Robot('B', 3, 2))),
        (time + 1, '/A/imu', imu(Robot('A', 3, 1), unknown=-1.0))])
    own = increment.poses.robot[increment.verticals.i] == 0
    assert np.sum(own) == 1
    assert frontend.counters['attitudes'].dropped == {'odometry_says': 1, 'no_orientation': 1}
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
    ({'heights': {'inputs': {'laser': LASER}, 'beacon_sigma_m': 0.0}}, {}, None, None),
    # Known places that are too few to fix the frame of map.
    ({'heights': {'inputs': {'laser': LASER}}}, {'position': [1, 2, 3.5]}, 3.5, 0.1),
    ({}, {'position': [1, 2, 3.5]}, None, None)])
def test_heights_of_beacons(options, beacon, height, sigma):
    frontend, _ = driven(3.0, 3, radios={'L0': {'beacon': 'L0', **beacon}}, **options)
    frontend.add(range_sample('A', 'L0', 1.0, 4.0, variance=0.01))
    table = frontend.take(flush=True).heights
    assert table.height_m.tolist() == ([] if height is None else [height])
    if height is not None:
        assert table.point.tolist() == [-1] and table.precision == pytest.approx(sigma**-2)


def flown(turn=(0.0, 0.0, 0.0), change=lambda stamp, height: height, seed=3, mount=None):
    """(front-end, increments) of a robot whose odometry frame, or whose IMU, is turned."""
    run = Simulation(SimulationConfig(
        robots=1, beacons=0, minutes=1.5, dimension=3, seed=seed, outliers=0.0,
        imu=mount is not None, no_gravity=mount is not None))
    frontend = Frontend(SparserConfig.from_mapping(node_config(run)))
    track, level = run.tracks[0], run.levels[0]
    frame, start = rotvec_to_matrix(np.array([turn]))[0], int(track.stamp_ns[0])
    quat, unknown = matrix_to_quat(frame @ track.rotation), np.zeros((6, 6))
    samples = [
        OdometrySample('A', stamp, stamp, frame @ track.translation[k], quat[k], unknown, unknown)
        for k, stamp in enumerate(track.stamp_ns.tolist())]
    if mount is None:
        samples += [
            HeightSample('A', stamp, stamp, 'altimeter', change((stamp - start) * 1e-9, height))
            for stamp, height in zip(
                level.height_stamp_ns.tolist(), level.height_m.tolist(), strict=True)]
    else:
        seen = matrix_to_quat(level.attitude @ mount)
        samples += [AttitudeSample('A', stamp, stamp, seen[k])
                    for k, stamp in enumerate(level.imu_stamp_ns.tolist())]
    increments = []
    for k, sample in enumerate(sorted(samples, key=lambda sample: sample.stamp_ns)):
        frontend.add(sample)
        if k % 50 == 49:
            increments.append(frontend.take())
    increments.append(frontend.take(flush=True))
    return frontend, [one for one in increments if one is not None]


def told(frontend, kind):
    return [finding for _, finding in frontend.events if finding.kind == kind]


@pytest.mark.parametrize('seed', range(3))
def test_nothing_is_said_of_robots_that_fly_as_they_should(seed):
    frontend, increments = flown(seed=seed)
    assert not frontend.events
    assert sum(len(one.verticals) for one in increments) == sum(
        len(one.poses) for one in increments)
    # A table below the laser, and the wind.
    table, _ = flown(seed=seed, change=lambda t, h: h - 0.7 * (20 < t < 24 or 41 < t < 43))
    assert not told(table, 'odometry_tilted')


@pytest.mark.parametrize(('turn', 'degrees'), [
    ((0.35, 0.0, 0.0), 20), ((0.0, -0.2, 0.0), 11), ((np.pi / 2, 0.0, 0.0), 90),
    ((0.0, np.pi / 2, 0.0), 90)])
def test_tilted_odometry_is_named_and_no_longer_believed(turn, degrees):
    frontend, increments = flown(turn)
    tilted = told(frontend, 'odometry_tilted')
    assert tilted[0].subject == 'A' and 'odometry of A' in tilted[0].text
    assert np.degrees(tilted[-1].value) == pytest.approx(degrees, abs=8 if degrees < 45 else 45)
    if degrees == 90:
        # Such a tilt bends the map from the first ranges on.
        assert frontend.events[0][0] - START_NS < 20e9
    verticals = [len(one.verticals) for one in increments]
    assert verticals[0] and not any(verticals[len(verticals) // 2:])


def test_a_segment_that_has_just_begun_says_nothing():
    """Where odometry began anew its first height was lost to a singular matrix."""
    check = LevelCheck(0.01)
    for k in range(EVERY):
        check.height(int(k == EVERY - 1), (float(k), 0.0, 1.0), 1.0, 0.01, float(k), 1.0)
    assert check.tilt_rad() == 0.0


def test_a_frozen_altimeter_is_named_and_its_readings_refused():
    held = {}
    frontend, _ = flown(change=lambda t, h: held.setdefault('h', h) if t > 20 else h)
    assert told(frontend, 'altimeter_frozen') and not told(frontend, 'odometry_tilted')
    assert frontend.counters['heights'].dropped['frozen'] > 50


@pytest.mark.parametrize('turn', [
    (0, 0, 0), (8, 0, 0), (90, 0, 0), (0, -90, 0), (0, 0, 90), (180, 0, 0)])
def test_an_imu_that_is_turned_is_named_with_its_mount(turn):
    """Beside odometry that knows no vertical; 8 degrees are within what mounts are off."""
    mount = Rotation.from_euler('xyz', turn, degrees=True)
    frontend, increments = flown(seed=1, mount=mount.as_matrix())
    turned = told(frontend, 'imu_turned')
    if max(map(abs, turn)) < 10:
        assert not turned and not frontend.counters['attitudes'].dropped['turned']
        return
    assert 'the IMU of A' in turned[-1].text
    angles = [float(x) for x in turned[-1].text.partition('[')[2].partition(']')[0].split(',')]
    apart = Rotation.from_euler('xyz', angles).inv() * mount
    assert np.degrees(apart.magnitude()) < 10
    verticals = [len(one.verticals) for one in increments]
    assert sum(verticals) and not any(verticals[len(verticals) // 2:])
