"""Many messages a second share wait sets, and none is lost for it."""

import itertools
import threading
import time

import rclpy
from rclpy.context import Context

from sparser_ros.node.gathering_executor import GATHER_S, GatheringExecutor

TRIGGERS = 200


def test_what_comes_while_it_rests_is_taken_together():
    context = Context()
    rclpy.init(args=['--ros-args', '--log-level', 'error'], context=context)
    waits, handled = [], []

    class Counting(GatheringExecutor):
        def _wait_for_ready_callbacks(self, *args, **kwargs):
            waits.append(time.monotonic())
            yield from super()._wait_for_ready_callbacks(*args, **kwargs)

    node = rclpy.create_node('gathering', context=context)
    executor = Counting(context=context)
    executor.add_node(node)
    guards = [
        node.create_guard_condition(lambda number=number: handled.append(number))
        for number in range(TRIGGERS)]

    def trigger():
        for guard in guards:
            guard.trigger()
            time.sleep(GATHER_S / 10)

    thread = threading.Thread(target=trigger)
    thread.start()
    try:
        while len(handled) < TRIGGERS:
            executor.spin_once(timeout_sec=1.0)
    finally:
        thread.join()
        executor.shutdown(timeout_sec=1.0)
        node.destroy_node()
        rclpy.shutdown(context=context)
    assert sorted(handled) == list(range(TRIGGERS))
    assert len(waits) < TRIGGERS / 2
    # However busy the machine is, no two waits begin within the rest.
    assert all(b - a >= GATHER_S for a, b in itertools.pairwise(waits))
