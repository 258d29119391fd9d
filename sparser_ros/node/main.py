"""Entry point of the node: `ros2 run sparser_ros sparser_node` or `python -m` this module.

`sparser_lifecycle_node` (here: the argument `--managed`) waits for a lifecycle manager.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rclpy.executors import Executor

MANAGED = '--managed'


def main(*, managed: bool = False) -> int:
    """Run the node until it is told to stop; 0 = stopped, 2 = bad parameters."""
    try:
        return _run(managed)
    except KeyboardInterrupt:
        # While it was starting.
        return 0
    finally:
        # The interpreter resets handlers that are functions when it ends, not this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(managed: bool) -> int:
    import rclpy
    from rclpy.exceptions import NameValidationException
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
    from rclpy.logging import get_logger

    from ..config import SparserError
    from .node import ManagedSparserNode, SparserNode

    # A long thread must not keep callbacks from the interpreter for the usual 5 ms.
    sys.setswitchinterval(0.001)
    try:
        rclpy.init()
    except RuntimeError as error:
        # A parameter file that is no YAML, an unknown log level.
        print(f'sparser_node: {error}', file=sys.stderr)
        return 2
    node = None
    # A closed terminal: rclpy knows SIGINT and SIGTERM only, and would leave its shared memory.
    signal.signal(signal.SIGHUP, lambda *_: rclpy.try_shutdown())
    executor = SingleThreadedExecutor()
    try:
        node = ManagedSparserNode() if managed else SparserNode()
        executor.add_node(node)
        spin(executor, lambda error: node.times.caught('executor', error))
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except SparserError as error:
        get_logger('sparser').fatal(str(error))
        return 2
    except NameValidationException as error:
        get_logger('sparser').fatal(
            f'{error}\nROS allows no such topic name: set the topic, or rename the robot')
        return 2
    finally:
        # Ctrl-C comes twice where a launch file passes it on: the second must not disturb the end.
        # Not SIG_IGN yet: processes inherit that.
        signal.signal(signal.SIGINT, lambda *_: None)
        if node is not None:
            node.destroy_node()
        executor.shutdown(timeout_sec=1.0)
        rclpy.try_shutdown()
    return 0


def spin(executor: Executor, caught: Callable[[Exception], None]) -> None:
    """Spin until the executor's context ends.

    `caught` gets what no callback raised: a message that does not deserialise, text that is no
    UTF-8.
    """
    from rclpy.executors import ExternalShutdownException

    while executor.context.ok():
        try:
            executor.spin()
        except ExternalShutdownException:
            raise
        except Exception as error:
            # A signal may end the context while the executor prepares to wait: rclpy 7 raises
            # RCLError then, which says nothing but that.
            if executor.context.ok() or not isinstance(error, RuntimeError):
                caught(error)


if __name__ == '__main__':
    sys.exit(main(managed=MANAGED in sys.argv))
