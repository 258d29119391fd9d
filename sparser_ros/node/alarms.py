"""Everything that is wrong right now, from all rooms: what `~/status` says, and what stops TF.

And why nothing happens: silent inputs, a clock that stands still or jumps, wrong time, rivals.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence

from rclpy.node import Node

from ..backend.process.worker import WorkerState
from ..graph.finding import Finding
from .callbacks import CallbackTimes
from .messages import full_name, topic_token
from .pipeline import Pipeline
from .subscriptions import Subscriptions

NEW_S = 5.0
"""So long a finding counts as new and is named first."""
_WORST_FIRST = (
    'solve_failed', 'journal_failed', 'audit_failed', 'auditor_lost', 'monitor_failed',
    'search_failed', 'processor_busy',
    'callback_error', 'journal_lost', 'quarantined', 'solution_stale', 'data_stale',
    'odometry_stale', 'map_changed', 'odometry_tilted', 'imu_turned',
    'radios_swapped', 'beacons_swapped', 'odometry_jump', 'odometry_failed', 'odometry_outlier',
    'beacon_misplaced', 'beacon_moved', 'height_missing', 'odometry_scale', 'odometry_turn',
    'ranges_rejected', 'range_burst', 'antenna_misplaced', 'range_bias', 'radio_bias',
    'range_frozen', 'altimeter_frozen', 'heights_rejected', 'fixes_rejected',
    'odometry_noise', 'closures_rejected')
"""Faults of the node itself, what is old, what bends the map, then what costs accuracy."""
_STOPS_ALL = ('solution_stale', 'data_stale')
"""Kinds that stay before newer findings: nothing is published while they last."""
_RANK = {kind: number for number, kind in enumerate(_WORST_FIRST)}
ERROR_MEMORY_S = 60.0
"""A callback's exception stays a finding for so long."""
LEASE_S = 20.0
"""So long a node that was killed is still seen by the others."""
TIME_MISMATCH_S = 10.0
"""Offset of a topic's stamps from the node's clock that is reported; networks delay by less."""
NO_CLOCK_S = 5.0
"""So long `/clock` may stand still, wall time."""
BACK_NS, AHEAD_NS = 10**9, 60 * 10**9
"""Steps of the clock that are doubted."""
AGREEING = 3
"""Readings that must agree on a jump before it counts."""
SHOWN_S = 60.0
"""Wall time for which a jump stays a finding."""
Key = tuple[str, str]
"""Kind and subject of a finding."""


class Alarms:
    """Collects findings of front-end, back-end and node; ages of data and solutions."""

    def __init__(
        self, node: Node, pipeline: Pipeline, inputs: Subscriptions, times: CallbackTimes,
        hints: Sequence[str],
    ) -> None:
        """`hints`: what does not go together in the configuration."""
        self._node, self._pipeline, self._inputs, self._times = node, pipeline, inputs, times
        self.clock, self._hints = ClockWatch(node), hints
        self._begin = time.monotonic()
        self._rival_since: dict[str, float] = {}
        self._logged: set[Key] = set()
        self._around: tuple[Finding, ...] = ()
        """What the last look around has found."""
        self._since: dict[Key, float] = {}
        self._stale: dict[str, Finding] = {}
        self.staleness = Staleness(tuple(pipeline.config.robots))
        self.findings: tuple[Finding, ...] = ()
        """All that lasts, new ones first, then the worst."""

    def look(self) -> None:
        """Bring ages and findings up to date; cheap enough for every tick of a timer."""
        pipeline = self._pipeline
        self.staleness.data(
            pipeline.frontend.counters.received, pipeline.frontend.newest_odometry_ns)
        self.staleness.progress(pipeline.paused or pipeline.up_to_date)
        self._stale = self.staleness.stale(pipeline.config.node.stale_after_s)
        solution = pipeline.solution
        findings = without_echoes((
            *failures(pipeline.worker.state), *pipeline.recording.findings, *self._errors(),
            *self._stale.values(), *pipeline.frontend.findings,
            *(() if solution is None else solution.findings), *self._around))
        self.findings, self._since = ordered(findings, self._since, time.monotonic())

    def look_around(self) -> None:
        """Look at inputs, clock and other nodes; each finding is logged when it begins."""
        self._around = (
            *self._silence(), *self.clock.findings(), *self._time_mismatch(),
            *self._rivals(), *self._inputs.findings(),
            *(Finding('configuration', text, text) for text in self._hints))
        told = (*self._around, *(finding for finding in self._pipeline.frontend.findings
                                 if finding.kind.startswith(('refused_', 'configuration'))))
        for finding in told:
            if (finding.kind, finding.subject) not in self._logged:
                self._node.get_logger().warning(finding.text)
        self._logged = {(finding.kind, finding.subject) for finding in told}

    def clear(self) -> None:
        """Forget ages after a reset."""
        self.staleness.clear()
        self._stale = {}

    def withheld(self, robot: str) -> bool:
        """True where the TF of a robot must stop because something about it is old."""
        return '' in self._stale or robot in self._stale

    def _errors(self) -> list[Finding]:
        now = time.monotonic()
        return [
            Finding('callback_error', name,
                    f'an exception in the callback {name!r} ({kind.errors} so far): {kind.text}',
                    float(kind.errors))
            for name, kind in self._times.kinds.items() if now - kind.raised_s < ERROR_MEMORY_S]

    def _silence(self) -> list[Finding]:
        limit, now = self._pipeline.config.node.no_data_warning_s, time.monotonic()
        findings = []
        for item in self._inputs.inputs.values():
            since = now - (item.last_steady_s or self._begin)
            if since <= limit or item.latched or (item.optional and not item.regular):
                continue
            kind, state = ('input_silent', 'has been silent') if item.count else (
                'input_unheard', 'has said nothing')
            heard = '' if self._node.count_publishers(item.topic) else ' and nobody publishes it'
            # While /clock stands still, a player may be waiting.
            if not heard and not item.count and not self.clock.findings():
                # sensor_msgs/Range, for one, is another type since Jazzy: DDS connects nobody.
                heard = (', though somebody publishes it: the type may be that of another ROS '
                         'distribution (`sparser play` translates recordings)')
            findings.append(Finding(
                kind, item.topic, f'{item.topic} {state} for {since:.0f} s{heard}', since, 's'))
        return findings

    def _rivals(self) -> list[Finding]:
        """Other nodes of ours that publish the same transforms; consumers see robots jump."""
        node, robots = self._node, self._pipeline.config.robots
        own, texts = node.get_fully_qualified_name(), {}
        if node.count_publishers('~/status') > 1:
            texts[own] = f'another node of the name {own} publishes the same topics and transforms'
        for endpoint in node.get_publishers_info_by_topic(node.resolve_topic_name('/tf')):
            name = full_name(endpoint)
            shared = [robot for robot in robots if name != own
                      and node.count_publishers(f'{name}/path/{topic_token(robot)}')]
            if shared:
                texts[name] = f'{name} publishes map -> odom of {", ".join(shared)} as well'
        now = time.monotonic()
        self._rival_since = {name: self._rival_since.get(name, now) for name in texts}
        return [Finding('rival', name, f'{text}: end one of the two')
                for name, text in texts.items() if now - self._rival_since[name] > LEASE_S + 1]

    def _time_mismatch(self) -> list[Finding]:
        offsets = {
            item.topic: item.offset_s for item in self._inputs.inputs.values()
            if item.offset_s is not None and abs(item.offset_s) > TIME_MISMATCH_S}
        if not offsets:
            return []
        topic, worst = max(offsets.items(), key=lambda pair: abs(pair[1]))
        side = 'behind' if worst > 0 else 'ahead of'
        hint = '' if self._node.get_parameter('use_sim_time').value else \
            ': is this a bag, and use_sim_time not set?'
        return [Finding(
            'time_mismatch', 'stamps',
            f'data stamps of {topic} are {abs(worst):.1f} s {side} the clock{hint}', worst, 's')]


class ClockWatch:
    """Follows simulated time; a jump counts once several readings agree on it.

    A reading behind the newest by `BACK_NS`, or ahead by `AHEAD_NS`, is doubted: it may be one
    wrong message. If `AGREEING` different ones in a row are, the clock has jumped. It has not gone
    back while several nodes publish `/clock`: their times alternate.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._reading_ns = self._newest_ns = self._doubted = 0
        self._moved_s = time.monotonic()
        self._told: tuple[float, Finding] | None = None
        """The newest jump, and when it was."""

    @property
    def trusted(self) -> bool:
        """False while the clock shows a time that no further reading has confirmed."""
        return self._doubted == 0

    def look(self) -> bool:
        """Read the clock; whether it has gone back, and stays there."""
        now = self._node.get_clock().now().nanoseconds
        if not self._simulated or now == self._reading_ns:
            return False
        onward = 0 < now - self._reading_ns < AHEAD_NS
        self._reading_ns, self._moved_s = now, time.monotonic()
        step = now - self._newest_ns
        if not self._newest_ns or -BACK_NS < step < AHEAD_NS:
            self._newest_ns, self._doubted = max(self._newest_ns, now), 0
            return False
        self._doubted = self._doubted + 1 if onward and self._doubted else 1
        publishers = sorted(
            full_name(endpoint)
            for endpoint in self._node.get_publishers_info_by_topic('/clock')) if step < 0 else []
        if len(publishers) > 1:
            self._told = time.monotonic(), Finding(
                'clock_alternates', '/clock',
                f'/clock goes back and forth: it has {len(publishers)} publishers '
                f'({", ".join(publishers)}); the map stays, stop all but one')
            return False
        if self._doubted < AGREEING:
            return False
        self._newest_ns, self._doubted = now, 0
        if step > 0:
            return False
        self._told = time.monotonic(), Finding(
            'clock_jumped', '/clock',
            f'the clock jumped back by {-step * 1e-9:.1f} s, to {now * 1e-9:.1f} s', -step * 1e-9,
            's')
        return True

    @property
    def words(self) -> str:
        """The newest jump."""
        return '' if self._told is None else self._told[1].text

    @property
    def _simulated(self) -> bool:
        return bool(self._node.get_parameter('use_sim_time').value)

    def findings(self) -> list[Finding]:
        """A clock that stands still, and the jumps of the last minute."""
        now, findings = time.monotonic(), []
        since = now - self._moved_s
        if self._simulated and since > NO_CLOCK_S:
            findings.append(Finding(
                'clock', '/clock',
                f'use_sim_time is set, but /clock has stood still for {since:.0f} s', since, 's'))
        if self._told is not None and now - self._told[0] < SHOWN_S:
            findings.append(self._told[1])
        return findings


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


class Staleness:
    """When odometry, any data and solutions last came, on the steady clock; which TF that stops.

    A clock that stands still, or runs on after all data died, must not make old poses look new:
    ages are wall time since something came, whatever its stamp.
    """

    def __init__(self, robots: Sequence[str]) -> None:
        self._robots = robots
        self.clear()

    def clear(self) -> None:
        """Forget everything, after a reset, with which counters begin at 0."""
        self._received = 0
        self._odometry: dict[str, tuple[int, float]] = {}
        """Newest stamp of each robot, and when it came."""
        self._data_s = self._solution_s = math.nan
        self._behind_s = math.nan
        """Since when there are data that no solution includes, as far as since the newest one."""

    def data(self, received: int, newest_odometry_ns: Mapping[str, int]) -> None:
        """Note the newest odometry stamps; `received` counts messages of all kinds."""
        now = time.monotonic()
        if received != self._received:
            self._received, self._data_s = received, now
        for robot, stamp_ns in newest_odometry_ns.items():
            if self._odometry.get(robot, (0, 0.0))[0] != stamp_ns:
                self._odometry[robot] = stamp_ns, now

    def solved(self) -> None:
        """Note a new solution."""
        self._solution_s, self._behind_s = time.monotonic(), math.nan

    def progress(self, up_to_date: bool) -> None:
        """Note whether the newest solution includes everything handed over."""
        if up_to_date:
            self._behind_s = math.nan
        elif math.isnan(self._behind_s):
            self._behind_s = time.monotonic()

    @property
    def data_age_s(self) -> float:
        """Seconds since the newest message; NaN = none yet."""
        return time.monotonic() - self._data_s

    @property
    def solution_age_s(self) -> float:
        """Seconds since the newest solution; NaN = none yet."""
        return time.monotonic() - self._solution_s

    def stale(self, limit_s: float) -> dict[str, Finding]:
        """What is older than the limit, by robot; '' stands for all robots. 0 = no limit."""
        if limit_s <= 0:
            return {}
        stale: dict[str, Finding] = {}
        behind = time.monotonic() - self._behind_s
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
        for robot in self._robots:
            age = time.monotonic() - self._odometry.get(robot, (0, math.nan))[1]
            if age > limit_s:
                stale[robot] = Finding(
                    'odometry_stale', robot,
                    f'no odometry of {robot} for {age:.0f} s: its TF has stopped', age, 's')
        return stale


def ordered(
    findings: Iterable[Finding], before: Mapping[Key, float], now_s: float
) -> tuple[tuple[Finding, ...], dict[Key, float]]:
    """The findings without doubles: new ones first, then by how bad their kind is; and since when
    each of them lasts, as `before` says it of earlier ones.

    Kinds that are not ranked come after those that are, as they came.
    """
    unique: dict[Key, Finding] = {}
    for finding in findings:
        unique.setdefault((finding.kind, finding.subject), finding)
    since = {key: before.get(key, now_s) for key in unique}

    def place(key: Key) -> tuple[bool, int]:
        old = now_s - since[key] > NEW_S and key[0] not in _STOPS_ALL
        return old, _RANK.get(key[0], len(_RANK))

    return tuple(unique[key] for key in sorted(unique, key=place)), since
