"""The clock of every source, judged by the lag between a message's stamp and its reception.

A lag is the transport delay minus how far the source's clock is ahead. A delay is never negative,
so a source whose lag is below that of the others by more than the scatter has a clock that is
ahead. A lag above that of the others is either a late transport or a clock behind: that is said,
but nothing is shifted. Medians, so that single bad stamps count for nothing.
"""

from __future__ import annotations

import bisect
import statistics
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from ..config.frontend_config import StampsConfig
from ..graph.finding import Finding

REMEMBERED_LAGS = 51
"""Lags of one source that are remembered: some seconds at usual rates."""
LEAST_LAGS = 10
"""Lags of a source from which its median is judged: its error is then about half the scatter."""
MAX_SOURCES = 500
"""Sources that are watched; a flood of made-up radio names adds no more."""
REVIEW_NS = 500_000_000
"""Reception time between two judgements of all sources."""
RECENT_NS = 30_000_000_000
"""Sources silent for longer than this are compared with nothing."""


class Source(NamedTuple):
    """Who sends: the odometry of a robot, a radio, the sightings or the fixes of a robot."""

    kind: str
    """One of `counters.KINDS`."""
    name: str
    robot: str = ''
    """Robot that carries it, '' = none."""

    @property
    def words(self) -> str:
        """As in 'radio B', 'the odometry of A'."""
        return f'radio {self.name}' if self.kind == 'ranges' else f'the {self.kind} of {self.name}'


class Lags:
    """The newest lags of one source, in nanoseconds."""

    def __init__(self) -> None:
        self._last: deque[int] = deque()
        self._sorted: list[int] = []
        self.received_ns = 0
        self.shift_ns = 0
        """Added to the stamps: the clock is ahead by minus this."""

    def add(self, lag_ns: int, received_ns: int) -> None:
        self.received_ns = received_ns
        self._last.append(lag_ns)
        bisect.insort(self._sorted, lag_ns)
        if len(self._last) > REMEMBERED_LAGS:
            del self._sorted[bisect.bisect_left(self._sorted, self._last.popleft())]

    @property
    def known(self) -> bool:
        return len(self._last) >= LEAST_LAGS

    @property
    def median_ns(self) -> int:
        return self._sorted[len(self._sorted) // 2]

    @property
    def scatter_ns(self) -> int:
        """Half the width of the middle two thirds: one standard deviation of normal scatter."""
        n = len(self._sorted)
        return (self._sorted[(5 * n) // 6] - self._sorted[n // 6]) // 2


@dataclass(frozen=True)
class Deviation:
    """A source whose clock does not go with the others."""

    source: Source
    ahead_ns: int
    """Below 0: behind, or late."""
    scatter_ns: int


class SourceClocks:
    """Lags by source, and what follows from comparing them."""

    def __init__(self, options: StampsConfig) -> None:
        self._tolerance_ns = round(options.clock_tolerance_s * 1e9)
        self._correct = options.correct_radio_clocks
        self._sources: dict[Source, Lags] = {}
        self._reviewed_ns = 0
        self._newest_ns = 0
        self.deviations: tuple[Deviation, ...] = ()

    def note(self, source: Source, stamp_ns: int, received_ns: int) -> None:
        """Take note of one stamped message."""
        lags = self._sources.get(source)
        if lags is None:
            if len(self._sources) >= MAX_SOURCES:
                return
            lags = self._sources[source] = Lags()
        lags.add(received_ns - stamp_ns, received_ns)
        self._newest_ns = received_ns
        if not 0 <= received_ns - self._reviewed_ns < REVIEW_NS:
            self._reviewed_ns = received_ns
            self._review()

    def shift_ns(self, source: Source) -> int:
        """What is to be added to the stamps of a source (0 for most)."""
        lags = self._sources.get(source)
        return 0 if lags is None else lags.shift_ns

    def _review(self) -> None:
        """Compare every source with the others."""
        known = {s: lags for s, lags in self._sources.items()
                 if lags.known and self._newest_ns - lags.received_ns < RECENT_NS}
        found = []
        for source, lags in known.items():
            deviation = self._deviation(source, lags, known)
            if deviation is not None:
                found.append(deviation)
        self.deviations = tuple(found)
        wrong_robots = {d.source.name for d in found if d.source.kind == 'odometry'}
        deviating = {d.source: d for d in found}
        for source, lags in known.items():
            self._correct_clock(source, lags, deviating.get(source), wrong_robots)

    def _correct_clock(self, source: Source, lags: Lags, deviation: Deviation | None,
                       wrong_robots: set[str]) -> None:
        """Decide on the shift of a radio; it stays as found while it is right within tolerance."""
        if source.kind != 'ranges' or not self._correct:
            return
        if deviation is None or deviation.ahead_ns < 0 or source.robot in wrong_robots \
                or deviation.scatter_ns > self._tolerance_ns:
            lags.shift_ns = 0
        elif abs(lags.shift_ns + deviation.ahead_ns) > self._tolerance_ns:
            lags.shift_ns = -deviation.ahead_ns

    def _deviation(self, source: Source, lags: Lags, known: dict[Source, Lags]
                   ) -> Deviation | None:
        """How far one source is off; None = no more than its scatter, or nobody can tell."""
        others = {s: v for s, v in known.items() if s != source}
        mine = lags.median_ns
        odometry = [v for s, v in others.items() if s.kind == 'odometry']
        for group in (
            list(others.values()),
            [v for s, v in others.items() if s.kind == source.kind],
        ):
            reference = self._agreed(group)
            if reference is not None:
                middle, scatter = reference
                found = self._beyond(source, middle - mine, lags.scatter_ns, scatter)
                # What goes with the odometry is not late: the others of its kind are ahead.
                late = found is not None and found.ahead_ns < 0
                return None if late and self._goes_with(odometry, source, lags) else found
        # Nobody agrees: what remains is a stamp after its own reception, where odometry has none.
        if source.kind == 'odometry' or not odometry:
            return None
        middle = round(statistics.median(v.median_ns for v in odometry))
        if mine >= -self._tolerance_ns or middle < -self._tolerance_ns:
            return None
        scatter = max(v.scatter_ns for v in odometry)
        return self._beyond(source, middle - mine, lags.scatter_ns, scatter)

    def _goes_with(self, group: list[Lags], source: Source, lags: Lags) -> bool:
        """Whether the sources of a group agree, and this one agrees with them."""
        reference = self._agreed(group)
        return reference is not None and self._beyond(
            source, reference[0] - lags.median_ns, lags.scatter_ns, reference[1]) is None

    def _agreed(self, group: list[Lags]) -> tuple[int, int] | None:
        """(median lag, scatter) of at least two sources that go together; None = they don't."""
        if len(group) < 2:
            return None
        medians = sorted(v.median_ns for v in group)
        scatter = max(v.scatter_ns for v in group)
        if medians[-1] - medians[0] > self._tolerance_ns + 2 * scatter:
            return None
        return medians[len(medians) // 2], scatter

    def _beyond(self, source: Source, ahead_ns: int, mine_ns: int, others_ns: int
                ) -> Deviation | None:
        limit = self._tolerance_ns + 2 * (mine_ns + others_ns)
        return Deviation(source, ahead_ns, mine_ns + others_ns) if abs(ahead_ns) > limit else None

    def findings(self) -> tuple[Finding, ...]:
        """The clocks that do not go with the others, in words."""
        return tuple(self._words(d) for d in self.deviations)

    def _words(self, deviation: Deviation) -> Finding:
        source, seconds = deviation.source, deviation.ahead_ns * 1e-9
        kind = 'radio_clock' if source.kind == 'ranges' else f'{source.kind}_clock'
        if seconds < 0:
            text = (f'messages of {source.words} arrive {-seconds:.1f} s later than those of the '
                    'others: they are late, or its clock is behind')
            return Finding(kind, source.name, text, seconds, 's')
        text = f"{source.words}'s clock is {seconds:.1f} s ahead of the others" \
            if source.kind == 'ranges' else \
            f'the clock of {source.words} is {seconds:.1f} s ahead of the others'
        if self.shift_ns(source):
            text += '; its stamps are shifted back by that much'
        return Finding(kind, source.name, text, seconds, 's')
