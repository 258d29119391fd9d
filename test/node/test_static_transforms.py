"""`/tf_static` takes odometry from a sensor to the base."""

import copy

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped
from node_world import START_S, Scene, World
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_msgs.msg import TFMessage

pytestmark = pytest.mark.timeout(START_S)

CAMERA_X = 0.4
"""The camera of A looks ahead, so far in front of its base."""


class FrameWorld(World):
    """A node whose friend has latched the place of A's camera."""

    def __init__(self, overrides):
        super().__init__({'backend.worker': 'thread', 'node.start_paused': True, **overrides})
        latch = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.latched = self.friend.create_publisher(TFMessage, '/tf_static', latch)
        one = TransformStamped(child_frame_id='A/camera')
        one.header.frame_id = 'A/base_link'
        one.transform.translation.x, one.transform.rotation.w = CAMERA_X, 1.0
        self.latched.publish(TFMessage(transforms=[one]))

    def hear(self, events, count):
        """Play events, and wait until all odometry so far was taken in."""
        self.play(events)
        assert self.until(lambda: self.counters()['odometry']['received'] == count
                          and self.counters()['odometry']['waiting'] <= 2), self.counters()


def at_camera(event):
    """The odometry of A as a camera has it, in the same odometry frame."""
    stamp, topic, message = event
    if topic != '/A/odom':
        return event
    message = copy.deepcopy(message)
    pose = message.pose.pose
    yaw = 2 * np.arctan2(pose.orientation.z, pose.orientation.w)
    pose.position.x += CAMERA_X * np.cos(yaw)
    pose.position.y += CAMERA_X * np.sin(yaw)
    message.child_frame_id = 'A/camera'
    return stamp, topic, message


def test_odometry_of_a_camera_is_that_of_its_base_through_reset_and_resume(tmp_path):
    scene = Scene()
    odometry = [event for event in scene.events if event[1].endswith('/odom')]
    third = len(odometry) // 3
    parts = [odometry[:third], odometry[third:2 * third], odometry[2 * third:]]
    journal = {'node.journal.directory': str(tmp_path)}

    def base_of(part):
        """x and y of A's last odometry that is believed: the newest but one, or the newest."""
        return [np.array([m.pose.pose.position.x, m.pose.pose.position.y])
                for _, topic, m in part if topic == '/A/odom'][-2:]

    def checked(world, part):
        found = world.node.pipeline.frontend.latest_odometry('A')[2]
        assert min(np.linalg.norm(found - one) for one in base_of(part)) < 1e-9

    with FrameWorld(journal) as world:
        world.hear(map(at_camera, parts[0]), len(parts[0]))
        assert world.counters()['frames']['accepted'] == 1
        checked(world, parts[0])
        assert not [text for text in world.node.pipeline.frontend.warnings if 'camera' in text]
        assert world.call('reset').success
        world.hear(map(at_camera, parts[1]), len(parts[1]))
        checked(world, parts[1])
    with FrameWorld({**journal, 'node.journal.resume': True}) as world:
        checked(world, parts[1])
        world.hear(map(at_camera, parts[2]), len(parts[1]) + len(parts[2]))
        checked(world, parts[2])
