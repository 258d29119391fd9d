"""Frames of the map while it grows, from what the node publishes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from nav_msgs.msg import Path
from visualization_msgs.msg import Marker, MarkerArray

from ..array_types import Array
from ..msg import SolverStatus
from ..node.conversions import stamp_ns, topic_token
from ..node.qos import LATCHED, STATUS
from ..plot.animation import MapFrame
from .listener import Listener

LEAST_STEP_S = 0.1
"""Of data, between two frames; of those that come faster the newest stays."""


class MapFilm:
    """Subscribes to paths, beacons and status of one sparser node, in a thread of its own."""

    def __init__(self, robots: Sequence[str], node_name: str = '/sparser') -> None:
        self.frames: list[MapFrame] = []
        self._paths: dict[str, Array] = {}
        self._beacons: dict[str, Array] = {}
        self._begin_s: float | None = None
        self._listener = Listener('sparser_map_film')
        subscribe = self._listener.node.create_subscription
        for robot in robots:
            subscribe(
                Path, f'{node_name}/path/{topic_token(robot)}',
                partial(self._on_path, robot), LATCHED)
        subscribe(MarkerArray, f'{node_name}/beacons', self._on_beacons, LATCHED)
        subscribe(SolverStatus, f'{node_name}/status', self._on_status, STATUS)
        self._listener.start()

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
        if len(self.frames) > 1 and (
                self.frames[-1].seconds - self.frames[-2].seconds < LEAST_STEP_S):
            # Not the newest one: after the data the clock stands, and the map does not.
            self.frames.pop()
        # The last path of a robot that was withdrawn is still latched on its topic.
        self.frames.append(MapFrame(
            seconds, {robot: path for robot, path in self._paths.items()
                      if states.get(robot) == 'located'}, self._beacons, states))

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()


def _xyz(point: Any) -> tuple[float, float, float]:
    return point.x, point.y, point.z
