"""A timer that runs only while there is something to do.

Each wake-up of rclpy's executor looks at every entity of the node, in Python: about 1 ms. A timer
of 100 Hz that finds nothing to do costs a tenth of a core.
"""

from __future__ import annotations

from collections.abc import Callable

from rclpy.clock import Clock, ClockType
from rclpy.node import Node


class OnDemandTimer:
    """Calls `work` every `period_s` of the steady clock from `wake()` until it returns False."""

    def __init__(self, node: Node, period_s: float, work: Callable[[], bool | None]) -> None:
        self._work = work
        self._timer = node.create_timer(
            period_s, self._tick, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._timer.cancel()

    def wake(self) -> None:
        """There is something to do."""
        if self._timer.is_canceled():
            self._timer.reset()

    def _tick(self) -> None:
        if not self._work():
            self._timer.cancel()
