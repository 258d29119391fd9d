"""Ranges and sightings: in the order of their stamps, without floods, and only about names that
are configured or heard often enough."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..graph.finding import Finding
from .assembly import Intake, Pending, Shared, StampOrder, remember
from .clocks import MAX_FUTURE_NS, nanoseconds
from .radios import Radio, same_number, similar

MAX_STRANGERS = 200
"""Names heard too rarely to be beacons that are remembered; the oldest goes first."""
SECOND_NS = 1_000_000_000
FLUSHED_STRANGERS = 20
"""At the end of the data so many of them become beacons after all; more are noise."""


class RateLimit:
    """At most so many measurements per second of data time, of each pair and in all.

    When all together are too many, a pair keeps its equal share of the total.
    """

    def __init__(self, per_pair_hz: float, total_hz: float) -> None:
        # Whole numbers are counted over a second, others over the time of a whole number.
        self._per_pair = math.ceil(per_pair_hz)
        self._window_ns = round(self._per_pair / per_pair_hz * SECOND_NS)
        self._total = max(1, round(total_hz * self._window_ns / SECOND_NS))
        self._passed: deque[tuple[int, tuple[str, str]]] = deque()
        self._counts: Counter[tuple[str, str]] = Counter()

    def exceeded(self, stamp_ns: int, pair: tuple[str, str]) -> str:
        """The senders that exceed their limit with this measurement, in words; '' = none.

        Measurements come in the order of their stamps.
        """
        # One of a far future must not count against all that come after it.
        while self._passed and not (
                -MAX_FUTURE_NS <= stamp_ns - self._passed[0][0] < self._window_ns):
            _, old = self._passed.popleft()
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        count = self._counts.get(pair, 0)
        pairs = len(self._counts) + (count == 0)
        if count >= self._per_pair:
            return f'between {pair[0]} and {pair[1]}'
        if len(self._passed) >= self._total and count >= max(1, self._total // pairs):
            return 'of all together'
        self._passed.append((stamp_ns, pair))
        self._counts[pair] += 1
        return ''


@dataclass
class PendingBeacon(Pending):
    ends: tuple[Radio, ...]
    """The radios at its ends; of a sighting the landmark, as the radio that may sit on it."""
    stream: Hashable
    """What is decimated together."""
    pair: tuple[str, str]
    """Names of both ends."""


class BeaconIntake(Intake):
    """Their way to keyframes; names that are not configured wait until enough speak for each."""

    noun = 'radio'
    limits = 'ranges.max_rate_hz or ranges.max_total_rate_hz'
    """Parameters of the rates."""

    def __init__(self, shared: Shared, delay_ns: int, rates_hz: tuple[float, float],
                 interval_s: float, wanted: int) -> None:
        """`rates_hz`: of each pair, and in all."""
        super().__init__(shared)
        self._radios = shared.radios
        self._order = StampOrder(nanoseconds(shared.config.stamps.reorder_window_s) + delay_ns)
        self._limit, self._interval_ns = RateLimit(*rates_hz), nanoseconds(interval_s)
        self._wanted, self._most = wanted, shared.config.ranges.max_new_beacons
        self._strangers: OrderedDict[str, list[PendingBeacon]] = OrderedDict()
        self._forgotten, self._example = 0, ''
        """Number of names that were never admitted, and one of them."""
        self._misspelt: dict[str, str] = {}

    def _sorted(self, flush: bool) -> Iterable[Any]:
        """The measurements whose time has come, oldest first."""
        return self._order.released(self._clock.newest_ns, flush)

    def _surplus(self, pending: PendingBeacon) -> str:
        """Why a measurement is one too many, beyond the rates or too soon after another, or ''."""
        last = self._known.get(pending.stream)
        if last is not None and abs(pending.stamp_ns - last) < self._interval_ns:
            return 'decimated'
        who = self._limit.exceeded(pending.stamp_ns, pending.pair)
        if who:
            self._events.add(pending.stamp_ns, Finding(
                f'{self.kind[:-1]}_flood', who, f'{self.kind} {who} come faster than '
                f'{self.limits}: dropped'))
            return 'rate_limit'
        remember(self._known, pending.stream, pending.stamp_ns)
        return ''

    def _released(self, flush: bool) -> Iterator[PendingBeacon]:
        for pending in self._sorted(flush):
            reason = self._surplus(pending)
            if reason:
                self.counters.drop(reason)
            else:
                yield from self._admitted(pending)
        if not flush:
            return
        # No more data are expected: a few rare names are beacons after all.
        strangers, self._strangers = self._strangers, OrderedDict()
        for number, (name, waiting) in enumerate(strangers.items()):
            if number >= FLUSHED_STRANGERS or self._radios.n_new >= self._most:
                self._refuse(name, waiting)
                continue
            for pending in waiting:
                for end in pending.ends:
                    if end.beacon:
                        self._welcome(end.beacon)
                yield pending

    def _admitted(self, pending: PendingBeacon) -> list[PendingBeacon]:
        """The measurement, with those that waited for it; empty = it waits, or is dropped."""
        names = [end.beacon for end in pending.ends
                 if end.beacon and end.beacon not in self._radios.beacons]
        if not names:
            return [pending]
        name = names[0]
        if self._radios.n_new >= self._most:
            self._refuse(name, [pending])
            return []
        waiting = self._strangers.setdefault(name, [])
        waiting.append(pending)
        if len(waiting) >= self._wanted:
            del self._strangers[name]
            self._welcome(name)
            return [other for earlier in waiting for other in self._admitted(earlier)]
        if len(self._strangers) > MAX_STRANGERS:
            self._refuse(*self._strangers.popitem(last=False))
        return []

    def _welcome(self, name: str) -> None:
        """A name becomes a beacon; one that looks like a configured name is told."""
        if not self._radios.admit(name):
            return
        other = next((own for own in self._radios.configured if own != name and similar(name, own)),
                     None)
        if other is not None:
            self._misspelt[name] = (
                f'{self.noun} {name!r} is not configured and becomes a beacon of its own; was '
                f'{other!r} meant?')
            if same_number(name, other):
                self._misspelt[name] += (
                    ' Both are spellings of one number, and programs that read YAML turn one '
                    'into the other: write the name in quotes, as it is sent')

    def _refuse(self, name: str, measurements: list[PendingBeacon]) -> None:
        for _ in measurements:
            self.counters.drop(f'unconfirmed_{self.noun}')
        self._forgotten += 1
        self._example = name

    def findings(self) -> Iterator[Finding]:
        """Floods of unknown names, and names that look mistyped."""
        if self._forgotten:
            yield Finding(
                f'unknown_{self.noun}s', self.kind, f'{self._forgotten} {self.kind} name unknown '
                f'{self.noun}s (such as {self._example!r}), each too rarely for a beacon, or '
                'beyond ranges.max_new_beacons: dropped', float(self._forgotten))
        for name, text in self._misspelt.items():
            yield Finding('configuration', name, text)
