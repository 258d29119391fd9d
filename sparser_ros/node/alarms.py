"""Everything that is wrong right now, from all rooms: what `~/status` says, and what stops TF."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..backend.process.worker_state import WorkerState
from ..graph.finding import Finding
from .findings import FindingBoard
from .pipeline import Pipeline
from .staleness import Staleness
from .status import totals
from .timing import CallbackTimes
from .watch import Watch

ERROR_MEMORY_S = 60.0
"""A callback's exception stays a finding for so long."""


class Alarms:
    """Collects findings of front-end, back-end and node; ages of data and solutions."""

    def __init__(
        self, pipeline: Pipeline, watch: Watch, times: CallbackTimes,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._watch = watch
        self._times = times
        self._steady = steady
        self._board = FindingBoard()
        self._stale: dict[str, Finding] = {}
        self.staleness = Staleness(tuple(pipeline.config.robots), steady)
        self.findings: tuple[Finding, ...] = ()
        """All that lasts, new ones first, then the worst."""

    def look(self) -> None:
        """Bring ages and findings up to date; cheap enough for every tick of a timer."""
        pipeline = self._pipeline
        self.staleness.data(totals(pipeline.frontend.counters.as_dict())[0], {
            robot: newest[0] for robot in pipeline.config.robots
            if (newest := pipeline.frontend.latest_odometry(robot)) is not None})
        self.staleness.progress(pipeline.paused or pipeline.up_to_date)
        self._stale = self.staleness.stale(pipeline.config.node.stale_after_s)
        solution = pipeline.solution
        self.findings = self._board.ordered(without_echoes((
            *failures(pipeline.worker.state), *pipeline.recording.findings, *self._errors(),
            *self._stale.values(), *pipeline.frontend.findings,
            *(() if solution is None else solution.findings), *self._watch.findings)),
            self._steady())

    def clear(self) -> None:
        """Forget ages after a reset."""
        self.staleness.clear()
        self._stale = {}

    def withheld(self, robot: str) -> bool:
        """True where the TF of a robot must stop because something about it is old."""
        return '' in self._stale or robot in self._stale

    def _errors(self) -> list[Finding]:
        now = self._steady()
        return [
            Finding('callback_error', name,
                    f'an exception in the callback {name!r} ({error.count} so far): {error.text}',
                    float(error.count))
            for name, error in self._times.errors.items() if now - error.steady_s < ERROR_MEMORY_S]


def failures(worker: WorkerState) -> list[Finding]:
    """A solve or an audit that failed, until another one succeeds; an auditor that was lost."""
    found = [Finding('solve_failed', 'solver', worker.failed)] if worker.failed else []
    if worker.auditor_missing and worker.restarts:
        found.append(Finding('auditor_lost', 'auditor', worker.auditor_missing))
    return found


def without_echoes(found: Sequence[Finding]) -> list[Finding]:
    """The findings without those that only repeat that data have stopped.

    `data_stale` says it for all inputs, `odometry_stale` for one robot: the front-end's word on
    the same robot, and that of the watch on the same topics, would follow a few seconds later.
    """
    kinds = {one.kind for one in found}
    robots = {one.subject for one in found if one.kind == 'odometry_stale'}
    return [
        one for one in found
        if not (one.kind in ('input_silent', 'odometry_silent') and 'data_stale' in kinds)
        and not (one.kind == 'odometry_silent' and one.subject in robots)]
