"""Tracker and auditor in one process, in turns: increments in, solutions in `map` out.

For `sparser replay` and tests: whether an audit follows a tick depends
on counts of data alone, so two runs give the same result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...graph import Estimate, Graph, Increment
from ...graph.thinning import Renumbering
from ...linalg.process import single_threaded_blas
from ..integrity.radio_errors import RadioErrors
from .audited_map import Bound
from .auditor import Auditor
from .rulings import Rulings
from .solution import Solution, tracked_map
from .tracker import Tracker

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


class Session:
    """The tracker, the auditor, and whose turn it is.

    `bounded`: solves from scratch end in `backend.audit.limit_s` of wall time; the result then
    depends on the machine.
    """

    def __init__(self, config: SparserConfig, *, bounded: bool = False, epoch: int = 0) -> None:
        self.tracker = Tracker(config, epoch=epoch)
        self.auditor = Auditor(config, bounded=bounded)

    @property
    def config(self) -> SparserConfig:
        """In force from the next solve on."""
        return self.tracker.config

    @config.setter
    def config(self, config: SparserConfig) -> None:
        self.tracker.config = self.auditor.config = config

    @property
    def graph(self) -> Graph:
        """The sum of all increments so far, without quarantined measurements."""
        return self.tracker.graph

    @property
    def radio_errors(self) -> RadioErrors:
        """What is taken off the ranges of radios in `graph`."""
        return self.tracker.radio_errors

    @property
    def sequence(self) -> int:
        """Newest increment included; -1 = none."""
        return self.tracker.sequence

    def add(self, increment: Increment, *, first: int | None = None) -> bool:
        """Append an increment (or a merged one from `first` on); False if already included."""
        self.auditor.add(increment, first=first)
        return self.tracker.add(increment, first=first)

    def thin(self, increment: Increment, to: Renumbering) -> None:
        """Go on with the thinned graph, `increment`, in place of the sum of all increments."""
        self.auditor.thin(increment, to)
        self.tracker.thin(increment, to)

    @property
    def whole(self) -> Graph:
        """The sum of all increments so far."""
        return self.tracker.whole

    def rule(self, rulings: Rulings) -> None:
        """Follow what the operator says from the next audit on."""
        self.auditor.rule(rulings)

    def restore(self, estimate: Estimate) -> None:
        """Go on from an estimate of the first poses and landmarks of the graph."""
        self.tracker.restore(estimate)

    @property
    def bound(self) -> Bound | None:
        """What is proved of the map of the last audit that was forced; None = nothing."""
        return self.auditor.bound

    def solve(self, full: bool | None = None) -> Solution:
        """A tick; then an audit and another tick, where one is due.

        `full` forces (True) or forbids (False) the audit; one that is forced bounds its map.
        """
        with single_threaded_blas():
            solution = self.tracker.solve()
            if full is False or not (full or self.auditor.due(solution.doubt)):
                return solution
            self.tracker.adopt(self.auditor.audit(tracked_map(solution)))
            if full:
                self.auditor.prove()
            return self.tracker.solve()
