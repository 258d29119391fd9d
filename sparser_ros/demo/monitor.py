"""An observer of the node: gaps of its transforms in wall time, status, diagnostics, services."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rosgraph_msgs.msg import Clock
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage

from ..config import SparserError
from ..msg import SolverStatus
from ..node.conversions import stamp_ns
from ..node.qos import STATUS, TRANSFORMS
from .listener import Listener

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
    gap_at_s: float = 0.0
    """End of the greatest gap, in seconds after the start of the monitor."""


@dataclass
class Observation:
    """Messages received so far, in figures."""

    status: SolverStatus | None = None
    status_count: int = 0
    solutions: int = 0
    published: list[tuple[float, float]] = field(default_factory=list)
    """(stamp of the status, newest stamp in its solution), both in seconds of data time."""
    transforms: dict[str, TransformRecord] = field(default_factory=dict)
    diagnostics: dict[str, dict[str, str]] = field(default_factory=dict)
    """Values by task: inputs, graph, solver, callbacks, memory."""
    first_clock_steady_s: float = 0.0
    last_clock_steady_s: float = 0.0
    clock_count: int = 0
    before_solution: int = 0
    """Number of transforms received while no robot was located."""

    @property
    def settled(self) -> bool:
        """True when the newest solution contains all data, by the diagnostics."""
        return self.diagnostics.get('graph', {}).get('settled') == 'True'

    @property
    def ready(self) -> bool:
        """True when tracker and auditor take data, by the diagnostics."""
        return self.diagnostics.get('solver', {}).get('ready') == 'True'

    def located(self) -> dict[str, str]:
        """State of every robot."""
        if self.status is None:
            return {}
        return dict(zip(self.status.robot_names, self.status.robot_states, strict=True))


class Monitor:
    """Subscribes to one sparser node from a context and thread of its own."""

    def __init__(
        self, node_name: str = '/sparser', *, odom_frame: str = '{robot}/odom'
    ) -> None:
        self._odom_frame = odom_frame
        self.seen = Observation()
        self.begin = time.monotonic()
        self._listener = Listener('sparser_monitor')
        self._node = self._listener.node
        self._name = node_name
        for kind, topic, callback, profile in (
            (TFMessage, '/tf', self._on_transforms, TRANSFORMS),
            (SolverStatus, f'{node_name}/status', self._on_status, STATUS),
            (DiagnosticArray, '/diagnostics', self._on_diagnostics, STATUS),
            (Clock, '/clock', self._on_clock, STATUS),
        ):
            self._node.create_subscription(kind, topic, callback, profile)
        self._listener.start()

    def _on_transforms(self, message: TFMessage) -> None:
        now = time.monotonic()
        seen = self.seen
        if seen.status is None or not seen.status.robots_located:
            seen.before_solution += 1
        for one in message.transforms:
            record = seen.transforms.setdefault(one.child_frame_id, TransformRecord())
            stamp = stamp_ns(one.header.stamp)
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
        gap = end - record.last_steady_s
        if gap > record.greatest_gap_s:
            record.greatest_gap_s, record.gap_at_s = gap, now - self.begin

    def _on_status(self, message: SolverStatus) -> None:
        before = self.seen.status
        if before is None or (before.cost, before.solve_seconds) != (
                message.cost, message.solve_seconds):
            self.seen.solutions += 1
            if math.isfinite(message.latency):
                at = stamp_ns(message.header.stamp) * 1e-9
                self.seen.published.append((at, at - message.latency))
        for robot, state in zip(message.robot_names, message.robot_states, strict=True):
            if state != 'located':
                self._interrupt(self._odom_frame.replace('{robot}', robot))
        self.seen.status = message
        self.seen.status_count += 1

    def _interrupt(self, frame: str) -> None:
        """End the gap of a robot that is not located: it has no transform."""
        record = self.seen.transforms.get(frame)
        if record is not None:
            record.last_steady_s = 0.0

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
        client = self._node.create_client(Trigger, f'{self._name}/{service}')
        deadline = time.monotonic() + timeout_s
        try:
            if not client.wait_for_service(timeout_sec=timeout_s):
                raise SparserError(f'{self._name}/{service} is not offered')
            future = client.call_async(Trigger.Request())
            if not wait_until(future.done, deadline - time.monotonic()):
                raise SparserError(f'{self._name}/{service} gave no answer in {timeout_s:.0f} s')
            response: Any = future.result()
            return response
        finally:
            self._node.destroy_client(client)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()


def wait_until(
    condition: Callable[[], bool], timeout_s: float, *, period_s: float = 0.05,
    meanwhile: Callable[[], None] | None = None,
) -> bool:
    """Wait for a condition; False after the timeout. `meanwhile` is called every period."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        if meanwhile is not None:
            meanwhile()
        time.sleep(period_s)
    return True
