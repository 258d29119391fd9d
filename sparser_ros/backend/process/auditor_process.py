"""The auditor process: takes the same increments, audits at its own pace, sends verdicts."""

from __future__ import annotations

import contextlib
import math
import os
import time
import traceback
from dataclasses import replace
from multiprocessing.connection import Connection

from ...array_types import Array
from ...solver.trust_region import Observer
from ..session.auditor import Auditor
from ..session.live_calibration import LiveCalibration
from ..session.radio_errors import RadioErrors
from ..session.renumbered import tracked_of
from ..session.rulings import Rulings
from ..session.tracked_map import TrackedMap, tracked_map
from ..session.tracker import REFUSED
from ..session.verdict import Verdict
from . import protocol
from .audit_rest import AuditRest
from .codec import Packet, decode_increment, decode_solution, encode
from .endpoint import Endpoint, begin_process
from .protocol import Answer
from .thin_codec import decode_thinned
from .verdict_codec import encode_verdict

_REST_WITHOUT_REASON = 9.0
"""Rest after a start from scratch, over its duration, from which the next one needs no reason: a
tenth of the auditor's time finds maps that nothing else speaks for."""
_REST_OF_CALIBRATION = 9.0
"""Rest after a solve of the calibration of radios, over its duration: a tenth of the time."""
_AT_REST_S = 10.0
"""Without new data, after which the node is at rest; odometry of a robot that stands still brings
some every 5 s (`keyframes.time_s`)."""
_NOW_S = 1e-3
"""Wait for messages that may have come already."""
_LOOK_S = 0.2
"""Period of the look whether an audit is due: short against the ticks that its verdict is for."""


class _NewDataError(Exception):
    """Data came during work that is only for times without any."""


class AuditorLoop:
    """The auditor on one end of a pipe."""

    def __init__(self, pipe: Connection, config: str, *, own_process: bool) -> None:
        self._config = protocol.config_from(config)
        self._own_process = own_process
        self._endpoint = Endpoint(
            pipe, self._config.backend.watchdog.heartbeat_period_s, own_process=own_process)
        self._rulings = Rulings()
        self._auditor = self._new()
        self._tracked: TrackedMap | None = None
        self._compared: TrackedMap | None = None
        """The tracker's map that the last audit had."""
        self._calibration, self._calibrate_from_s = LiveCalibration(), 0.0
        self._generation, self._request = 0, -1
        self._paused = False
        """Whether nothing is done but what is asked for."""
        self._ended_s = self._newest_s = time.monotonic()
        """End of the last audit, and when the newest increment came."""
        self._rest = AuditRest(self._ended_s)
        self._scratch_anyway_s = math.inf

    def _new(self) -> Auditor:
        auditor = Auditor(self._config, bounded=True)
        auditor.rule(self._rulings)
        return auditor

    def run(self) -> None:
        """Serve until the pipe closes."""
        from ...solver.warm_up import warm_up
        from ..observability.comparison_warm_up import warm_up as warm_up_comparison

        warm_up(self._config.dimension, self._config.solver)
        warm_up_comparison(self._config.dimension)
        if self._own_process:
            # Not before: robots are located only after the first audit.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, self._config.backend.audit.niceness)
        self._endpoint.send(encode(protocol.READY, {'pid': os.getpid()}))
        while not self._endpoint.ended.is_set():
            looked = time.monotonic()
            for packet in self._endpoint.receive(_LOOK_S):
                self._handle(packet)
            if self._endpoint.ended.is_set():
                break
            if self._wanted():
                self._audit()
                continue
            worked = not self._paused and self._worked()
            if not worked and self._request < 0:
                # Increments come more often than it is worth looking at the graph.
                self._endpoint.ended.wait(max(0.0, looked + _LOOK_S / 2 - time.monotonic()))

    def _handle(self, packet: Packet) -> None:
        values = packet.values
        if packet.kind == protocol.INCREMENT:
            self._newest_s = time.monotonic()
            self._auditor.add(decode_increment(packet), first=values['first'])
        elif packet.kind == protocol.SOLUTION:
            if protocol.answer_of(packet).generation == self._generation:
                self._tracked = tracked_map(decode_solution(packet))
        elif packet.kind == protocol.AUDIT:
            self._request = max(self._request, protocol.request_of(packet).number)
        elif packet.kind == protocol.THIN:
            self._thin(packet)
        elif packet.kind == protocol.RESET:
            self._generation, self._request = values['generation'], -1
            self._auditor, self._tracked = self._new(), None
            self._calibration = LiveCalibration()
        elif packet.kind == protocol.RULINGS:
            self._rulings = Rulings.from_values(values)
            self._auditor.rule(self._rulings)
        elif packet.kind == protocol.CONFIGURE:
            self._config = protocol.config_from(values['config'])
            self._auditor.config = self._config
            self._apply_calibration()
        elif packet.kind == protocol.PAUSE:
            self._paused = values['paused']
        elif packet.kind == protocol.CLOSE:
            self._endpoint.ended.set()

    def _thin(self, packet: Packet) -> None:
        increment, to = decode_thinned(packet)
        self._generation = packet.values['generation']
        self._auditor.thin(increment, to)
        if self._tracked is not None:
            self._tracked = tracked_of(self._tracked, to)

    def _worked(self) -> bool:
        """Whether a step of what goes on between audits was due, and made."""
        return self._calibrated() or (self._at_rest() and self._prove(self._until_new_data))

    def _at_rest(self) -> bool:
        """Whether no data have come for a while, and all audits of what came are made."""
        auditor = self._auditor
        return (time.monotonic() - self._newest_s >= _AT_REST_S and not auditor.postponed
                and auditor.sequence <= auditor.audited_sequence)

    def _until_new_data(self, iteration: int, cost: float, y: Array) -> None:
        """An observer that ends what it observes once a message waits."""
        if self._endpoint.has_message:
            raise _NewDataError

    def _calibrated(self) -> bool:
        """Whether a step of the calibration of radios was due, and made."""
        begin = time.monotonic()
        if begin < self._calibrate_from_s or not self._calibration.step(
                self._auditor.solved, self._config):
            return False
        self._apply_calibration()
        now = time.monotonic()
        self._calibrate_from_s = now + _REST_OF_CALIBRATION * (now - begin)
        self._rest.also_worked(begin, now, self._config.backend.audit.time_share)
        return True

    def _apply_calibration(self) -> None:
        """Take off what the last calibration has found, where that is to be and is new."""
        options = self._config.calibration
        errors = RadioErrors()
        if options.live and options.mode == 'apply':
            errors = self._calibration.errors
        least = options.bias_floor_m if errors else 0.0
        if errors.may_differ(self._auditor.calibrated, least):
            self._auditor.calibrate(errors)

    def _prove(self, observer: Observer | None = None) -> bool:
        """Whether the map of the last audit was not bounded yet and now is; the bound is sent."""
        begin, before = time.monotonic(), self._auditor.bound
        try:
            worked = self._auditor.prove(observer)
        except _NewDataError:
            worked, self._newest_s = True, time.monotonic()
        bound = self._auditor.bound
        if bound is not None and bound is not before:
            self._endpoint.send(protocol.bound_message(bound, Answer(self._generation, -1)))
        if worked:
            self._rest.also_worked(
                begin, time.monotonic(), self._config.backend.audit.time_share)
        return worked

    def _wanted(self) -> str:
        """Why an audit should run now, or ''."""
        if self._request >= 0:
            return 'asked for'
        if self._paused:
            return ''
        if self._auditor.retold and self._auditor.sequence >= 0:
            return self._auditor.retold
        now, period = time.monotonic(), self._config.backend.audit.period_s
        if self._auditor.postponed and now >= self._rest.scratch_from_s:
            return self._auditor.postponed
        if self._scratch_anyway(now):
            return 'a start from scratch now and then'
        if now < self._rest.audit_from_s:
            return ''
        if self._tracked is not None and self._tracked.doubt == REFUSED and (
                self._tracked is not self._compared):
            return REFUSED
        if self._auditor.sequence <= self._auditor.audited_sequence:
            return ''
        if period > 0 and now - self._ended_s >= period:
            return 'now and then'
        return self._auditor.due('' if self._tracked is None else self._tracked.doubt)

    def _scratch_anyway(self, now: float) -> bool:
        """Whether a start from scratch needs no reason at `now` (seconds of `time.monotonic`)."""
        return self._auditor.has_news and now >= self._scratch_anyway_s

    def _audit(self) -> None:
        request, self._request = self._request, -1
        answer, begin = Answer(self._generation, request), time.monotonic()
        try:
            self._endpoint.send(encode_verdict(self._caught_up(self._verdict(request)), answer))
        except Exception as error:
            # Nothing that an audit raises may end the checks: it is reported, and the loop goes on.
            self._endpoint.send(protocol.failed_message(
                answer, f'{type(error).__name__}: {error}', traceback.format_exc()))
        self._ended_s = time.monotonic()
        scratch = self._auditor.scratch_s
        self._rest.worked(begin, self._ended_s, scratch, self._config.backend.audit.time_share)
        if scratch > 0:
            self._scratch_anyway_s = self._ended_s + scratch * _REST_WITHOUT_REASON
        if request >= 0:
            self._prove()

    def _verdict(self, request: int) -> Verdict:
        tracked = self._tracked
        if tracked is not None and tracked.sequence > self._auditor.sequence:
            # A solution overtook increments after a restart of this process: not yet comparable.
            tracked = None
        self._compared, now = tracked, time.monotonic()
        return self._with_radios(self._auditor.audit(
            tracked, request=request, preliminary=self._say,
            scratch=True if self._scratch_anyway(now)
            else None if now >= self._rest.scratch_from_s else False))

    def _caught_up(self, verdict: Verdict) -> Verdict:
        """The verdict with its map continued to what came while it was made."""
        auditor, generation, most = self._auditor, self._generation, math.inf
        packets = self._endpoint.receive(_NOW_S)
        # Each round is for what came during the one before, and far shorter where it keeps up.
        while packets and len(packets) < most:
            most = len(packets)
            for packet in packets:
                self._handle(packet)
            if auditor is not self._auditor or generation != self._generation:
                # A reset, or a thinned graph: the verdict is of other poses.
                return verdict
            verdict = auditor.caught_up(verdict)
            packets = self._endpoint.receive(_NOW_S)
        for packet in packets:
            self._handle(packet)
        return verdict

    def _with_radios(self, verdict: Verdict) -> Verdict:
        """A verdict with what the last calibration of radios has found."""
        return replace(verdict, findings=verdict.findings + self._calibration.findings)

    def _say(self, verdict: Verdict) -> None:
        """What holds until the starts from scratch are done."""
        self._endpoint.send(encode_verdict(
            self._with_radios(verdict), Answer(self._generation, -1)))


def main(pipe: Connection, config: str) -> None:
    """Entry point of the spawned process."""
    begin_process()
    AuditorLoop(pipe, config, own_process=True).run()
