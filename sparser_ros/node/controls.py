"""An operator's `~/measurements`, `~/rejected`, `~/start_over`, `~/save_as` and `~/load`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

from ..backend.session.graph_store import GraphStore
from ..backend.session.rejected import Unused, unused_of
from ..backend.session.rulings import DOUBT, Rulings, count
from ..config import ConfigError, SparserError
from ..msg import RejectedMeasurement
from ..srv import MapName, Measurements, Rejected, StartOver
from . import saving
from .awaiting import Background, Condition
from .conversions import stamp_ns, time_message
from .operator import ALL, REVIVE, any_end, ruling_of
from .parameters import Parameters
from .pipeline import Pipeline
from .services import SOLVE_TIMEOUT_S, answer_of_failure, saved
from .timing import CallbackTimes

LOAD_TIMEOUT_S = 60.0
JOURNAL_TIMEOUT_S = 10.0
"""The journal syncs ten times a second."""
MOST_LISTED = 1000
"""Rejected measurements in one answer, where no other number is asked for: a larger message would
hold up the callbacks that wait meanwhile."""


class Controls:
    """Operator services; long ones answer when done and hold up nothing meanwhile."""

    def __init__(
        self, node: Node, pipeline: Pipeline, times: CallbackTimes,
        reset: Callable[..., None],
    ) -> None:
        """`reset(why, keep_beacons=…, config=…)` is the node's."""
        self._node, self._pipeline, self._reset = node, pipeline, reset
        self._group = ReentrantCallbackGroup()
        for kind, name, callback, group in (
            (Measurements, 'measurements', self._measurements, self._group),
            (Rejected, 'rejected', self._rejected, self._group),
            (MapName, 'save_as', self._save_as, self._group),
            (MapName, 'load', self._load, self._group),
            (StartOver, 'start_over', self._start_over, None),
        ):
            node.create_service(kind, f'~/{name}', times.timed(name, callback, answer_of_failure),
                                callback_group=group)

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
        counting = Background(measurements)
        await Condition(lambda: counting.done() and pipeline.recording.safe(record),
                        JOURNAL_TIMEOUT_S)
        if counting.error is not None:
            self._node.get_logger().error(f'measurements were not counted: {counting.error!r}')
        response.count = counting.result or 0
        response.success = True
        if asked is None:
            response.message = f'{what}; there is no map yet'
            return response
        await Condition(
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
        if (request.action, request.kind) == (REVIVE, ALL):
            if request.names:
                raise ConfigError(
                    f'{REVIVE} {ALL} takes no names: it is of all rulings. To revive '
                    f'{", ".join(request.names)} give their kind')
            old = rulings.entries
            return rulings.cleared(), f'everything counts again ({len(old)} rulings)', lambda: int(
                sum(count(one, pipeline.store_of(sequence).whole) for one in old))
        ruling = ruling_of(
            request.action, request.kind, list(request.names), stamp_ns(request.begin),
            stamp_ns(request.end), pipeline.config, pipeline.keyframes.landmarks)

        def measurements() -> int:
            return count(ruling, pipeline.store_of(sequence).whole)

        if request.action != REVIVE:
            doubted = ' (ten times the standard deviation)' if request.action == DOUBT else ''
            return rulings.with_ruling(ruling), ruling.words + doubted, measurements
        after = rulings.revived(ruling)
        if after is rulings:
            known = '; '.join(one.words for one in rulings.entries)
            raise ConfigError(
                f'{ruling.what}: not ignored or doubted under this name. {known or "Nothing is"}')
        return after, f'revived by the operator: {ruling.what}', measurements

    async def _rejected(self, request: Any, response: Any) -> Any:
        """What the newest map does not use."""
        pipeline = self._pipeline
        solution, kept = pipeline.solution, pipeline.worker.kept_map
        if solution is None:
            response.message = 'there is no solution yet'
            return response
        faulty = np.zeros(0, dtype=np.int64) if kept is None else kept.verdict.doubted_ranges
        try:
            end = any_end(request.name, pipeline.config, pipeline.keyframes.landmarks)
        except ConfigError as error:
            response.message = str(error)
            return response
        rulings = pipeline.rulings
        most = request.most or MOST_LISTED

        def described() -> tuple[int, list[RejectedMeasurement]]:
            store: GraphStore = pipeline.store_of(solution.sequence)
            found = unused_of(
                store.whole, solution, faulty, rulings, end)
            return len(found), [_message(one) for one in found[:most]]

        work = Background(described)
        await Condition(work.done, SOLVE_TIMEOUT_S)
        if work.error is not None:
            raise work.error
        response.total, response.measurements = work.result
        response.success = True
        response.message = (
            f'{response.total} measurements are not used; {len(response.measurements)} are listed')
        return response

    async def _save_as(self, request: Any, response: Any) -> Any:
        """As `~/save`, under a name."""
        try:
            saving.check_name(request.name)
        except SparserError as error:
            response.message = str(error)
            return response
        return await saved(self._node, self._pipeline, response, request.name)

    async def _load(self, request: Any, response: Any) -> Any:
        """Begin anew in a saved map, as with `node.map_file` at the start.

        Whatever the name stands for is looked at elsewhere: reading it may take long.
        """
        parameters: Parameters = self._node.parameters  # type: ignore[attr-defined]
        config = parameters.config
        work = Background(lambda: saving.apart(saving.found_map, config, request.name))
        if not await Condition(work.done, LOAD_TIMEOUT_S):
            response.message = (
                f'not loaded, nothing has changed: {request.name} was not read within '
                f'{LOAD_TIMEOUT_S:.0f} s')
            return response
        if work.error is not None:
            response.message = f'not loaded, nothing has changed: {work.error}'
            return response
        path, with_map = work.result
        known = sum(bool(spec.position) for spec in with_map.radio_specs().values())
        # Parameters may have changed meanwhile.
        self._reset(f'~/load {path}', config=parameters.config.with_radios_of(with_map))
        self._node.get_logger().info(f'the map {path} is taken over: {known} beacons are known')
        response.success = True
        response.message = (
            f'{path}: {known} beacons are known; all data before are forgotten, robots are located '
            'among these beacons from now on')
        return response

    def _start_over(self, request: Any, response: Any) -> Any:
        """Forget all data, beacons too unless asked for; pause if asked for."""
        located = self._pipeline.located_beacons() if request.keep_beacons else {}
        self._pipeline.paused = request.pause or self._pipeline.paused
        self._reset('requested by ~/start_over', keep_beacons=request.keep_beacons)
        response.success = True
        beacons = f'; {len(located)} beacons stay' if request.keep_beacons else ''
        paused = '; paused' if self._pipeline.paused else ''
        response.message = f'all data forgotten{beacons}{paused}'
        return response


def _message(one: Unused) -> RejectedMeasurement:
    message = RejectedMeasurement(
        kind=one.kind, source=one.source, target=one.target, residual=one.residual_m,
        sigmas=one.sigmas, weight=one.weight, reason=one.reason)
    message.stamp = time_message(one.stamp_ns)
    return message
