"""Odometry of a sensor gives the keyframes of its robot's base."""

from dataclasses import replace

import numpy as np
import pytest
from frontend_world import Frontend, Robot, config, drive, driven, graph_of, range_sample, truth
from scipy.spatial.transform import Rotation

from sparser_ros.frontend.frames import StaticFrames
from sparser_ros.frontend.samples import FrameSample
from sparser_ros.graph import squared_residuals
from sparser_ros.linalg.rotations import matrix_to_quat, quat_to_matrix

MOUNTED = [0.4, -0.3, 0.2, 0.3, -0.5, 1.2]
HALF = [0.1, 0.0, 0.2, 0.0, 0.0, 0.7]


def transform(values):
    """(4, 4) of x y z and fixed-axis roll pitch yaw."""
    result = np.eye(4)
    result[:3, :3] = Rotation.from_euler('xyz', values[3:] or [0.0] * 3).as_matrix()
    result[:3, 3] = values[:3]
    return result


def by_sensor(sample, mounted):
    """The same motion as the sensor reports it in the same odometry frame."""
    turn = quat_to_matrix(sample.quat_xyzw)
    return replace(
        sample, position_xyz=sample.position_xyz + turn @ transform(mounted)[:3, 3],
        quat_xyzw=matrix_to_quat(turn @ transform(mounted)[:3, :3]), child_frame_id='A/camera')


def frame(parent, child, mounted):
    """A transform (4, 4) of `/tf_static`."""
    return FrameSample(parent, child, mounted[:3, 3], matrix_to_quat(mounted[:3, :3]))


def chain():
    """The camera hangs on a mast, and so does the base: no one is the other's parent."""
    down = np.linalg.inv(transform(HALF))
    return [frame('A/mast', '/A/base_link', down),
            frame('/A/mast', 'A/camera', down @ transform(MOUNTED))]


@pytest.mark.parametrize(('mounted', 'configured', 'step_of_frames'), [
    (MOUNTED, True, -1), (MOUNTED[:3], True, -1), (MOUNTED, False, 0),
    (MOUNTED, False, 13)], ids=['configured', 'place only', 'frames', 'frames a second late'])
def test_keyframes_are_those_of_the_base(dimension, mounted, configured, step_of_frames):
    body = Robot('A', dimension, 4)
    plain, sensed = Frontend(config(dimension=dimension)), Frontend(config(
        dimension=dimension, odometry={'sensor_poses': {'A': mounted}} if configured else {}))
    for step in range(100):
        if step == step_of_frames:
            for one in chain():
                assert sensed.add(one)
        sample = body.odometry(step / 10)
        plain.add(sample)
        sensed.add(by_sensor(sample, mounted))
        if 0 < step < step_of_frames:
            assert sensed.latest_odometry('A') is None
    one, other = graph_of(plain), graph_of(sensed)
    assert one.n_poses == other.n_poses > 5
    assert np.allclose(one.poses.translation, other.poses.translation)
    assert np.allclose(one.poses.rotation, other.poses.rotation)
    assert np.array_equal(one.poses.stamp_ns, other.poses.stamp_ns)
    assert not sensed.findings and not sensed.counters['odometry'].warnings
    assert sensed.counters['odometry'].accepted == 100 and sensed.counters['odometry'].balanced


def test_without_them_the_sensor_counts_as_the_base_for_good():
    body, frontend = Robot('A', 2, 4), Frontend(config())
    for step in range(60):
        frontend.add(by_sensor(body.odometry(step / 10), MOUNTED))
        assert (frontend.latest_odometry('A') is None) == (step < 20)
    before = frontend.latest_odometry('A')[2]
    for one in chain():
        frontend.add(one)
    frontend.add(by_sensor(body.odometry(6.0), MOUNTED))
    assert np.linalg.norm(frontend.latest_odometry('A')[2] - before) < 0.3
    assert any('A/camera' in one.text for one in frontend.findings if one.kind == 'configuration')
    (late,) = [one for one in frontend.findings if one.kind == 'frame_late']
    assert 'A/camera' in late.text and 'until a reset' in late.text
    frontend.reset()  # what is constant outlasts it
    for step in range(3):
        frontend.add(by_sensor(body.odometry(step / 10), MOUNTED))
    assert np.allclose(frontend.latest_odometry('A')[2], body.odometry(0.2).position_xyz[:2])


def test_a_frame_that_moves_far_is_believed_at_the_second_message():
    frontend = Frontend(config())
    near = frame('A/base_link', 'tag', transform(HALF))
    far = replace(near, position_xyz=near.position_xyz + np.array([20.0, 0.0, 0.0]))
    assert frontend.add(near) and not frontend.add(far) and frontend.add(near)
    assert not frontend.add(far) and frontend.add(far) and not frontend.add(near)
    assert frontend.frames.between('A/base_link', 'tag')[0] == far.position_xyz[0]
    assert frontend.counters['frames'].dropped == {'unconfirmed': 3}


def test_frames_are_joined_and_cut_by_every_transform():
    """Asked after each of them, a tree tells what one that is asked for the first time does."""
    rng, frontend, known = np.random.default_rng(3), Frontend(config()), {}
    asked = frontend.frames
    for _ in range(80):
        parent, child = map(str, rng.choice(9, 2, replace=False))
        sample = frame(parent, child, transform(rng.normal(size=6).tolist()))
        if asked.add(sample, frontend.counters['frames']):
            known[child] = sample
        fresh = StaticFrames()
        fresh.restore({one.child: (one.parent, (*one.position_xyz, *one.quat_xyzw))
                       for one in known.values()})
        for pair in ((str(a), str(b)) for a in range(9) for b in range(9)):
            assert (asked.between(*pair) is None) == (fresh.between(*pair) is None)
            if asked.between(*pair) is not None:
                assert np.allclose(asked.between(*pair), fresh.between(*pair))


def test_antennas_cameras_and_receivers_sit_where_their_frames_do(dimension):
    """Nothing of it is configured; the target's antenna is known from its own messages."""
    robots = [Robot('A', dimension, 4), Robot('B', dimension, 5)]
    frontend = Frontend(config(dimension=dimension, **{
        'sightings.new_landmark_sightings': 1, 'fixes.topic': '/{robot}/fix'}))
    levers = {'A': np.array([0.4, -0.1, 0.0]), 'B': np.array([-0.2, 0.3, 0.0])}
    for name, lever in levers.items():
        mounted = transform([*lever, 0.0, 0.0, 0.5])
        frontend.add(frame(f'{name}/base_link', f'{name}/antenna', mounted))
    drive(frontend, robots, 8.0)
    a, b = robots
    tag = np.array([3.0, 4.0, 0.0])
    for t in (2.0, 3.1, 4.7):
        for one, other, late in (('A', 'B', 0.0), ('B', 'A', 0.4)):
            distance = np.linalg.norm(
                a.antenna(t + late, levers['A']) - b.antenna(t + late, levers['B']))
            frontend.add(range_sample(one, other, t + late, distance, frame_id=f'{one}/antenna'))
        frontend.add(a.fix(t, levers['A'], antenna='A/antenna', quat_xyzw=None))
        turn, move = b.pose(t)
        place = mounted[:3, :3].T @ (turn.T @ (tag - move) - mounted[:3, 3])
        frontend.add(b.sighting(t, 'tag', tag, position_xyz=place, frame_id='B/antenna'))
    graph = graph_of(frontend)
    assert (len(graph.ranges), len(graph.sightings), len(graph.point_priors)) == (6, 3, 3)
    cost = squared_residuals(graph, truth(graph, robots, {'tag': tag}))
    # The first range was measured before B had said where its antenna is.
    assert np.max(cost['ranges'][1:]) < 1e-12 < cost['ranges'][0]
    assert np.max(cost['sightings']) < 1e-12 and np.max(cost['point_priors']) < 1e-12


def test_sightings_wait_for_the_place_of_their_camera():
    frontend, (a, _) = driven(3.0, **{'sightings.new_landmark_sightings': 1})
    frontend.add(a.sighting(1.0, 'tag', np.array([3.0, 1.0, 0.0]), frame_id='A/eye'))
    graph = graph_of(frontend, flush=False)
    assert frontend.counters['sightings'].waiting == 1
    frontend.add(frame('A/base_link', 'A/eye', transform(HALF)))
    assert len(graph_of(frontend, graph=graph).sightings) == 1
    assert frontend.counters['sightings'].balanced and not frontend.findings
