"""Odometry at fault: what of it an auditor's graph leaves out, or gives less weight.

Odometry that is wrong by a share of its length or a rate of turning is corrected, its size being a
part of the map (integrity/odometry_errors.py). A stretch that ranges deny altogether is left out
(failed_odometry.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Index
from ...config.backend_config import IntegrityConfig
from ...graph import Estimate
from ...graph.finding import Finding
from ...graph.thinning import RELATIVE, Renumbering
from ..integrity.odometry_errors import SCALE, OdometryErrors
from .contest import Contest
from .failed_odometry import OdometryFailure, failures, loose_cost, loose_map
from .graph_store import GraphStore
from .judgement import Judgement

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

Again = Callable[[Contest, Estimate], Contest | None]
"""A contest for the graph as it is now, from the map of an earlier one."""
Search = Callable[[Contest], bool]
"""Adds candidates from elsewhere to a contest; whether one is better than the best before."""

_FAR_FETCHED = 3.0
"""Standard deviations of the size of faults (`fault_size` times their floor) beyond which an error
of odometry is not believed: 60 % of its length, 103 degrees a minute by default."""
_MOST_ROUNDS = 4
"""Warm solves of one audit: a fault more, and sizes beside each other."""
_SAME = 0.1
"""Of the floor of a fault: what no map shows."""
_NONE = np.zeros(0, dtype=np.int64)


class OdometryFaults:
    """The faults of odometry known so far; what they change is set in the graph's store."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._failed: list[OdometryFailure] = []

    def thinned(self, store: GraphStore, to: Renumbering) -> None:
        """Go on with the store of a thinned graph."""
        self._store = store
        self.leave_out([one.thinned(to) for one in self._failed])

    def forget(self) -> None:
        """Everything counts again as it came."""
        self._store.steer(OdometryErrors())
        self.leave_out([])

    @property
    def ranges(self) -> Index:
        """Rows, in the sum of all increments, of ranges that were measured meanwhile."""
        return np.unique(np.concatenate([_NONE, *(one.ranges for one in self._failed)]))

    def findings(self, since_s: float) -> tuple[Finding, ...]:
        """What is known, without failures that ended before `since_s` (s since the first pose)."""
        return tuple(one.finding for one in self._failed if one.end_s >= since_s)

    def failed(
        self, contest: Contest, start: Estimate, config: SparserConfig
    ) -> tuple[Estimate, float] | None:
        """Leave out odometry that does not hold; the map without it and its cost, None = all holds.

        The map is of the whole graph, the cost that of the contest's subgraph with odometry
        doubted. What was left out before stays out.
        """
        found = loose_map(contest, start, config)
        if found is None:
            return None
        own = contest.frame.subgraph
        rows = self._store.original(RELATIVE, own.rows[RELATIVE][found.broken])
        self.add(rows)
        return own.into(start, found.estimate), loose_cost(contest, found.estimate, config)

    @property
    def all_failed(self) -> list[OdometryFailure]:
        """What is left out."""
        return list(self._failed)

    def add(self, edges: Index) -> None:
        """Leave these rows of odometry out as well."""
        self.leave_out(failures(
            self._store.whole, np.union1d(self._store.left_out_odometry, edges)))

    def leave_out(self, failed: list[OdometryFailure]) -> None:
        """Leave out these, and no others."""
        self._failed = failed
        self._store.cut(np.unique(np.concatenate([_NONE, *(one.edges for one in failed)])))

    def solved_for(
        self, contest: Contest, judgement: Judgement, judge: Callable[[Contest], Judgement],
        again: Again, search: Search | None, integrity: IntegrityConfig,
    ) -> tuple[Contest, Judgement]:
        """The map with the sizes of faults of odometry that go on, where these are likely.

        A wrong map may need such a fault, and fits well with it from then on. So a new one is taken
        off only once a `search` has found no better map without it; None = not now.

        An error that no odometry has is another fault's work, on every robot that seems to have
        one: its cause is not known, and these robots are withdrawn as long as it shows.
        """
        searched = False
        for _ in range(_MOST_ROUNDS):
            before, errors = self._store.odometry_errors, judgement.errors
            if any(far_fetched(kind, size, integrity) for (kind, _), size in errors.size.items()):
                break
            if errors.size.keys() - before.size.keys() and not searched:
                if search is not None and search(contest):
                    judgement, searched = judge(contest), True
                    continue
                searched = search is not None
                if not searched:
                    errors = OdometryErrors({
                        name: size for name, size in errors.size.items() if name in before.size})
            if not _differ(before, errors, integrity):
                break
            self._store.steer(errors)
            other = again(contest, contest.best.whole)
            if other is None:
                self._store.steer(before)
                break
            contest, judgement = other, judge(other)
        return contest, judgement


def _differ(before: OdometryErrors, after: OdometryErrors, config: IntegrityConfig) -> bool:
    """Whether other faults are solved for, or sizes have moved by more than a share of a floor."""
    if before.size.keys() != after.size.keys():
        return True
    return any(abs(size - before.size[name]) > _SAME * _floor(name[0], config)
               for name, size in after.size.items())


def _floor(kind: str, config: IntegrityConfig) -> float:
    return config.scale_floor if kind == SCALE else config.turn_floor_rad_s


def far_fetched(kind: str, size: float, config: IntegrityConfig) -> bool:
    """Whether odometry is said to be wrong by far more than faults of odometry are."""
    return bool(abs(size) > _FAR_FETCHED * config.fault_size * _floor(kind, config))
