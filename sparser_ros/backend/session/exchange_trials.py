"""Maps in which two robots, or two known beacons, bear each other's radio, beside that as named.

Ranges under a wrong name fit for a while: by a mirrored place, or by an odometry that is taken to
be too long or to turn. So an exchange is tried where ranges do not fit, and among few robots or
beacons before the first robot is located that it concerns. Maps are compared without faults, which
were told by ranges under the names as they are; but for sizes that these names cannot do without.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Estimate
from ..integrity.exchange import BEACONS_EXCHANGED, Pair
from ..integrity.faults import FAILED
from ..integrity.hypotheses import ANTENNA, JUMP
from ..integrity.noise import Noise
from ..integrity.places import known_beacons
from .beacon_faults import told_places
from .contest import Contest, SearchEnd
from .fault_search import Attempts
from .graph_store import GraphStore
from .judgement import Judgement, moved_robots
from .solution import Location
from .treatment import Treatment

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_MOST_EXCHANGES = 6
"""Pairs of robots whose radios an audit exchanges: each takes a start from scratch."""
_FEW_PAIRS, _FEW_BEACONS = 3, 6
"""So many pairs of robots, and pairs of so many known beacons, are tried before anything speaks for
an exchange: more would keep robots waiting."""
_LEAST_BEACONS = 3
"""Exchanged, two known beacons alone look like a map that is turned."""
_SURE = 2
"""Tries in a row that exclude an exchange for good: starts may miss the best map of a young graph.
"""
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
        suspects, pairs = self._pairs(contest, judgement)
        named = self._as_named(contest) if pairs else None
        if named is None:
            return None
        cost, contests = self._cost_as_named(contest, named), list[Contest]()
        for pair in pairs:
            if not self.in_time():
                # A pair that was not tried may be better still.
                return None
            other = self._tried(pair, contest, named, cost, pair in suspects)
            contests += [] if other is None else [other]
        best, *others = sorted(contests, key=lambda tried: tried.best.value) or [named]
        rival = min([cost, *(other.best.value for other in others)])
        return best if best.best.value + self._margin <= rival else None

    @property
    def _margin(self) -> float:
        return self.config.backend.observability.flip_cost

    @property
    def _bare(self) -> Treatment:
        """The treatment in force, without what was told by ranges under the names as they are."""
        return replace(self.store.treatment, faults=(), noise=Noise())

    def _as_named(self, contest: Contest) -> Contest | None:
        """The best map without faults of the robots as named."""
        if contest.data.treatment == self._bare:
            return contest
        named = self.solved(self._bare, contest, contest.best.whole, ())
        if named is not None and contest.data.treatment.faults:
            # Starts from scratch have confirmed the map only with these.
            self._settle(named)
        return named

    def _cost_as_named(self, contest: Contest, named: Contest) -> float:
        """Least robust cost of the robots as named: without faults, or with those of which the
        sizes are a part of the map, each at the price of what chance may gain."""
        solved = contest.data.treatment.solved
        other = self.solved(
            replace(self._bare, faults=solved), contest, contest.best.whole, ()) if solved else None
        return min(named.best.value, np.inf if other is None else (
            other.best.value + len(solved) * self._margin))

    def _tried(
        self, pair: Pair, contest: Contest, named: Contest, cost: float, suspect: bool
    ) -> Contest | None:
        """The best map with this pair exchanged; what it says of the pair is remembered.

        `cost` is that of the robots as named. Robots start anew where the exchange may have them
        elsewhere.
        """
        known, robots = self.attempts, contest.frame.robots
        of_robots = pair[0] in robots
        known.exchanges[pair] = self.store.n_measurements
        other = self.solved(
            self._bare.with_exchange(pair), contest, contest.best.whole,
            pair if of_robots else robots)
        if other is None or other.frame.subgraph.graph.n_measurements != (
                named.frame.subgraph.graph.n_measurements):
            return None
        # Where all ranges fit the robots as named, a warm start is enough to go on, but not to
        # exclude the exchange. Known beacons place a robot without a start from scratch.
        if of_robots and (suspect or other.best.value > cost + self._margin):
            self._settle(other)
        gain = cost - other.best.value
        known.exclusions[pair] = known.exclusions.get(pair, 0) + 1 if gain < -self._margin else 0
        known.fit_exchanged.pop(pair, None)
        moved = moved_robots(
            contest, other.best, self.config.backend.observability.alert_limit_m)
        if gain >= 0 and moved:
            known.fit_exchanged[pair] = moved
        return other

    def _settle(self, contest: Contest) -> None:
        """Add starts from scratch until the best map is confirmed, or there may be no more."""
        for _ in range(self.config.backend.audit.starts):
            if self.search(contest) is not SearchEnd.FAR_BETTER:
                return

    def _pairs(self, contest: Contest, judgement: Judgement) -> tuple[list[Pair], list[Pair]]:
        """Pairs with sources of which ranges do not fit, both first; and all pairs to be tried.

        Of few robots and beacons these are also those not excluded before a robot is located that
        they concern; of all, those that fit exchanged as well until then.
        """
        located = {segment.robot for segment in judgement.segments
                   if segment.location is Location.LOCATED}
        troubled = {
            *(name for name, _ in judgement.unclear),
            *(finding.subject for finding in judgement.findings
              if finding.kind == 'ranges_rejected'),
            # What the wrong radio looks like as well.
            *(fault.subject for fault in contest.data.treatment.of(FAILED, JUMP, ANTENNA))}
        known, of_beacons = self.attempts, self._of_beacons(contest)
        of_robots = list(combinations(contest.frame.robots, 2))
        suspects = sorted(
            (pair for pair in of_robots if troubled & set(pair)),
            key=lambda pair: (-len(troubled & set(pair)), known.exchanges.get(pair, 0)))
        suspects = suspects[:_MOST_EXCHANGES]
        few = [*of_beacons, *(of_robots if len(of_robots) <= _FEW_PAIRS else [])]
        possible = [
            pair for pair in (*of_robots, *of_beacons) if pair not in suspects and (
                pair in known.fit_exchanged or (
                    pair in few and known.exclusions.get(pair, 0) < _SURE))]
        due = any(
            self.store.n_measurements >= _EXCHANGE_GROWTH * known.exchanges.get(pair, 0)
            for pair in (*suspects, *known.fit_exchanged, *(
                pair for pair in possible if located & set(pair) or (
                    located and pair in of_beacons))))
        return suspects, [*suspects, *possible] if due else []

    def _of_beacons(self, contest: Contest) -> list[Pair]:
        """Pairs of known beacons of the map that may be exchanged: of few all, of many those that
        stand at each other's place, or fitted exchanged when there were few."""
        whole, frame = self.store.whole, contest.frame
        placed = frame.mask[len(frame.segments):]
        names = sorted(whole.landmarks.names[number] for number in known_beacons(whole)
                       if number < len(placed) and placed[number])
        if not frame.anchored or len(names) < _LEAST_BEACONS:
            return []
        if len(names) <= _FEW_BEACONS:
            return list(combinations(names, 2))
        exchanged = {finding.subjects for finding in told_places(
            contest.data.treatment.faults, whole) if finding.kind == BEACONS_EXCHANGED}
        return [pair for pair in combinations(names, 2)
                if pair in exchanged or pair in self.attempts.fit_exchanged]
