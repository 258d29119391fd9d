"""Radios that are at fault all the time: what is taken off their ranges by name, at each audit.

Antennas that stand elsewhere than configured (misplaced_antennas.py) and lengths that all ranges of
a radio are too long by (lasting_biases.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...graph.finding import Finding
from ...graph.thinning import Renumbering
from .contest import Contest
from .graph_store import GraphStore
from .judgement import Judgement
from .lasting_biases import LastingBiases
from .misplaced_antennas import MisplacedAntennas
from .odometry_faults import Again
from .radio_errors import RadioErrors
from .range_corrections import RangeCorrections
from .range_doubts import RangeDoubt

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

Judge = Callable[[Contest], Judgement]
"""The judgement of a contest's best map."""


class RadioFaults:
    """What is known of radios; the errors of the store follow at once, corrections do not."""

    def __init__(self, store: GraphStore) -> None:
        self._biases = LastingBiases(store)
        self._antennas = MisplacedAntennas(store, self._biases.taken)

    def thinned(self, store: GraphStore, to: Renumbering) -> None:
        """Go on with the store of a thinned graph."""
        self._biases.thinned(store, to)
        self._antennas.thinned(store)

    def forget(self) -> bool:
        """Radios are as they are calibrated; whether that changes the graph."""
        changed = self._antennas.forget()
        return self._biases.forget() or changed

    @property
    def calibrated(self) -> RadioErrors:
        """What a calibration takes off the ranges of radios."""
        return self._biases.taken.calibrated

    @calibrated.setter
    def calibrated(self, errors: RadioErrors) -> None:
        self._biases.taken.calibrated = errors

    @property
    def corrections(self) -> RangeCorrections:
        """Of lengths that are over or began later, by rows of the sum of all increments."""
        return self._biases.taken.corrections

    def findings(self, since_s: float) -> tuple[Finding, ...]:
        """What is taken off, without what was over by a time (s since the first pose)."""
        return (*self._antennas.findings(), *self._biases.taken.findings(since_s))

    def treated(
        self, contest: Contest, judgement: Judgement, judge: Judge,
        doubts: Callable[[], list[RangeDoubt]], doubt: Callable[[list[RangeDoubt]], bool],
        again: Again, config: SparserConfig,
    ) -> tuple[Contest, Judgement]:
        """The contest, or one `again` for ranges without what radios are known to err by.

        `doubts` are the groups of ranges that are left out now, `doubt` leaves out others.
        """
        other = self._antennas.renewed(contest, again, config)
        if other is not None:
            contest, judgement = other, judge(other)
        while (other := self._antennas.with_another(
                contest, judgement, again, config)) is not None:
            contest, judgement = other, judge(other)
        other = self._biases.renewed(contest, lambda: doubt(doubts()), again, config)
        if other is not None:
            contest, judgement = other, judge(other)
        for looked_for in (self._biases.ended, self._biases.begun):
            other = looked_for(contest, judgement, doubts(), doubt, again, config)
            if other is not None:
                contest, judgement = other, judge(other)
        while (other := self._biases.with_another(
                contest, judgement, doubts(), doubt, again, config)) is not None:
            contest, judgement = other, judge(other)
        return contest, judgement
