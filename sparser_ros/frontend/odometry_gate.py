"""Odometry of one robot on its way in: sorted by stamp, and believed within reason.

What follows from the last message by a possible motion passes at once. Anything else waits until
the next messages decide: if they go on from where the robot was, the odd ones are dropped; if
`odometry.confirm_messages` of them agree with one another, a new segment begins with the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..config.frontend_config import OdometryConfig
from ..graph.finding import Finding
from .motion import Geometry
from .reorder import ReorderBuffer
from .stamps import nanoseconds
from .steps import Gap, Reading, StepRule

AGREEING_AFTER_GAP = 2
"""So many messages that agree end a silence: one alone may have a wrong stamp."""


@dataclass(frozen=True)
class Believed:
    """A reading for the track."""

    reading: Reading
    new_segment: bool = False
    """True when nothing is known of the motion before it. Not even that the robot goes on with its
    velocity: a simulator may have set it elsewhere. Tied by that, robots were up to 36 s wrong."""
    gap: Gap | None = None


class OdometryGate:
    """Decides about every reading of one robot: `accept` or `drop` is called for each, once."""

    def __init__(self, robot: str, options: OdometryConfig, space: Geometry,
                 accept: Callable[[Believed], None], drop: Callable[[str], None],
                 event: Callable[[int, Finding], None]) -> None:
        self._robot = robot
        self._options = options
        self._rule = StepRule(options, space)
        self._buffer: ReorderBuffer[Reading] = ReorderBuffer(nanoseconds(options.max_hold_s))
        self._accept = accept
        self._drop = drop
        self._event = event
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
            or any(stamp_ns == one.stamp_ns for one in self._suspects)

    def late(self, stamp_ns: int) -> None:
        """Note a reading that came too late to be sorted in here."""
        self._buffer.late(stamp_ns)

    def offer(self, reading: Reading) -> None:
        """Take a reading newer than the frontier."""
        for ready in self._buffer.push(reading.stamp_ns, reading):
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
        if believed.new_segment:
            self._rule.forget()
        elif self._last is not None:
            self._rule.learn(self._last, believed.reading)
        self._last = believed.reading
        self._begin_ns = self._begin_ns or believed.reading.stamp_ns
        self._accept(believed)

    def _refuse(self) -> None:
        """Drop the suspects: the robot was never there."""
        suspects, self._suspects = self._suspects, []
        for _ in suspects:
            self._drop('implausible')
        if not suspects:
            return
        one = suspects[0]
        subject, when = f'the odometry of {self._robot}', self._when(one)
        many = f'{len(suspects)} messages' if len(suspects) > 1 else 'one message'
        if self._last is None:
            text, value = f'{many} of {subject} did not go with what followed: dropped', 0.0
        else:
            value = self._rule.distance(self._last, one)
            text = (f'{many} of {subject} lay {value:.6g} m away, {when}, and the next one did '
                    'not: dropped')
        self._event(self._last.stamp_ns if self._last else one.stamp_ns,
                    Finding('odometry_outlier', self._robot, text, value, 'm'))

    def _confirm(self) -> None:
        """Believe the suspects: they agree with one another."""
        suspects, self._suspects = self._suspects, []
        first, last = suspects[0], self._last
        if last is None or self._fault == 'pause':
            self._pass(Believed(first))
        else:
            self._resume(last, first)
        for one in suspects[1:]:
            self._pass(Believed(one))

    def _resume(self, last: Reading, first: Reading) -> None:
        """Go on after an interruption: across it, or in a new segment."""
        seconds = self._rule.seconds(last, first)
        if self._fault == 'gap' and not self._rule.too_long_a_gap(last, first):
            self._event(first.stamp_ns, Finding(
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
        self._event(first.stamp_ns, Finding(
            kind, self._robot, f'the odometry of {self._robot} {fault}, {self._when(first)}: a new '
            'segment begins there', value, unit))
        self._pass(Believed(first, new_segment=True))

    def _when(self, reading: Reading) -> str:
        begin = self._begin_ns or reading.stamp_ns
        return f'{(reading.stamp_ns - begin) * 1e-9:.1f} s after its start'
