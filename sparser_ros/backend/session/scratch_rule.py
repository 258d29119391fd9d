"""When an audit must solve from scratch, and which robots such a solve has confirmed.

A start from scratch takes many times as long as the rest of an audit, so it is made where its
result can matter: to confirm a place before a robot is located there, in doubt, when the graph has
grown, and where the measurements would determine a robot that their robust weights leave out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ...array_types import Index, Mask
from ...config.backend_config import AuditConfig
from .contest import SearchEnd
from .frame import segment_name
from .judgement import Judgement
from .solution import Location
from .verdict import SegmentVerdict

DOUBT_GROWTH = 1.02
"""Growth of the measurements since the last try from which a doubt brings the next one."""
_PLACED = (Location.LOCATED, Location.POSITION_ONLY)
_BEATEN = 'a start from scratch has found a far better map, to be confirmed by another one'
_CUT = 'the graph grows faster than a start from scratch takes'
_UNCONFIRMED = 'a solve from scratch has yet to confirm its place'


@dataclass(frozen=True)
class Situation:
    """What an audit knows before it solves from scratch."""

    measurements: int
    ties: Index
    """(b,): measurements that tie each segment to others."""
    doubt: str
    """Why the tracker doubts its map, or ''."""
    determined: Callable[[], Mask]
    """(b,): segments that all measurements together would determine; asked only if needed."""


@dataclass
class ScratchRule:
    """Remembers the last start from scratch of one auditor."""

    _measurements: int = 0
    """At the last start from scratch; 0 = there was none."""
    _ties: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _confirmed: frozenset[str] = frozenset()
    _beaten: bool = False
    """The last start from scratch has found a map that nothing has confirmed yet."""

    def reason(
        self, found: Judgement, now: Situation, config: AuditConfig, *, eager: bool
    ) -> str:
        """Why to solve from scratch after `found`, or ''.

        `eager`: a robot that is not located is worth a solve at any new data about it, where the
        time that these solves take is bounded otherwise; else when its data have grown.
        """
        if self._beaten:
            return _BEATEN
        if self._unconfirmed(found.segments):
            return 'a place is to be confirmed'
        grown = now.measurements / max(self._measurements, 1)
        doubt = now.doubt or '; '.join(found.gate_reasons + tuple(
            text for _, text in found.gate_robots))
        if doubt and grown >= DOUBT_GROWTH:
            return doubt
        placed = any(one.location is not Location.UNLOCATED for one in found.segments)
        if placed and grown >= config.growth:
            return 'the graph has grown'
        before = np.zeros(len(now.ties), dtype=np.int64)
        before[:len(self._ties)] = self._ties[:len(before)]
        open_ones = np.array([
            one.location is Location.UNLOCATED for one in found.segments], dtype=bool)
        growth = 1.0 if eager else config.growth_unlocated
        open_ones &= (now.ties > before) & (now.ties >= growth * before)
        if np.any(open_ones) and np.any(open_ones & now.determined()):
            return 'a robot could be located'
        return ''

    def thinned(
        self, share: float, ties: Index, renamed: Callable[[str], str]
    ) -> None:
        """The graph has that share of its measurements now, and these ties (b,)."""
        self._measurements = int(share * self._measurements)
        self._ties = ties[:len(self._ties)]
        self._confirmed = frozenset(map(renamed, self._confirmed))

    def has_news(self, measurements: int) -> bool:
        """Whether there are more measurements than at the last start from scratch."""
        return measurements > self._measurements

    def searched(self, found: Judgement, now: Situation, end: SearchEnd) -> str:
        """Starts from scratch were made, and `found` is what the best map determines.

        Returns why more are to follow, or ''.
        """
        if end is SearchEnd.FAR_BETTER:
            self._beaten, self._confirmed = True, frozenset()
            return _BEATEN
        if end is SearchEnd.LIMIT:
            self.kept(found)
            return _CUT
        self._beaten, self._confirmed = False, _names(found.segments)
        self._measurements, self._ties = now.measurements, now.ties
        return ''

    def kept(self, found: Judgement) -> None:
        """No start from scratch was made: what is no longer placed must be confirmed anew."""
        self._confirmed &= _names(found.segments)

    def restrained(self, found: Judgement) -> Judgement:
        """`found`, with places that no start from scratch has confirmed held back."""
        unconfirmed = self._unconfirmed(found.segments)
        return replace(found, segments=tuple(
            replace(one, location=Location.UNLOCATED, missing=_UNCONFIRMED)
            if segment_name(one.first) in unconfirmed else one for one in found.segments))

    def _unconfirmed(self, segments: tuple[SegmentVerdict, ...]) -> frozenset[str]:
        return _names(segments) - self._confirmed


def _names(segments: tuple[SegmentVerdict, ...]) -> frozenset[str]:
    return frozenset(segment_name(one.first) for one in segments if one.location in _PLACED)
