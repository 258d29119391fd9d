"""Counts of every message that came in and what became of it; nothing is lost silently."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

KINDS = ('odometry', 'ranges', 'sightings', 'closures', 'fixes', 'frames')


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
