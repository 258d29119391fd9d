"""Two robots that share nothing but the landmarks they see; a camera known from `/tf_static`."""

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, TransformStamped
from node_world import Scene, World, fill_pose
from rclpy.qos import DurabilityPolicy, QoSProfile
from scipy.spatial.transform import Rotation
from sparser_ros.msg import LandmarkSighting
from tf2_msgs.msg import TFMessage

from sparser_ros.io import pyfg
from sparser_ros.linalg.rotations import align
from sparser_ros.node.messages import time_message

LANDMARKS = {'t1': [8.0, 3.0], 't2': [-6.0, 7.0], 't3': [2.0, -9.0], 't4': [-8.0, -5.0]}
EVERY, SIGMA_M = 3, 0.03


def seen(scene, robot, seed):
    """(stamp, name, (2,) place of the landmark in the base frame) of every third odometry."""
    track = scene.run.tracks[scene.run.robots.index(robot)]
    noise = np.random.default_rng(seed)
    for k in range(0, len(track.stamp_ns), EVERY):
        name = list(LANDMARKS)[(k // EVERY) % len(LANDMARKS)]
        place = track.true_rotation[k].T @ (LANDMARKS[name] - track.true_translation[k])
        yield int(track.stamp_ns[k]) + scene.shift, name, place + noise.normal(size=2) * SIGMA_M


def own_message(robot, stamp, name, place):
    message = LandmarkSighting(robot=robot, landmark=name)
    message.header.stamp = time_message(stamp)
    message.position.x, message.position.y = place.tolist()
    message.covariance = (np.eye(3) * SIGMA_M**2).ravel()
    return message


def pose_message(stamp, place):
    """A tag's pose in a camera that looks ahead: x to the right, y down, z ahead."""
    message = PoseStamped()
    message.header.stamp, message.header.frame_id = time_message(stamp), 'B_camera'
    position = message.pose.position
    position.x, position.y, position.z = -place[1], 0.3, place[0] - 0.2
    return message


def camera_of_b():
    """Where that camera is: its frame in that of the base, for `/tf_static`."""
    message = TransformStamped(child_frame_id='B_camera')
    message.header.frame_id = 'B/base_link'
    fill_pose(message.transform.translation, message.transform.rotation, [0.2, 0.0, 0.3],
              Rotation.from_euler('xyz', [-np.pi / 2, 0.0, -np.pi / 2]).as_quat())
    return message


@pytest.fixture
def scene():
    """Odometry of a simulated run, with sightings in place of its ranges."""
    scene = Scene()
    events = [event for event in scene.events if event[1].endswith('/odom')]
    events += [(stamp, '/landmark_sightings', own_message('A', stamp, name, place))
               for stamp, name, place in seen(scene, 'A', 1)]
    events += [(stamp, f'/B/tags/{name}/pose', pose_message(stamp, place))
               for stamp, name, place in seen(scene, 'B', 2)]
    scene.events = sorted(events, key=lambda event: event[0])
    return scene


def test_robots_are_located_by_what_both_see(tmp_path, scene):
    count = sum('odom' not in topic for _, topic, _ in scene.events)
    with World({
            'sightings.inputs.own.topic': '/landmark_sightings',
            'sightings.inputs.tags.topic': '/{robot}/tags/(?P<landmark>[^/]+)/pose',
            'sightings.inputs.tags.adapter': 'pose_topic',
            'node.save_directory': str(tmp_path / 'maps')}) as world:
        latch = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        world.friend.create_publisher(TFMessage, '/tf_static', latch).publish(
            TFMessage(transforms=[camera_of_b()]))
        for name in LANDMARKS:
            topic = f'/B/tags/{name}/pose'
            world.publishers[topic] = world.friend.create_publisher(PoseStamped, topic, 1000)
            assert world.until(world.publishers[topic].get_subscription_count), 'not discovered'
        world.play(scene.events)
        assert world.until(lambda: world.counters()['sightings']['received'] >= count)
        world.solved()
        world.located()
        assert world.counters()['frames']['accepted'] == 1
        counters = world.counters()['sightings']
        assert counters['received'] == counters['accepted'] == count, counters
        assert world.until(lambda: world.status.sightings == count)
        # A beacon may be the last to be located; the answer says which are not.
        saved: list[str] = []

        def complete():
            answer = world.call('save')
            saved.append(answer.message)
            return answer.success and '\n' not in answer.message

        assert world.until(complete), saved[-1]
    graph = pyfg.read(f'{saved[-1]}/map.pyfg')
    assert len(graph.sightings) == count and sorted(graph.landmarks.names) == sorted(LANDMARKS)
    marks = np.array([LANDMARKS[name] for name in graph.landmarks.names])
    truth = {robot: scene.truth(robot) for robot in graph.robots}
    poses = np.array([truth[graph.robots[robot]][stamp] for robot, stamp in zip(
        graph.poses.robot.tolist(), graph.poses.stamp_ns.tolist(), strict=True)])
    turn, move = align(graph.poses.translation, poses)
    found = graph.landmarks.position @ turn.T + move
    assert np.max(np.linalg.norm(found - marks, axis=1)) < 0.15
