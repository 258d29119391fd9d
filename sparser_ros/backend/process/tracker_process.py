"""The tracker process: takes increments and verdicts, answers requests with solutions."""

from __future__ import annotations

import os
import time
import traceback
from multiprocessing.connection import Connection

from ...solver.result import SolveStatus
from ..session.rulings import Rulings
from ..session.session import Session
from ..session.tracker import Tracker
from . import protocol
from .codec import Packet, decode_increment, encode, encode_solution
from .endpoint import Endpoint, begin_process
from .protocol import Answer, Request
from .thin_codec import decode_thinned
from .verdict_codec import decode_verdict


class TrackerLoop:
    """The tracker on one end of a pipe; with the auditor in turns where it has no process."""

    def __init__(self, pipe: Connection, config: str, *, own_process: bool) -> None:
        self._config = protocol.config_from(config)
        self._endpoint = Endpoint(
            pipe, self._config.backend.watchdog.heartbeat_period_s, own_process=own_process)
        self._generation = 0
        self._audit = -1
        """Newest audit request that the tracker has a verdict on."""
        self._requests: list[Request] = []
        self._rulings = Rulings()
        self._held = self._new(0)
        self._rest_until_s = 0.0

    def _new(self, epoch: int) -> Tracker | Session:
        if self._config.backend.auditor == 'process':
            return Tracker(self._config, epoch=epoch)
        session = Session(self._config, bounded=True, epoch=epoch)
        session.rule(self._rulings)
        return session

    def run(self) -> None:
        """Serve until the pipe closes."""
        from ...solver.warm_up import warm_up
        from ..observability.comparison_warm_up import warm_up as warm_up_comparison

        warm_up(self._config.dimension, self._config.solver)
        if self._config.backend.auditor == 'inline':
            warm_up_comparison(self._config.dimension)
        self._endpoint.send(encode(protocol.READY, {'pid': os.getpid()}))
        while not self._endpoint.ended.is_set():
            rest_s = self._rest_until_s - time.monotonic()
            for packet in self._endpoint.receive(max(rest_s, 0.0) if self._requests else None):
                self._handle(packet)
            rested = time.monotonic() >= self._rest_until_s
            if self._requests and rested and not self._endpoint.ended.is_set():
                self._answer()

    def _handle(self, packet: Packet) -> None:
        values = packet.values
        if packet.kind == protocol.INCREMENT:
            self._held.add(decode_increment(packet), first=values['first'])
        elif packet.kind == protocol.SOLVE:
            self._requests.append(protocol.request_of(packet))
        elif packet.kind == protocol.VERDICT and isinstance(self._held, Tracker):
            answer = protocol.answer_of(packet)
            if answer.generation == self._generation:
                self._held.adopt(decode_verdict(packet))
                self._audit = max(self._audit, answer.request)
        elif packet.kind == protocol.RULINGS:
            self._rulings = Rulings.from_values(values)
            if isinstance(self._held, Session):
                self._held.rule(self._rulings)
        elif packet.kind == protocol.THIN:
            self._generation = values['generation']
            self._held.thin(*decode_thinned(packet))
        elif packet.kind == protocol.RESET:
            self._generation, self._requests = values['generation'], []
            self._held = self._new(values['epoch'])
        elif packet.kind == protocol.CONFIGURE:
            self._config = protocol.config_from(values['config'])
            self._held.config = self._config
        elif packet.kind == protocol.CLOSE:
            self._endpoint.ended.set()

    def _answer(self) -> None:
        """One solution answers all requests that wait."""
        begin, requests, self._requests = time.monotonic(), self._requests, []
        wishes = [one.full for one in requests]
        full = True if True in wishes else None if None in wishes else False
        answer = Answer(self._generation, max(one.number for one in requests), self._audit)
        try:
            solution = self._held.solve(full) if isinstance(
                self._held, Session) else self._held.solve()
            if full and isinstance(self._held, Session):
                answer = Answer(answer.generation, answer.request, answer.request)
            self._endpoint.send(encode_solution(solution, answer))
            self._rest_until_s = rested_s(solution.status, begin, time.monotonic())
            if full and isinstance(self._held, Session) and self._held.bound is not None:
                self._endpoint.send(protocol.bound_message(self._held.bound, answer))
        except Exception as error:
            # Nothing that a solve raises may silence the node: it is reported, the loop goes on.
            self._endpoint.send(protocol.failed_message(
                answer, f'{type(error).__name__}: {error}', traceback.format_exc()))


def rested_s(status: SolveStatus, begin_s: float, end_s: float) -> float:
    """When the next tick may begin after one from `begin_s` to `end_s`.

    Ticks that do not settle are long, and mostly those of a wrong map. They leave half of the time
    to the auditor, which can find a better one.
    """
    return end_s + (end_s - begin_s if status is SolveStatus.STALLED else 0.0)


def main(pipe: Connection, config: str) -> None:
    """Entry point of the spawned process."""
    begin_process()
    TrackerLoop(pipe, config, own_process=True).run()
