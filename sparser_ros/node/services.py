"""The node's services: solve, pause, reset and save; what an operator says about measurements."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from ..backend.session.graph_store import GraphStore
from ..backend.session.rulings import DOUBT, IGNORE, RULED_KINDS, Ruling, Rulings, count
from ..backend.session.solution import Unused, unused_of
from ..backend.session.treatment import Treatment
from ..config import ConfigError
from ..config.sparser import SparserConfig
from ..msg import RejectedMeasurement
from ..srv import MapName, Measurements, Rejected
from . import saving
from .callbacks import CallbackTimes, Condition
from .messages import stamp_ns, time_message
from .parameters import Parameters
from .pipeline import Pipeline, background

REVIVE, ALL = 'revive', 'all'
SOLVE_TIMEOUT_S = SAVE_TIMEOUT_S = 300.0
LOAD_TIMEOUT_S = 60.0
END_LOOK_S = 0.01
"""Between two looks whether all have their answers, at the end."""
JOURNAL_TIMEOUT_S = 10.0
"""The journal syncs ten times a second."""
MOST_LISTED = 1000
"""Rejected measurements in one answer, where no other number is asked for: a larger message would
hold up the callbacks that wait meanwhile."""
_COUNTS = {'pair': (2, 2), 'closure': (1, 2)}
"""How many names a kind takes, where it is not one."""


class _EndedError(Exception):
    """The node offers no services any more."""


class Services:
    """All services; long ones answer when done and hold up nothing meanwhile."""

    def __init__(
        self, node: Node, pipeline: Pipeline, times: CallbackTimes, reset: Callable[..., None],
    ) -> None:
        """`reset(why, config=…)` is the node's."""
        self._node, self._pipeline, self._reset = node, pipeline, reset
        # A suspended coroutine keeps its callback group busy: long services need their own.
        group = ReentrantCallbackGroup()
        self._ended = False
        self._at_work: Counter[str] = Counter()
        """How many callers wait for a service."""
        self._services: dict[str, Any] = {}
        for kind, name, callback in (
            (Trigger, 'solve', self._solve),
            (Trigger, 'save', self._save),
            (MapName, 'save_as', self._save),
            (MapName, 'load', self._load),
            (Measurements, 'measurements', self._measurements),
            (Rejected, 'rejected', self._rejected),
            (Trigger, 'reset', self._handle_reset),
            (SetBool, 'pause', self._pause),
        ):
            long = inspect.iscoroutinefunction(callback)
            self._services[name] = node.create_service(
                kind, f'~/{name}', times.timed(
                    name, self._long(name, callback) if long else callback, answer_of_failure),
                callback_group=group if long else None)

    def _long(self, name: str, callback: Callable[..., Any]) -> Callable[..., Any]:
        """A service that takes long, and is counted as at work meanwhile."""
        @functools.wraps(callback)
        async def answered(request: Any, response: Any) -> Any:
            self._at_work[name] += 1
            try:
                return await callback(request, response)
            except _EndedError:
                response.success = False
                response.message = 'not waited for: the node was deactivated meanwhile'
                return response
            finally:
                self._at_work[name] -= 1

        return answered

    def _until(self, holds: Callable[[], bool], timeout_s: float) -> Condition:
        """To be awaited by a service: a condition, or the end of all services."""
        def looked() -> bool:
            if self._ended:
                raise _EndedError
            return holds()

        return Condition(looked, timeout_s)

    def end(self) -> list[Any]:
        """Answer whoever waits.

        Returns the services that still have to, with a timer that destroys them afterwards.
        """
        self._ended = True
        owing = [self._services[name] for name in +self._at_work]
        if not owing:
            return []

        def destroy() -> None:
            if not +self._at_work:
                for service in owing:
                    self._node.destroy_service(service)
                self._node.destroy_timer(timer)

        timer = self._node.create_timer(
            END_LOOK_S, destroy, clock=Clock(clock_type=ClockType.STEADY_TIME))
        return [*owing, timer]

    async def _solve(self, _request: Any, response: Any) -> Any:
        """Solve everything received so far from scratch, paused or not; answers the outcome."""
        pipeline = self._pipeline
        pipeline.intake()
        await self._until(pipeline.release, SOLVE_TIMEOUT_S)
        request = pipeline.request_audit()
        if request is None:
            response.message = 'nothing to solve: no keyframe yet'
            return response
        if not await self._until(lambda: pipeline.answered(request), SOLVE_TIMEOUT_S):
            response.message = f'no solution within {SOLVE_TIMEOUT_S:.0f} s'
            return response
        # The next tick may have come before this coroutine looked again.
        solution = pipeline.worker.audited_solution or pipeline.solution
        failed = pipeline.worker.state.failed
        if solution is None or failed:
            response.message = (
                f'failed: {failed}' if failed else 'all data were forgotten meanwhile')
            return response
        response.success = solution.status.solved
        response.message = (
            f'{solution.status.value} '
            f'({"from scratch" if solution.full else "followed"}): {solution.message}')
        return response

    async def _save(self, request: Any, response: Any) -> Any:
        """Write graph and trajectories of the newest solution into a new folder, of the time of day
        or (`~/save_as`) of a name; the answer names it, and what the map lacks."""
        pipeline = self._pipeline
        solution = pipeline.solution
        if solution is None:
            response.message = 'nothing to save: there is no solution yet'
            return response
        store_of, config, name = pipeline.store_of, pipeline.config, getattr(request, 'name', None)
        odometry = pipeline.frontend.recorded_odometry()
        lacks = saving.missing(solution, pipeline.graph.landmarks.names)

        def written() -> Path:
            if name is not None:
                saving.check_name(name)
            return saving.apart(saving.save, config, store_of(solution.sequence).graph, solution,
                                name or '', dict(odometry))

        work = background(written)
        if not await self._until(work.done, SAVE_TIMEOUT_S):
            response.message = f'not written within {SAVE_TIMEOUT_S:.0f} s'
        elif error := work.exception():
            response.message = f'not saved: {error}'
            self._node.get_logger().error(response.message)
        else:
            response.success = True
            response.message = '\n'.join((str(work.result()), *lacks))
            self._node.get_logger().info('; '.join((f'saved to {work.result()}', *lacks)))
        return response

    async def _load(self, request: Any, response: Any) -> Any:
        """Begin anew in a saved map, as with `node.map_file` at the start.

        Whatever the name stands for is looked at elsewhere: reading it may take long.
        """
        parameters: Parameters = self._node.parameters  # type: ignore[attr-defined]
        config = parameters.config
        work = background(lambda: saving.apart(saving.found_map, config, request.name))
        if not await self._until(work.done, LOAD_TIMEOUT_S):
            response.message = (
                f'not loaded, nothing has changed: {request.name} was not read within '
                f'{LOAD_TIMEOUT_S:.0f} s')
            return response
        if error := work.exception():
            response.message = f'not loaded, nothing has changed: {error}'
            return response
        path, with_map = work.result()
        known = sum(bool(spec.position) for spec in with_map.radio_specs().values())
        # Parameters may have changed meanwhile.
        self._reset(f'~/load {path}', config=parameters.config.with_radios_of(with_map))
        self._node.get_logger().info(f'the map {path} is taken over: {known} beacons are known')
        response.success = True
        response.message = (
            f'{path}: {known} beacons are known; all data before are forgotten, robots are located '
            'among these beacons from now on')
        return response

    async def _measurements(self, request: Any, response: Any) -> Any:
        """Ignore, doubt or revive measurements; answers when the map follows."""
        pipeline = self._pipeline
        try:
            rulings, what, measurements = self._ruled(request)
        except ConfigError as error:
            response.message = str(error)
            return response
        self._node.get_logger().info(f'requested by ~/measurements: {what}')
        record = pipeline.rule(rulings)
        pipeline.intake()
        asked = pipeline.request_audit()
        counting = background(measurements)
        await self._until(lambda: counting.done() and pipeline.recording.safe(record),
                        JOURNAL_TIMEOUT_S)
        if counting.done() and (failure := counting.exception()):
            self._node.get_logger().error(f'measurements were not counted: {failure!r}')
        elif counting.done():
            response.count = counting.result()
        response.success = True
        if asked is None:
            response.message = f'{what}; there is no map yet'
            return response
        await self._until(
            lambda: pipeline.follows(rulings.revision) or pipeline.answered(asked),
            SOLVE_TIMEOUT_S)
        response.success = pipeline.follows(rulings.revision)
        follows = 'the map follows' if response.success else (
            f'the map does not follow yet: {pipeline.worker.state.text}')
        response.message = f'{what}; {response.count} measurements so far; {follows}'
        return response

    def _ruled(self, request: Any) -> tuple[Rulings, str, Callable[[], int]]:
        """The rulings after a request, in words, and what counts its measurements."""
        pipeline = self._pipeline
        rulings, sequence = pipeline.rulings, pipeline.newest_sequence

        def measurements(*counted: Ruling) -> int:
            whole = pipeline.store_of(sequence).whole
            return sum(count(ruling, whole) for ruling in counted)

        if (request.action, request.kind) == (REVIVE, ALL):
            if request.names:
                raise ConfigError(
                    f'{REVIVE} {ALL} takes no names: it is of all rulings. To revive '
                    f'{", ".join(request.names)} give their kind')
            old = rulings.entries
            return (rulings.cleared(), f'everything counts again ({len(old)} rulings)',
                    lambda: measurements(*old))
        ruling = ruling_of(
            request.action, request.kind, list(request.names), stamp_ns(request.begin),
            stamp_ns(request.end), pipeline.config, pipeline.graph.landmarks.names)

        if request.action != REVIVE:
            doubted = ' (ten times the standard deviation)' if request.action == DOUBT else ''
            return (
                rulings.with_ruling(ruling), ruling.words + doubted, lambda: measurements(ruling))
        after = rulings.revived(ruling)
        if after is rulings:
            known = '; '.join(entry.words for entry in rulings.entries)
            raise ConfigError(
                f'{ruling.what}: not ignored or doubted under this name. {known or "Nothing is"}')
        return (after, f'revived by the operator: {ruling.what}',
                lambda: measurements(ruling))

    async def _rejected(self, request: Any, response: Any) -> Any:
        """What the newest map does not use."""
        pipeline = self._pipeline
        solution, kept = pipeline.solution, pipeline.worker.kept_map
        if solution is None:
            response.message = 'there is no solution yet'
            return response
        known = Treatment() if kept is None else kept.verdict.treatment
        try:
            end = request.name and named(
                '', request.name, pipeline.config, pipeline.graph.landmarks.names)
        except ConfigError as error:
            response.message = str(error)
            return response
        rulings = pipeline.rulings
        most = request.most or MOST_LISTED

        def described() -> tuple[int, list[RejectedMeasurement]]:
            store: GraphStore = pipeline.store_of(solution.sequence)
            data = store.treated(Treatment(known.faults, exchanged=known.exchanged))
            unused = unused_of(data.whole, solution, data.left_out('ranges'), rulings, end)
            return len(unused), [_message(measurement) for measurement in unused[:most]]

        work = background(described)
        if not await self._until(work.done, SOLVE_TIMEOUT_S):
            response.message = f'not listed within {SOLVE_TIMEOUT_S:.0f} s'
            return response
        response.total, response.measurements = work.result()
        response.success = True
        response.message = (
            f'{response.total} measurements are not used; {len(response.measurements)} are listed')
        return response

    def _handle_reset(self, _request: Any, response: Any) -> Any:
        """Forget all data, beacons too."""
        self._reset('requested by ~/reset')
        response.success, response.message = True, 'all data forgotten'
        return response

    def _pause(self, request: Any, response: Any) -> Any:
        """true: keep data but do not solve; false: go on."""
        self._pipeline.pause(request.data)
        response.success = True
        response.message = 'paused' if request.data else 'running'
        self._node.get_logger().info(response.message)
        return response


def answer_of_failure(error: Exception, _request: Any, response: Any) -> Any:
    """The answer of a service whose callback raised."""
    response.success, response.message = False, f'{type(error).__name__}: {error}'
    return response


def _message(unused: Unused) -> RejectedMeasurement:
    message = RejectedMeasurement(
        kind=unused.kind, source=unused.source, target=unused.target, residual=unused.residual_m,
        sigmas=unused.sigmas, weight=unused.weight, reason=unused.reason)
    message.stamp = time_message(unused.stamp_ns)
    return message


def ruling_of(
    action: str, kind: str, names: Sequence[str], begin_ns: int, end_ns: int,
    config: SparserConfig, landmarks: Collection[str],
) -> Ruling:
    """The ruling that is asked for; ConfigError says what is wrong with it.

    `landmarks` are the names of the beacons in the graph. Names of radios are taken for the robot
    or beacon that they belong to: the graph knows no others.
    """
    if action not in (IGNORE, DOUBT, REVIVE):
        raise ConfigError(f'action {action!r}: expected {IGNORE}, {DOUBT} or {REVIVE}')
    if kind not in RULED_KINDS:
        extra = f' or {ALL}' if action == REVIVE else ''
        raise ConfigError(f'kind {kind!r}: expected {", ".join(RULED_KINDS)}{extra}')
    least, most = _COUNTS.get(kind, (1, 1))
    if not least <= len(names) <= most:
        wanted = str(least) if least == most else f'{least} or {most}'
        raise ConfigError(f'{kind} takes {wanted} names, not {len(names)}')
    if end_ns and end_ns < begin_ns:
        raise ConfigError('the stretch of time ends before it begins')
    if kind == 'odometry' and action == IGNORE:
        raise ConfigError(
            'odometry holds the path of its robot together: doubt it, or ignore the robot')
    ends = tuple(named(kind, name, config, landmarks) for name in names)
    if kind == 'pair' and ends[0] == ends[1]:
        raise ConfigError(f'both radios are those of {ends[0]}')
    return Ruling(action, kind, ends, begin_ns, end_ns)


def named(
    kind: str, name: str, config: SparserConfig, landmarks: Collection[str]
) -> str:
    """The robot or beacon that a name, also of its radio, stands for; ConfigError where none does.

    `kind` is that of a ruling, or '' for all.
    """
    specs = config.radio_specs()
    known = {spec.beacon for spec in specs.values() if spec.beacon} | {*landmarks}
    if kind in ('closure', 'robot', 'odometry'):
        known = {*config.robots}
    elif kind in ('radio', 'pair', ''):
        known |= {*config.robots}
    radio = specs.get(name)
    end = name if name in known or radio is None else radio.robot or radio.beacon
    if end in known:
        return end
    if not kind:
        known |= {*specs}
    noun = {'closure': 'robot', 'odometry': 'robot', 'pair': 'radio',
            '': 'robot, beacon or radio'}.get(kind, kind)
    raise ConfigError(f'no {noun} {name!r}; there are: {", ".join(sorted(known)) or "none"}')
