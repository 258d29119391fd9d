"""Account of every message: counts by kind and reason, and faults of sources as findings.

Nothing is lost silently.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import Any

from ..graph.finding import Finding

KINDS = (
    'odometry', 'ranges', 'sightings', 'closures', 'fixes', 'heights', 'attitudes', 'frames')
SHOWN_NS = 30_000_000_000
"""An event stays a finding for this much data time: an operator who looks at the status every
half minute sees each one."""
MAX_EVENTS = 1000
"""So many events are kept (the list goes to reports)."""
ABSURD = {
    'unreadable': 'they are no such messages',
    'not_finite': 'they hold numbers that are not finite',
    'out_of_bounds': 'they lie beyond 1e7 m',
    'zero_quaternion': 'their quaternions are zero, which is no rotation',
    'quaternion_not_unit': 'their quaternions have norms far from 1, which is no rotation',
    'among_absurd': 'most of those just before them are no poses',
    'far_from_datum': 'they lie farther than fixes.max_distance_m from fixes.datum (latitude 0, '
    'longitude 0 is what many receivers send without a position)',
    'wrong_frame': 'they are not in the frame frames.map',
    'unconfirmed': 'they move a frame on its robot far from where an earlier message had it; sent '
    'once more, it counts',
    'stamp_out_of_bounds': 'their stamps are no times',
}
"""Reasons for which no right source has a message refused, in words."""
MAX_SHOWN = 50
"""So many findings are shown at once: a source that faults at every message fills no status."""


@dataclass
class KindCounters:
    """One kind of input: received = accepted + merged + dropped + waiting, always."""

    received: int = 0
    accepted: int = 0
    merged: int = 0
    waiting: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """By reason."""
    warnings: Counter[str] = field(default_factory=Counter)
    """Accepted all the same, with something replaced or doubtful; by reason."""

    refused: str = ''
    """Reason of the newest refusal."""

    def drop(self, reason: str) -> bool:
        """Count a refusal; returns False, so that callers can return it."""
        self.dropped[reason] += 1
        self.refused = reason
        return False

    @property
    def balanced(self) -> bool:
        return self.received == (
            self.accepted + self.merged + self.waiting + sum(self.dropped.values()))

    def as_dict(self) -> dict[str, Any]:
        return {
            'received': self.received, 'accepted': self.accepted, 'merged': self.merged,
            'waiting': self.waiting, 'dropped': dict(sorted(self.dropped.items())),
            'warnings': dict(sorted(self.warnings.items())),
        }


class Counters:
    """Counts of all kinds of input, and of time jumps."""

    def __init__(self) -> None:
        self.odometry = KindCounters()
        self.ranges = KindCounters()
        self.sightings = KindCounters()
        self.closures = KindCounters()
        self.fixes = KindCounters()
        self.heights = KindCounters()
        self.attitudes = KindCounters()
        self.frames = KindCounters()
        self.time_jumps = 0

    @property
    def internal_errors(self) -> int:
        """Samples at which this package raised an exception."""
        kinds = [self.kind(name) for name in KINDS]
        return sum(k.dropped['internal_error'] + k.warnings['internal_error'] for k in kinds)

    def kind(self, name: str) -> KindCounters:
        """The counters of one of `KINDS`."""
        counters: KindCounters = getattr(self, name)
        return counters

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers by kind; `dropped` and `warnings` by reason."""
        result: dict[str, Any] = {name: self.kind(name).as_dict() for name in KINDS}
        result['time_jumps'] = self.time_jumps
        result['internal_errors'] = self.internal_errors
        return result


class EventLog:
    """Events in data time; equal ones (kind and subject) show their newest text and their count."""

    def __init__(self) -> None:
        self.events: deque[tuple[int, Finding]] = deque(maxlen=MAX_EVENTS)
        self._shown: dict[tuple[str, str], tuple[int, int, Finding]] = {}
        self._refused: dict[tuple[str, str], tuple[int, Finding]] = {}

    def refused(self, stamp_ns: int, topic: str, reason: str, detail: str = '') -> None:
        """Note that a message of a topic was refused, which is told where it is `ABSURD`."""
        if reason not in ABSURD or (
                (topic, reason) not in self._refused and len(self._refused) >= MAX_EVENTS):
            return
        before = self._refused.get((topic, reason))
        count = 1 if before is None else int(before[1].value) + 1
        self._refused[topic, reason] = stamp_ns, Finding(
            f'refused_{reason}', topic, f'{count} of the messages on {topic} dropped: '
            f'{detail or ABSURD[reason]}', count, 'messages')

    @property
    def everything(self) -> tuple[tuple[int, Finding], ...]:
        """(data time in ns, finding): refusals, each reason of a topic once, and events."""
        return (*self._refused.values(), *self.events)

    def add(self, stamp_ns: int, finding: Finding) -> None:
        """Note that something happened at a data time."""
        self.events.append((stamp_ns, finding))
        key = (finding.kind, finding.subject)
        last_ns, count, _ = self._shown.pop(key, (stamp_ns, 0, finding))
        if abs(stamp_ns - last_ns) > SHOWN_NS:
            count = 0
        self._shown[key] = (stamp_ns, count + 1, finding)
        if len(self._shown) > MAX_SHOWN:
            del self._shown[next(iter(self._shown))]

    def findings(self, newest_ns: int) -> tuple[Finding, ...]:
        """Findings on the last `SHOWN_NS` of data time."""
        return tuple(
            finding if count == 1 else replace(finding, text=f'{finding.text} ({count} times)')
            for stamp_ns, count, finding in (
                *((when, 1, told) for when, told in self._refused.values()),
                *self._shown.values())
            if newest_ns - stamp_ns <= SHOWN_NS)
