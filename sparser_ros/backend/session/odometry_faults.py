"""Odometry at fault: what of it an auditor's graph leaves out, or gives less weight.

Odometry that is wrong by a share of its length or a rate of turning gets the variance that the map
shows. A stretch that ranges deny altogether is left out (failed_odometry.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Index
from ...config.integrity import IntegrityConfig
from ...graph import Estimate
from ...graph.finding import Finding
from ...graph.thinning import RELATIVE, Renumbering
from ..integrity.examine import LASTING_ODOMETRY
from .contest import Contest
from .failed_odometry import OdometryFailure, failures, loose_cost, loose_map
from .graph_store import GraphStore
from .judgement import Judgement

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

Again = Callable[[Contest, Estimate], Contest | None]
"""A contest for the graph as it is now, from the map of an earlier one."""

_FAR_FETCHED = 3.0
"""Standard deviations of the size of faults (`fault_size` times their floor) beyond which an error
of odometry is not believed: 60 % of its length, 103 degrees a minute by default."""
_NONE = np.zeros(0, dtype=np.int64)


class OdometryFaults:
    """The faults of odometry known so far; what they change is set in the graph's store."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._widened: dict[str, tuple[float, Finding]] = {}
        """Variance factor of odometry by robot, and what was found."""
        self._failed: list[OdometryFailure] = []

    def thinned(self, store: GraphStore, to: Renumbering) -> None:
        """Go on with the store of a thinned graph."""
        self._store = store
        self.leave_out([one.thinned(to) for one in self._failed])

    def forget(self) -> None:
        """Everything counts again as it came."""
        self._widened = {}
        self._store.widen({})
        self.leave_out([])

    @property
    def factors(self) -> dict[str, float]:
        """Variance factors by robot."""
        return {robot: factor for robot, (factor, _) in self._widened.items()}

    @property
    def ranges(self) -> Index:
        """Rows, in the sum of all increments, of ranges that were measured meanwhile."""
        return np.unique(np.concatenate([_NONE, *(one.ranges for one in self._failed)]))

    def findings(self, since_s: float) -> tuple[Finding, ...]:
        """What is known, without failures that ended before `since_s` (s since the first pose)."""
        return (*(one.finding for one in self._failed if one.end_s >= since_s),
                *(one for _, one in self._widened.values()))

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

    def with_honest_odometry(
        self, contest: Contest, judgement: Judgement, judge: Callable[[Contest], Judgement],
        again: Again, integrity: IntegrityConfig,
    ) -> tuple[Contest, Judgement]:
        """Odometry that is too sure of itself would bend the map, and other robots with it.

        An error that no odometry has is another fault's work, on every robot that seems to have
        one: its cause is not known, and these robots are withdrawn as long as it shows.
        """
        lasting = [one for one in judgement.findings if one.kind in LASTING_ODOMETRY]
        if any(far_fetched(one, integrity) for one in lasting):
            excused = tuple((robot, one.text) for robot, (_, one) in self._widened.items())
            return contest, replace(judgement, gate_robots=judgement.gate_robots + excused)
        found = {one.subject: one for one in lasting
                 if judgement.odometry_factors.get(one.subject, 1.0) > 1.0}
        factors = self.factors
        self._widened |= {
            robot: (judgement.odometry_factors[robot] * factors.get(robot, 1.0), one)
            for robot, one in found.items()}
        self._store.widen(self.factors)
        if found and (other := again(contest, contest.best.whole)) is not None:
            contest, judgement = other, judge(other)
        # With its own variance such odometry no longer bends the path.
        bent = {one.text for one in judgement.findings
                if one.kind in LASTING_ODOMETRY and one.subject in self._widened}
        return contest, replace(judgement, gate_robots=tuple(
            one for one in judgement.gate_robots if one[1] not in bent))


def far_fetched(one: Finding, config: IntegrityConfig) -> bool:
    """Whether odometry is said to be wrong by far more than faults of odometry are."""
    size = {'odometry_scale': 100 * config.scale_floor,
            'odometry_turn': 60 * np.degrees(config.turn_floor_rad_s)}[one.kind]
    return bool(abs(one.value) > _FAR_FETCHED * config.fault_size * size)
