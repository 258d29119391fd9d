"""Radio names: which robot carries a radio and where, which beacon it is, and which names that are
not configured become beacons."""

from __future__ import annotations

import difflib
import math
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from ..config import SparserConfig
from ..graph.finding import Finding
from .counters import KindCounters
from .motion import Vector

MAX_STRANGERS = 200
"""Names heard too rarely to be beacons that are remembered; the oldest goes first."""
FLUSHED_STRANGERS = 20
"""At the end of the data so many of them become beacons after all; more are noise."""
SIMILAR_NAMES_RATIO = 0.8
"""Ratio of `difflib` from which two names of five letters or more look like one mistyped."""
LEAST_NAME_LENGTH = 5


@dataclass(frozen=True)
class Radio:
    """One end of a range."""

    robot: str
    """'' for a beacon."""
    beacon: str
    """'' for a radio on a robot."""
    lever: Vector
    """Antenna in the base frame (d,); zero for a beacon."""
    height_m: float
    """Above the plane of the robots' bases; NaN = unknown."""
    bias_m: float = 0.0
    range_sigma_m: float = 0.0
    """Its share of the noise of a range; 0 = unknown."""


@dataclass(frozen=True)
class Beacon:
    """A landmark that a range may create."""

    name: str
    position: tuple[float, ...] | None
    """(d,) in map; None = unknown."""
    sigma_m: float = 0.0
    """0 = the position is exact."""
    height_m: float = math.nan
    """In space, where the position is unknown; NaN = unknown as well."""

    @property
    def fixed(self) -> bool:
        return self.position is not None and self.sigma_m == 0.0


class Radios:
    """All configured radios, and those that are met on the way."""

    def __init__(self, config: SparserConfig) -> None:
        d = config.dimension
        self._ignore_unknown = config.ranges.unknown_radios == 'ignore'
        self._zero = (0.0,) * d
        self._radios: dict[str, Radio] = {
            name: Radio(name, '', self._zero, math.nan) for name in config.robots}
        self.beacons: dict[str, Beacon] = {}
        for name, spec in config.radio_specs().items():
            if spec.robot:
                lever = [*spec.lever_arm, 0.0, 0.0, 0.0][:d] if spec.lever_arm else self._zero
                height = spec.lever_arm[2] if len(spec.lever_arm) == 3 else math.nan
                self._radios[name] = Radio(
                    spec.robot, '', tuple(lever), height, spec.bias_m, spec.range_sigma_m)
                continue
            height = spec.height_m if spec.height_m is not None else math.nan
            if len(spec.position) == 3:
                height = spec.position[2]
            self._radios[name] = Radio(
                '', spec.beacon, self._zero, height, spec.bias_m, spec.range_sigma_m)
            position = tuple(spec.position[:d]) if spec.position else None
            if position is not None or spec.beacon not in self.beacons:
                self.beacons[spec.beacon] = Beacon(
                    spec.beacon, position, spec.sigma_m, height)
        self._configured = tuple(self._radios)
        self.n_new = 0
        """Beacons that are not configured."""

    def __contains__(self, name: str) -> bool:
        return name in self._radios

    def find(self, name: str) -> Radio | None:
        """The radio of that name; None = not configured and unknown radios are ignored.

        An unknown one is a beacon to be: it enters `beacons` when `admit` is called.
        """
        radio = self._radios.get(name)
        if radio is None and name and not self._ignore_unknown:
            return Radio('', name, self._zero, math.nan)
        return radio

    def landmark(self, name: str, *, ignore_unknown: bool) -> Radio | None:
        """Landmark that a sighting names, as `find` gives the radio of a range; None = ignored."""
        radio = self._radios.get(name)
        return radio if radio or not name or ignore_unknown else Radio(
            '', name, self._zero, math.nan)

    def admitted(self, beacon: str) -> bool:
        """True for a beacon that is configured, or that enough ranges spoke for."""
        return beacon in self.beacons

    def admit(self, beacon: str) -> None:
        """A radio that is not configured becomes a beacon at an unknown position."""
        if beacon not in self.beacons:
            self.n_new += 1
            self._radios[beacon] = Radio('', beacon, self._zero, math.nan)
            self.beacons[beacon] = Beacon(beacon, None)

    def robot_of(self, name: str) -> str:
        """The robot that carries a radio, '' = none."""
        radio = self._radios.get(name)
        return '' if radio is None else radio.robot

    @property
    def configured(self) -> list[str]:
        """Names in the configuration."""
        return list(self._configured)

    @property
    def shared(self) -> dict[str, list[str]]:
        """Robots and beacons that have several radios, with the names of those."""
        names: dict[str, list[str]] = {}
        for name, radio in self._radios.items():
            names.setdefault(radio.robot or radio.beacon, []).append(name)
        return {owner: radios for owner, radios in names.items() if len(radios) > 1}

    @property
    def alone(self) -> str:
        """The one known beacon, where a single one cannot fix the direction of `map`."""
        known = [b.name for b in self.beacons.values() if b.position is not None]
        return known[0] if len(known) == 1 else ''

    def beacon(self, name: str) -> Beacon:
        return self.beacons.get(name) or Beacon(name, None)

    def know(self, positions: Mapping[str, Sequence[float]], sigma_m: float) -> None:
        """Take over beacon positions found earlier, as priors; configured ones stay."""
        for name, position in positions.items():
            old = self.beacons.get(name)
            values = tuple(float(v) for v in position[: len(self._zero)])
            if (old is None or old.position is None) and np.all(np.isfinite(values)):
                self._radios.setdefault(name, Radio('', name, self._zero, math.nan))
                self.beacons[name] = Beacon(name, values, sigma_m)


def flatten_range(distance_m: float, variance: float, rise_m: float) -> tuple[float, float] | None:
    """Slant range reduced to the plane, with the variance propagated; None if shorter than the
    rise. r = sqrt(d^2 - h^2), dr/dd = d / r."""
    square = distance_m**2 - rise_m**2
    if square <= 0:
        return None
    return math.sqrt(square), variance * distance_m**2 / square


class AboutBeacons(Protocol):
    """A measurement that may be about beacons."""

    @property
    def ends(self) -> tuple[Radio, ...]:
        """The radios at its ends."""


C = TypeVar('C', bound=AboutBeacons)


class Misspelt:
    """Unknown radios, or landmarks, whose names look like those of configured ones."""

    def __init__(self, known: Sequence[str], noun: str = 'radio') -> None:
        self._known = known
        self._noun = noun
        self._texts: dict[str, str] = {}

    def look(self, name: str) -> None:
        """Compare the name of a new beacon with the configured ones."""
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
        self._waiting: OrderedDict[str, list[C]] = OrderedDict()
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
        waiting = self._waiting.setdefault(name, [])
        waiting.append(pending)
        if len(waiting) >= self._wanted:
            del self._waiting[name]
            self._welcome(name)
            return [admitted for earlier in waiting for admitted in self.admit(earlier)]
        if len(self._waiting) > MAX_STRANGERS:
            oldest, others = self._waiting.popitem(last=False)
            self._refuse(others, oldest)
        return []

    def passed(self, ready: Iterable[C], flush: bool) -> Iterator[C]:
        """Those of `ready` whose beacons are admitted; with `flush` nothing waits."""
        for pending in ready:
            yield from self.admit(pending)
        if flush:
            yield from self._flushed()

    def _flushed(self) -> list[C]:
        """No more data are expected: a few rare names are beacons after all."""
        strangers, self._waiting = self._waiting, OrderedDict()
        ready: list[C] = []
        for number, (name, waiting) in enumerate(strangers.items()):
            if number >= FLUSHED_STRANGERS or self._radios.n_new >= self._most:
                self._refuse(waiting, name)
                continue
            for pending in waiting:
                for end in pending.ends:
                    if end.beacon:
                        self._welcome(end.beacon)
                ready.append(pending)
        return ready

    def _welcome(self, name: str) -> None:
        if not self._radios.admitted(name):
            self._radios.admit(name)
            self._misspelt.look(name)

    def _refuse(self, measurements: list[C], name: str) -> None:
        for _ in measurements:
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
