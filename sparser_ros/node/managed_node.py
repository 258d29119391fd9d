"""The node as a lifecycle node: somebody else, such as Nav2's manager, starts and stops it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState, TransitionCallbackReturn

from ..config import SparserError
from .node import SparserNode

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class ManagedSparserNode(SparserNode, LifecycleNodeMixin):
    """Unconfigured: parameters only. Inactive: the map is kept, nothing is heard or published.

    `configure` makes the solver processes and goes on with the journal where that is asked for,
    `activate` subscribes and publishes, `deactivate` stops that and keeps the map, `cleanup` ends
    the processes and forgets the map.
    """

    def __init__(self, name: str = 'sparser', **options: Any) -> None:
        SparserNode.__init__(self, name, begin=False, **options)
        LifecycleNodeMixin.__init__(self)
        self.get_logger().info('waiting to be configured by a lifecycle manager')

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """FAILURE for parameters that cannot be used: the node stays unconfigured."""
        return self._done('configure', self.configure)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """FAILURE for topics that cannot be had, such as of a message type not installed."""
        return self._done('activate', self.activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Also of a map that waits for a solve: it is made after the next activation."""
        return self._done('deactivate', lambda: self.deactivate(drain=True))

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """As if the process had ended."""
        return self._done('cleanup', self._end)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """From any state."""
        return self._done('shutdown', self._end)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Back to unconfigured, with nothing left over."""
        return self._done('error', self._end)

    def _end(self) -> None:
        self.deactivate()
        self.cleanup()

    def _done(self, name: str, action: Callable[[], None]) -> TransitionCallbackReturn:
        """Do what a transition asks for. rclpy says nothing of an exception: the log does."""
        try:
            action()
        except SparserError as error:
            self.get_logger().error(f'{name}: {error}')
            return FAILURE
        except Exception as error:
            self.times.caught(name, error)
            return TransitionCallbackReturn.ERROR
        self.get_logger().info(f'{name}: done')
        return SUCCESS

    def destroy_node(self) -> None:
        """End the solver process, then the node."""
        SparserNode.destroy_node(self)
