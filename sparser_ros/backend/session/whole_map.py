"""The placed part of a graph, solved as a whole at every tick: for certificates and comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array, Index, Mask
from ...config import SolverError
from ...graph import Estimate, Graph, Increment, squared_residuals
from ...graph.subgraph import Subgraph
from ...solver.result import SolveStats, SolveStatus
from .frame import Frame, frame_of
from .gauge import at_origin
from .runner import run
from .warm_start import continued

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


class WholeMap:
    """Like IncrementalMap, by a warm solve of everything placed."""

    def __init__(
        self, frame: Frame, placed: Mask, estimate: Estimate, config: SparserConfig
    ) -> None:
        self._config, self._names = config, frame.names(placed)
        self._anchored, self._gauge_name = frame.anchored, frame.gauge_name
        self._estimate = estimate
        self._chosen: Subgraph = frame.restricted(placed)
        self._graph = frame.graph
        self._stats: SolveStats | None = None
        self.status = SolveStatus.CONVERGED

    @property
    def cost(self) -> float:
        """Of what is placed, at unit robust weights."""
        return (0.0 if self._stats is None else self._stats.cost_final) or 0.0

    @property
    def cost_robust(self) -> float | None:
        """Of what is placed; None without a kernel."""
        return None if self._stats is None else self._stats.cost_robust

    def estimate(self) -> Estimate:
        """Of all poses and landmarks of the graph."""
        return self._estimate

    def add(self, _increment: Increment) -> None:
        """Nothing to do before the next update, which gets the whole graph."""

    def update(self, graph: Graph) -> SolveStats:
        """Solve what is placed, from the last estimate; SolverError where that fails."""
        frame = frame_of(graph, self._config, self._gauge_name, self._anchored)
        if frame is None:
            raise SolverError('the frame of map is lost')
        placed = frame.named(self._names)
        placed[len(frame.segments):] |= frame.graph.landmarks.fixed
        chosen = frame.restricted(placed)
        guess = continued(frame.graph, frame.segments, self._estimate)
        result = run(chosen.graph, self._config, chosen.of(guess))
        if result.estimate is None or result.status is SolveStatus.FAILED:
            raise SolverError(result.message)
        own = result.estimate
        if frame.gauge is not None:
            row = int(np.searchsorted(chosen.poses, frame.segments.first[frame.gauge]))
            held = chosen.of(guess)
            own = at_origin(
                own, row, (held.rotation[row], held.translation[row]), chosen.graph)
        self._estimate = chosen.into(guess, own)
        self._chosen, self._graph = chosen, frame.graph
        self._stats, self.status = result.stats, result.status
        return result.stats

    def covariance(self, _graph: Graph, _keyframes: Index) -> None:
        """None: a whole solve keeps no factor from which covariances could be read."""

    def weights(self) -> dict[str, Array]:
        """Robust weights by table, in the order of `rows`; {} without a kernel."""
        return {} if self._stats is None else dict(self._stats.weights)

    def squares(self) -> dict[str, Array]:
        """Squared whitened residuals by table, in the order of `rows`."""
        return squared_residuals(self._chosen.graph, self._chosen.of(self._estimate))

    def rows(self) -> dict[str, Index]:
        """Rows of the graph's tables that are solved."""
        return self._chosen.rows
