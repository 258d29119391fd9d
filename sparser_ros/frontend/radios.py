"""Radio names: which robot carries a radio and where, which beacon it is, which names are alike."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass

from ..config import SparserConfig
from .motion import Vector

SIMILAR_NAMES_RATIO = 0.8
"""Ratio of `difflib` from which two names of five letters or more look like one mistyped."""
LEAST_NAME_LENGTH = 5


@dataclass(frozen=True)
class Radio:
    """One end of a range: an antenna of a robot, or a beacon."""

    robot: str
    """'' for a beacon."""
    beacon: str
    """'' for a radio on a robot."""
    lever: Vector
    """Antenna in the base frame (d,); zero for a beacon."""
    height_m: float
    """Above the plane of the robots' bases; NaN = unknown."""
    position: tuple[float, ...] | None = None
    """Of a beacon, (d,) in map; None = unknown."""
    sigma_m: float = 0.0
    """Of the position; 0 = it is exact."""
    bias_m: float = 0.0
    range_sigma_m: float = 0.0
    """Its share of the noise of a range; 0 = unknown."""

    @property
    def fixed(self) -> bool:
        return self.position is not None and self.sigma_m == 0.0


class Radios:
    """All configured radios, and those that are met on the way."""

    def __init__(self, config: SparserConfig) -> None:
        d = config.dimension
        self._zero = (0.0,) * d
        self._radios = {name: Radio(name, '', self._zero, math.nan) for name in config.robots}
        self.beacons: dict[str, Radio] = {}
        for name, spec in config.radio_specs().items():
            place = spec.lever_arm or spec.position
            lever = tuple([*place, 0.0, 0.0, 0.0][:d]) if spec.robot else self._zero
            height = place[2] if len(place) == 3 else (
                math.nan if spec.height_m is None else spec.height_m)
            radio = self._radios[name] = Radio(
                spec.robot, spec.beacon, lever, height,
                tuple(place[:d]) if place and spec.beacon else None, spec.sigma_m, spec.bias_m,
                spec.range_sigma_m)
            if spec.beacon and (place or spec.beacon not in self.beacons):
                self.beacons[spec.beacon] = radio
        self.configured = tuple(self._radios)
        """Names in the configuration."""
        self.n_new = 0
        """Beacons that are not configured."""

    def find(self, name: str, ignore_unknown: bool) -> Radio | None:
        """The radio, or landmark, of that name; None = not configured and unknown ones are ignored.

        An unknown one is a beacon to be: it enters `beacons` when `admit` is called.
        """
        # A beacon has a name of its own, and a driver may use that instead of its radio's.
        known = self._radios.get(name) or self.beacons.get(name)
        return known or (self.beacon(name) if name and not ignore_unknown else None)

    def admit(self, beacon: str) -> bool:
        """A radio that is not configured becomes a beacon at an unknown position; False = it is
        one already."""
        if beacon in self.beacons:
            return False
        self.n_new += 1
        self._radios[beacon] = self.beacons[beacon] = self.beacon(beacon)
        return True

    def robot_of(self, name: str) -> str:
        """The robot that carries a radio, '' = none."""
        radio = self._radios.get(name)
        return '' if radio is None else radio.robot

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
        known = [name for name, radio in self.beacons.items() if radio.position is not None]
        return known[0] if len(known) == 1 else ''

    def beacon(self, name: str) -> Radio:
        return self.beacons.get(name) or Radio('', name, self._zero, math.nan)


def similar(name: str, other: str) -> bool:
    """True for names that differ in case, padding or one letter, but not in their number."""
    if _plain(name) == _plain(other) or same_number(name, other):
        return True
    if min(len(name), len(other)) < LEAST_NAME_LENGTH \
            or re.sub(r'\D', '', name) != re.sub(r'\D', '', other):
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
        parts = map(int, reversed(name.split(':')))
        return {str(sum(60**place * part for place, part in enumerate(parts))), name}
    return {name.lower()}


def _plain(name: str) -> str:
    """Without case, separators and leading zeros of numbers."""
    letters = ''.join(c for c in name.casefold() if c.isalnum())
    head = letters.rstrip('0123456789')
    return head + letters[len(head):].lstrip('0')
