"""Odometry that is not aligned with gravity, altimeters that do not measure and IMUs that are
turned are noticed."""


import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sparser_ros.config import SparserConfig
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.frontend import Frontend, OdometrySample
from sparser_ros.frontend.levels import EVERY, LevelCheck
from sparser_ros.frontend.samples import AttitudeSample, HeightSample
from sparser_ros.io.simulation import START_NS, Simulation, node_config
from sparser_ros.linalg.rotations import matrix_to_quat, rotvec_to_matrix

UNKNOWN = np.zeros((6, 6))


def flown(turn=(0.0, 0.0, 0.0), change=lambda stamp, height: height, seed=3, **options):
    """(front-end, increments) of one robot whose odometry frame is turned by a rotation vector."""
    run = Simulation(SimulationConfig(
        robots=1, beacons=0, minutes=1.5, dimension=3, seed=seed, outliers=0.0, **options))
    frontend = Frontend(SparserConfig.from_mapping(node_config(run)))
    track, level = run.tracks[0], run.levels[0]
    frame = rotvec_to_matrix(np.array([turn]))[0]
    quat = matrix_to_quat(frame @ track.rotation)
    messages = [(int(stamp), OdometrySample(
        'A', int(stamp), int(stamp), frame @ track.translation[k], quat[k], UNKNOWN, UNKNOWN))
        for k, stamp in enumerate(track.stamp_ns)]
    start = int(track.stamp_ns[0])
    messages += [
        (int(stamp), HeightSample('A', 'altimeter', int(stamp), int(stamp), change(
            (int(stamp) - start) * 1e-9, float(height))))
        for stamp, height in zip(level.height_stamp_ns, level.height_m, strict=True)]
    increments = []
    for k, (_, sample) in enumerate(sorted(messages, key=lambda one: one[0])):
        frontend.add(sample)
        if k % 50 == 49:
            increments.append(frontend.take())
    increments.append(frontend.take(flush=True))
    return frontend, [one for one in increments if one is not None]


def kinds(frontend):
    return {finding.kind for _, finding in frontend.events}


@pytest.mark.parametrize('seed', range(4))
def test_nothing_is_said_of_robots_that_fly_as_they_should(seed):
    frontend, increments = flown(seed=seed)
    assert not kinds(frontend) & {'odometry_tilted', 'altimeter_frozen'}
    assert sum(len(one.verticals) for one in increments) == sum(
        len(one.poses) for one in increments)
    # A table below the laser, and the wind.
    table, _ = flown(seed=seed, change=lambda t, h: h - 0.7 * (20 < t < 24 or 41 < t < 43))
    assert 'odometry_tilted' not in kinds(table)
    assert 'altimeter_step' in kinds(table) and 'altimeter_step' not in kinds(frontend)
    steps = [one.value for _, one in table.events if one.kind == 'altimeter_step']
    assert {round(abs(step), 1) for step in steps} <= {0.4, 0.5, 0.6, 0.7, 0.8, 0.9}
    assert min(steps) < 0 < max(steps)


@pytest.mark.parametrize(('turn', 'degrees'), [
    ((0.35, 0.0, 0.0), 20), ((0.0, -0.2, 0.0), 11), ((np.pi / 2, 0.0, 0.0), 90),
    ((0.0, np.pi / 2, 0.0), 90)])
def test_tilted_odometry_is_named_and_no_longer_believed(turn, degrees):
    frontend, increments = flown(turn)
    told = [one for _, one in frontend.events if one.kind == 'odometry_tilted']
    assert told and told[0].subject == 'A' and 'odometry of A' in told[0].text
    assert np.degrees(told[-1].value) == pytest.approx(degrees, abs=8 if degrees < 45 else 45)
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
    assert 'altimeter_frozen' in kinds(frontend)
    assert 'odometry_tilted' not in kinds(frontend)
    assert frontend.counters.heights.dropped['frozen'] > 50


@pytest.mark.parametrize('turn', [
    (0, 0, 0), (8, 0, 0), (90, 0, 0), (0, -90, 0), (0, 0, 90), (180, 0, 0)])
def test_an_imu_that_is_turned_is_named_with_its_mount(turn):
    """Beside odometry that knows no vertical; 8 degrees are within what mounts are off."""
    run = Simulation(SimulationConfig(
        robots=1, beacons=0, minutes=1.5, dimension=3, seed=1, outliers=0.0, imu=True,
        no_gravity=True))
    mount = Rotation.from_euler('xyz', turn, degrees=True).as_matrix()
    frontend = Frontend(SparserConfig.from_mapping(node_config(run)))
    track, level = run.tracks[0], run.levels[0]
    quat, seen = matrix_to_quat(track.rotation), matrix_to_quat(level.attitude @ mount)
    messages = [OdometrySample(
        'A', stamp, stamp, track.translation[k], quat[k], UNKNOWN, UNKNOWN)
        for k, stamp in enumerate(track.stamp_ns.tolist())]
    messages += [AttitudeSample('A', stamp, stamp, seen[k])
                 for k, stamp in enumerate(level.imu_stamp_ns.tolist())]
    increments = []
    for k, sample in enumerate(sorted(messages, key=lambda one: one.stamp_ns)):
        frontend.add(sample)
        if k % 50 == 49:
            increments.append(frontend.take())
    told = [one for _, one in frontend.events if one.kind == 'imu_turned']
    if max(map(abs, turn)) < 10:
        assert not told and not frontend.counters.attitudes.dropped['turned']
        return
    assert 'the IMU of A' in told[-1].text
    angles = [float(x) for x in told[-1].text.partition('[')[2].partition(']')[0].split(',')]
    apart = Rotation.from_euler('xyz', angles).inv() * Rotation.from_matrix(mount)
    assert np.degrees(apart.magnitude()) < 10
    verticals = [len(one.verticals) for one in increments]
    assert sum(verticals) and not any(verticals[len(verticals) // 2:])
