"""The map of an audit: what bounds and calibrations are made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph
from ...graph.connectivity import components
from ...graph.subgraph import extract
from ...solver.problem import QuadraticProblem
from ...solver.robust import floored
from ...solver.schur import SchurOperator
from .radio_errors import RadioErrors


@dataclass(frozen=True)
class SolvedMap:
    """The map of an audit: the part of the graph that it placed."""

    sequence: int
    newest_stamp_ns: int
    graph: Graph
    estimate: Estimate
    weights: dict[str, Array]
    """Robust weights by table."""
    poses: Index
    """(n,): ascending rows of its poses in the sum of all increments."""
    ranges: Index
    """(k,): the same of its ranges."""
    radio_errors: RadioErrors = field(default_factory=RadioErrors)
    """What was taken off the ranges of radios."""

    def part(self, poses: Mask) -> SolvedMap:
        """The largest connected part of the masked poses, or the part that is tied to the map."""
        own = extract(self.graph, poses, np.ones(self.graph.n_landmarks, dtype=bool))
        first = components(own.graph) == 0
        n = own.graph.n_poses
        tied = extract(own.graph, first[:n], first[n:])
        rows = {name: own.rows[name][some] for name, some in tied.rows.items()}
        return replace(
            self, graph=tied.graph, estimate=tied.of(own.of(self.estimate)),
            weights={name: values[rows[name]] for name, values in self.weights.items()},
            poses=self.poses[own.poses[tied.poses]], ranges=self.ranges[rows['ranges']])

    def weighted(self, floor: float) -> tuple[SchurOperator, Array]:
        """The operator at the robust weights, at least `floor`, and the map as its point."""
        problem = QuadraticProblem(self.graph)
        weights = problem.weights(
            {name: floored(values, floor) for name, values in self.weights.items()})
        return SchurOperator(problem, weights), problem.pack(self.estimate)
