"""Odometry of one robot on its way in: sorted by stamp, and believed within reason.

A step between two messages is a motion that the robot can have made when its length is at most
`slack + min(v_max dt, v dt + a_max dt^2)`, where v is the recent speed, and its turn at most
`slack + w_max dt`. After a silence the speed of the past stands in for the limits: a robot does not
get faster than three times its top speed while nobody looks.

What follows from the last message by such a motion passes at once. Anything else waits until the
next messages decide: if they go on from where the robot was, the odd ones are dropped; if
`odometry.confirm_messages` of them agree with one another, a new segment begins with the first.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections import deque

from ..config.frontend_config import OdometryConfig
from ..graph.finding import Finding
from .clocks import nanoseconds
from .motion import Geometry
from .track import Believed, Gap, Reading, Track
from .waiting import Shared

SPEED_SPAN_NS = 500_000_000
"""The recent speed is that over this time: over single steps jitter of the stamps (tiers: 0.1 ms
between messages) makes it ten times too large."""
REMEMBERED_PERIODS = 21
"""Periods whose median is the usual one."""
GAP_PERIODS = 10
"""A silence is a gap when it lasts so many usual periods (and `odometry.gap_s`)."""
PAUSE_PERIODS = 3
"""A reading so many usual periods after the last one waits for the next: believed at once, a stamp
ahead would make as many right ones look old, which is what a clock set back looks like (the
default of `stamps.jump_messages`)."""
TOP_SPEED_FACTOR = 3.0
"""Times its top speed: as fast as a robot can have gone during a gap."""
LEAST_TOP_SPEED = 1.0
"""m/s: top speed of a robot that has stood still so far, for the same purpose."""
ORIGIN_M = 0.05
ORIGIN_RAD = 0.05
"""A driver that starts again begins at the identity, or within one message of it."""
AWAY_M = 2.0
"""And the robot was at least so far from its origin before: closer by, a way back is likely."""
AGREEING_AFTER_GAP = 2
"""So many messages that agree end a silence: one alone may have a wrong stamp."""
MEMORY_NS = 30_000_000_000
"""After this much data time without late messages nothing waits any more."""
LATENESS_FACTOR = 1.2
"""Wait longer than the latest message was late: the next one may be a bit later still."""
MANY_REFUSED, REFUSED_SHARE = 20, 0.2
"""Messages that lie elsewhere, and their share of the believed ones, from which they are no
outliers: two sources publish on one topic."""
RATIO_SPAN_M = 20.0
"""Way over which the speed of messages is compared with their poses: 1 % of jitter is 0.2 m."""


class StepRule:
    """The bounds on steps of one robot, from its options and from how it has moved so far."""

    def __init__(self, options: OdometryConfig, space: Geometry) -> None:
        self._options = options
        self._space = space
        self.forget()

    def forget(self) -> None:
        """A new segment: the robot may move otherwise now."""
        self._trail: deque[tuple[int, float, float]] = deque()
        self._periods: deque[int] = deque(maxlen=REMEMBERED_PERIODS)
        self._path = self._turn = 0.0
        self._top_speed = 0.0

    def learn(self, last: Reading, reading: Reading, distance_m: float, angle_rad: float) -> None:
        """Take note of a step that was believed."""
        self._periods.append(reading.stamp_ns - last.stamp_ns)
        self._path += distance_m
        self._turn += angle_rad
        trail = self._trail
        if not trail:
            trail.append((last.stamp_ns, 0.0, 0.0))
        trail.append((reading.stamp_ns, self._path, self._turn))
        while len(trail) > 2 and reading.stamp_ns - trail[1][0] >= SPEED_SPAN_NS:
            trail.popleft()
        speed = self.speed
        if speed is not None:
            self._top_speed = max(self._top_speed, speed)

    def _rate(self, column: int) -> float | None:
        if len(self._trail) < 2:
            return None
        first, last = self._trail[0], self._trail[-1]
        span = last[0] - first[0]
        return (last[column] - first[column]) / (span * 1e-9) if span >= SPEED_SPAN_NS else None

    @property
    def speed(self) -> float | None:
        """Recent speed, m/s; None = not known yet."""
        return self._rate(1)

    def seconds(self, last: Reading, reading: Reading) -> float:
        return (reading.stamp_ns - last.stamp_ns) * 1e-9

    @property
    def _usual_period_s(self) -> float:
        """Median period of the last messages, s; 0 = not known yet."""
        return statistics.median(self._periods) * 1e-9 if self._periods else 0.0

    def usual_gap_s(self) -> float:
        """So many seconds are `GAP_PERIODS` usual periods."""
        return GAP_PERIODS * self._usual_period_s

    def paused(self, last: Reading, reading: Reading) -> bool:
        """True for a reading so late that its stamp may as well be wrong."""
        usual = self._usual_period_s
        return 0 < PAUSE_PERIODS * usual < self.seconds(last, reading)

    def gap(self, last: Reading, reading: Reading) -> Gap | None:
        """The silence before a reading; None = none worth the name."""
        seconds = self.seconds(last, reading)
        if seconds <= self._options.gap_s or seconds <= self.usual_gap_s():
            return None
        step = self._space.between(last.pose, reading.pose)
        path = max(self._space.distance(step), (self.speed or 0.0) * seconds)
        turn = max(self._space.angle(step), (self._rate(2) or 0.0) * seconds)
        return Gap(seconds, path, turn)

    def too_long_a_gap(self, last: Reading, reading: Reading) -> bool:
        seconds = self.seconds(last, reading)
        return seconds > self._options.max_gap_s and seconds > self.usual_gap_s()

    def distance(self, last: Reading, reading: Reading) -> float:
        """Length of a step, m."""
        return self._space.distance(self._space.between(last.pose, reading.pose))

    def nearness(self, last: Reading, reading: Reading) -> float:
        """Length of a step plus its turn at a lever of one metre, to compare two steps."""
        step = self._space.between(last.pose, reading.pose)
        return self._space.distance(step) + self._space.angle(step)

    def possible(self, last: Reading, reading: Reading) -> bool:
        """True if the step from one reading to a later one is a motion."""
        o = self._options
        seconds = self.seconds(last, reading)
        if seconds <= 0:
            return False
        step = self._space.between(last.pose, reading.pose)
        length = o.max_speed_m_per_s * seconds
        speed = self.speed
        if speed is not None and length < math.inf:
            length = min(length, speed * seconds + o.max_acceleration_m_per_s2 * seconds**2)
            if self.gap(last, reading) is not None:
                top = TOP_SPEED_FACTOR * max(self._top_speed, LEAST_TOP_SPEED)
                length = min(length, top * seconds)
        return (self._space.distance(step) <= length + o.step_slack_m
                and self._space.angle(step) <= o.max_turn_rate_rad_per_s * seconds
                + o.step_slack_rad)

    def restarted(self, last: Reading, reading: Reading) -> bool:
        """True if a reading after an interruption begins at the origin, far from the last one."""
        home = self._space.identity
        at_home = self._space.between(home, reading.pose)
        if self._space.distance(at_home) > ORIGIN_M or self._space.angle(at_home) > ORIGIN_RAD:
            return False
        interrupted = self._periods and self.seconds(last, reading) * 2 > self.usual_gap_s()
        away = self._space.distance(self._space.between(home, last.pose)) >= AWAY_M
        return bool(interrupted and away and self._options.max_speed_m_per_s < math.inf)


class ReorderBuffer:
    """Holds messages back, but only while recent ones were late, and as long as those were late.

    Data in order pass at once.
    """

    def __init__(self, max_hold_ns: int) -> None:
        self._max_hold_ns = max_hold_ns
        self._hold_ns = 0
        self._late_at_ns = 0
        self._serial = 0
        self._heap: list[tuple[int, int, Reading]] = []
        self.newest_ns = 0

    def holds(self, stamp_ns: int) -> bool:
        """True if a message of that stamp waits already."""
        return any(entry[0] == stamp_ns for entry in self._heap)

    def late(self, stamp_ns: int) -> None:
        """Note that a message came behind newer ones; also for one that was not pushed."""
        lateness = self.newest_ns - stamp_ns
        if lateness > 2 * self._max_hold_ns:
            return  # no waiting helps against a source that is as late as that
        wanted_ns = max(self._hold_ns, round(LATENESS_FACTOR * lateness))
        self._hold_ns = min(wanted_ns, self._max_hold_ns)
        self._late_at_ns = self.newest_ns

    def push(self, reading: Reading) -> list[Reading]:
        """Take a message in; returns those whose turn has come, in the order of their stamps."""
        stamp_ns = reading.stamp_ns
        if stamp_ns < self.newest_ns:
            self.late(stamp_ns)
        self.newest_ns = max(self.newest_ns, stamp_ns)
        if self.newest_ns - self._late_at_ns > MEMORY_NS:
            self._hold_ns = 0
        self._serial += 1
        heapq.heappush(self._heap, (stamp_ns, self._serial, reading))
        return self._release(self.newest_ns - self._hold_ns)

    def flush(self) -> list[Reading]:
        """All that wait."""
        return self._release(self.newest_ns)

    def _release(self, until_ns: int) -> list[Reading]:
        ready = []
        while self._heap and self._heap[0][0] <= until_ns:
            ready.append(heapq.heappop(self._heap)[-1])
        return ready


class TwistCheck:
    """The speed that messages state against the way that their poses go."""

    def __init__(self) -> None:
        self._steps: deque[tuple[float, float]] = deque()
        self._way = self._stated = 0.0

    def add(self, seconds: float, distance_m: float, speed: float) -> None:
        """Take note of a step; an unknown or zero speed says nothing, nor does an absurd one, in
        whose sum all others would be lost."""
        stated_m = speed * seconds
        if not 0.0 < stated_m < RATIO_SPAN_M or seconds <= 0:
            return
        self._steps.append((distance_m, stated_m))
        self._way += distance_m
        self._stated += stated_m
        while self._stated - self._steps[0][1] >= RATIO_SPAN_M:
            way, stated = self._steps.popleft()
            self._way -= way
            self._stated -= stated

    @property
    def ratio(self) -> float:
        """Way of the poses over way of the speeds; 1 until there is enough of it."""
        return self._way / self._stated if self._stated >= RATIO_SPAN_M else 1.0


class OdometryGate:
    """Decides about every reading of one robot: it goes to the track, or is dropped."""

    def __init__(self, robot: str, track: Track, shared: Shared) -> None:
        options = shared.config.odometry
        self._robot = robot
        self._options = options
        self._space = shared.space
        self._clock = shared.clock
        self._events = shared.events
        self._counters = shared.counters.odometry
        self._rule = StepRule(options, shared.space)
        self._buffer = ReorderBuffer(nanoseconds(options.max_hold_s))
        self.track = track
        self.twist = TwistCheck()
        self._last: Reading | None = None
        self._suspects: list[Reading] = []
        self._fault = ''
        """Why the suspects wait: jump, restart, gap, pause or start."""
        self._begin_ns = 0

    @property
    def last(self) -> Reading | None:
        """The newest reading believed."""
        return self._last

    @property
    def frontier_ns(self) -> int:
        """Readings up to here have left the buffer; 0 = none has."""
        newest = self._suspects[-1].stamp_ns if self._suspects else 0
        return max(newest, self._last.stamp_ns if self._last else 0)

    def knows(self, stamp_ns: int) -> bool:
        """True if a reading of that stamp is here already."""
        return stamp_ns == self.frontier_ns or self._buffer.holds(stamp_ns) \
            or any(stamp_ns == suspect.stamp_ns for suspect in self._suspects)

    def late(self, stamp_ns: int) -> None:
        """Note a reading that came too late to be sorted in here."""
        self._buffer.late(stamp_ns)

    def offer(self, reading: Reading) -> None:
        """Take a reading newer than the frontier."""
        for ready in self._buffer.push(reading):
            self._judge(ready)

    def offer_older(self, reading: Reading) -> bool:
        """Take a reading older than the suspects; it decides about them. False = not its case."""
        if not self._suspects or (
                self._last is not None and reading.stamp_ns <= self._last.stamp_ns):
            return False
        self._refuse()
        self._judge(reading)
        return True

    def flush(self) -> None:
        """No more data for now: what waits is decided by what there is."""
        for ready in self._buffer.flush():
            self._judge(ready)
        resumed = self._suspects and self._fault in ('start', 'gap', 'pause')
        if resumed or len(self._suspects) >= AGREEING_AFTER_GAP:
            self._confirm()
        elif self._suspects:
            self._refuse()

    def _judge(self, reading: Reading) -> None:
        if self._suspects and self._fault == 'pause':
            # Only its stamp was in doubt, and a newer one has come.
            self._confirm()
        last = self._last
        if self._suspects and not self._continues(reading):
            if self._believe(reading):
                return
            self._refuse()
        elif self._suspects:
            self._suspects.append(reading)
            wanted = self._options.confirm_messages if self._fault in ('jump', 'restart') \
                else AGREEING_AFTER_GAP
            if len(self._suspects) >= wanted:
                self._confirm()
            return
        if last is None:
            self._suspect(reading, 'start')
        elif not self._believe(reading):
            self._suspect(reading, self._doubt(last, reading))

    def _suspect(self, reading: Reading, fault: str) -> None:
        self._suspects, self._fault = [reading], fault

    def _doubt(self, last: Reading, reading: Reading) -> str:
        """Why a reading is not believed at once; '' = it is."""
        if self._rule.restarted(last, reading):
            return 'restart'
        if not self._rule.possible(last, reading):
            return 'jump'
        if self._rule.gap(last, reading) is not None:
            return 'gap'
        return 'pause' if self._rule.paused(last, reading) else ''

    def _continues(self, reading: Reading) -> bool:
        """True if a reading goes on from the suspects rather than from what was believed."""
        newest = self._suspects[-1]
        if not self._rule.possible(newest, reading):
            return False
        return self._last is None or self._rule.nearness(newest, reading) \
            <= self._rule.nearness(self._last, reading)

    def _believe(self, reading: Reading) -> bool:
        """Pass a reading on if it follows from the last one believed."""
        last = self._last
        if last is None or self._doubt(last, reading):
            return False
        self._refuse()
        self._pass(Believed(reading))
        return True

    def _pass(self, believed: Believed) -> None:
        last, reading = self._last, believed.reading
        if believed.new_segment:
            self._rule.forget()
        elif last is not None:
            step = self._space.between(last.pose, reading.pose)
            distance_m = self._space.distance(step)
            self._rule.learn(last, reading, distance_m, self._space.angle(step))
            self.twist.add(self._rule.seconds(last, reading), distance_m, reading.twist_speed)
        self._last = reading
        self._begin_ns = self._begin_ns or reading.stamp_ns
        warning = self.track.add(believed)
        if warning:
            self._counters.warnings[warning] += 1
        self._clock.advance(reading.stamp_ns)
        self._counters.waiting -= 1
        self._counters.accepted += 1

    def _refuse(self) -> None:
        """Drop the suspects: the robot was never there."""
        suspects, self._suspects = self._suspects, []
        if not suspects:
            return
        for _ in suspects:
            self._counters.waiting -= 1
            self._counters.drop('implausible')
        first = suspects[0]
        subject, when = f'the odometry of {self._robot}', self._when(first)
        many = f'{len(suspects)} messages' if len(suspects) > 1 else 'one message'
        if self._last is None:
            text, value = f'{many} of {subject} did not go with what followed: dropped', 0.0
        else:
            value = self._rule.distance(self._last, first)
            text = (f'{many} of {subject} lay {value:.6g} m away, {when}, and the next one did '
                    'not: dropped')
        kind, refused = 'odometry_outlier', self._counters.dropped['implausible']
        if self._last is not None and refused > MANY_REFUSED and refused > (
                REFUSED_SHARE * self._counters.accepted):
            kind, text = 'odometry_sources', (
                f'{subject} jumps to and fro, as if two sources published it: one of them is '
                'dropped; `ros2 topic info -v` on its topic names the publishers')
        self._events.add(self._last.stamp_ns if self._last else first.stamp_ns,
                         Finding(kind, self._robot, text, value, 'm'))

    def _confirm(self) -> None:
        """Believe the suspects: they agree with one another."""
        suspects, self._suspects = self._suspects, []
        first, last = suspects[0], self._last
        if last is None or self._fault == 'pause':
            self._pass(Believed(first))
        else:
            self._resume(last, first)
        for suspect in suspects[1:]:
            self._pass(Believed(suspect))

    def _resume(self, last: Reading, first: Reading) -> None:
        """Go on after an interruption: across it, or in a new segment."""
        seconds = self._rule.seconds(last, first)
        if self._fault == 'gap' and not self._rule.too_long_a_gap(last, first):
            self._events.add(first.stamp_ns, Finding(
                'odometry_gap', self._robot,
                f'the odometry of {self._robot} was silent for {seconds:.1f} s, '
                f'{self._when(first)}: the motion across it is uncertain', seconds, 's'))
            self._pass(Believed(first, gap=self._rule.gap(last, first)))
            return
        metres = self._rule.distance(last, first)
        kind, fault, value, unit = {
            'gap': ('odometry_gap', f'was silent for {seconds:.1f} s', seconds, 's'),
            'restart': ('odometry_restart', f'started again at its origin, {metres:.1f} m away',
                        metres, 'm'),
        }.get(self._fault, ('odometry_jump', f'jumped by {metres:.1f} m', metres, 'm'))
        self._events.add(first.stamp_ns, Finding(
            kind, self._robot, f'the odometry of {self._robot} {fault}, {self._when(first)}: a new '
            'segment begins there', value, unit))
        self._pass(Believed(first, new_segment=True))

    def _when(self, reading: Reading) -> str:
        begin = self._begin_ns or reading.stamp_ns
        return f'{(reading.stamp_ns - begin) * 1e-9:.1f} s after its start'
