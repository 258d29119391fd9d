"""Odometry on its way in: checked, moved to the base of the robot, sorted by stamp, and believed
within reason.

A step between two messages is a motion that the robot can have made when its length is at most
`slack + min(v_max dt, v dt + a_max dt^2)`, where v is the recent speed, and its turn at most
`slack + w_max dt`. After a silence the speed of the past stands in for the limits: a robot does not
get faster than three times its top speed while nobody looks.

What follows from the last message by such a motion passes at once. Anything else waits until the
next messages decide: if they go on from where the robot was, the odd ones are dropped; if
CONFIRM_MESSAGES of them agree with one another, a new segment begins with the first.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterator
from typing import Any

from ..config.frontend_config import OdometryConfig
from ..graph.finding import Finding
from .assembly import Shared, StampOrder
from .clocks import BACK_NS, JUMP_MESSAGES, MAX_FUTURE_NS, nanoseconds
from .frames import Mounting
from .motion import Geometry, place_fault
from .samples import OdometrySample
from .track import Reading, Step

STEP_SLACK_M, STEP_SLACK_RAD = 0.5, 0.5
"""A step between two messages may exceed the limits by this much, as corrections of visual odometry
do."""
CONFIRM_MESSAGES = 3
"""So many messages in a row must agree before a jump begins a new segment; fewer are dropped."""
AGREEING_AFTER_GAP = 2
"""So many messages that agree end a silence: one alone may have a wrong stamp."""
MAX_GAP_S = 120.0
"""After a longer silence a new segment begins."""
SPEED_SPAN_NS = 500_000_000
"""The recent speed is that over this time: over single steps jitter of the stamps (tiers: 0.1 ms
between messages) makes it ten times too large."""
REMEMBERED_PERIODS, GAP_PERIODS = 21, 10
"""Periods whose median is the usual one; a gap lasts so many of it (and `odometry.gap_s`)."""
PAUSE_PERIODS = 3
"""A reading so many usual periods after the last one waits for the next: believed at once, a stamp
ahead would make as many right ones look old, which is what a clock set back looks like."""
MOST_ACCELERATION = 20.0
"""m/s^2, beyond the recent speed: two g."""
TOP_SPEED_FACTOR, LEAST_TOP_SPEED = 3.0, 1.0
"""Times its top speed, or so many m/s where it has stood still: how fast a robot is in a gap."""
ORIGIN_M, ORIGIN_RAD, AWAY_M = 0.05, 0.05, 2.0
"""A driver that starts again begins at the identity or within one message of it, and the robot was
at least so far from it before: closer by, a way back is likely."""
MAX_HOLD_NS = nanoseconds(0.5)
"""Messages wait at most this long for older ones."""
LATENESS_FACTOR, MEMORY_NS = 1.2, 30_000_000_000
"""They wait longer than the latest message was late, until so long after it nothing was late."""
MANY_REFUSED, REFUSED_SHARE = 20, 0.2
"""Messages that lie elsewhere, and their share of the believed ones, from which they are no
outliers: two sources publish on one topic."""
SILENT_NS = 5_000_000_000
"""A robot whose odometry stays behind the data of the others by this much is named."""
JUDGED, FEW = 21, 2
"""Newest messages of a robot; where most of them, and more than a few, are no poses, none is
believed."""
MAX_FRAME_NAMES = 1000


class StepRule:
    """The bounds on steps of one robot, from its options and from how it has moved so far."""

    def __init__(self, options: OdometryConfig, space: Geometry) -> None:
        self._options = options
        self._space = space
        self.forget()

    def forget(self) -> None:
        """A new segment: the robot may move otherwise now."""
        self._trail: deque[tuple[int, float, float]] = deque()
        """Stamps, with the way and the turn so far."""
        self._periods: deque[int] = deque(maxlen=REMEMBERED_PERIODS)
        self._top_speed = 0.0

    def step(self, last: Reading, reading: Reading) -> Step:
        motion = self._space.between(last.pose, reading.pose)
        return Step((reading.stamp_ns - last.stamp_ns) * 1e-9, self._space.distance(motion),
                    self._space.angle(motion))

    def learn(self, last: Reading, reading: Reading, step: Step) -> None:
        self._periods.append(reading.stamp_ns - last.stamp_ns)
        trail = self._trail
        if not trail:
            trail.append((last.stamp_ns, 0.0, 0.0))
        trail.append((reading.stamp_ns, trail[-1][1] + step.distance_m,
                      trail[-1][2] + step.angle_rad))
        while len(trail) > 2 and reading.stamp_ns - trail[1][0] >= SPEED_SPAN_NS:
            trail.popleft()
        self._top_speed = max(self._top_speed, self._rate(1) or 0.0)

    def _rate(self, column: int) -> float | None:
        """Recent speed (1), m/s, or turn rate (2), rad/s; None = not known yet."""
        if len(self._trail) < 2:
            return None
        first, last = self._trail[0], self._trail[-1]
        span = last[0] - first[0]
        return (last[column] - first[column]) / (span * 1e-9) if span >= SPEED_SPAN_NS else None

    def _usual_s(self, periods: int) -> float:
        """So many median periods of the last messages, s; 0 = not known yet."""
        return periods * (statistics.median(self._periods) * 1e-9) if self._periods else 0.0

    def silent(self, step: Step) -> bool:
        """True if a step is over a silence worth the name."""
        return step.seconds > max(self._options.gap_s, self._usual_s(GAP_PERIODS))

    def unseen(self, step: Step) -> Step:
        """What the robot may have done in the silence that a step is over."""
        return Step(step.seconds, max(step.distance_m, (self._rate(1) or 0.0) * step.seconds),
                    max(step.angle_rad, (self._rate(2) or 0.0) * step.seconds))

    def possible(self, step: Step) -> bool:
        """True if the step from one reading to a later one is a motion."""
        o, seconds = self._options, step.seconds
        if seconds <= 0:
            return False
        length = o.max_speed_m_per_s * seconds
        speed = self._rate(1)
        if speed is not None and length < math.inf:
            length = min(length, speed * seconds + MOST_ACCELERATION * seconds**2)
            if self.silent(step):
                top = TOP_SPEED_FACTOR * max(self._top_speed, LEAST_TOP_SPEED)
                length = min(length, top * seconds)
        return (step.distance_m <= length + STEP_SLACK_M
                and step.angle_rad <= o.max_turn_rate_rad_per_s * seconds + STEP_SLACK_RAD)

    def fault(self, last: Reading, reading: Reading, step: Step) -> str:
        """Why a reading is not believed at once; '' = it is."""
        space = self._space
        # After an interruption at the origin, far from the last one.
        if (space.distance(reading.pose) <= ORIGIN_M and space.angle(reading.pose) <= ORIGIN_RAD
                and self._periods and step.seconds * 2 > self._usual_s(GAP_PERIODS)
                and space.distance(last.pose) >= AWAY_M
                and self._options.max_speed_m_per_s < math.inf):
            return 'restart'
        if not self.possible(step):
            return 'jump'
        if self.silent(step):
            return 'gap'
        # So late that its stamp may as well be wrong.
        return 'pause' if 0 < self._usual_s(PAUSE_PERIODS) < step.seconds else ''


class ReorderBuffer(StampOrder):
    """Holds messages back, but only while recent ones were late, and as long as those were late.

    Data in order pass at once.
    """

    def __init__(self) -> None:
        super().__init__(0)
        self._newest_ns = self._late_at_ns = 0

    def late(self, stamp_ns: int) -> None:
        """Note that a message came behind newer ones; also for one that was not pushed."""
        lateness = self._newest_ns - stamp_ns
        # No waiting helps against a source that is later than that.
        if 0 < lateness <= 2 * MAX_HOLD_NS:
            self.delay_ns = min(max(self.delay_ns, round(LATENESS_FACTOR * lateness)), MAX_HOLD_NS)
            self._late_at_ns = self._newest_ns

    def pushed(self, reading: Reading) -> Iterator[Reading]:
        """Take a message in; those whose turn has come, in the order of their stamps."""
        self.late(reading.stamp_ns)
        self._newest_ns = max(self._newest_ns, reading.stamp_ns)
        if self._newest_ns - self._late_at_ns > MEMORY_NS:
            self.delay_ns = 0
        self.push(reading)
        return self.released(self._newest_ns)


class OdometryGate:
    """Decides about every reading of one robot: it goes to the track, or is dropped."""

    def __init__(self, number: int, shared: Shared) -> None:
        self.robot, self.track = shared.config.robots[number], shared.tracks[number]
        self._space, self._clock, self._events = shared.space, shared.clock, shared.events
        self._counters = shared.counters['odometry']
        self._rule = StepRule(shared.config.odometry, shared.space)
        self.buffer = ReorderBuffer()
        self.mounting = Mounting(shared.config, self.robot, shared.frames)
        self.absurd: deque[bool] = deque(maxlen=JUDGED)
        """True for each of the newest messages that is no pose."""
        self.last: Reading | None = None
        """The newest reading believed."""
        self._suspects: list[Reading] = []
        self._fault = ''
        """Why the suspects wait: jump, restart, gap, pause or start."""
        self._begin_ns = 0

    def reading(self, sample: OdometrySample, stamp_ns: int) -> Reading:
        """A message as one of the base of the robot, in the configured dimension."""
        return Reading(stamp_ns, self._space.pose(*self.mounting.base(sample)),
                       sample.pose_covariance, sample.twist_covariance)

    @property
    def frontier_ns(self) -> int:
        """Readings up to here have left the buffer; 0 = none has."""
        newest = self._suspects[-1].stamp_ns if self._suspects else 0
        return max(newest, self.last.stamp_ns if self.last else 0)

    def knows(self, stamp_ns: int) -> bool:
        """True if a reading of that stamp is here already."""
        return stamp_ns == self.frontier_ns or self.buffer.holds(stamp_ns) \
            or any(stamp_ns == suspect.stamp_ns for suspect in self._suspects)

    def offer(self, reading: Reading) -> None:
        for ready in self.buffer.pushed(reading):
            self._judge(ready)

    def offer_older(self, reading: Reading) -> bool:
        """Take a reading older than the suspects; it decides about them. False = not its case."""
        if not self._suspects or (self.last is not None and reading.stamp_ns <= self.last.stamp_ns):
            return False
        self._refuse()
        self._judge(reading)
        return True

    def flush(self) -> None:
        """No more data for now: what waits is decided by what there is."""
        for ready in self.buffer.released(flush=True):
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
        if self._suspects and self._continues(reading):
            self._suspects.append(reading)
            wanted = CONFIRM_MESSAGES if self._fault in ('jump', 'restart') else AGREEING_AFTER_GAP
            if len(self._suspects) >= wanted:
                self._confirm()
            return
        step, fault = None, 'start'
        if self.last is not None:
            step = self._rule.step(self.last, reading)
            fault = self._rule.fault(self.last, reading, step)
        self._refuse()
        if fault:
            self._suspects, self._fault = [reading], fault
        else:
            self._pass(reading, step)

    def _continues(self, reading: Reading) -> bool:
        """True if a reading goes on from the suspects rather than from what was believed; a turn
        counts at a lever of one metre."""
        step = self._rule.step(self._suspects[-1], reading)
        if not self._rule.possible(step):
            return False
        if self.last is None:
            return True
        other = self._rule.step(self.last, reading)
        return step.distance_m + step.angle_rad <= other.distance_m + other.angle_rad

    def _pass(self, reading: Reading, step: Step | None = None, unseen: Step | None = None) -> None:
        """Hand a reading over; without a step a segment begins with it."""
        if step is None:
            self._rule.forget()
        elif self.last is not None:
            self._rule.learn(self.last, reading, step)
        self.last = reading
        self._begin_ns = self._begin_ns or reading.stamp_ns
        warning = self.track.add(reading, unseen or step, unseen is not None)
        if warning:
            self._counters.warnings[warning] += 1
        self._clock.advance(reading.stamp_ns)
        self._counters.accept()

    def _refuse(self) -> None:
        """Drop the suspects: the robot was never there."""
        suspects, self._suspects = self._suspects, []
        if not suspects:
            return
        for _ in suspects:
            self._counters.drop('implausible')
        first, last, kind, value = suspects[0], self.last, 'odometry_outlier', 0.0
        subject, refused = f'the odometry of {self.robot}', self._counters.dropped['implausible']
        many = f'{len(suspects)} messages' if len(suspects) > 1 else 'one message'
        if last is None:
            text = f'{many} of {subject} did not go with what followed: dropped'
        else:
            value = self._rule.step(last, first).distance_m
            text = (f'{many} of {subject} lay {value:.6g} m away, {self._when(first)}, and the '
                    'next one did not: dropped')
            if refused > MANY_REFUSED and refused > REFUSED_SHARE * self._counters.accepted:
                kind, text = 'odometry_sources', (
                    f'{subject} jumps to and fro, as if two sources published it: one of them is '
                    'dropped; `ros2 topic info -v` on its topic names the publishers')
        self._events.add((last or first).stamp_ns, Finding(kind, self.robot, text, value, 'm'))

    def _confirm(self) -> None:
        """Believe the suspects: they agree with one another.

        After an interruption the robot goes on across it, or in a new segment.
        """
        suspects, self._suspects = self._suspects, []
        if self.last is not None and self._fault != 'pause':
            first, rule = suspects.pop(0), self._rule
            step = rule.step(self.last, first)
            kind, what, value, unit = {
                'gap': ('odometry_gap', f'was silent for {step.seconds:.1f} s', step.seconds, 's'),
                'restart': ('odometry_restart', 'started again at its origin, '
                            f'{step.distance_m:.1f} m away', step.distance_m, 'm'),
            }.get(self._fault, (
                'odometry_jump', f'jumped by {step.distance_m:.1f} m', step.distance_m, 'm'))
            across = self._fault == 'gap' and step.seconds <= MAX_GAP_S
            end = 'the motion across it is uncertain' if across else 'a new segment begins there'
            self._events.add(first.stamp_ns, Finding(
                kind, self.robot, f'the odometry of {self.robot} {what}, {self._when(first)}: '
                f'{end}', value, unit))
            if across:
                self._pass(first, step, rule.unseen(step))
            else:
                self._pass(first)
        for suspect in suspects:
            self._pass(suspect, self._rule.step(self.last or suspect, suspect))

    def _when(self, reading: Reading) -> str:
        begin = self._begin_ns or reading.stamp_ns
        return f'{(reading.stamp_ns - begin) * 1e-9:.1f} s after its start'


class Odometry:
    """The odometry of all robots on its way to their tracks."""

    def __init__(self, shared: Shared) -> None:
        self._config, self._clock, self._events = shared.config, shared.clock, shared.events
        self._shared, self._counters = shared, shared.counters['odometry']
        self._gates = {robot: OdometryGate(number, shared)
                       for number, robot in enumerate(shared.config.robots)}
        self._told_late: set[tuple[str, str]] = set()
        self._backward: dict[str, tuple[int, int]] = {}
        """(messages that follow one another, last stamp) since odometry last went on forwards."""
        self._present = 0
        """Count of messages of the present, by the clock, at the last of these."""
        self._frames_seen: set[tuple[str, str, str]] = set()

    def fault(self, sample: OdometrySample) -> str:
        """Why a message is no pose, or ''."""
        quat = sample.quat_xyzw.tolist()
        reason = place_fault(sample.position_xyz.tolist(), quat)
        if not reason and abs(math.hypot(*quat) - 1) > 0.01:
            self._counters.warnings['quaternion_norm'] += 1
        absurd = self._gates[sample.robot].absurd
        absurd.append(bool(reason))
        # An angle in all four components has norm 1 by chance now and then.
        return reason or ('among_absurd' if sum(absurd) > max(len(absurd) / 2, FEW) else '')

    def add(self, sample: Any, stamp_ns: int) -> bool:
        gate = self._gates[sample.robot]
        taken = [self._offer(gate, *message) for message in gate.mounting.offer(sample, stamp_ns)]
        return not taken or taken[-1]

    def _release(self, flush: bool) -> None:
        """Go on with messages that waited for the place of their frame."""
        for gate in self._gates.values():
            for message in gate.mounting.released(flush):
                self._offer(gate, *message)

    def look_at_frames(self) -> None:
        self._release(flush=False)
        for robot, gate in self._gates.items():
            for frame in gate.mounting.late():
                if (robot, frame) not in self._told_late:
                    self._told_late.add((robot, frame))
                    self._events.add(self._clock.newest_ns, Finding(
                        'frame_late', robot, f'where {frame} sits on {robot} came after its '
                        'odometry had begun, which counts as that of the base until a reset'))

    def flush(self) -> None:
        self._release(flush=True)
        for gate in self._gates.values():
            gate.flush()

    def _offer(self, gate: OdometryGate, sample: OdometrySample, stamp_ns: int) -> bool:
        counters = self._counters
        if gate.knows(stamp_ns):
            return counters.drop('duplicate')
        reading = gate.reading(sample, stamp_ns)
        if stamp_ns < gate.frontier_ns:
            return self._older(gate, reading)
        self._backward.clear()
        if len(self._frames_seen) < MAX_FRAME_NAMES:
            self._frames_seen.add((sample.robot, sample.frame_id, sample.child_frame_id))
        refused = counters.dropped.total()
        gate.offer(reading)
        return counters.dropped.total() == refused or gate.last is reading

    def _older(self, gate: OdometryGate, reading: Reading) -> bool:
        """A message older than others of its robot.

        Far older, it has a bad stamp, or a clock was set back, or a bag starts again. The last two
        are believed when such messages follow one another in time while nothing comes that is
        stamped with the present.
        """
        counters, back_ns = self._counters, gate.frontier_ns - reading.stamp_ns
        # A first message of all that is far ahead has a wrong stamp.
        if (back_ns > BACK_NS or gate.last is not None) and gate.offer_older(reading):
            return True
        if back_ns <= BACK_NS:
            gate.buffer.late(reading.stamp_ns)
            return counters.drop('out_of_order')
        if self._clock.present != self._present:
            self._backward.clear()
            self._present = self._clock.present
        count, last_ns = self._backward.get(gate.robot, (0, reading.stamp_ns - 1))
        count = count + 1 if 0 < reading.stamp_ns - last_ns < MAX_FUTURE_NS else 1
        self._backward[gate.robot] = count, reading.stamp_ns
        if count >= JUMP_MESSAGES:
            self._shared.counters.time_jumps = 1
        self._events.add(self._clock.newest_ns, Finding(
            'odometry_backwards', gate.robot, f'the stamps of the odometry of {gate.robot} went '
            f'back by {back_ns * 1e-9:.1f} s: such messages are dropped', back_ns * 1e-9, 's'))
        return counters.drop('time_backwards')

    def frame_warning(self) -> str:
        """Frame names of messages that differ from the configured ones, in words."""
        config = self._config
        for robot, frame, child in sorted(self._frames_seen):
            odom, base = (
                config.topic(name, robot) for name in (config.frames.odom, config.frames.base))
            # That of a sensor is not known by name.
            if frame.lstrip('/') != odom or not (
                    child.lstrip('/') == base or self._gates[robot].mounting.sensor_base(child)):
                return (f'odometry of {robot} has frames {frame!r} and {child!r}, but frames.odom '
                        f'and frames.base say {odom!r} and {base!r}')
        return ''

    def findings(self) -> Iterator[Finding]:
        newest_ns = self._clock.newest_ns
        for robot, gate in self._gates.items():
            if gate.track.stamps and newest_ns - gate.track.stamps[-1] > SILENT_NS:
                seconds = (newest_ns - gate.track.stamps[-1]) * 1e-9
                yield Finding(
                    'odometry_silent', robot,
                    f'the odometry of {robot} has been silent for {seconds:.1f} s', seconds, 's')
