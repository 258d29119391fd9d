"""Lengths that are taken off the ranges of radios, from when to when, and what an operator reads.

Also where antennas are that stand elsewhere than configured.

By name where a length goes on (radio_errors.py), which also holds for what the radio measures next.
By rows (range_corrections.py) where it is over, and to put it back from before it began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...array_types import Index
from ...graph.finding import Finding
from ...graph.range_ends import range_ends
from ...graph.thinning import Renumbering
from ..integrity.doubts import too_long
from ..integrity.hypotheses import ALL_RADIOS
from .graph_store import GraphStore
from .radio_errors import BIAS, RadioErrors
from .range_corrections import RangeCorrections
from .range_doubts import of_sources

State = tuple[dict[str, float], dict[str, Index], list['PastLength']]
"""Of `TakenLengths`, to go back to."""


@dataclass(frozen=True)
class PastLength:
    """A length that a radio no longer has."""

    name: str
    length_m: float
    rows: Index
    """Its ranges until then, rows of the sum of all increments."""
    end_s: float
    """Time of the last of them since the first pose."""

    @property
    def finding(self) -> Finding:
        """For an operator."""
        return Finding(
            'range_burst', self.name, f'ranges of radio {self.name} were '
            f'{too_long(self.length_m)} until {self.end_s:.0f} s of the data; that is taken off',
            self.length_m, 'm')


class TakenLengths:
    """What is taken off now, beside what is calibrated; those of the store follow at once.

    `corrections` are for their owner to set in the store.
    """

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self.calibrated = RadioErrors()
        """What a calibration takes off."""
        self.lengths: dict[str, float] = {}
        """Those that go on, m."""
        self.antennas: dict[str, tuple[float, ...]] = {}
        """Beside what is calibrated: by how much lever arms of robots are off, (d,) m."""
        self._before: dict[str, Index] = {}
        """Ranges from before a length began, rows of the sum of all increments."""
        self._past: list[PastLength] = []

    def thinned(self, store: GraphStore, to: Renumbering) -> None:
        """Go on with the store of a thinned graph."""
        self._store = store
        self._past = [
            replace(one, rows=np.sort(to.measurements('ranges', one.rows))) for one in self._past]
        self._before = {name: np.sort(to.measurements('ranges', rows))
                        for name, rows in self._before.items()}

    def forget(self) -> bool:
        """Ranges count as they are calibrated; whether that changes the graph."""
        known, self._past = bool(self._past), []
        return self.take_off({}) or known

    @property
    def state(self) -> State:
        """What to go back to."""
        return dict(self.lengths), dict(self._before), list(self._past)

    def restore(self, state: State) -> None:
        """Go back to it."""
        lengths, self._before, self._past = state
        self.take_off(lengths)

    @property
    def corrections(self) -> RangeCorrections:
        """What lengths that are over take off, and what is put back from before they began."""
        found = RangeCorrections()
        parts = [(one.rows, one.length_m) for one in reversed(self._past)]
        parts += [(rows, -self.lengths[name]) for name, rows in self._before.items()]
        for rows, length_m in parts:
            found = found.beside(RangeCorrections(
                rows, np.full(len(rows), length_m), np.ones(len(rows))))
        return found

    def findings(self, since_s: float) -> tuple[Finding, ...]:
        """One for each radio, with all that is taken off; what was over by a time is left out."""
        return tuple(one.finding for one in self._past if one.end_s >= since_s) + tuple(
            self._finding(name, length) for name, length in self.lengths.items())

    def _finding(self, name: str, length: float) -> Finding:
        every = name == ALL_RADIOS
        # A range has two radios.
        own = length / 2 if every else self._store.radio_errors.bias_m[name]
        since = ''
        if name in self._before:
            begin = range_ends(self._store.whole).seconds[self._before[name][-1]]
            since = f' since {begin:.0f} s of the data'
        words = (f'ranges of {name} are {abs(length):.2f} m too {"long" if length > 0 else "short"}'
                 f'{since}: that is taken off; ')
        return Finding(BIAS, name, words + (
            f'add {own:.2f} m to the bias_m of every radio' if every
            else 'set the bias_m of its radio'), own, 'm')

    def ranges(self, name: str) -> Index:
        """Rows of the sum of all increments that a length is taken off."""
        if name == ALL_RADIOS:
            return np.arange(len(self._store.whole.ranges))
        own = of_sources(self._store.whole, (name,), 0)
        return np.setdiff1d(own, self._before[name]) if name in self._before else own

    def end(self, name: str, rows: Index) -> None:
        """Take the length of a radio off these ranges only."""
        seconds = range_ends(self._store.whole).seconds
        end_s = float(seconds[rows[-1]]) if len(rows) else 0.0
        self._past = [*self._past, PastLength(name, self.lengths[name], rows, end_s)]
        self.take_off(self.without(name))

    def begin(self, name: str, length_m: float, earlier: Index) -> None:
        """Take a length off the ranges of a radio, but for these."""
        self._before[name] = earlier
        self.take_off({**self.lengths, name: length_m})

    def without(self, name: str) -> dict[str, float]:
        """The lengths but for that of one radio."""
        return {one: length for one, length in self.lengths.items() if one != name}

    def take_off(self, lengths: Mapping[str, float]) -> bool:
        """Take these lengths off, and no others; whether that changes the graph."""
        self.lengths = dict(lengths)
        self._before = {name: rows for name, rows in self._before.items() if name in lengths}
        return self._set()

    def move(self, antennas: Mapping[str, tuple[float, ...]]) -> bool:
        """Move the antennas of these robots, and of no others; whether that changes the graph."""
        self.antennas = dict(antennas)
        return self._set()

    def _set(self) -> bool:
        """The store takes off what is calibrated and what is known beside it."""
        before, lengths = self._store.radio_errors, self.lengths
        graph, common = self._store.whole, lengths.get(ALL_RADIOS, 0.0) / 2
        biases, places = {**self.calibrated.bias_m}, {**self.calibrated.antenna_m}
        for name, place in self.antennas.items():
            places[name] = tuple((np.array(place) + places.get(name, 0.0)).tolist())
        if common:
            biases = {name: biases.get(name, 0.0) + common
                      for name in (*graph.robots, *graph.landmarks.names)}
        for name, length in lengths.items():
            if name != ALL_RADIOS:
                biases[name] = biases.get(name, 0.0) + length
        self._store.calibrate(RadioErrors(biases, places))
        return self._store.radio_errors != before
