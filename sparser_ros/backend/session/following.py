"""Ticks between ordinary solves: frame and verdicts of the last one, while the graph only grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...config import SparserError
from ...graph import Estimate, Increment
from ...linalg.sparse.cholesky import supports_external_ordering
from ...solver.incremental.incremental_solver import Update
from ...solver.result import SolveStats
from ..observability.observability import Observability
from .follower import Follower
from .frame import Frame
from .graph_store import merged
from .policy import GraphSummary
from .runner import odometry_only
from .solution import Location

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_UNSURE_GROWTH, _GROWTH = 1.1, 1.25
"""Growth of the measurements of something not located yet, and of all, that may change verdicts."""
_RETRIED = 1.1
"""Growth of the measurements after which a robust kernel starts wide again."""


class Following:
    """What an ordinary solve has left, and the follower, made when the first tick needs it."""

    def __init__(
        self, config: SparserConfig, frame: Frame, estimate: Estimate, seen: Observability
    ) -> None:
        self.frame, self.config, self.seen = frame, config, seen
        self._estimate = estimate
        self._follower: Follower | None = None
        self._seen_ties = np.zeros(0, dtype=np.int64)
        self._seen_rows = self._first_rows = 0

    def take(self, config: SparserConfig, news: list[Increment]) -> Update | None:
        """Follow increments; None where that cannot be done, and an ordinary solve is due."""
        if config is not self.config or not followable(config):
            return None
        if self._follower is None:
            if odometry_only(self.frame.part.graph):
                return None
            self._follower = Follower(self.frame, self._estimate, config)
            self._first_rows = self._follower.rows
            self.saw(self.seen)
        try:
            if news and not self._follower.add(merged(news)):
                return None
            update = self._follower.update(config.backend.incremental_tolerance)
        except (SparserError, np.linalg.LinAlgError, ValueError):
            return None
        if not update.converged or (config.solver.robust.gnc and self._doubtful):
            return None
        return update

    @property
    def _doubtful(self) -> bool:
        """Whether a robust kernel may believe other measurements when it starts wide again."""
        return self.robust and (
            self.follower.refused() or self.follower.rows >= _RETRIED * self._first_rows)

    @property
    def robust(self) -> bool:
        """Whether measurements have weights."""
        return self.config.solver.robust.kernel != 'none'

    @property
    def follower(self) -> Follower:
        assert self._follower is not None
        return self._follower

    @property
    def picture(self) -> GraphSummary:
        return GraphSummary(self.frame.anchored, self.follower.rows, self.follower.cost)

    @property
    def unsure(self) -> bool:
        """Whether so much has come since `seen` that a verdict may be another now."""
        now, before = self.follower.ties, self._seen_ties
        sure = np.concatenate([
            np.array([where is Location.LOCATED for where in self.seen.location], dtype=bool),
            self.seen.landmark_located])
        grown = self.frame.mask & ~sure & (now > before) & (now >= _UNSURE_GROWTH * before)
        return bool(np.any(grown)) or self.follower.rows >= _GROWTH * self._seen_rows

    def saw(self, seen: Observability) -> None:
        """Remember verdicts on what is there now."""
        self.seen = seen
        self._seen_ties, self._seen_rows = self.follower.ties.copy(), self.follower.rows

    @property
    def rows(self) -> dict[str, NDArray[np.int64]] | None:
        """Rows of the whole graph that robust weights belong to; None without a kernel."""
        return self.follower.rows_by_table() if self.robust else None

    def stats(self, update: Update, seconds: float) -> SolveStats:
        weights = self.follower.weights() if self.robust else {}
        return SolveStats(
            rank=self.config.dimension, init='incremental',
            formulation=self.config.solver.formulation, backend='cpu',
            kernel=self.config.solver.robust.kernel, iterations=update.steps,
            seconds={'refine': seconds}, cost_final=self.follower.cost,
            cost_robust=self.follower.cost_robust, weights=weights)


def followable(config: SparserConfig) -> bool:
    """Whether ticks can be incremental at all."""
    solver = config.solver
    return (
        config.backend.incremental and supports_external_ordering()
        and solver.formulation == 'schur' and not solver.certify)
