"""Whether odometry has failed for a while, or the ranges that deny it are wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Estimate
from .contest import Contest
from .failed_odometry import (
    OdometryFailure,
    fits_since,
    loose_cost,
    loose_map,
    measured_since,
)
from .graph_store import GraphStore
from .odometry_faults import Again, OdometryFaults
from .range_doubts import RangeDoubt, median_error

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


@dataclass(frozen=True)
class OdometryTrial:
    """Compares maps of one graph; each that is tried changes what the store leaves out."""

    store: GraphStore
    odometry: OdometryFaults
    doubt: Callable[[list[RangeDoubt]], bool]
    """Leave these groups of ranges out of the store; whether that changes it."""
    believed: list[RangeDoubt]
    """Groups that are out of question."""
    again: Again
    config: SparserConfig

    def with_failures(self, contest: Contest) -> Contest | None:
        """The contest without odometry that fails, beside what is left out; None = there is none.

        The map with odometry doubted must fit the ranges. It must be better than the present one,
        and than those in which the ranges are wrong instead, by what a wrong one leads by chance.
        """
        start, known = contest.best.whole, self.odometry.all_failed
        base = self.again(contest, start) if self.doubt(self.believed) else contest
        found = None if base is None else self.odometry.failed(base, start, self.config)
        if base is None or found is None:
            return None
        suspects = [one for one in self.odometry.all_failed if not any(
            np.array_equal(one.edges, old.edges) for old in known)]
        limit = found[1] + self._margin
        if (not all(fits_since(one, self.store.unbiased, found[0]) for one in suspects)
                or limit > self._cost(base, start)
                or limit > self._cost_without(known, suspects, base)):
            self.odometry.leave_out(known)
            return None
        self.doubt(self.believed)
        return self.again(base, found[0])

    def with_none(self, contest: Contest) -> Contest | None:
        """The contest with all odometry, where that is better; None where it is not."""
        start = contest.best.whole
        self.odometry.leave_out([])
        self.doubt(self.believed)
        base = self.again(contest, start)
        doubting = None if base is None else loose_map(base, start, self.config)
        if base is None or doubting is None:
            return base
        doubted = loose_cost(base, doubting.estimate, self.config)
        return base if self._cost(base, base.best.whole) + self._margin < doubted else None

    @property
    def _margin(self) -> float:
        return self.config.backend.observability.flip_cost

    def _cost(self, contest: Contest, whole: Estimate) -> float:
        return loose_cost(contest, contest.frame.subgraph.of(whole), self.config)

    def _cost_without(
        self, known: list[OdometryFailure], suspects: list[OdometryFailure], base: Contest
    ) -> float:
        """Least cost of maps in which the ranges are wrong where odometry seems to fail.

        From its begin on, or until its end; each for itself, or all of a robot by the same length.
        """
        graph, now = self.store.unbiased, self.odometry.all_failed
        costs = [np.inf]
        self.odometry.leave_out(known)
        for lasts in (True, False):
            doubts = [
                RangeDoubt(one.finding, rows, one.end_s) for one in suspects
                if len(rows := measured_since(one, graph, lasts))]
            self.doubt([*self.believed, *doubts])
            other = self.again(base, base.best.whole) if doubts else None
            if other is None:
                continue
            without = other.best.whole
            costs.append(self._cost(base, without))
            self.doubt([*self.believed, *(replace(
                one, corrected=one.rows, length_m=median_error(one, graph, without))
                for one in doubts)])
            other = self.again(base, without)
            if other is not None:
                costs.append(self._cost(other, other.best.whole))
        self.odometry.leave_out(now)
        return min(costs)
