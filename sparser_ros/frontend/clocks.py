"""Time: the clock of every source, the time of the data, and the place of every sample in it.

A lag, from a message's stamp to its reception, is the transport delay minus how far the source's
clock is ahead. A delay is never negative, so a source whose lag is below that of the others by more
than the scatter has a clock that is ahead. A lag above that of the others is either a late
transport or a clock behind: that is said, but nothing is shifted. Medians, so that single bad
stamps count for nothing.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..config import SparserConfig
from ..graph.finding import Finding
from .counters import EventLog
from .radios import Radios
from .samples import MAX_STAMP_NS, RangeSample, RobotSample

LAGS_OF_SOURCE, LAGS_OF_ALL = 51, 101
"""Lags whose median counts, of one source and of all together: some seconds at usual rates."""
LEAST_LAGS = 10
"""Lags of a source from which its median is judged: its error is then about half the scatter."""
MAX_SOURCES = 500
"""Sources that are watched; a flood of made-up radio names adds no more."""
TOLERANCE_NS = 200_000_000
"""A clock is wrong when its stamps differ from those of the others by more than this beyond their
scatter: a robot at 1 m/s moves 0.2 m in that time."""
BACK_NS = 1_000_000_000
"""Odometry this much older than the newest is time going backwards."""
JUMP_MESSAGES = 3
"""So many messages of a robot in a row must be that old, or far ahead, and none of the present,
before time counts as having jumped."""
MAX_FUTURE_NS = 10_000_000_000
"""A stamp further ahead than this, of all other data and of its reception, is refused unless every
source agrees with it."""
REVIEW_NS = 500_000_000
"""Reception time between two judgements of all sources."""
SHIFTED = 'ranges', 'sightings', 'fixes'
"""Kinds of messages that are shifted to the clock of the others. Odometry is what they are laid on.
"""
RECENT_NS = 30_000_000_000
"""Sources silent for longer than this are compared with nothing."""
LEAST_STAMPED = 5
"""Stamped messages after which the lag of the sources counts as known."""
UNSTAMPED_WAIT_NS = 2_000_000_000
"""Reception time without any stamp after which times of reception count as they are."""
MAX_WAITING = 10_000
"""Samples or measurements that wait for one thing at most; with more the wait ends, or they are
refused."""
Unplaced = RobotSample | RangeSample


def nanoseconds(seconds: float) -> int:
    """Seconds as int nanoseconds."""
    return round(seconds * 1e9)


def offset_ns(offsets: Mapping[str, float], name: str) -> int:
    """Configured time offset of a source; "*" stands for every source not named."""
    if not offsets:
        return 0
    return nanoseconds(offsets.get(name, offsets.get('*', 0.0)))


class Source(NamedTuple):
    """Sender of stamps: the odometry, sightings or fixes of a robot, or a radio."""

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
        self.newest: deque[int] = deque(maxlen=LAGS_OF_SOURCE)
        self.received_ns = self.shift_ns = 0
        """Of the newest; and what is added to the stamps: the clock is ahead by minus this."""

    def at_once(self, lag_ns: int) -> bool:
        """Whether a message, like those before it, is received when its stamp says."""
        if len(self.newest) < LEAST_LAGS:
            return False
        usual = Middle.of(self.newest)
        return -TOLERANCE_NS <= usual.median_ns <= BACK_NS and (
            abs(lag_ns - usual.median_ns) <= TOLERANCE_NS + 2 * usual.scatter_ns)


class Middle(NamedTuple):
    """Median of lags, and half the width of their middle two thirds, which is one standard
    deviation of normal scatter."""

    median_ns: int
    scatter_ns: int

    @classmethod
    def of(cls, lags: Iterable[int]) -> Middle:
        ordered = sorted(lags)
        n = len(ordered)
        return cls(ordered[n // 2], (ordered[(5 * n) // 6] - ordered[n // 6]) // 2)

    def ahead(self, reference: Middle) -> Middle | None:
        """By how much the clock of a source is ahead of a reference, and the scatter of both; None
        = not by more than that explains."""
        ahead_ns, scatter_ns = (
            reference.median_ns - self.median_ns, reference.scatter_ns + self.scatter_ns)
        return Middle(ahead_ns, scatter_ns) \
            if abs(ahead_ns) > TOLERANCE_NS + 2 * scatter_ns else None


def _deviation(source: Source, known: dict[Source, Middle]) -> Middle | None:
    """How far a source is ahead and the scatter; None = within it, or nobody can tell."""
    own = known[source]
    others = {other: middle for other, middle in known.items() if other != source}
    odometry, alike = (
        [middle for other, middle in others.items() if other.kind == kind]
        for kind in ('odometry', source.kind))
    for group in (list(others.values()), alike):
        reference = _agreed(group)
        if reference is not None:
            deviation = own.ahead(reference)
            # What goes with the odometry is not late: the others of its kind are ahead.
            late = deviation is not None and deviation.median_ns < 0
            right = _agreed(odometry) if late else None
            return None if right and own.ahead(right) is None else deviation
    # Nobody agrees: what remains is a stamp after its own reception, where odometry has none.
    if source.kind == 'odometry' or not odometry:
        return None
    median_ns = round(statistics.median(middle.median_ns for middle in odometry))
    if own.median_ns >= -TOLERANCE_NS or median_ns < -TOLERANCE_NS:
        return None
    return own.ahead(Middle(median_ns, max(middle.scatter_ns for middle in odometry)))


def _agreed(group: list[Middle]) -> Middle | None:
    """Median lag and scatter of at least two sources that go together; None = they don't."""
    if len(group) < 2:
        return None
    medians = sorted(middle.median_ns for middle in group)
    scatter_ns = max(middle.scatter_ns for middle in group)
    if medians[-1] - medians[0] > TOLERANCE_NS + 2 * scatter_ns:
        return None
    return Middle(medians[len(medians) // 2], scatter_ns)


class DataClock:
    """The newest stamp seen, and the stamps of samples in the time of the data.

    A source without stamps (0) gets its reception time minus the median lag of the sources that
    have them, so that it lives on their clock even in a bag recorded long after the fact.

    A stamp far ahead of all data and of its own reception is refused, for one message would make
    everything else look too old. Only when the odometry goes on ahead, message after message, and
    no source says otherwise meanwhile, has time really jumped. All data are behind where a source
    with such stamps is received at once, message after message: it was switched on later.
    """

    def __init__(self, config: SparserConfig, events: EventLog, radios: Radios) -> None:
        self._config, self._events, self._radios = config, events, radios
        self._by_arrival = frozenset(config.stamps.by_arrival)
        self.newest_ns = self._newest_received_ns = self._reviewed_ns = 0
        self._sources: dict[Source, Lags] = {}
        self._wrong: dict[Source, Middle] = {}
        """Sources whose clock does not go with the others: by how much it is ahead (below 0:
        behind, or late), and the scatter of that."""
        self.present = 0
        """Stamped messages of any source so far that were not long before the newest data."""
        self._ahead: dict[Source, tuple[int, int]] = {}
        """(count, last stamp) of the messages ahead since the last one that was not."""
        self._lags: deque[int] = deque(maxlen=LAGS_OF_ALL)
        self._no_stamps_at_all = False
        self._waiting: deque[Unplaced] = deque()
        """Samples without a stamp, until stamped sources tell."""

    def _source(self, sample: Unplaced) -> Source:
        if isinstance(sample, RangeSample):
            return Source('ranges', sample.source, self._radios.robot_of(sample.source))
        return Source(sample.kind, sample.robot, sample.robot)

    def stamp(self, sample: Unplaced) -> int | str | None:
        """The stamp in data time, offsets of the configuration included; why there is none, or
        None = the sample waits here."""
        source, stamp_ns, received_ns = self._source(sample), sample.stamp_ns, sample.received_ns
        if not self._by_arrival.isdisjoint((source.name, '*')):
            stamp_ns = 0
        if not -MAX_STAMP_NS < stamp_ns < MAX_STAMP_NS \
                or not -MAX_STAMP_NS < received_ns < MAX_STAMP_NS:
            return 'stamp_out_of_bounds'
        self._newest_received_ns = max(self._newest_received_ns, received_ns)
        if stamp_ns > 0:
            if received_ns > 0:
                self._note(source, stamp_ns, received_ns)
            stamp_ns += self._shift_ns(source)
            if self._refuses(stamp_ns, received_ns, source):
                return 'in_the_future'
            if received_ns > 0:
                self._lags.append(received_ns - stamp_ns)
            self.present += stamp_ns >= self.newest_ns - BACK_NS
            return stamp_ns + self._offset(source)
        if received_ns <= 0 or stamp_ns < 0 or len(self._waiting) >= MAX_WAITING:
            return 'no_stamp'
        if not self._waiting and (lag_ns := self._lag_ns()) is not None:
            return received_ns - lag_ns + self._offset(source)
        self._waiting.append(sample)
        return None

    def _note(self, source: Source, stamp_ns: int, received_ns: int) -> None:
        lags = self._sources.get(source)
        if lags is None:
            if len(self._sources) >= MAX_SOURCES:
                return
            lags = self._sources[source] = Lags()
        lags.newest.append(received_ns - stamp_ns)
        lags.received_ns = received_ns
        if not 0 <= received_ns - self._reviewed_ns < REVIEW_NS:
            self._reviewed_ns = received_ns
            self._review()

    def _shift_ns(self, source: Source) -> int:
        """Shift to add to the stamps of a source, ns (0 for most)."""
        lags = self._sources.get(source)
        return 0 if lags is None else lags.shift_ns

    def _review(self) -> None:
        """Compare every source with the others, and decide on the shifts of radios, which stay as
        they are while they are right within tolerance."""
        known = {source: Middle.of(lags.newest) for source, lags in self._sources.items()
                 if len(lags.newest) >= LEAST_LAGS
                 and self._reviewed_ns - lags.received_ns < RECENT_NS}
        self._wrong = {source: deviation for source in known
                       if (deviation := _deviation(source, known)) is not None}
        wrong_robots = {source.name for source in self._wrong if source.kind == 'odometry'}
        for source in known:
            lags, (ahead_ns, scatter_ns) = self._sources[source], self._wrong.get(source, (0, 0))
            if source.kind not in SHIFTED or ahead_ns <= 0 or scatter_ns > TOLERANCE_NS \
                    or source.robot in wrong_robots:
                lags.shift_ns = 0
            elif abs(lags.shift_ns + ahead_ns) > TOLERANCE_NS:
                lags.shift_ns = -ahead_ns

    def findings(self) -> Iterator[Finding]:
        for source, (ahead_ns, _) in self._wrong.items():
            seconds, radio = ahead_ns * 1e-9, source.kind == 'ranges'
            if seconds < 0:
                text = (f'messages of {source.words} arrive {-seconds:.1f} s later than those of '
                        'the others: they are late, or its clock is behind')
            else:
                clock = f"{source.words}'s clock" if radio else f'the clock of {source.words}'
                text = f'{clock} is {seconds:.1f} s ahead of the others'
                if self._shift_ns(source):
                    text += '; its stamps are shifted back by that much'
            yield Finding('radio_clock' if radio else f'{source.kind}_clock', source.name, text,
                          seconds, 's')

    def _lag_ns(self) -> int | None:
        """Median of reception time minus stamp; None = not known yet."""
        if len(self._lags) >= LEAST_STAMPED:
            return Middle.of(self._lags).median_ns
        return 0 if self._no_stamps_at_all else None

    def _offset(self, source: Source) -> int:
        return offset_ns(getattr(self._config, source.kind).time_offsets, source.name)

    def _refuses(self, stamp_ns: int, received_ns: int, source: Source) -> bool:
        """True for a stamp ahead of the data that nothing confirms."""
        if not self.beyond(stamp_ns) or (received_ns > 0 and self._lags and (
                stamp_ns <= received_ns - Middle.of(self._lags).median_ns + MAX_FUTURE_NS)):
            if source.kind == 'odometry':
                self._ahead.clear()
            return False
        lags = self._sources.get(source)
        if received_ns > 0 and lags is not None and lags.at_once(received_ns - stamp_ns):
            return False
        count, last_ns = self._ahead.get(source, (0, stamp_ns))
        count = count + 1 if abs(stamp_ns - last_ns) <= MAX_FUTURE_NS else 1
        self._ahead[source] = (count, stamp_ns)
        if source.kind == 'odometry' and count > JUMP_MESSAGES:
            return False
        seconds = (stamp_ns - self.newest_ns) * 1e-9
        self._events.add(self.newest_ns, Finding(
            'stamp_ahead', source.name, f'a message of {source.words} had a stamp {seconds:.1f}'
            ' s ahead of all other data: dropped', seconds, 's'))
        return True

    def settled(self, flush: bool) -> list[tuple[Unplaced, int]]:
        """Samples without stamp that can be placed by now, with their stamps, oldest first.

        Where no source has shown stamps for two seconds, reception times count as they are.
        """
        placed: list[tuple[Unplaced, int]] = []
        lag_ns = self._lag_ns()
        while self._waiting:
            received_ns = self._waiting[0].received_ns
            if lag_ns is None:
                if not flush and self._newest_received_ns - received_ns <= UNSTAMPED_WAIT_NS:
                    break
                self._no_stamps_at_all, lag_ns = True, 0
            sample = self._waiting.popleft()
            placed.append((sample, received_ns - lag_ns + self._offset(self._source(sample))))
        return placed

    def beyond(self, stamp_ns: int) -> bool:
        """True for a stamp that data time will not reach for long."""
        return 0 < self.newest_ns < stamp_ns - MAX_FUTURE_NS

    def gone(self, stamp_ns: int) -> bool:
        """True for a stamp of long before the newest data."""
        return stamp_ns < self.newest_ns - BACK_NS

    def advance(self, stamp_ns: int) -> None:
        """The data have come at least this far."""
        self.newest_ns = max(self.newest_ns, stamp_ns)

    def follow(self, stamp_ns: int) -> None:
        """As `advance`, once odometry has begun: a first range may have any stamp."""
        if self.newest_ns:
            self.advance(stamp_ns)
