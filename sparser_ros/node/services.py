"""`~/solve`, `~/reset`, `~/pause`, `~/save`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from . import saving
from .awaiting import Background, Condition
from .pipeline import Pipeline
from .timing import CallbackTimes

SOLVE_TIMEOUT_S = 300.0
SAVE_TIMEOUT_S = 300.0


class Services:
    """The node's services; long ones answer when done and hold up nothing meanwhile."""

    def __init__(
        self, node: Node, pipeline: Pipeline, times: CallbackTimes, reset: Callable[[str], None]
    ) -> None:
        self._node = node
        self._pipeline = pipeline
        self._reset = reset
        # A suspended coroutine keeps its callback group busy: long services need their own.
        self._group = ReentrantCallbackGroup()
        for kind, name, callback, group in (
            (Trigger, 'solve', self._solve, self._group),
            (Trigger, 'save', self._save, self._group),
            (Trigger, 'reset', self._handle_reset, None),
            (SetBool, 'pause', self._pause, None),
        ):
            node.create_service(kind, f'~/{name}', times.timed(name, callback, answer_of_failure),
                                callback_group=group)

    async def _solve(
        self, _request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        """Solve everything received so far from scratch, paused or not; answers the outcome."""
        pipeline = self._pipeline
        pipeline.intake()
        await Condition(pipeline.release, SOLVE_TIMEOUT_S)
        request = pipeline.request_audit()
        if request is None:
            response.message = 'nothing to solve: no keyframe yet'
            return response
        if not await Condition(lambda: pipeline.answered(request), SOLVE_TIMEOUT_S):
            response.message = f'no solution within {SOLVE_TIMEOUT_S:.0f} s'
            return response
        # The next tick may have come before this coroutine looked again.
        solution = pipeline.worker.audited_solution or pipeline.solution
        failed = pipeline.worker.state.failed
        if solution is None or failed:
            response.message = f'failed: {failed}'
            return response
        response.success = solution.status.solved
        response.message = (
            f'{solution.status.value} '
            f'({"from scratch" if solution.full else "followed"}): {solution.message}')
        return response

    async def _save(
        self, _request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        """Write graph and trajectories of the newest solution; the answer names the folder."""
        done: Trigger.Response = await saved(self._node, self._pipeline, response)
        return done

    def _handle_reset(
        self, _request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        """Forget all data (the beacons too unless `node.reset_keeps_beacons`)."""
        self._reset('requested by ~/reset')
        response.success, response.message = True, 'all data forgotten'
        return response

    def _pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        """true: keep data but do not solve; false: go on."""
        self._pipeline.paused = request.data
        response.success = True
        response.message = 'paused' if request.data else 'running'
        self._node.get_logger().info(response.message)
        return response


async def saved(node: Node, pipeline: Pipeline, response: Any, name: str = '') -> Any:
    """The answer once the newest map is in a new folder, of the time of day or of a name."""
    solution = pipeline.solution
    if solution is None:
        response.message = 'nothing to save: there is no solution yet'
        return response
    graph_of, config = pipeline.graph_of, pipeline.config
    odometry = pipeline.frontend.recorded_odometry()
    lacks = saving.missing(solution, pipeline.keyframes.landmarks)
    work = Background(lambda: saving.apart(
        saving.save, config, graph_of(solution.sequence), solution, name, dict(odometry)))
    if not await Condition(work.done, SAVE_TIMEOUT_S):
        response.message = f'not written within {SAVE_TIMEOUT_S:.0f} s'
    elif work.error is not None:
        response.message = f'not saved: {work.error}'
        node.get_logger().error(response.message)
    else:
        response.success = True
        response.message = '\n'.join((str(work.result), *lacks))
        node.get_logger().info('; '.join((f'saved to {work.result}', *lacks)))
    return response


def answer_of_failure(error: Exception, _request: Any, response: Any) -> Any:
    """The answer of a service whose callback raised."""
    response.success, response.message = False, f'{type(error).__name__}: {error}'
    return response
