"""Everything the node publishes after a solve, and TF between solves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
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
from ..backend.session.solution import Covariances, Fix, Solution
from ..config import ConfigError
from ..config.sparser import SparserConfig
from ..io.tum import xyz
from . import picture
from .markers import (
    WIPE,
    Marker,
    beacon_markers,
    marker_array_bytes,
    replacing,
    scene_markers,
)
from .messages import (
    LATCHED,
    NO_EVENTS,
    STATUS,
    TRANSFORMS,
    fill_pose,
    path_bytes,
    time_message,
    topic_token,
)
from .pipeline import Pipeline

MOST_POSES = 20_000
"""Longer paths are thinned evenly to so many poses, the newest kept."""
MARKER_PERIOD_S = 1.0
"""Least time between two ~/markers."""
WORK_S = 0.005
"""Time after which one call begins no further piece: others wait for their callbacks."""


class Publishers:
    """Publishes a solution piece by piece, so that no callback takes long.

    `publish(solution)` queues the pieces; `work()` publishes them, those that have waited longest
    first: pieces of many robots may take longer than the next solution. TF is independent of all
    that: `broadcast()` sends the newest transforms whenever it is called.
    """

    def __init__(self, node: Node, pipeline: Pipeline) -> None:
        self._node, self._pipeline = node, pipeline
        self._jobs: dict[tuple[str, str], Callable[[], None]] = {}
        """By topic and robot."""
        self._last_markers_s = -1e18
        self._markers_due: Solution | None = None
        self._covariances: Covariances | None = None
        self._keyframe_xyz: dict[str, Array] = {}
        """Newest keyframe of each robot with a pose, (3,); `_covariances` are of these."""
        self._keyframe_ns: dict[str, int] = {}
        """Their stamps."""
        self.corrections_m: dict[str, float] = {}
        """How far the last solution moved each robot in `map`."""
        self.map_to_odom = MapToOdom()

        def publisher(kind: Any, topic: str, profile: QoSProfile) -> Publisher:
            return node.create_publisher(kind, topic, profile, event_callbacks=NO_EVENTS)

        self._tf = publisher(TFMessage, '/tf', TRANSFORMS)
        self._transforms: dict[str, TransformStamped] = {}
        """Of the robots in `map_to_odom`, to be sent with newer and newer stamps."""
        self._stated: dict[str, Array] = {}
        """T_map_odom (4, 4) of every robot whose pose is published, located or not."""
        self._paths: dict[str, Publisher] = {}
        self._located: set[str] = set()
        """Robots that have been located."""
        self._laid: tuple[str, ...] = ()
        """Those whose path is shown; the newest path of all others is empty, or about to be."""
        self._poses: dict[str, Publisher] = {}
        self._odometry: dict[str, Publisher] = {}
        self._odometry_ns: dict[str, int] = {}
        """Stamp of the newest odometry sent, by robot."""
        robots = {topic_token(robot): robot for robot in pipeline.config.robots}
        if len(robots) < len(pipeline.config.robots):
            raise ConfigError(
                f'robots: two of {list(pipeline.config.robots)} would publish on the same topics, '
                f'in which their names are {list(map(topic_token, pipeline.config.robots))}')
        for token, robot in robots.items():
            self._paths[robot] = publisher(Path, f'~/path/{token}', LATCHED)
            self._poses[robot] = publisher(PoseWithCovarianceStamped, f'~/pose/{token}', STATUS)
            self._odometry[robot] = publisher(Odometry, f'~/odometry/{token}', STATUS)
        self._markers = publisher(MarkerArray, '~/markers', LATCHED)
        self._beacons = publisher(MarkerArray, '~/beacons', LATCHED)
        self._shown_beacons: list[Marker] = []

    @property
    def _config(self) -> SparserConfig:
        return self._pipeline.config

    def publish(self, solution: Solution) -> None:
        """Take over the transforms at once and queue the rest, replacing what is still queued."""
        graph = self._pipeline.graph
        self._stated = picture.map_to_odom(solution, graph)
        transforms = {
            robot: self._stated[robot] for robot in picture.newest_rows(
                solution, graph, Fix.FLOAT if self._config.node.publish.tf_float else Fix.FIXED)}
        self.corrections_m = picture.corrections(
            self.map_to_odom.transforms, transforms, self._pipeline.frontend.latest_odometry)
        self.map_to_odom.update(transforms)
        self._transforms = {robot: self._transform(robot, T) for robot, T in transforms.items()}
        self._covariances = solution.covariances
        rows = picture.newest_rows(solution, graph, Fix.FLOAT)
        self._keyframe_xyz = {robot: xyz(solution.estimate.translation[row:row + 1])[0]
                              for robot, row in rows.items()}
        self._keyframe_ns = {robot: int(graph.poses.stamp_ns[row]) for robot, row in rows.items()}
        jobs: dict[tuple[str, str], Callable[[], None]] = {}
        self._located.update(
            robot for robot, fix in solution.fixes.items() if fix is Fix.FIXED)
        before, self._laid = self._laid, solution.laid(self._located)
        for robot in self._paths:
            if robot in self._stated:
                jobs['pose', robot] = partial(self._publish_pose, robot)
            if robot in self._laid or robot in before or ('path', robot) in self._jobs:
                jobs['path', robot] = partial(self._publish_path, robot, solution)
        jobs['beacons', ''] = partial(self._publish_beacons, solution)
        self._jobs = {key: jobs[key] for key in (*self._jobs, *jobs) if key in jobs}
        self._markers_due = solution

    def work(self) -> None:
        """Publish pieces for a moment, if there are any."""
        begin_s = time.monotonic()
        if self._jobs:
            while self._jobs:
                self._jobs.pop(next(iter(self._jobs)))()
                if time.monotonic() - begin_s > WORK_S:
                    return
        elif self._markers_due is not None and self._markers.get_subscription_count() and (
            begin_s - self._last_markers_s >= MARKER_PERIOD_S
        ):
            solution, self._markers_due = self._markers_due, None
            self._last_markers_s = begin_s
            self._publish_markers(solution)

    def begun_anew(self, robot: str) -> bool:
        """Whether a robot's odometry has another frame than in the newest solution, so that the
        two together say nothing of where it is."""
        stamp_ns = self._keyframe_ns.get(robot)
        return stamp_ns is not None and self._pipeline.frontend.begun_anew_since(robot, stamp_ns)

    def broadcast(self, withheld: Callable[[str], bool]) -> None:
        """Send map -> odom of every located robot that is not withheld, stamped ahead of now."""
        sent = [robot for robot in self.map_to_odom.transforms
                if not withheld(robot) and not self.begun_anew(robot)]
        if not sent or not self._config.node.publish.tf:
            return
        stamp = self.map_to_odom.next_stamp_ns(
            self._now_ns(), int(self._config.node.tf_tolerance_s * 1e9))
        if stamp is None:
            return
        stamped, time_of_all = [self._transforms[robot] for robot in sent], time_message(stamp)
        for transform in stamped:
            transform.header.stamp = time_of_all
        self._tf.publish(TFMessage(transforms=stamped))

    def _transform(self, robot: str, T_map_odom: Array) -> TransformStamped:
        message, frames = TransformStamped(), self._config.frames
        message.header.frame_id = frames.map
        message.child_frame_id = self._config.topic(frames.odom, robot)
        fill_pose(message.transform.translation, message.transform.rotation, T_map_odom)
        return message

    @property
    def followed(self) -> bool:
        """Whether anybody listens to odometry in `map`."""
        return any(publisher.get_subscription_count() for publisher in self._odometry.values())

    def follow(self, withheld: Callable[[str], bool]) -> None:
        """Send the newest odometry of every located robot in `map`, to who listens.

        Between two calls only the newest message counts: a controller has no use for others.
        """
        for robot, transform in self.map_to_odom.transforms.items():
            publisher = self._odometry[robot]
            if not publisher.get_subscription_count() or withheld(robot) or self.begun_anew(robot):
                continue
            newest = self._pipeline.frontend.latest_odometry(robot)
            if newest is None or newest[0] == self._odometry_ns.get(robot):
                continue
            self._odometry_ns[robot] = newest[0]
            message = self._pose(Odometry(), robot, transform, newest)
            message.child_frame_id = self._config.topic(self._config.frames.base, robot)
            # The speed is that of the robot's own odometry: -1 says unknown, as in sensor_msgs/Imu.
            message.twist.covariance[0] = -1.0
            publisher.publish(message)

    def _pose(
        self, message: Any, robot: str, T_map_odom: Array, odometry: tuple[int, Array, Array]
    ) -> Any:
        """A message with the pose in `map` of an odometry message (stamp in ns, rotation,
        translation), filled in."""
        stamp_ns, rotation, translation = odometry
        pose = T_map_odom @ picture.lifted(rotation, translation)
        message.header.stamp = time_message(stamp_ns)
        message.header.frame_id = self._config.frames.map
        fill_pose(message.pose.pose.position, message.pose.pose.orientation, pose)
        moved = pose[:3, 3] - self._keyframe_xyz.get(robot, pose[:3, 3])
        message.pose.covariance = picture.message_covariance(
            self._covariances, robot, moved).ravel()
        return message

    def clear(self, *, restart_stamps: bool) -> None:
        """Withdraw everything after a reset: no TF, empty paths, no markers."""
        self._jobs.clear()
        self._markers_due = None
        self.map_to_odom.clear(restart_stamps=restart_stamps)
        self._stated, self.corrections_m, self._keyframe_ns = {}, {}, {}
        self._located, self._laid = set(), ()
        for robot in self._paths:
            self._clear_path(robot)
        self._show(self._markers, [WIPE])
        self._show(self._beacons, [WIPE])
        self._shown_beacons = []

    def _now_ns(self) -> int:
        return int(self._node.get_clock().now().nanoseconds)

    def _clear_path(self, robot: str) -> None:
        self._paths[robot].publish(path_bytes(
            self._now_ns(), self._config.frames.map, np.zeros(0, dtype=np.int64),
            np.zeros((0, 3)), np.zeros((0, 4))))

    def _publish_path(self, robot: str, solution: Solution) -> None:
        if robot not in self._laid:
            self._clear_path(robot)
            return
        path = picture.trajectory(solution, self._pipeline.graph, robot, MOST_POSES)
        stamp = int(path[0][-1]) if len(path[0]) else self._now_ns()
        self._paths[robot].publish(path_bytes(stamp, self._config.frames.map, *path))

    def _publish_pose(self, robot: str) -> None:
        newest = self._pipeline.frontend.latest_odometry(robot)
        transform = self._stated.get(robot)
        if newest is not None and transform is not None and not self.begun_anew(robot):
            self._poses[robot].publish(
                self._pose(PoseWithCovarianceStamped(), robot, transform, newest))

    def _publish_beacons(self, solution: Solution) -> None:
        markers = beacon_markers(
            solution, self._pipeline.graph, self._config.node.publish.beacon_size_m)
        self._show(self._beacons, replacing(self._shown_beacons, markers))
        self._shown_beacons = markers

    def _publish_markers(self, solution: Solution) -> None:
        pipeline = self._pipeline
        markers = scene_markers(
            solution, pipeline.graph, pipeline.rulings, self._config.node.publish, self._laid)
        self._show(self._markers, [WIPE, *markers])

    def _show(self, publisher: Publisher, markers: Sequence[Marker]) -> None:
        publisher.publish(
            marker_array_bytes(self._now_ns(), self._config.frames.map, markers))


class MapToOdom:
    """The transforms now valid, and stamps that only ever grow.

    tf2 refuses a stamp that it has seen and consumers fail on one that goes back, so a stopped
    clock silences the broadcast; only a new solution is still sent, one microsecond on.
    """

    RESEND_NS = 1000

    def __init__(self) -> None:
        self.transforms: Mapping[str, Array] = {}
        """T_map_odom by robot."""
        self._changed = False
        self._last_stamp_ns = 0

    def update(self, transforms: Mapping[str, Array]) -> None:
        """Replace all transforms by those of a new solution."""
        self.transforms, self._changed = transforms, True

    def clear(self, *, restart_stamps: bool = False) -> None:
        """Forget the transforms; after a jump back in time stamps start again as well."""
        self.transforms, self._changed = {}, False
        if restart_stamps:
            self._last_stamp_ns = 0

    def next_stamp_ns(self, now_ns: int, tolerance_ns: int) -> int | None:
        """Stamp of a broadcast now, that much ahead; None when there is nothing to say or no time
        to say it."""
        if not self.transforms or now_ns <= 0:
            return None
        stamp = now_ns + tolerance_ns
        if stamp <= self._last_stamp_ns:
            if not self._changed:
                return None
            stamp = self._last_stamp_ns + self.RESEND_NS
        self._last_stamp_ns, self._changed = stamp, False
        return stamp
