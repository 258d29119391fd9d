"""Everything that is wrong right now, from all rooms: what `~/status` says, and what stops TF."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..backend.process.worker import WorkerState
from ..graph.finding import Finding
from .callbacks import CallbackTimes
from .pipeline import Pipeline
from .watch import Watch

NEW_S = 5.0
"""So long a finding counts as new and is named first."""
_WORST_FIRST = (
    'solve_failed', 'journal_failed', 'audit_failed', 'auditor_lost', 'monitor_failed',
    'search_failed',
    'callback_error', 'journal_lost', 'quarantined', 'solution_stale', 'data_stale',
    'odometry_stale', 'map_changed', 'odometry_tilted', 'imu_turned',
    'radios_swapped', 'beacons_swapped', 'odometry_jump', 'odometry_failed', 'odometry_outlier',
    'beacon_misplaced', 'beacon_moved', 'height_missing', 'odometry_scale', 'odometry_turn',
    'ranges_rejected', 'range_burst', 'antenna_misplaced', 'range_bias', 'radio_bias',
    'altimeter_frozen', 'heights_rejected', 'altimeter_step', 'odometry_noise', 'closures_rejected')
"""Faults of the node itself, what is old, what bends the map, then what costs accuracy."""
_STOPS_ALL = ('solution_stale', 'data_stale')
"""Kinds that stay before newer findings: nothing is published while they last."""
_RANK = {kind: number for number, kind in enumerate(_WORST_FIRST)}
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


def totals(counters: Mapping[str, Any]) -> tuple[int, int]:
    """Messages received and refused over all kinds of input."""
    kinds = [kind for kind in counters.values() if isinstance(kind, Mapping)]
    received = sum(int(kind['received']) for kind in kinds)
    dropped = sum(sum(kind['dropped'].values()) for kind in kinds)
    return received, dropped


def failures(worker: WorkerState) -> list[Finding]:
    """A solve or an audit that failed, until another one succeeds; an auditor that was lost."""
    findings = [Finding('solve_failed', 'solver', worker.failed)] if worker.failed else []
    if worker.auditor_missing and worker.restarts:
        findings.append(Finding('auditor_lost', 'auditor', worker.auditor_missing))
    return findings


def without_echoes(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without those that only repeat that data have stopped.

    `data_stale` says it for all inputs, `odometry_stale` for one robot: the front-end's word on
    the same robot, and that of the watch on the same topics, would follow a few seconds later.
    """
    kinds = {finding.kind for finding in findings}
    robots = {finding.subject for finding in findings if finding.kind == 'odometry_stale'}
    return [
        finding for finding in findings
        if not (finding.kind in ('input_silent', 'odometry_silent') and 'data_stale' in kinds)
        and not (finding.kind == 'odometry_silent' and finding.subject in robots)]


@dataclass
class Staleness:
    """When odometry, any data and solutions last came, on the steady clock; which TF that stops.

    A clock that stands still, or runs on after all data died, must not make old poses look new:
    ages are wall time since something came, whatever its stamp.
    """

    robots: tuple[str, ...]
    steady: Callable[[], float] = time.monotonic
    _odometry_s: dict[str, float] = field(default_factory=dict)
    _odometry_ns: dict[str, int] = field(default_factory=dict)
    _data_s: float = math.nan
    _solution_s: float = math.nan
    _behind_s: float = math.nan
    """Since when there are data that no solution includes, as far as since the newest one."""
    _received: int = 0

    def clear(self) -> None:
        """Forget everything, after a reset."""
        self._odometry_s, self._odometry_ns = {}, {}
        self._data_s = self._solution_s = self._behind_s = math.nan

    def data(self, received: int, newest_odometry_ns: Mapping[str, int]) -> None:
        """Note the newest odometry stamps; `received` counts messages of all kinds."""
        now = self.steady()
        if received != self._received:
            self._received, self._data_s = received, now
        for robot, stamp_ns in newest_odometry_ns.items():
            if self._odometry_ns.get(robot) != stamp_ns:
                self._odometry_ns[robot], self._odometry_s[robot] = stamp_ns, now

    def solved(self) -> None:
        """Note a new solution."""
        self._solution_s, self._behind_s = self.steady(), math.nan

    def progress(self, up_to_date: bool) -> None:
        """Note whether the newest solution includes everything handed over."""
        if up_to_date:
            self._behind_s = math.nan
        elif math.isnan(self._behind_s):
            self._behind_s = self.steady()

    @property
    def data_age_s(self) -> float:
        """Seconds since the newest message; NaN = none yet."""
        return self.steady() - self._data_s

    @property
    def solution_age_s(self) -> float:
        """Seconds since the newest solution; NaN = none yet."""
        return self.steady() - self._solution_s

    def stale(self, limit_s: float) -> dict[str, Finding]:
        """What is older than the limit, by robot; '' stands for all robots. 0 = no limit."""
        if limit_s <= 0:
            return {}
        stale: dict[str, Finding] = {}
        behind = self.steady() - self._behind_s
        if behind > limit_s and not math.isnan(self._solution_s):
            stale[''] = Finding(
                'solution_stale', 'solver',
                f'the solver has given no solution for {self.solution_age_s:.0f} s: the map is '
                'old, its TF has stopped', self.solution_age_s, 's')
        if self.data_age_s > limit_s:
            stale.setdefault('', Finding(
                'data_stale', 'all inputs',
                f'no data for {self.data_age_s:.0f} s: the map is old, its TF has stopped',
                self.data_age_s, 's'))
            return stale
        for robot in self.robots:
            age = self.steady() - self._odometry_s.get(robot, math.nan)
            if age > limit_s:
                stale[robot] = Finding(
                    'odometry_stale', robot,
                    f'no odometry of {robot} for {age:.0f} s: its TF has stopped', age, 's')
        return stale


class FindingBoard:
    """Findings that last, and since when each of them does."""

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, str], float] = {}

    def ordered(self, findings: Iterable[Finding], now_s: float) -> tuple[Finding, ...]:
        """The findings without doubles: new ones first, then by how bad their kind is.

        Kinds that this list does not rank come after those that it does, as they came.
        """
        unique: dict[tuple[str, str], Finding] = {}
        for finding in findings:
            unique.setdefault((finding.kind, finding.subject), finding)
        self._since_s = {key: self._since_s.get(key, now_s) for key in unique}

        def place(key: tuple[str, str]) -> tuple[bool, int]:
            old = now_s - self._since_s[key] > NEW_S and key[0] not in _STOPS_ALL
            return old, _RANK.get(key[0], len(_RANK))

        return tuple(unique[key] for key in sorted(unique, key=place))
