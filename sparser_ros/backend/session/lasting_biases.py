"""Radios whose ranges are all too long, or too short, by one length: it is taken off all of them.

Its ranges keep their weight (taken_lengths.py). So the length must be known: nothing else explains
the ranges about as well, and the data that it is measured with determine it. When it began, or that
it is over, is found by the map that fits best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Index
from ...graph import range_residuals
from ...graph.finding import Finding
from ...graph.range_ends import range_ends
from ...graph.thinning import Renumbering
from ..integrity.doubts import FAR_SIGMA
from ..integrity.examine import bent_edges
from ..integrity.hypotheses import ALL_RADIOS
from ..integrity.known_beacons import known_beacons
from ..integrity.undetected import stands_out
from .common_length import lengths_left
from .contest import Contest
from .graph_store import GraphStore
from .judgement import Judgement
from .length_trial import LengthTrial
from .moved_beacons import may_have_moved
from .odometry_faults import Again
from .other_causes import with_jump
from .range_doubts import RangeDoubt, as_others_fit, faulty_together
from .retry import Retry
from .taken_lengths import TakenLengths

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_SUSPECTED = 'range_bias'
"""Kind of the findings that a length is looked for of."""
_TROUBLES = ('range_burst', 'ranges_rejected', 'odometry_jump', 'beacon_moved')
"""Kinds of findings that a length which is over looks like."""
_ROUNDS = 3
"""Solves that find the length of all radios: what is left gets smaller by far each time."""
_TIME_ROUNDS = 2
"""Solves that find when a length began or ended: from where all was well, and from its place in
that map."""


class LastingBiases:
    """Looks for lengths, measures them again, and sees when they began or are over."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self.taken = TakenLengths(store)
        self._well: dict[str, int] = {}
        """Ranges of the sum of all increments when a radio last gave no trouble."""
        self._retries: dict[str, Retry] = {}

    def thinned(self, store: GraphStore, to: Renumbering) -> None:
        """Go on with the store of a thinned graph."""
        self._store = store
        self.taken.thinned(store, to)
        self._well = {
            name: int(np.count_nonzero(to.rows['ranges'][:count] >= 0))
            for name, count in self._well.items()}

    def forget(self) -> bool:
        """Ranges count as they are calibrated; whether that changes the graph."""
        self._retries, self._well = {}, {}
        return self.taken.forget()

    def renewed(
        self, contest: Contest, refresh: Callable[[], bool], again: Again, config: SparserConfig
    ) -> Contest | None:
        """The contest with the lengths as all data tell them; None where these are the same.

        What no longer explains the ranges of its radio is no longer taken off. `refresh` sets
        `taken.corrections` in the store.
        """
        kept = {
            name: length for name, length in self.taken.lengths.items()
            if as_others_fit(
                self.taken.ranges(name), self._store.unbiased, contest.best.whole)}
        for name, (more, sigma) in self._left(contest, kept, config).items():
            if abs(kept[name] + more) < config.backend.integrity.bias_floor_m:
                del kept[name]
            elif abs(more) > sigma:
                kept[name] += more
        if not self.taken.take_off(kept):
            return None
        # What is put back from before a length began has another length as well.
        refresh()
        return again(contest, contest.best.whole)

    def ended(
        self, contest: Contest, judgement: Judgement, doubts: list[RangeDoubt],
        doubt: Callable[[list[RangeDoubt]], bool], again: Again, config: SparserConfig,
    ) -> Contest | None:
        """The contest with one length taken off earlier ranges only; None where none is over.

        Looked for where a radio gives trouble, from the last time on that it gave none.
        """
        troubled = self._troubled(judgement)
        for name in self.taken.lengths:
            if not self._due(f'end of {name}', name in troubled):
                continue
            state, length = self.taken.state, self.taken.lengths[name]
            own = self.taken.ranges(name)
            others = _beside(doubts, own)
            other, end = contest, self._well.get(name, len(self._store.whole.ranges))
            for _ in range(_TIME_ROUNDS):
                self.taken.restore(state)
                self.taken.end(name, own[own < end])
                doubt(others)
                found = again(other, other.best.whole)
                if found is None:
                    break
                other, end = found, self._change(own, length, found)
            if faulty_together(contest.best.value - other.best.value, 1,
                               config.backend.observability.flip_cost):
                return other
            self.taken.restore(state)
            doubt(doubts)
        return None

    def begun(
        self, contest: Contest, judgement: Judgement, doubts: list[RangeDoubt],
        doubt: Callable[[list[RangeDoubt]], bool], again: Again, config: SparserConfig,
    ) -> Contest | None:
        """The contest with a length taken off that began a while ago; None where none is known.

        For `window_s` a fault may be a burst (range_doubts.py). A jump of the radio's odometry, or
        a move of the beacon, must not explain the ranges as well.
        """
        graph = self._store.whole
        troubled, seconds = self._troubled(judgement), range_ends(graph).seconds
        names = {*troubled} & self._suspects() - set(self.taken.lengths)
        flip_cost = config.backend.observability.flip_cost
        for name in sorted(names):
            first, own = self._well.get(name, 0), self.taken.ranges(name)
            if (not first or seconds[-1] - seconds[first - 1] < config.backend.integrity.window_s
                    or any(one.open and one.finding.subject == name for one in doubts)
                    or not self._due(f'begin of {name}', True)):
                continue
            others = _beside(doubts, own)
            trial, state, other = (
                LengthTrial(self._store, doubt, others, again), self.taken.state, contest)
            for _ in range(_TIME_ROUNDS):
                found = self._since(name, first, own, other, trial)
                if found is None:
                    break
                other, first = found, self._change(own, -self.taken.lengths[name], found)
            left = {} if other is contest else self._left(other, (name,), config)
            length, later = self.taken.lengths.get(name, 0.0), own[own >= first]
            if (name in left and abs(length) > max(
                    FAR_SIGMA * left[name][1], config.backend.integrity.bias_floor_m)
                    and faulty_together(self._otherwise(name, later, contest, config)
                                        - other.best.value, 1, flip_cost)
                    and as_others_fit(later, self._store.unbiased, other.best.whole)):
                return other
            self.taken.restore(state)
            doubt(doubts)
        return None

    def _since(
        self, name: str, first: int, own: Index, contest: Contest, trial: LengthTrial
    ) -> Contest | None:
        """The contest with the best length off a radio's ranges from a row on; None if none is."""
        self.taken.take_off(self.taken.without(name))
        earlier = own[own < first]
        found = trial.measured(name, contest, first) if len(earlier) else None
        if found is None:
            return None
        self.taken.begin(name, found[0].length_m, earlier)
        trial.doubt(trial.believed)
        return trial.again(found[1], found[1].best.whole)

    def _otherwise(
        self, name: str, rows: Index, contest: Contest, config: SparserConfig
    ) -> float:
        """Least robust cost of a map in which something else explains these ranges of a radio."""
        whole, subgraph = contest.best.whole, contest.frame.subgraph
        one = RangeDoubt(Finding(_SUSPECTED, name, ''), rows, 0.0)
        if may_have_moved(one, self._store.unbiased, whole):
            return -np.inf
        edge = bent_edges(subgraph.graph, subgraph.of(whole)).get(name)
        return min(contest.best.value, with_jump(contest, edge, config))

    def _troubled(self, judgement: Judgement) -> set[str]:
        """Radios that give trouble; of the others, that they do not is remembered."""
        troubled = {name for name, _ in judgement.gate_robots} | {
            one.subject for one in judgement.findings if one.kind in _TROUBLES}
        graph = self._store.whole
        self._well |= dict.fromkeys(
            {*graph.robots, *graph.landmarks.names} - troubled, len(graph.ranges))
        return troubled

    def _due(self, trial: str, wrong: bool) -> bool:
        """Whether something costly may be tried now."""
        return self._retries.setdefault(trial, Retry()).due(wrong, self._store.n_measurements)

    def _suspects(self) -> set[str]:
        """Radios whose length may be taken off: not those of known beacons."""
        graph = self._store.whole
        known = {graph.landmarks.names[number] for number in known_beacons(graph)}
        return {*graph.robots, *graph.landmarks.names, ALL_RADIOS} - known

    def _change(self, own: Index, more_m: float, contest: Contest) -> int:
        """The row of a radio's ranges before which they fit a map best with so much more off them.

        From there on they count as they are, with the lengths that are taken off by name.
        """
        graph = self._store.unbiased
        ranges = graph.ranges.take(own)
        error = range_residuals(graph.replaced(ranges=ranges), contest.best.whole)
        root = np.sqrt(ranges.precision)
        square, without = (
            np.minimum((one * root) ** 2, FAR_SIGMA**2) for one in (error + more_m, error))
        cost = np.concatenate([[0.0], np.cumsum(square - without)])
        return int(np.append(own, len(graph.ranges))[int(np.argmin(cost))])

    def with_another(
        self, contest: Contest, judgement: Judgement, doubts: list[RangeDoubt],
        doubt: Callable[[list[RangeDoubt]], bool], again: Again, config: SparserConfig,
    ) -> Contest | None:
        """The contest with one more length taken off; None where none is known.

        A group of ranges in doubt that the radio takes part in counts again then: `doubt` leaves
        groups out of the store, at first `doubts`. Not the length of a known beacon: a place that
        is configured wrongly looks like that from one side.
        """
        names = self._suspects() - set(self.taken.lengths)
        for finding in judgement.findings:
            name = finding.subject
            if (finding.kind != _SUSPECTED or name not in names
                    or not stands_out(judgement.undetected, f'{_SUSPECTED} of {name}',
                                      config.backend.observability.flip_cost)
                    or not self._due(name, True)):
                continue
            own = self.taken.ranges(name)
            others = _beside(doubts, own)
            state = self.taken.state
            other = self._with_length(name, contest, LengthTrial(
                self._store, doubt, others, again), config)
            if other is not None:
                return other
            self.taken.restore(state)
            doubt(doubts)
        return None

    def _with_length(
        self, name: str, contest: Contest, trial: LengthTrial, config: SparserConfig
    ) -> Contest | None:
        """The contest with the best length off all ranges of a radio; None if that is not known."""
        before, found = dict(self.taken.lengths), self._measured(name, contest, trial, config)
        if found is None:
            return None
        length, other = found
        self.taken.take_off({**before, name: length})
        other = trial.again(other, other.best.whole) or other
        left = self._left(other, (name,), config)
        known = (name in left and abs(length) >= config.backend.integrity.bias_floor_m
                 and abs(length) > FAR_SIGMA * left[name][1])
        if known and faulty_together(
            contest.best.value - other.best.value, 1, config.backend.observability.flip_cost
        ) and as_others_fit(self.taken.ranges(name), self._store.unbiased, other.best.whole):
            return other
        return None

    def _measured(
        self, name: str, contest: Contest, trial: LengthTrial, config: SparserConfig
    ) -> tuple[float, Contest] | None:
        """The best length of a radio and the map beside it; None where there is none.

        Of all radios the map is never free: it has no other ranges.
        """
        if name != ALL_RADIOS:
            found = trial.measured(name, contest)
            trial.doubt(trial.believed)
            return None if found is None else (found[0].length_m, found[1])
        before, length = dict(self.taken.lengths), 0.0
        trial.doubt(trial.believed)
        for _ in range(_ROUNDS):
            left = self._left(contest, (name,), config)
            if name not in left:
                return None
            length += left[name][0]
            self.taken.take_off({**before, name: length})
            other = trial.again(contest, contest.best.whole)
            if other is None:
                return None
            contest = other
        return length, contest

    def _left(
        self, contest: Contest, names: Mapping[str, float] | tuple[str, ...],
        config: SparserConfig,
    ) -> dict[str, tuple[float, float]]:
        """By how much ranges of radios are still too long, m, and the standard deviation of that.

        Of radios that the contest does not solve, nothing.
        """
        if not names:
            return {}
        solved = self._store.original('ranges', contest.frame.subgraph.rows['ranges'])
        rows = {name: np.flatnonzero(np.isin(solved, self.taken.ranges(name))) for name in names}
        rows = {name: own for name, own in rows.items() if len(own)}
        found = lengths_left(
            contest, list(rows.values()), config.backend.integrity.scale_floor) if rows else None
        if found is None:
            return {}
        return dict(zip(rows, zip(*(part.tolist() for part in found), strict=True), strict=True))


def _beside(doubts: list[RangeDoubt], own: Index) -> list[RangeDoubt]:
    """Groups that have none of these rows."""
    return [one for one in doubts if not len(np.intersect1d(one.rows, own))]
