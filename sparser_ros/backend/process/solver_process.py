"""The tracker process and the auditor process: each at its end of a pipe.

Both take the same increments. The tracker takes verdicts and answers requests with solutions; the
auditor audits at its own pace and sends verdicts.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import signal
import threading
import time
import traceback
from abc import ABC, abstractmethod
from dataclasses import replace
from multiprocessing.connection import Connection

from ...array_types import Array
from ...config.sparser import SparserConfig
from ...graph.finding import Finding
from ...solver.result import SolveStatus
from ...solver.trust_region import Observer
from ..integrity.radio_errors import RadioErrors
from ..session.audited_map import LiveCalibration
from ..session.auditor import Auditor
from ..session.graph_store import tracked_of
from ..session.rulings import Rulings
from ..session.solution import TrackedMap, Verdict, tracked_map
from ..session.tracker import REFUSED, Tracker
from . import wire
from .wire import Answer, Packet

_REST_WITHOUT_REASON = 9.0
"""Rest after a start from scratch, over its duration, from which the next one needs no reason: a
tenth of the auditor's time finds maps that nothing else speaks for."""
_REST_OF_CALIBRATION = 9.0
"""Rest after a solve of the calibration of radios, over its processor time."""
SHARE = 0.5
"""Of a processor that the auditor works at most."""
CREDIT_S = 4.0
"""Time whose share the auditor may have unused and work off at once: at the start, and when a fault
begins, the first audits tell the most."""
_LONG_S, _LITTLE = 5.0, 0.5
"""An audit that took longer, with less of a processor than that, tells that others are busy."""
_AT_REST_S = 10.0
"""Without new data, after which the node is at rest; odometry of a robot that stands still brings
some every 5 s (`keyframes.time_s`)."""
BEAT_S = 0.2
"""A process says that it is alive this often."""
_NOW_S = 1e-3
"""Wait for messages that may have come already."""
_LOOK_S = 0.2
"""Period of the look whether an audit is due: short against the ticks that its verdict is for."""


class _Loop(ABC):
    """What both processes have: the configuration in force, and what follows increments."""

    estimator: Tracker | Auditor

    def __init__(self, pipe: Connection, config: SparserConfig, *, own_process: bool) -> None:
        self._config = config
        self._own_process = own_process
        self._endpoint = Endpoint(pipe, own_process=own_process)
        self._generation = 0
        self._request = -1
        """Newest request that is not answered; -1 = none."""
        self.estimator = self._new()

    @abstractmethod
    def _new(self, epoch: int = 0) -> Tracker | Auditor:
        """An estimator without data, in the configuration in force."""

    def _handle(self, packet: Packet) -> None:
        values = packet.values
        if packet.kind == wire.INCREMENT:
            self.estimator.add(packet.body, first=values['first'])
        elif packet.kind == wire.THIN:
            self._generation = values['generation']
            self.estimator.thin(packet.body, values['to'])
        elif packet.kind == wire.RESET:
            self._generation, self._request = values['generation'], -1
            self.estimator = self._new(values['epoch'])
        elif packet.kind in (wire.SOLVE, wire.AUDIT):
            self._request = max(self._request, values['request'])
        elif packet.kind == wire.CONFIGURE:
            self._config = self.estimator.config = packet.body
        elif packet.kind == wire.CLOSE:
            self._endpoint.ended.set()


class TrackerLoop(_Loop):
    """The tracker on one end of a pipe."""

    NAME = 'tracker'
    STARTING = ('the solver starts; after an installation it compiles its kernels, which takes a '
                'minute or so, while data are kept')
    estimator: Tracker

    def __init__(self, pipe: Connection, config: SparserConfig, *, own_process: bool) -> None:
        super().__init__(pipe, config, own_process=own_process)
        self._audit = -1
        """Newest audit request that the tracker has a verdict on."""
        self._rest_until_s = 0.0

    def _new(self, epoch: int = 0) -> Tracker:
        self._not_adopted: Exception | None = None
        """What the newest verdict raised: until there is another one, there is no map."""
        return Tracker(self._config, epoch=epoch)

    def run(self) -> None:
        """Serve until the pipe closes."""
        from ...solver.warm_up import warm_up

        warm_up(self._config.dimension, self._config.solver)
        self._endpoint.send(wire.message(wire.READY))
        while not self._endpoint.ended.is_set():
            rest_s = max(self._rest_until_s - time.monotonic(), 0.0)
            for packet in self._endpoint.receive(rest_s if self._request >= 0 else None):
                self._handle(packet)
            rested = time.monotonic() >= self._rest_until_s
            if self._request >= 0 and rested and not self._endpoint.ended.is_set():
                self._answer()

    def _handle(self, packet: Packet) -> None:
        super()._handle(packet)
        if packet.kind == wire.VERDICT and packet.answer.generation == self._generation:
            try:
                self.estimator.adopt(packet.body)
                self._not_adopted = None
            except Exception as error:
                # A process that began anew would get the same verdict, and end again.
                self._not_adopted = error
            self._audit = max(self._audit, packet.answer.request)

    def _answer(self) -> None:
        """One solution answers all requests that wait."""
        begin, request, self._request = time.monotonic(), self._request, -1
        answer = Answer(self._generation, request, self._audit)
        if self._not_adopted is not None:
            self._endpoint.send_failure(answer, self._not_adopted)
            return
        try:
            solution = self.estimator.solve()
            self._endpoint.send(wire.message(wire.SOLUTION, solution, answer=answer))
            if solution.status is SolveStatus.STALLED:
                # Ticks that do not settle are long, and mostly those of a wrong map: half of the
                # time is left to the auditor, which can find a better one.
                self._rest_until_s = 2 * time.monotonic() - begin
        except Exception as error:
            # Nothing that a solve raises may silence the node: it is reported, the loop goes on.
            self._endpoint.send_failure(answer, error)


class _NewDataError(Exception):
    """Data came during work that is only for times without any."""


class AuditorLoop(_Loop):
    """The auditor on one end of a pipe."""

    NAME = 'auditor'
    STARTING = 'the auditor starts; robots are located after its first audit'
    estimator: Auditor

    def __init__(self, pipe: Connection, config: SparserConfig, *, own_process: bool) -> None:
        self._rulings = Rulings()
        super().__init__(pipe, config, own_process=own_process)
        self._tracked: TrackedMap | None = None
        self._compared: TrackedMap | None = None
        """The tracker's map that the last audit had."""
        self._calibration, self._calibrate_from_s = LiveCalibration(), 0.0
        self._paused = False
        """Whether nothing is done but what is asked for."""
        self._ended_s = self._newest_s = time.monotonic()
        """End of the last audit, and when the newest increment came."""
        self._rest = AuditRest(self._ended_s)
        self._scratch_anyway_s = math.inf

    def _new(self, epoch: int = 0) -> Auditor:
        auditor = Auditor(self._config, bounded=True)
        auditor.rule(self._rulings)
        return auditor

    def run(self) -> None:
        """Serve until the pipe closes."""
        from ...solver.warm_up import warm_up
        from ..observability.observability import warm_up as warm_up_comparison

        warm_up(self._config.dimension, self._config.solver)
        warm_up_comparison(self._config.dimension)
        if self._own_process:
            # Not before: robots are located only after the first audit.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, self._config.backend.audit.niceness)
        self._endpoint.send(wire.message(wire.READY))
        while not self._endpoint.ended.is_set():
            looked = time.monotonic()
            for packet in self._endpoint.receive(_LOOK_S):
                self._handle(packet)
            if self._endpoint.ended.is_set():
                break
            if self._wanted():
                self._make_audit()
                continue
            worked = not self._paused and (self._calibrated() or (
                self._at_rest() and self._prove(self._until_new_data)))
            if not worked and self._request < 0:
                # Increments come more often than it is worth looking at the graph.
                self._endpoint.ended.wait(max(0.0, looked + _LOOK_S / 2 - time.monotonic()))

    def _handle(self, packet: Packet) -> None:
        super()._handle(packet)
        if packet.kind == wire.INCREMENT:
            self._newest_s = time.monotonic()
        elif packet.kind == wire.SOLUTION and packet.answer.generation == self._generation:
            self._tracked = tracked_map(packet.body)
        elif packet.kind == wire.THIN and self._tracked is not None:
            self._tracked = tracked_of(self._tracked, packet.values['to'])
        elif packet.kind == wire.RESET:
            self._tracked, self._compared, self._calibration = None, None, LiveCalibration()
            # What audits of the forgotten map owe is forgotten, too.
            self._rest, self._scratch_anyway_s = AuditRest(time.monotonic()), math.inf
            self._calibrate_from_s = 0.0
        elif packet.kind == wire.RULINGS:
            self._rulings = packet.body
            self.estimator.rule(self._rulings)
        elif packet.kind == wire.CONFIGURE:
            self._apply_calibration()
        elif packet.kind == wire.PAUSE:
            self._paused = packet.values['paused']

    def _at_rest(self) -> bool:
        """Whether no data have come for a while, and all audits of what came are made."""
        auditor = self.estimator
        return (self._silent(time.monotonic()) and not auditor.postponed
                and auditor.sequence <= auditor.audited_sequence)

    def _silent(self, now: float) -> bool:
        """Whether no data have come for a while: audits of what came are soon done, and owe no
        rest."""
        return now - self._newest_s >= _AT_REST_S

    def _may_start_from_scratch(self, now: float) -> bool:
        return now >= self._rest.scratch_from_s or self._silent(now)

    def _until_new_data(self, iteration: int, cost: float, y: Array) -> None:
        """An observer that ends what it observes once a message waits."""
        if self._endpoint.has_message:
            raise _NewDataError

    def _calibrated(self) -> bool:
        """Whether a step of the calibration of radios was due, and made."""
        begin, busy = time.monotonic(), time.thread_time()
        if begin < self._calibrate_from_s or not self._calibration.step(
                self.estimator.solved, self._config):
            return False
        self._apply_calibration()
        busy_s = time.thread_time() - busy
        self._calibrate_from_s = time.monotonic() + _REST_OF_CALIBRATION * busy_s
        self._rest.also_worked(begin, busy_s)
        return True

    def _apply_calibration(self) -> None:
        """Take off what the last calibration has found, where that is to be and is new."""
        options = self._config.calibration
        errors = RadioErrors()
        if options.live and options.mode == 'apply':
            errors = self._calibration.errors
        least = options.bias_floor_m if errors else 0.0
        if errors.may_differ(self.estimator.calibrated, least):
            self.estimator.calibrate(errors)

    def _prove(self, observer: Observer | None = None) -> bool:
        """Whether the map of the last audit was not bounded yet and now is; the bound is sent."""
        begin, busy, before = time.monotonic(), time.thread_time(), self.estimator.bound
        try:
            worked = self.estimator.prove(observer)
        except _NewDataError:
            worked, self._newest_s = True, time.monotonic()
        bound = self.estimator.bound
        if bound is not None and bound is not before:
            self._endpoint.send(wire.message(
                wire.BOUND, bound, answer=Answer(self._generation, -1)))
        if worked:
            self._rest.also_worked(begin, time.thread_time() - busy)
        return worked

    def _wanted(self) -> str:
        """Why an audit should run now, or ''."""
        if self._request >= 0:
            return 'asked for'
        if self._paused:
            return ''
        if self.estimator.retold and self.estimator.sequence >= 0:
            return self.estimator.retold
        now, period = time.monotonic(), self._config.backend.audit.period_s
        if self.estimator.postponed and self._may_start_from_scratch(now):
            return self.estimator.postponed
        if self._scratch_anyway(now):
            return 'a start from scratch now and then'
        if now < self._rest.audit_from_s and not self._silent(now):
            return ''
        if self._tracked is not None and self._tracked.doubt == REFUSED and (
                self._tracked is not self._compared):
            return REFUSED
        if self.estimator.sequence <= self.estimator.audited_sequence:
            return ''
        if period > 0 and now - self._ended_s >= period:
            return 'now and then'
        return self.estimator.due('' if self._tracked is None else self._tracked.doubt)

    def _scratch_anyway(self, now: float) -> bool:
        """Whether a start from scratch needs no reason at `now` (seconds of `time.monotonic`)."""
        return self.estimator.has_news and now >= self._scratch_anyway_s

    def _make_audit(self) -> None:
        request, self._request = self._request, -1
        answer = Answer(self._generation, request)
        begin, busy = time.monotonic(), time.thread_time()
        try:
            verdict = self._caught_up(self._verdict(request))
            starved = _starved(time.monotonic() - begin, time.thread_time() - busy)
            verdict = replace(verdict, findings=verdict.findings + starved)
            self._endpoint.send(wire.verdict_message(verdict, answer))
        except Exception as error:
            # Nothing that an audit raises may end the checks: it is reported, and the loop goes on.
            self._endpoint.send_failure(answer, error)
        self._ended_s = time.monotonic()
        scratch = self.estimator.scratch_s
        self._rest.worked(begin, self._ended_s, time.thread_time() - busy, scratch)
        if scratch > 0:
            self._scratch_anyway_s = self._ended_s + scratch * _REST_WITHOUT_REASON
        if request >= 0:
            self._prove()

    def _verdict(self, request: int) -> Verdict:
        tracked = self._tracked
        if tracked is not None and tracked.sequence > self.estimator.sequence:
            # A solution overtook increments after a restart of this process: not yet comparable.
            tracked = None
        self._compared, now = tracked, time.monotonic()
        return self._with_radios(self.estimator.audit(
            tracked, request=request, preliminary=self._say,
            scratch=True if self._scratch_anyway(now)
            else None if self._may_start_from_scratch(now) else False))

    def _caught_up(self, verdict: Verdict) -> Verdict:
        """The verdict with its map continued to what came while it was made."""
        auditor, generation, most = self.estimator, self._generation, math.inf
        packets = self._endpoint.receive(_NOW_S)
        # Each round is for what came during the one before, and far shorter where it keeps up.
        while packets and len(packets) < most:
            most = len(packets)
            for packet in packets:
                self._handle(packet)
            if auditor is not self.estimator or generation != self._generation:
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
        self._endpoint.send(wire.verdict_message(
            self._with_radios(verdict), Answer(self._generation, -1)))


def main(loop: type[TrackerLoop] | type[AuditorLoop], pipe: Connection,
         config: SparserConfig) -> None:
    """Entry point of a process."""
    begin_process()
    loop(pipe, config, own_process=True).run()


def begin_process() -> None:
    """Prepare a new process: signals, memory, threads."""
    from ...linalg.process import keep_blas_on_one_thread, keep_freed_memory

    # Ctrl-C goes to the whole process group; the node decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    keep_freed_memory()
    keep_blas_on_one_thread()


def _starved(elapsed_s: float, busy_s: float) -> tuple[Finding, ...]:
    """What to say of an audit that mostly waited for a processor."""
    if elapsed_s < _LONG_S or busy_s > _LITTLE * elapsed_s:
        return ()
    return (Finding(
        'processor_busy', 'auditor',
        f'the newest audit of the map took {elapsed_s:.0f} s, and had a processor for '
        f'{busy_s:.1f} s of it: other processes keep all processors busy, and robots are located '
        'late; leave the node a core of its own', busy_s / elapsed_s),)


class AuditRest:
    """Rest after audits and after starts from scratch; all times in s, of one clock but `busy_s`.

    All work draws on one account, `share` of a processor: what other processes take of it meanwhile
    is no work, and what was not drawn for `CREDIT_S` is still there. A start from scratch waits
    until all work before it has been rested for. Audits without one go on meanwhile, with half of
    the share, so that the other half pays for the next start and for bounds.
    """

    def __init__(self, now_s: float, share: float = SHARE) -> None:
        self.audit_from_s, self.scratch_from_s = now_s, now_s - CREDIT_S
        self._share = share

    def worked(self, begin_s: float, end_s: float, busy_s: float, scratch_s: float) -> None:
        """An audit took this long, `busy_s` of processor time, and `scratch_s` was for a start from
        scratch."""
        indebted = scratch_s > 0 or self.scratch_from_s > begin_s
        self.also_worked(begin_s, busy_s)
        own = self._share / 2 if indebted else self._share
        audit_s = end_s - begin_s - scratch_s
        busy_of_audit_s = busy_s * audit_s / max(end_s - begin_s, 1e-9)
        rest_s = max(0.0, busy_of_audit_s / own - audit_s)
        self.audit_from_s = min(end_s + rest_s, max(end_s, self.scratch_from_s))

    def also_worked(self, begin_s: float, busy_s: float) -> None:
        """Something else, after which an audit need not wait, took this processor time."""
        self.scratch_from_s = max(self.scratch_from_s, begin_s - CREDIT_S) + busy_s / self._share


class Endpoint:
    """One end of a pipe in a process of its own, or in a thread: messages in, answers and signs of
    life out.

    CHOLMOD holds the interpreter lock for a second and more. A reader thread empties the pipe
    whenever the lock is free, so that a large increment never waits for a solve to end with the
    pipe full in both directions.
    """

    def __init__(self, pipe: Connection, *, own_process: bool) -> None:
        self._pipe, self._own_process = pipe, own_process
        self._inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self.ended = threading.Event()
        """Set once the node is gone or asks to end."""
        for work, name in ((self._read, 'reader'), (self._beat, 'beat')):
            threading.Thread(target=work, name=f'sparser-{name}', daemon=True).start()

    def receive(self, timeout_s: float | None = None) -> list[Packet]:
        """All waiting messages; waits for one (None = for ever). [] after the end or in vain."""
        packets: list[Packet] = []
        try:
            message = self._inbox.get(timeout=timeout_s)
            while message is not None:
                packets.append(wire.decode(message))
                message = self._inbox.get_nowait()
        except queue.Empty:
            return packets
        self.ended.set()
        return []

    @property
    def has_message(self) -> bool:
        """Whether `receive` would not wait."""
        return not self._inbox.empty()

    def send(self, message: bytes) -> None:
        """Send one message; the node being gone ends the process."""
        with self._sending:
            try:
                self._pipe.send_bytes(message)
            except OSError:
                self._end()

    def send_failure(self, answer: Answer, error: Exception) -> None:
        """Tell of an exception that ended a solve or an audit."""
        self.send(wire.message(
            wire.FAILED, answer=answer, text=f'{type(error).__name__}: {error}',
            traceback=''.join(traceback.format_exception(error))))

    def _read(self) -> None:
        while True:
            try:
                self._inbox.put(self._pipe.recv_bytes())
            except (EOFError, OSError):
                self._end()
                return

    def _beat(self) -> None:
        parent = os.getppid()
        while not self.ended.wait(BEAT_S):
            if self._own_process and os.getppid() != parent:
                self._end()
            self.send(wire.message(wire.BEAT))

    def _end(self) -> None:
        """The node is gone: a process of its own ends at once, whatever it is doing."""
        if self._own_process:
            os._exit(0)
        self.ended.set()
        self._inbox.put(None)
