"""What the graph can afford: so many measurements per second, and no beacon out of one name."""

from __future__ import annotations

import difflib
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from ..graph.finding import Finding
from .counters import KindCounters
from .radios import Radio, Radios

SECOND_NS = 1_000_000_000
MAX_STRANGERS = 200
"""Names heard too rarely to be beacons that are remembered; the oldest goes first."""
FLUSHED_STRANGERS = 20
"""At the end of the data so many of them become beacons after all; more are noise."""
SIMILAR_NAMES_RATIO = 0.8
"""Ratio of `difflib` from which two names of five letters or more look like one mistyped."""
LEAST_NAME_LENGTH = 5


class AboutBeacons(Protocol):
    """A measurement that may be about beacons."""

    @property
    def ends(self) -> tuple[Radio, ...]:
        """What it is about."""


C = TypeVar('C', bound=AboutBeacons)


class RateLimit:
    """At most so many measurements per second of data time, of each pair and in all.

    When all together are too many, a pair keeps its equal share of the total.
    """

    def __init__(self, per_pair_hz: float, total_hz: float) -> None:
        self._per_pair = max(1, round(per_pair_hz))
        self._total = max(1, round(total_hz))
        self._kept: deque[tuple[int, tuple[str, str]]] = deque()
        self._counts: Counter[tuple[str, str]] = Counter()

    def exceeded(self, stamp_ns: int, pair: tuple[str, str]) -> str:
        """Who sends too much, '' = the measurement is within the limits.

        Measurements come in the order of their stamps.
        """
        while self._kept and stamp_ns - self._kept[0][0] >= SECOND_NS:
            _, old = self._kept.popleft()
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        count = self._counts.get(pair, 0)
        pairs = len(self._counts) + (count == 0)
        if count >= self._per_pair:
            return f'between {pair[0]} and {pair[1]}'
        if len(self._kept) >= self._total and count >= max(1, self._total // pairs):
            return 'of all radios together'
        self._kept.append((stamp_ns, pair))
        self._counts[pair] += 1
        return ''


class Misspelt:
    """Unknown radios, or landmarks, whose names look like those of configured ones."""

    def __init__(self, known: Sequence[str], noun: str = 'radio') -> None:
        self._known = known
        self._noun = noun
        self._texts: dict[str, str] = {}

    def look(self, name: str) -> None:
        """Compare a new beacon's name with the configured ones."""
        for other in self._known:
            if other != name and similar(name, other):
                self._texts[name] = (
                    f'{self._noun} {name!r} is not configured and becomes a beacon of its own; was '
                    f'{other!r} meant?')
                if same_number(name, other):
                    self._texts[name] += (
                        ' Both are spellings of one number, and programs that read YAML turn one '
                        'into the other: write the name in quotes, as it is sent')
                return

    @property
    def texts(self) -> tuple[str, ...]:
        """One sentence for each such name."""
        return tuple(self._texts.values())


class Strangers(Generic[C]):
    """Names that are not configured, until enough ranges (or sightings) speak for each."""

    def __init__(self, wanted: int, most: int, radios: Radios, counters: KindCounters,
                 misspelt: Misspelt, noun: str) -> None:
        self._misspelt = misspelt
        self._wanted = wanted
        self._most = most
        self._noun = noun
        self._reason = 'unconfirmed_radio' if noun == 'ranges' else 'unconfirmed_landmark'
        self._radios = radios
        self._counters = counters
        self._held: OrderedDict[str, list[C]] = OrderedDict()
        self._forgotten = 0
        self._example = ''

    def admit(self, pending: C) -> list[C]:
        """The measurement, with those that waited for it; empty = it waits, or is dropped."""
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

    def passed(self, ready: Iterable[C], flush: bool) -> Iterator[C]:
        """What may go on of the measurements that are `ready`; with `flush` nothing stays held."""
        for pending in ready:
            yield from self.admit(pending)
        if flush:
            yield from self._flushed()

    def _flushed(self) -> list[C]:
        """No more data are expected: a few rare names are beacons after all."""
        held, self._held = self._held, OrderedDict()
        ready: list[C] = []
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

    def _refuse(self, ranges: list[C], name: str) -> None:
        for _ in ranges:
            self._counters.waiting -= 1
            self._counters.drop(self._reason)
        self._forgotten += 1
        self._example = name

    def findings(self) -> tuple[Finding, ...]:
        """Floods of unknown names, in words."""
        if not self._forgotten:
            return ()
        what = 'radios' if self._noun == 'ranges' else 'landmarks'
        return (Finding(
            f'unknown_{what}', self._noun,
            f'{self._forgotten} {self._noun} name unknown {what} (such as {self._example!r}), each '
            'too rarely for a beacon, or beyond ranges.max_new_beacons: dropped',
            float(self._forgotten), ''),)


def similar(name: str, other: str) -> bool:
    """True for names that differ in case, padding or one letter, but not in their number."""
    if _plain(name) == _plain(other) or same_number(name, other):
        return True
    if min(len(name), len(other)) < LEAST_NAME_LENGTH or _digits(name) != _digits(other):
        return False
    alike = difflib.SequenceMatcher(None, name.casefold(), other.casefold()).ratio()
    return alike >= SIMILAR_NAMES_RATIO


def same_number(name: str, other: str) -> bool:
    """True for 0x6958, 6958 and 26968, or 81:00 and 4860 (81 times 60)."""
    return bool(_numbers(name) & _numbers(other)) and name != other


def _numbers(name: str) -> set[str]:
    """Decimal numbers that a name may be turned into, and itself; of a hexadecimal one, digits."""
    if re.fullmatch(r'0[xX][0-9a-fA-F]+', name):
        return {str(int(name, 16)), name[2:].lower()}
    if re.fullmatch(r'[0-9]+(:[0-5]?[0-9])+', name):
        total = 0
        for part in name.split(':'):
            total = 60 * total + int(part)
        return {str(total), name}
    return {name.lower()}


def _plain(name: str) -> str:
    """Without case, separators and leading zeros of numbers."""
    letters = ''.join(c for c in name.casefold() if c.isalnum())
    head = letters.rstrip('0123456789')
    return head + letters[len(head):].lstrip('0')


def _digits(name: str) -> str:
    return ''.join(c for c in name if c.isdigit())
