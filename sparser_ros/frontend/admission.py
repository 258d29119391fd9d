"""Which ranges the graph can afford: at most so many per second, and no beacon out of one name."""

from __future__ import annotations

import difflib
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence

from ..config.frontend_config import RangesConfig
from ..graph.finding import Finding
from .counters import KindCounters
from .radios import Radios
from .range_filter import PendingRange, pair_of

SECOND_NS = 1_000_000_000
MAX_STRANGERS = 200
"""Names heard too rarely to be beacons that are remembered; the oldest goes first."""
FLUSHED_STRANGERS = 20
"""At the end of the data so many of them become beacons after all; more are noise."""
SIMILAR_NAMES_RATIO = 0.8
"""Ratio of `difflib` from which two names of five letters or more look like one mistyped."""
LEAST_NAME_LENGTH = 5


class RateLimit:
    """At most so many ranges per second of data time, of each pair and in all.

    When all together are too many, a pair keeps its equal share of the total.
    """

    def __init__(self, options: RangesConfig) -> None:
        self._per_pair = max(1, round(options.max_rate_hz))
        self._total = max(1, round(options.max_total_rate_hz))
        self._kept: deque[tuple[int, tuple[str, str]]] = deque()
        self._counts: Counter[tuple[str, str]] = Counter()

    def exceeded(self, pending: PendingRange) -> str:
        """Who sends too much, '' = the range is within the limits.

        Ranges come in the order of their stamps.
        """
        while self._kept and pending.stamp_ns - self._kept[0][0] >= SECOND_NS:
            _, old = self._kept.popleft()
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        pair = pair_of(pending)
        count = self._counts.get(pair, 0)
        pairs = len(self._counts) + (count == 0)
        if count >= self._per_pair:
            return f'between {pair[0]} and {pair[1]}'
        if len(self._kept) >= self._total and count >= max(1, self._total // pairs):
            return 'of all radios together'
        self._kept.append((pending.stamp_ns, pair))
        self._counts[pair] += 1
        return ''


class Misspelt:
    """Unknown radios whose names look like those of configured ones."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known
        self._texts: dict[str, str] = {}

    def look(self, name: str) -> None:
        """Compare a new beacon's name with the configured ones."""
        for other in self._known:
            if other != name and similar(name, other):
                self._texts[name] = (
                    f'radio {name!r} is not configured and becomes a beacon of its own; was '
                    f'{other!r} meant?')
                return

    @property
    def texts(self) -> tuple[str, ...]:
        """One sentence for each such name."""
        return tuple(self._texts.values())


class Strangers:
    """Radios that the configuration does not name, until enough ranges speak for them."""

    def __init__(self, options: RangesConfig, radios: Radios, counters: KindCounters,
                 misspelt: Misspelt) -> None:
        self._misspelt = misspelt
        self._wanted = options.new_beacon_ranges
        self._most = options.max_new_beacons
        self._radios = radios
        self._counters = counters
        self._held: OrderedDict[str, list[PendingRange]] = OrderedDict()
        self._forgotten = 0
        self._example = ''

    def admit(self, pending: PendingRange) -> list[PendingRange]:
        """The range, with those that waited for it; empty = it waits, or is dropped."""
        names = [end.beacon for end in pending.ends
                 if end.beacon and not self._radios.admitted(end.beacon)]
        if not names:
            return [pending]
        name = names[0]
        if self._radios.n_new >= self._most:
            self._refuse([pending], name)
            return []
        held = self._held.setdefault(name, [])
        held.append(pending)
        if len(held) >= self._wanted:
            del self._held[name]
            self._welcome(name)
            return [one for earlier in held for one in self.admit(earlier)]
        if len(self._held) > MAX_STRANGERS:
            oldest, ranges = self._held.popitem(last=False)
            self._refuse(ranges, oldest)
        return []

    def flush(self) -> list[PendingRange]:
        """No more data are expected: a few rare names are beacons after all."""
        held, self._held = self._held, OrderedDict()
        ready: list[PendingRange] = []
        for number, (name, ranges) in enumerate(held.items()):
            if number >= FLUSHED_STRANGERS or self._radios.n_new >= self._most:
                self._refuse(ranges, name)
                continue
            for one in ranges:
                for end in one.ends:
                    if end.beacon:
                        self._welcome(end.beacon)
                ready.append(one)
        return ready

    def _welcome(self, name: str) -> None:
        if not self._radios.admitted(name):
            self._radios.admit(name)
            self._misspelt.look(name)

    def _refuse(self, ranges: list[PendingRange], name: str) -> None:
        for _ in ranges:
            self._counters.waiting -= 1
            self._counters.drop('unconfirmed_radio')
        self._forgotten += 1
        self._example = name

    def findings(self) -> tuple[Finding, ...]:
        """Floods of unknown names, in words."""
        if not self._forgotten:
            return ()
        return (Finding(
            'unknown_radios', 'ranges',
            f'{self._forgotten} ranges name unknown radios (such as {self._example!r}), each too '
            'rarely for a beacon, or beyond ranges.max_new_beacons: dropped',
            float(self._forgotten), ''),)


def similar(name: str, other: str) -> bool:
    """True for names that differ in case, padding or one letter, but not in their number."""
    if _plain(name) == _plain(other):
        return True
    if min(len(name), len(other)) < LEAST_NAME_LENGTH or _digits(name) != _digits(other):
        return False
    alike = difflib.SequenceMatcher(None, name.casefold(), other.casefold()).ratio()
    return alike >= SIMILAR_NAMES_RATIO


def _plain(name: str) -> str:
    """Without case, separators and leading zeros of numbers."""
    letters = ''.join(c for c in name.casefold() if c.isalnum())
    head = letters.rstrip('0123456789')
    return head + letters[len(head):].lstrip('0')


def _digits(name: str) -> str:
    return ''.join(c for c in name if c.isdigit())
