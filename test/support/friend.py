"""Another node of this process, to listen and to publish."""

import contextlib
import time

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor

from sparser_ros.demo.processes import free_domain

PATIENCE_S = 120.0


@contextlib.contextmanager
def friend(name='friend', domain=None):
    """(node, until) in a domain of its own: `until` runs the node until a condition holds."""
    # In a domain of others a participant that was killed would be heard for twenty seconds.
    context = Context()
    rclpy.init(context=context, domain_id=domain or free_domain())
    node = rclpy.create_node(name, context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)

    def until(condition):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, 'in vain'
            executor.spin_once(timeout_sec=0.01)

    try:
        yield node, until
    finally:
        executor.shutdown(timeout_sec=2.0)
        node.destroy_node()
        rclpy.try_shutdown(context=context)
