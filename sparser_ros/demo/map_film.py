"""Frames of the map while it grows, from what the node publishes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import rclpy
from nav_msgs.msg import Path
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from visualization_msgs.msg import Marker, MarkerArray

from ..array_types import Array
from ..msg import SolverStatus
from ..node.conversions import stamp_ns, topic_token
from ..node.qos import LATCHED, STATUS
from ..plot.animation import MapFrame

LEAST_STEP_S = 0.1
"""Of data, between two frames; of those that come faster the newest stays."""


class MapFilm:
    """Subscribes to paths, beacons and status of one sparser node, in a thread of its own."""

    def __init__(self, robots: Sequence[str], node_name: str = '/sparser') -> None:
        self.frames: list[MapFrame] = []
        self._paths: dict[str, Array] = {}
        self._beacons: dict[str, Array] = {}
        self._begin_s: float | None = None
        self._context = Context()
        rclpy.init(args=['--ros-args', '--log-level', 'error'], context=self._context)
        self._node = rclpy.create_node(
            'sparser_map_film', context=self._context, enable_rosout=False)
        for robot in robots:
            self._node.create_subscription(
                Path, f'{node_name}/path/{topic_token(robot)}',
                partial(self._on_path, robot), LATCHED)
        self._node.create_subscription(
            MarkerArray, f'{node_name}/beacons', self._on_beacons, LATCHED)
        self._node.create_subscription(
            SolverStatus, f'{node_name}/status', self._on_status, STATUS)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def _on_path(self, robot: str, message: Path) -> None:
        self._paths[robot] = np.array(
            [_xyz(one.pose.position) for one in message.poses]).reshape(-1, 3)

    def _on_beacons(self, message: MarkerArray) -> None:
        self._beacons = {
            one.text: np.array(_xyz(one.pose.position)) for one in message.markers
            if one.ns == 'beacons' and one.type == Marker.SPHERE and one.action == Marker.ADD}

    def _on_status(self, message: SolverStatus) -> None:
        states = dict(zip(message.robot_names, message.robot_states, strict=True))
        now = stamp_ns(message.header.stamp) * 1e-9
        if not message.keyframes:
            return
        if self._begin_s is None:
            self._begin_s = now
        seconds = now - self._begin_s
        if self.frames and seconds - self.frames[-1].seconds < LEAST_STEP_S:
            # Not the older one: after the end of the data the clock stands, and the map does not.
            self.frames.pop()
        # The last path of a robot that was withdrawn is still latched on its topic.
        self.frames.append(MapFrame(
            seconds, {robot: path for robot, path in self._paths.items()
                      if states.get(robot) == 'located'}, self._beacons, states))

    def close(self) -> None:
        """Stop listening."""
        self._executor.shutdown(timeout_sec=2.0)
        rclpy.try_shutdown(context=self._context)
        self._thread.join(2.0)
        self._node.destroy_node()


def _xyz(point: Any) -> tuple[float, float, float]:
    return point.x, point.y, point.z
