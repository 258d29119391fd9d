"""An observer's ROS node, which is spun in a context and a thread of its own."""

from __future__ import annotations

import contextlib
import threading

import rclpy
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor


class Listener:
    """`node` is for subscriptions and clients; nothing is heard before `start`."""

    def __init__(self, name: str) -> None:
        self._context = Context()
        rclpy.init(args=['--ros-args', '--log-level', 'error'], context=self._context)
        self.node = rclpy.create_node(name, context=self._context, enable_rosout=False)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._spin, daemon=True)

    def start(self) -> None:
        """Call back from now on, in the thread."""
        self._thread.start()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def close(self) -> None:
        """Stop listening."""
        self._executor.shutdown(timeout_sec=2.0)
        rclpy.try_shutdown(context=self._context)
        self._thread.join(2.0)
        self.node.destroy_node()
