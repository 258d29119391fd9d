"""Maps in which two robots bear each other's radio, beside the map of the robots as named.

Ranges of a robot that bears another's radio fit the wrong path for a while: by a mirrored place, or
by an odometry that is taken to be too long. So an exchange is tried where ranges do not fit, and
among few robots before the first of a pair is located. All maps are compared without faults, which
were told by ranges of the robots as named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Estimate
from ..integrity.exchange import Pair
from .contest import Candidate, Contest, SearchEnd
from .fault_search import Attempts
from .graph_store import GraphStore
from .judgement import Judgement, moves
from .solution import Location
from .treatment import Treatment

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_MOST_EXCHANGES = 6
"""Pairs of robots whose radios an audit exchanges: each takes a start from scratch."""
_FEW_PAIRS = 3
"""So many are tried before anything speaks for an exchange: more would keep robots waiting."""
_EXCHANGE_GROWTH = 1.2
"""Growth of the measurements from which the same pair is tried anew."""


@dataclass(frozen=True)
class ExchangeTrials:
    """The trials of one audit."""

    store: GraphStore
    attempts: Attempts
    config: SparserConfig
    solved: Callable[[Treatment, Contest, Estimate, Collection[str]], Contest | None]
    """A warm start under a treatment; some robots are placed anew by their ranges."""
    search: Callable[[Contest], SearchEnd]
    """Adds starts from scratch."""
    in_time: Callable[[], bool]
    """Whether there may be more of them."""

    def best(self, contest: Contest, judgement: Judgement) -> Contest | None:
        """The best map with an exchange; None where it does not exclude all others tried."""
        suspects, pairs = self._pairs(contest.frame.robots, judgement)
        named = self._as_named(contest) if pairs else None
        if named is None:
            return None
        contests = [named]
        for pair in pairs[:_MOST_EXCHANGES]:
            if not self.in_time():
                # A pair that was not tried may be better still.
                return None
            other = self._tried(pair, contest, named, pair in suspects)
            contests += [] if other is None else [other]
        best, *others = sorted(contests, key=lambda tried: tried.best.value)
        if best is named or best.best.value + self._margin > others[0].best.value:
            return None
        return best

    @property
    def _margin(self) -> float:
        return self.config.backend.observability.flip_cost

    @property
    def _bare(self) -> Treatment:
        """The treatment in force, without faults."""
        return replace(self.store.treatment, faults=())

    def _as_named(self, contest: Contest) -> Contest | None:
        """The best map without faults of the robots as named."""
        if contest.data.treatment == self._bare:
            return contest
        named = self.solved(self._bare, contest, contest.best.whole, ())
        if named is not None:
            self._settle(named)
        return named

    def _tried(
        self, pair: Pair, contest: Contest, named: Contest, suspect: bool
    ) -> Contest | None:
        """The best map with this pair exchanged; what it says of the pair is remembered."""
        known = self.attempts
        before, known.exchanges[pair] = known.exchanges.get(pair), self.store.n_measurements
        other = self.solved(self._bare.with_exchange(pair), contest, contest.best.whole, pair)
        if other is None or other.frame.subgraph.graph.n_measurements != (
                named.frame.subgraph.graph.n_measurements):
            return None
        # Where all ranges fit the robots as named, a warm start is enough to go on, but not to
        # exclude the exchange.
        end = SearchEnd.TRIED
        if suspect or other.best.value > named.best.value + self._margin:
            end = self._settle(other)
        gain = named.best.value - other.best.value
        if gain < -self._margin and (before or end is SearchEnd.AGREED):
            # Starts may miss the best map of a young graph: one try may be chance.
            known.own_radios.add(pair)
        known.fit_exchanged.pop(pair, None)
        moved = _farthest(contest, other.best, pair)
        if gain >= 0 and moved > self.config.backend.observability.alert_limit_m:
            known.fit_exchanged[pair] = moved
        return other

    def _settle(self, contest: Contest) -> SearchEnd:
        """Add starts from scratch until the best map is confirmed, or there may be no more."""
        end = SearchEnd.FAR_BETTER
        for _ in range(self.config.backend.audit.starts):
            if end is SearchEnd.FAR_BETTER:
                end = self.search(contest)
        return end

    def _pairs(
        self, robots: Sequence[str], judgement: Judgement
    ) -> tuple[list[Pair], list[Pair]]:
        """Pairs with robots of which ranges do not fit, both first; and all pairs to be tried.

        Of few robots these are also those not excluded before one of the two is located; of all
        robots, those that fit exchanged as well until then.
        """
        located = {segment.robot for segment in judgement.segments
                   if segment.location is Location.LOCATED}
        troubled = {name for name, _ in judgement.gate_robots} | {
            finding.subject for finding in judgement.findings if finding.kind == 'ranges_rejected'}
        known, pairs = self.attempts, list(combinations(robots, 2))
        suspects = sorted(
            (pair for pair in pairs if troubled & set(pair)),
            key=lambda pair: (-len(troubled & set(pair)), known.exchanges.get(pair, 0)))
        possible = [
            pair for pair in pairs if pair not in suspects and (pair in known.fit_exchanged or (
                len(pairs) <= _FEW_PAIRS and pair not in known.own_radios))]
        due = any(
            self.store.n_measurements >= _EXCHANGE_GROWTH * known.exchanges.get(pair, 0)
            for pair in (*suspects, *known.fit_exchanged, *(
                pair for pair in possible if located & set(pair))))
        return suspects, [*suspects, *possible] if due else []


def _farthest(contest: Contest, other: Candidate, robots: Collection[str]) -> float:
    """Metres by which the newest pose of one of the robots is elsewhere in another map."""
    frame = contest.frame
    own = np.isin(frame.segments.robot, [frame.graph.robots.index(name) for name in robots])
    return float(np.max(np.linalg.norm(moves(contest, other)[own], axis=1), initial=0.0))
