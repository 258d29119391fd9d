"""Faults met in the data: kept for a while as findings, and all of them as a list."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from ..graph.finding import Finding

SHOWN_NS = 30_000_000_000
"""An event stays a finding for this much data time: an operator who looks at the status every
half minute sees each one."""
MAX_EVENTS = 1000
"""So many events are kept (the list goes to reports)."""
MAX_SHOWN = 50
"""So many findings are shown at once: a source that faults at every message fills no status."""


class EventLog:
    """Events in data time; equal ones (kind and subject) show their newest text and their count."""

    def __init__(self) -> None:
        self.events: deque[tuple[int, Finding]] = deque(maxlen=MAX_EVENTS)
        self._shown: dict[tuple[str, str], tuple[int, int, Finding]] = {}

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
        """What happened within the last `SHOWN_NS` of data time."""
        return tuple(
            finding if count == 1 else replace(finding, text=f'{finding.text} ({count} times)')
            for stamp_ns, count, finding in self._shown.values()
            if newest_ns - stamp_ns <= SHOWN_NS)
