"""The way of all measurements to keyframes: checks, order by stamp, limits on rates, and waiting
until odometry covers their instants."""

from __future__ import annotations

import heapq
import logging
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ..config import SparserConfig
from .assembly import Assembly
from .clocks import DataClock, nanoseconds
from .counters import Counters, EventLog
from .frames import StaticFrames
from .motion import Geometry
from .noise import Bounds, Noise
from .radios import Radios
from .track import Attachment, Track

SECOND_NS = 1_000_000_000
MAX_WAITING = 10_000
"""Measurements of a kind that wait for odometry; further ones are refused."""
MAX_KNOWN = 100_000
"""Sources whose newest stamp is remembered, and measurements, to know a second copy."""
_log = logging.getLogger(__name__)
Instant = tuple[int, int]
"""Number of a robot, and a stamp in data time."""


@dataclass(frozen=True)
class Shared:
    """The parts of a front-end that all kinds of input use."""

    config: SparserConfig
    space: Geometry
    noise: Noise
    frames: StaticFrames
    bounds: Bounds
    clock: DataClock
    radios: Radios
    counters: Counters
    events: EventLog
    robots: dict[str, int]
    """Numbers of the robots by name."""
    tracks: tuple[Track, ...]
    """By number."""


@dataclass
class Pending:
    """A measurement that passed the checks of its kind."""

    stamp_ns: int
    instants: tuple[Instant | None, ...]
    """Of its ends; None for ends that are no robot."""
    places: list[Attachment | None] = field(init=False)
    """Keyframes to which the instants are attached so far."""

    def __post_init__(self) -> None:
        self.detach()

    def detach(self) -> None:
        """Forget the keyframes: their numbers have changed."""
        self.places = [None] * len(self.instants)

    @property
    def place(self) -> Attachment:
        """The keyframe of the first end, a robot."""
        place = self.places[0]
        assert place is not None
        return place

    @property
    def newest_ns(self) -> int:
        """The newer one of its instants."""
        return max((instant[1] for instant in self.instants if instant), default=self.stamp_ns)

    def attach(self, tracks: tuple[Track, ...], last: bool) -> str | None:
        """'' = all ends have keyframes, None = wait, else why one has none. `last`: do not wait."""
        complete = True
        for end, instant in enumerate(self.instants):
            if instant is None or self.places[end] is not None:
                continue
            place = tracks[instant[0]].locate(instant[1], last)
            if isinstance(place, str):
                return place
            complete = complete and place is not None
            self.places[end] = place
        return '' if complete else None


P = TypeVar('P', bound=Pending)


class Intake(ABC, Generic[P]):
    """Measurements of one kind, from their samples until both ends have keyframes."""

    kind = ''
    """One of `counters.KINDS`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._config = shared.config
        self._space = shared.space
        self._bounds = shared.bounds
        self._clock = shared.clock
        self._events = shared.events
        self._robots = shared.robots
        self._timeout_ns = nanoseconds(shared.config.stamps.timeout_s)
        self.counters = shared.counters.kind(self.kind)
        self._waiting: list[P] = []
        self._last_ns: OrderedDict[Hashable, int] = OrderedDict()
        """Newest stamp of each source."""

    @abstractmethod
    def check(self, sample: Any, stamp_ns: int) -> P | str:
        """The measurement of a sample, or why it is refused."""

    @abstractmethod
    def row(self, pending: P, assembly: Assembly) -> str:
        """Add a measurement whose ends have keyframes; why it cannot be added, '' = it was."""

    def add(self, sample: Any, stamp_ns: int) -> bool:
        """Take in a sample with its stamp in data time, or count why not."""
        return self._taken(self.check(sample, stamp_ns))

    def _taken(self, pending: P | str) -> bool:
        if isinstance(pending, str):
            return self.counters.drop(pending)
        self.counters.waiting += 1
        self._hold(pending)
        return True

    def _hold(self, pending: P) -> None:
        self._waiting.append(pending)

    def _one_too_many(self, source: Hashable, stamp_ns: int, interval_ns: int) -> str:
        """Why a sample of a source is one too many, '' = it is not, and is remembered."""
        last = self._last_ns.get(source)
        if stamp_ns == last:
            return 'duplicate'
        if last is not None and abs(stamp_ns - last) < interval_ns:
            return 'decimated'
        if self.counters.waiting >= MAX_WAITING:
            return 'too_many_waiting'
        remember(self._last_ns, source, stamp_ns)
        self._clock.follow(stamp_ns)
        return ''

    def _released(self, flush: bool) -> Iterable[P]:
        """Measurements that were held back elsewhere and now wait for odometry alone."""
        return ()

    def _drop(self, reason: str) -> None:
        """Count the refusal of a measurement that was waiting."""
        self.counters.waiting -= 1
        self.counters.drop(reason)

    def detach(self) -> None:
        """Look for all keyframes anew: their numbers have changed."""
        for pending in self._waiting:
            pending.detach()

    def attach(self, assembly: Assembly, flush: bool) -> None:
        """Add the measurements that have keyframes now; those that never will are dropped.

        With `flush`, or where data time has passed them by the timeout, nothing waits any longer.
        An exception drops one of them.
        """
        for pending in self._attached(flush):
            try:
                reason = self.row(pending, assembly)
            except Exception:
                _log.exception('a measurement could not be attached: %r', pending)
                reason = 'internal_error'
            if reason:
                self._drop(reason)
                continue
            self.counters.waiting -= 1
            self.counters.accepted += 1
            assembly.seen(pending.newest_ns)

    def _attached(self, flush: bool) -> list[P]:
        waiting, self._waiting = [*self._waiting, *self._released(flush)], []
        ready: list[P] = []
        for pending in waiting:
            last = flush or self._clock.newest_ns - pending.newest_ns > self._timeout_ns
            reason = pending.attach(self._shared.tracks, last)
            if reason is None:
                self._waiting.append(pending)
            elif reason:
                self._drop(reason)
            else:
                ready.append(pending)
        return ready


class Stamped(Protocol):
    """A measurement, or odometry, at an instant."""

    @property
    def stamp_ns(self) -> int: ...


S = TypeVar('S', bound=Stamped)


class StampOrder(Generic[S]):
    """Releases measurements by their stamps, once data time has passed them by a delay: the outcome
    does not depend on the order in which topics deliver."""

    def __init__(self, delay_ns: int) -> None:
        self.delay_ns = delay_ns
        self._heap: list[tuple[int, Any, int, S]] = []
        self._serial = 0

    def holds(self, stamp_ns: int) -> bool:
        return any(entry[0] == stamp_ns for entry in self._heap)

    def push(self, item: S, key: Any = None) -> None:
        """Take one in; the key decides between equal stamps."""
        self._serial += 1
        heapq.heappush(self._heap, (item.stamp_ns, key, self._serial, item))

    def released(self, newest_ns: int = 0, flush: bool = False) -> Iterator[S]:
        """Those whose time has come, oldest first."""
        while self._heap and (flush or self._heap[0][0] + self.delay_ns <= newest_ns):
            yield heapq.heappop(self._heap)[-1]


class RateLimit:
    """At most so many measurements per second of data time, of each pair and in all.

    When all together are too many, a pair keeps its equal share of the total.
    """

    def __init__(self, per_pair_hz: float, total_hz: float) -> None:
        self._per_pair = max(1, round(per_pair_hz))
        self._total = max(1, round(total_hz))
        self._passed: deque[tuple[int, tuple[str, str]]] = deque()
        self._counts: Counter[tuple[str, str]] = Counter()

    def exceeded(self, stamp_ns: int, pair: tuple[str, str]) -> str:
        """The senders that exceed their limit with this measurement, in words; '' = none.

        Measurements come in the order of their stamps.
        """
        while self._passed and stamp_ns - self._passed[0][0] >= SECOND_NS:
            _, old = self._passed.popleft()
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        count = self._counts.get(pair, 0)
        pairs = len(self._counts) + (count == 0)
        if count >= self._per_pair:
            return f'between {pair[0]} and {pair[1]}'
        if len(self._passed) >= self._total and count >= max(1, self._total // pairs):
            return 'of all radios together'
        self._passed.append((stamp_ns, pair))
        self._counts[pair] += 1
        return ''


def remember(table: OrderedDict, key: Hashable, value: object = None) -> None:
    """Put an entry last; the oldest goes where there are too many."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > MAX_KNOWN:
        table.popitem(last=False)
