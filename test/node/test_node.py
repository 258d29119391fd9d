"""A whole node in this process, with its solver process, on a small simulated scene."""

import math
import os
import signal
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from nav_msgs.msg import Odometry
from node_world import SCENE, SECOND, START_S, Scene, World, odometry_message, transform_of

from sparser_ros.io import pyfg
from sparser_ros.io.simulation import node_config
from sparser_ros.node import publishers
from sparser_ros.node.messages import stamp_ns
from sparser_ros.node.picture import lifted


def chain_error(world, scene, robot):
    """map -> odom from TF, odom -> base from the odometry message, against the end of the path."""
    last = world.heard[f'/sparser/path/{robot}'][-1].poses[-1]
    odometry = scene.odometry[robot, stamp_ns(last.header.stamp)]
    T_map_odom = next(t for _, frame, t in reversed(world.transforms())
                      if frame == f'{robot}/odom')
    chained, optimised = T_map_odom @ transform_of(odometry.pose.pose), transform_of(last.pose)
    return np.abs(chained - optimised).max()


# Worlds of their own come before `lived`: its paths have the names of theirs.
def test_known_beacons_fix_the_map_in_space():
    scene = Scene(replace(SCENE, dimension=3, beacons=8, known_beacons=8))
    radios = {
        f'radios.{name}.{field}': value
        for name, spec in node_config(scene.run)['radios'].items()
        for field, value in spec.items()}
    with World({'dimension': 3, **radios}) as world:
        world.map_of(scene.events)
        world.spin(0.5)
        for robot in 'AB':
            path, truth = world.heard[f'/sparser/path/{robot}'][-1], scene.truth(robot)
            assert path.header.frame_id == 'map'
            stamps = [stamp_ns(pose.header.stamp) for pose in path.poses]
            assert all(a < b for a, b in pairwise(stamps))
            true = np.array([truth[stamp] for stamp in stamps])
            seen = np.array([transform_of(pose.pose)[:3, 3] for pose in path.poses])
            assert np.median(np.linalg.norm(seen - true, axis=1)) < 0.3
            assert world.until(lambda robot=robot: chain_error(world, scene, robot) < 1e-6)


def test_robots_stay_located_while_keyframes_go_and_processes_die(tmp_path):
    scene, most = Scene(), 120
    cut = len(scene.events) // 4
    settings = {'keyframes.max_count': most, 'odometry.history_s': 2.0,
                'node.save_directory': str(tmp_path / 'maps'),
                'node.journal.directory': str(tmp_path / 'journal')}
    with World(settings) as world:
        pipeline = world.node.pipeline
        world.map_of(scene.events[:cut])
        before = len(world.heard['/sparser/status'])
        known = pipeline.frontend.thinnings
        for part, end in enumerate(np.linspace(cut, len(scene.events), 11).astype(int)[1:]):
            if part == 5:
                restarts = pipeline.worker.state.restarts
                os.kill(pipeline.worker.state.pid, signal.SIGKILL)
            world.play(scene.events[cut:end])
            sent = sum('odom' in topic for _, topic, _ in scene.events[:end])
            assert world.until(lambda: world.counters()['odometry']['received'] == sent)  # noqa: B023
            solution, cut = world.solved(), end
            assert pipeline.store_of(solution.sequence).graph.validate().n_poses == len(
                solution.estimate.translation)
        assert pipeline.frontend.thinnings >= known + 3
        assert pipeline.worker.state.restarts > restarts
        later = world.heard['/sparser/status'][before:]
        assert {one.robots_located for one in later} == {2}
        assert len({one.map_epoch for one in later}) == 1
        assert later[-1].keyframes <= 1.3 * most
        for robot in 'AB':
            path = world.heard[f'/sparser/path/{robot}'][-1]
            stamps = [stamp_ns(one.header.stamp) for one in path.poses]
            assert np.all(np.diff(stamps) > 0)
            assert stamps[0] == min(
                stamp for name, stamp in scene.odometry if name == robot)
        answer = world.call('save')
        assert answer.success, answer.message
        saved = pyfg.read(f'{answer.message}/map.pyfg')
        thinnings, epoch = pipeline.frontend.thinnings, world.status.map_epoch
        assert saved.n_poses == len(pipeline.solution.estimate.translation)
    with World({**settings, 'node.journal.resume': True}) as world:
        world.solved()
        world.located()
        pipeline = world.node.pipeline
        assert (pipeline.frontend.thinnings, pipeline.graph.n_poses) == (thinnings, saved.n_poses)
        assert world.status.map_epoch == epoch


@pytest.fixture(scope='module')
def lived(tmp_path_factory):
    """A node that has heard the first three quarters of a scene and located both robots."""
    scene = Scene()
    cut = 3 * len(scene.events) // 4
    maps = tmp_path_factory.mktemp('saved') / 'maps'
    with World({'node.save_directory': str(maps)}) as world:
        world.maps = maps
        world.spin(0.5)
        world.before_data = len(world.heard['/tf'])
        world.scene, world.rest = scene, scene.events[cut:]
        world.map_of(scene.events[:cut])
        world.spin(1.0)
        yield world


def test_nothing_before_first_solution(lived):
    assert lived.before_data == 0
    early = [s for s in lived.heard['/sparser/status'] if s.robots_located == 0]
    assert early, 'the node reports before it has a solution'
    assert math.isnan(early[0].cost)
    first_located = next(s for s in lived.heard['/sparser/status'] if s.robots_located)
    assert lived.transforms()[0][0] > stamp_ns(early[0].header.stamp)
    assert lived.transforms()[0][0] >= stamp_ns(first_located.header.stamp) - 10**9


def test_transforms_come_at_20_hz_with_stamps_that_increase_and_lie_ahead(lived):
    """Never faster, and slower only while others keep the processor."""
    before = len(lived.transforms())
    assert lived.until(lambda: len(lived.transforms()) >= before + 60)
    for robot in 'AB':
        stamps = [stamp for stamp, frame, _ in lived.transforms() if frame == f'{robot}/odom']
        assert all(a < b for a, b in pairwise(stamps))
    assert 0 < stamps[-1] - time.time_ns() + 10**9 < 2 * 10**9
    assert np.median(np.diff(stamps[-30:])) > 0.03 * SECOND
    assert SECOND // 20 in {timer.timer_period_ns for timer in lived.node.timers}


def test_chain_gives_the_optimised_pose(lived):
    # TF follows a path by up to 50 ms.
    assert lived.until(lambda: max(
        chain_error(lived, lived.scene, robot) for robot in 'AB') < 1e-6)


def test_pose_topic_is_in_map_with_its_covariance(lived):
    pose = lived.heard['/sparser/pose/B'][-1]
    assert pose.header.frame_id == 'map'
    covariance = np.reshape(pose.pose.covariance, (6, 6))
    flat = covariance[np.ix_([0, 1, 5], [0, 1, 5])]
    assert np.linalg.eigvalsh(flat).min() > 0
    assert np.count_nonzero(covariance) == np.count_nonzero(flat)
    # That of the estimate, in the order of centimetres here, and not the configured 0.3 m.
    assert 1e-3 < np.sqrt(flat[0, 0]) < 0.29
    assert ('B', stamp_ns(pose.header.stamp)) in lived.scene.odometry


def test_odometry_in_map_follows_the_odometry(lived):
    heard = []
    listener = lived.friend.create_subscription(
        Odometry, '/sparser/odometry/A', heard.append, 10)
    newest = lived.node.pipeline.frontend.latest_odometry('A')
    assert lived.until(lambda: heard)
    lived.friend.destroy_subscription(listener)
    message = heard[-1]
    assert (message.header.frame_id, message.child_frame_id) == ('map', 'A/base_link')
    assert stamp_ns(message.header.stamp) == newest[0]
    expected = lived.node.outputs.map_to_odom.transforms['A'] @ lifted(*newest[1:])
    np.testing.assert_allclose(transform_of(message.pose.pose), expected, atol=1e-9)
    # That of the estimate, as in ~/pose, and not the configured 0.3 m.
    assert np.sqrt(message.pose.covariance[0]) < 0.29


def test_every_topic_has_its_turn_when_solutions_outrun_the_pieces(lived, monkeypatch):
    outputs, solution = lived.node.outputs, lived.node.pipeline.solution
    monkeypatch.setattr(publishers, 'WORK_S', -1.0)
    sent = []
    for name in ('_publish_pose', '_publish_path', '_publish_beacons'):
        monkeypatch.setattr(outputs, name, partial(
            lambda name, first, *_: sent.append((name, first)), name))
    for _ in range(10):
        outputs.publish(solution)
        outputs.work()
    assert sent == 2 * [
        ('_publish_pose', 'A'), ('_publish_path', 'A'), ('_publish_pose', 'B'),
        ('_publish_path', 'B'), ('_publish_beacons', solution)]


def test_beacons_and_markers(lived):
    assert lived.until(lambda: lived.heard['/sparser/markers'])
    named = [m for m in lived.heard['/sparser/beacons'][-1].markers if m.ns == 'beacons']
    assert sorted(m.text for m in named) == ['L0', 'L1', 'L2', 'L3']
    scene = {m.ns for m in lived.heard['/sparser/markers'][-1].markers}
    assert {'beacons', 'ranges'} <= scene


def test_status_and_diagnostics(lived):
    status = lived.status
    assert list(status.robot_names) == ['A', 'B']
    assert list(status.robot_states) == ['located', 'located']
    assert np.all(np.array(status.robot_sigma_m) < 1) and status.variance_factor >= 1
    assert status.covariance_gauge
    assert 0 < max(status.robot_protection_m) < 5 and status.alert_limit_m == 1.0
    assert np.all(np.isnan(status.robot_protection_z_m)) and status.integrity_risk == 1e-5
    assert lived.until(lambda: lived.status.bound_age_s >= 0, START_S)
    assert 0 <= lived.status.suboptimality < np.inf and lived.status.lower_bound > 0
    assert 'the best possible' in lived.status.optimality
    assert status.keyframes == lived.counters()['odometry']['accepted']
    assert status.ranges == lived.counters()['ranges']['accepted'] > 100
    assert status.cost > 0 and status.iterations >= 0 and status.dropped == 0
    tasks = {s.name: s for s in lived.heard['/diagnostics'][-1].status}
    assert set(tasks) == {f'sparser: {task}' for task in (
        'inputs', 'graph', 'solver', 'callbacks')}
    assert {s.hardware_id for s in tasks.values()} == {'sparser'}
    assert lived.call('solve').success
    assert lived.until(lambda: np.all(np.array(lived.status.robot_correction_m) < 1))
    values = {v.key: v.value for v in tasks['sparser: callbacks'].values}
    assert float(values['odometry.count']) == lived.counters()['odometry']['received']
    assert float(values['odometry.median_ms']) < 1.0
    assert float(values['ranges.median_ms']) < 1.0


def test_save_is_complete(lived):
    response = lived.call('save')
    assert response.success, response.message
    (folder,) = lived.maps.iterdir()
    assert str(folder) == response.message and folder.is_absolute()
    assert sorted(p.name for p in folder.iterdir()) == [
        'A.tum', 'B.tum', 'beacons.csv', 'beacons.yaml', 'covariances.json', 'map.json',
        'map.pyfg', 'odometry_rate']
    for robot, way in lived.node.pipeline.frontend.recorded_odometry().items():
        every = np.loadtxt(folder / 'odometry_rate' / f'{robot}.tum')
        assert len(every) == len(way.messages.stamps_ns) >= len(np.loadtxt(folder / f'{robot}.tum'))
    graph = pyfg.read(folder / 'map.pyfg')
    assert graph.n_poses == lived.status.keyframes
    assert len(graph.ranges) == lived.status.ranges
    table = np.loadtxt(folder / 'A.tum')

    def saved_path():
        # Verdicts of the auditor go on, so the newest path may be younger than the save.
        return next((one for one in lived.heard['/sparser/path/A'] if np.shape(table[:, 1:3]) == (
            len(one.poses), 2) and np.allclose(table[:, 1:3], [
                (p.pose.position.x, p.pose.position.y) for p in one.poses], atol=1e-6)), None)

    assert lived.until(saved_path), 'the saved path was never published'
    path = saved_path()
    with (folder / 'A.tum').open() as stream:
        stamp = stream.readline().split()[0]
    assert round(float(stamp.split('.')[0])) == path.poses[0].header.stamp.sec
    assert len(stamp.split('.')[1]) >= 9


def test_pause_keeps_data_and_solve_answers(lived):
    assert lived.call('pause', True).success
    count = len(lived.rest) // 3
    lived.play(lived.rest[:count])
    lived.rest = lived.rest[count:]
    assert lived.until(lambda: lived.status.state == lived.status.STATE_PAUSED
                       and lived.status.waiting > 0), lived.status
    before = lived.node.pipeline.solution.sequence
    response = lived.call('solve')
    assert response.success and 'from scratch' in response.message
    assert lived.node.pipeline.solution.sequence > before
    assert lived.call('pause', False).success
    assert lived.until(lambda: lived.status.state != lived.status.STATE_PAUSED)


def test_a_robot_whose_odometry_begins_anew_is_nowhere_until_it_is_solved(lived):
    """Paused it stays so: what is published in map is of the odometry before."""
    assert lived.call('pause', True).success
    heard = []
    listener = lived.friend.create_subscription(
        Odometry, '/sparser/odometry/A', heard.append, 10)
    lived.spin(0.5)
    assert heard and lived.status.robot_states == ['located'] * 2
    end = max(stamp for _, stamp in lived.scene.odometry)
    for number in range(20):
        lived.send('/A/odom', odometry_message(
            'A', end + (number + 1) * SECOND // 10, (500.0, 0.0, 0.0), (0, 0, 0, 1),
            np.eye(6) * 1e-4))
    assert lived.until(lambda: lived.status.robot_states == ['unlocated', 'located'])
    assert 'begun anew' in lived.status.robot_missing[0] and not lived.status.robot_fix[0]
    assert math.isinf(lived.status.robot_sigma_m[0]) and lived.status.robots_located == 1
    lived.spin(0.3)  # what was on its way
    count, poses = len(lived.transforms()), len(lived.heard['/sparser/pose/A'])
    lived.node.outputs.publish(lived.node.pipeline.solution)
    assert lived.until(lambda: len(lived.transforms()) > count + 5)
    assert {frame for _, frame, _ in lived.transforms()[count:]} == {'B/odom'}
    assert len(lived.heard['/sparser/pose/A']) == poses
    assert all(abs(one.pose.pose.position.x) < 200.0 for one in heard)
    lived.friend.destroy_subscription(listener)
    assert lived.call('pause', False).success


def test_reset_withdraws_everything(lived):
    assert lived.call('reset').success
    lived.spin(0.3)
    count = len(lived.heard['/tf'])
    lived.spin(1.0)
    assert len(lived.heard['/tf']) == count, 'TF goes on after a reset'
    assert lived.heard['/sparser/path/A'][-1].poses == []
    assert lived.status.keyframes == 0 and lived.status.robots_located == 0
    assert lived.call('save').success is False
    old = lived.transforms()[-1][0]
    lived.play(lived.scene.events)
    lived.located()
    assert lived.until(lambda: len(lived.heard['/tf']) > count)
    assert lived.transforms()[-1][0] > old
