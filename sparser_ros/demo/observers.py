"""An observer of a node: what it publishes and answers."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import Path
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rosgraph_msgs.msg import Clock
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage

from ..config import SparserError
from ..config.sparser import SparserConfig
from ..io.availability import Availability, StatedPose
from ..msg import SolverStatus
from ..node.messages import LATCHED, STATUS, TRANSFORMS, path_points, stamp_ns, topic_token

NODE = '/sparser'
CLOCK_STOPPED_S = 0.1
"""Without a tick of /clock for this long (ten periods at 100 Hz), time counts as stopped."""


@dataclass
class TransformRecord:
    """Transforms received for one frame."""

    count: int = 0
    last_steady_s: float = 0.0
    """Steady time of the newest; 0 = none since the robot became located."""
    last_stamp_ns: int = 0
    not_increasing: int = 0
    """Number of stamps not later than the one before."""
    greatest_gap_s: float = 0.0


@dataclass
class Observation:
    """Messages received so far, in figures."""

    status: SolverStatus | None = None
    solutions: int = 0
    published: list[tuple[float, float]] = field(default_factory=list)
    """(stamp of the status, newest stamp in its solution), both in seconds of data time."""
    transforms: dict[str, TransformRecord] = field(default_factory=dict)
    diagnostics: dict[str, dict[str, str]] = field(default_factory=dict)
    """Values by task: inputs, graph, solver, callbacks, memory."""
    first_clock_steady_s: float = 0.0
    last_clock_steady_s: float = 0.0
    clock_count: int = 0
    availability: Availability = field(default_factory=Availability)

    @property
    def settled(self) -> bool:
        """True when the newest solution contains all data, by the diagnostics."""
        return self.diagnostics.get('graph', {}).get('settled') == 'True'

    @property
    def ready(self) -> bool:
        """True when tracker and auditor take data, by the diagnostics."""
        return self.diagnostics.get('solver', {}).get('ready') == 'True'

    def located(self) -> dict[str, str]:
        if self.status is None:
            return {}
        return dict(zip(self.status.robot_names, self.status.robot_states, strict=True))


class Monitor:
    """Hears what one sparser node publishes, in a context and a thread of its own; calls its
    services."""

    def __init__(self, config: SparserConfig) -> None:
        """`config`: that of the node."""
        self._config = config
        self._context = Context()
        rclpy.init(args=['--ros-args', '--log-level', 'error'], context=self._context)
        self._node = rclpy.create_node(
            'sparser_monitor', context=self._context, enable_rosout=False)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self.seen = Observation()
        self._paths: dict[str, bytes] = {}
        self._poses: dict[str, PoseWithCovarianceStamped] = {}
        subscribe = self._node.create_subscription
        for kind, topic, callback, profile in (
            (TFMessage, '/tf', self._on_transforms, TRANSFORMS),
            (SolverStatus, f'{NODE}/status', self._on_status, STATUS),
            (DiagnosticArray, '/diagnostics', self._on_diagnostics, STATUS),
            (Clock, '/clock', self._on_clock, STATUS),
        ):
            subscribe(kind, topic, callback, profile)
        for robot in config.robots:
            token = topic_token(robot)
            subscribe(PoseWithCovarianceStamped, f'{NODE}/pose/{token}',
                      partial(self._poses.__setitem__, robot), STATUS)
            subscribe(Path, f'{NODE}/path/{token}', partial(self._paths.__setitem__, robot),
                      LATCHED, raw=True)
        self._thread.start()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def close(self) -> None:
        self._executor.shutdown(timeout_sec=2.0)
        rclpy.try_shutdown(context=self._context)
        self._thread.join(2.0)
        self._node.destroy_node()

    def _draw(self, fixes: Mapping[str, int]) -> None:
        """Keep the newest paths and poses, which belong to the solution before."""
        d, paths, newest = self._config.dimension, {}, []
        for robot, data in self._paths.items():
            stamps, positions = path_points(data)
            pose = self._poses.get(robot)
            if not len(stamps) or pose is None or not fixes.get(robot):
                continue
            paths[robot] = stamps, positions[:, :d]
            here = pose.pose.pose.position
            newest.append(StatedPose(
                robot, fixes[robot], stamp_ns(pose.header.stamp),
                np.array([here.x, here.y, here.z])[:d],
                np.array(pose.pose.covariance).reshape(6, 6)[:d, :d]))
        self.seen.availability.draw(paths, newest)

    def _on_transforms(self, message: TFMessage) -> None:
        now = time.monotonic()
        for transform in message.transforms:
            record = self.seen.transforms.setdefault(transform.child_frame_id, TransformRecord())
            stamp = stamp_ns(transform.header.stamp)
            record.not_increasing += int(stamp <= record.last_stamp_ns)
            record.last_stamp_ns = stamp
            if record.last_steady_s:
                self._gap(record, now)
            record.count += 1
            record.last_steady_s = now

    def _gap(self, record: TransformRecord, now: float) -> None:
        # Without /clock the node has no stamps for transforms: the gap ends at its last tick.
        tick = self.seen.last_clock_steady_s
        end = tick if self.seen.clock_count and now - tick > CLOCK_STOPPED_S else now
        record.greatest_gap_s = max(record.greatest_gap_s, end - record.last_steady_s)

    def _on_status(self, message: SolverStatus) -> None:
        before = self.seen.status
        if before is None or (before.cost, before.solve_seconds) != (
                message.cost, message.solve_seconds):
            self.seen.solutions += 1
            if before is not None:
                self._draw(dict(zip(before.robot_names, map(int, before.robot_fix), strict=True)))
            if math.isfinite(message.latency):
                at = stamp_ns(message.header.stamp) * 1e-9
                self.seen.published.append((at, at - message.latency))
        for robot, state in zip(message.robot_names, message.robot_states, strict=True):
            record = self.seen.transforms.get(
                self._config.topic(self._config.frames.odom, robot))
            if state != 'located' and record is not None:
                # It has no transform: its gap ends.
                record.last_steady_s = 0.0
        if message.keyframes:
            now = stamp_ns(message.header.stamp) * 1e-9
            self.seen.availability.note(
                now, dict(zip(message.robot_names, map(int, message.robot_fix), strict=True)))
        self.seen.status = message

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            task = status.name.rsplit(': ', 1)[-1]
            values = {item.key: item.value for item in status.values}
            self.seen.diagnostics[task] = {**values, 'message': status.message}

    def _on_clock(self, _message: Clock) -> None:
        self.seen.last_clock_steady_s = time.monotonic()
        if not self.seen.clock_count:
            self.seen.first_clock_steady_s = self.seen.last_clock_steady_s
        self.seen.clock_count += 1

    def close_gaps(self) -> None:
        """Count the time from the last transforms to the last tick of /clock as gaps, too."""
        for record in self.seen.transforms.values():
            if record.last_steady_s:
                self._gap(record, time.monotonic())

    def call(self, service: str, timeout_s: float) -> Trigger.Response:
        """Call a Trigger service of the node; SparserError without an answer in `timeout_s`."""
        client = self._node.create_client(Trigger, f'{NODE}/{service}')
        deadline = time.monotonic() + timeout_s
        try:
            if not client.wait_for_service(timeout_sec=timeout_s):
                raise SparserError(f'{NODE}/{service} is not offered')
            answered = threading.Event()
            future = client.call_async(Trigger.Request())
            future.add_done_callback(lambda _: answered.set())
            if not answered.wait(deadline - time.monotonic()):
                raise SparserError(f'{NODE}/{service} gave no answer in {timeout_s:.0f} s')
            response: Any = future.result()
            return response
        finally:
            self._node.destroy_client(client)
