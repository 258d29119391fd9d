"""Everything the node publishes after a solve, and TF between solves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped
from nav_msgs.msg import Odometry, Path
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from ..array_types import Array
from ..backend.session.covariances import Covariances
from ..backend.session.solution import Fix, Solution
from ..config.sparser import SparserConfig
from .cdr import path_bytes
from .conversions import fill_pose, time_message, topic_token
from .marker_scene import Newest, beacon_markers, scene_markers
from .markers import DELETE_ALL, Marker, marker_array_bytes, with_deletions
from .picture import corrections, map_to_odom, newest_rows, trajectory
from .pipeline import Pipeline
from .pose_covariance import message_covariance
from .qos import LATCHED, NO_EVENTS, STATUS, TRANSFORMS
from .transforms import MapToOdom, Transform, lifted, spatial


class Publishers:
    """Publishes a solution piece by piece, so that no callback takes long.

    `publish(solution)` queues the pieces; `work()` publishes one of them. TF is independent of
    all that: `broadcast()` sends the newest transforms whenever it is called.
    """

    def __init__(self, node: Node, config: SparserConfig, pipeline: Pipeline) -> None:
        self._node = node
        self._config = config
        self._pipeline = pipeline
        self._jobs: deque[Callable[[], None]] = deque()
        self._shown: set[tuple[str, int]] = set()
        self._last_markers_s = -1e18
        self._markers_due: Solution | None = None
        self._covariances: Covariances | None = None
        self._keyframe_xyz: dict[str, Array] = {}
        """Newest keyframe of each robot with a pose, (3,); `_covariances` are of these."""
        self.corrections_m: dict[str, float] = {}
        """How far the last solution moved each robot in `map`."""
        self.map_to_odom = MapToOdom(int(config.node.tf_tolerance_s * 1e9))

        def publisher(kind: Any, topic: str, profile: QoSProfile) -> Publisher:
            return node.create_publisher(kind, topic, profile, event_callbacks=NO_EVENTS)

        self._tf = publisher(TFMessage, '/tf', TRANSFORMS)
        self._stated: dict[str, Transform] = {}
        """T_map_odom of every robot whose pose is published, located or not."""
        self._paths: dict[str, Publisher] = {}
        self._poses: dict[str, Publisher] = {}
        self._odometry: dict[str, Publisher] = {}
        self._odometry_ns: dict[str, int] = {}
        """Stamp of the newest odometry sent, by robot."""
        for robot in config.robots:
            token = topic_token(robot)
            self._paths[robot] = publisher(Path, f'~/path/{token}', LATCHED)
            self._poses[robot] = publisher(PoseWithCovarianceStamped, f'~/pose/{token}', STATUS)
            self._odometry[robot] = publisher(Odometry, f'~/odometry/{token}', STATUS)
        self._markers = publisher(MarkerArray, '~/markers', LATCHED)
        self._beacons = publisher(MarkerArray, '~/beacons', LATCHED)

    def configure(self, config: SparserConfig) -> None:
        """Apply changed live options."""
        self._config = config
        self.map_to_odom.tolerance_ns = int(config.node.tf_tolerance_s * 1e9)

    def publish(self, solution: Solution) -> None:
        """Take over the transforms at once and queue the rest, replacing what is still queued."""
        publish, keyframes = self._config.node.publish, self._pipeline.keyframes
        self._stated = map_to_odom(solution, keyframes)
        transforms = {
            robot: self._stated[robot] for robot in newest_rows(
                solution, keyframes, Fix.FLOAT if publish.tf_float else Fix.FIXED)}
        self.corrections_m = corrections(
            self.map_to_odom.transforms, transforms, self._pipeline.frontend.latest_odometry)
        self.map_to_odom.update(transforms)
        self._covariances = solution.covariances
        self._keyframe_xyz = {
            robot: spatial(solution.estimate.translation[row:row + 1])[0]
            for robot, row in newest_rows(solution, keyframes, Fix.FLOAT).items()}
        self._jobs.clear()
        for robot in self._stated:
            if publish.poses:
                self._jobs.append(partial(self._publish_pose, robot))
            if publish.paths:
                self._jobs.append(partial(self._publish_path, robot, solution))
        if publish.beacons:
            self._jobs.append(partial(self._publish_beacons, solution))
        self._markers_due = solution if publish.markers else None

    def work(self, steady_s: float) -> None:
        """Publish one piece, if there is one."""
        if self._jobs:
            self._jobs.popleft()()
        elif self._markers_due is not None and self._markers.get_subscription_count() and (
            steady_s - self._last_markers_s >= self._config.node.publish.marker_period_s
        ):
            solution, self._markers_due = self._markers_due, None
            self._last_markers_s = steady_s
            self._publish_markers(solution)

    def broadcast(self, withheld: Callable[[str], bool]) -> None:
        """Send map -> odom of every located robot that is not withheld, stamped ahead of now."""
        sent = {robot: transform for robot, transform in self.map_to_odom.transforms.items()
                if not withheld(robot)}
        if not sent or not self._config.node.publish.tf:
            self.map_to_odom.follow(self._now_ns())
            return
        stamp = self.map_to_odom.next_stamp_ns(self._now_ns())
        if stamp is None:
            return
        frames = self._config.frames
        message = TFMessage()
        for robot, transform in sent.items():
            one = TransformStamped()
            one.header.stamp = time_message(stamp)
            one.header.frame_id = frames.map
            one.child_frame_id = self._config.topic(frames.odom, robot)
            fill_pose(one.transform.translation, one.transform.rotation,
                      transform.translation, transform.quat_xyzw)
            message.transforms.append(one)
        self._tf.publish(message)

    @property
    def followed(self) -> bool:
        """Whether anybody listens to odometry in `map`."""
        return any(one.get_subscription_count() for one in self._odometry.values())

    def follow(self, withheld: Callable[[str], bool]) -> None:
        """Send the newest odometry of every located robot in `map`, to who listens.

        Between two calls only the newest message counts: a controller has no use for others.
        """
        for robot, transform in self.map_to_odom.transforms.items():
            publisher = self._odometry[robot]
            newest = self._pipeline.frontend.latest_odometry(robot)
            if newest is None or withheld(robot) or not publisher.get_subscription_count() or (
                    newest[0] == self._odometry_ns.get(robot)):
                continue
            self._odometry_ns[robot] = newest[0]
            publisher.publish(self._in_map(robot, newest[0], transform @ lifted(*newest[1:])))

    def _in_map(self, robot: str, stamp_ns: int, pose: Transform) -> Odometry:
        frames = self._config.frames
        message = Odometry()
        message.header.stamp = time_message(stamp_ns)
        message.header.frame_id = frames.map
        message.child_frame_id = self._config.topic(frames.base, robot)
        fill_pose(message.pose.pose.position, message.pose.pose.orientation,
                  pose.translation, pose.quat_xyzw)
        message.pose.covariance = self._covariance(robot, pose.translation).ravel()
        # The speed is that of the robot's own odometry: -1 says unknown, as in sensor_msgs/Imu.
        message.twist.covariance[0] = -1.0
        return message

    def clear(self, *, restart_stamps: bool) -> None:
        """Withdraw everything after a reset: no TF, empty paths, no markers."""
        self._jobs.clear()
        self._markers_due = None
        self.map_to_odom.clear(restart_stamps=restart_stamps)
        self._stated = {}
        frame, now = self._config.frames.map, self._now_ns()
        none = np.zeros(0, dtype=np.int64)
        for publisher in self._paths.values():
            publisher.publish(path_bytes(now, frame, none, np.zeros((0, 3)), np.zeros((0, 4))))
        wipe = marker_array_bytes(now, frame, [Marker('', 0, action=DELETE_ALL)])
        self._markers.publish(wipe)
        self._beacons.publish(wipe)
        self._shown = set()

    def _now_ns(self) -> int:
        return int(self._node.get_clock().now().nanoseconds)

    def _publish_path(self, robot: str, solution: Solution) -> None:
        path = trajectory(solution, self._pipeline.keyframes, robot,
                          self._config.node.publish.path_max_poses)
        stamp = int(path.stamps_ns[-1]) if len(path.stamps_ns) else self._now_ns()
        self._paths[robot].publish(path_bytes(
            stamp, self._config.frames.map, path.stamps_ns, path.positions_xyz,
            path.quats_xyzw))

    def _publish_pose(self, robot: str) -> None:
        newest = self._pipeline.frontend.latest_odometry(robot)
        transform = self._stated.get(robot)
        if newest is None or transform is None:
            return
        stamp_ns, rotation, translation = newest
        pose = transform @ lifted(rotation, translation)
        message = PoseWithCovarianceStamped()
        message.header.stamp = time_message(stamp_ns)
        message.header.frame_id = self._config.frames.map
        fill_pose(message.pose.pose.position, message.pose.pose.orientation,
                  pose.translation, pose.quat_xyzw)
        message.pose.covariance = self._covariance(robot, pose.translation).ravel()
        self._poses[robot].publish(message)

    def _covariance(self, robot: str, position: Array) -> Array:
        """(6, 6) of a robot at `position` (3,)."""
        publish = self._config.node.publish
        if publish.pose_covariance == 'configured':
            return np.diag(
                [publish.pose_sigma_m ** 2] * 3 + [publish.pose_sigma_rad ** 2] * 3)
        keyframe = self._keyframe_xyz.get(robot, position)
        return message_covariance(self._covariances, robot, position - keyframe)

    def _publish_beacons(self, solution: Solution) -> None:
        markers = beacon_markers(solution, self._pipeline.keyframes,
                                 self._config.node.publish.beacon_size_m)
        self._beacons.publish(
            marker_array_bytes(self._now_ns(), self._config.frames.map, markers))

    def _publish_markers(self, solution: Solution) -> None:
        pipeline = self._pipeline
        markers = scene_markers(
            solution, pipeline.keyframes,
            Newest(pipeline.ranges, pipeline.counts.ranges, pipeline.closures, pipeline.sightings,
                   pipeline.counts.sightings, pipeline.rulings), self._config.node.publish)
        complete, self._shown = with_deletions(markers, self._shown)
        self._markers.publish(
            marker_array_bytes(self._now_ns(), self._config.frames.map, complete))
