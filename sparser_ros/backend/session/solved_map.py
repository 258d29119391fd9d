"""The map of an audit: what bounds and calibrations are made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...array_types import Array
from ...graph import Estimate, Graph
from ...solver.problem import QuadraticProblem
from ...solver.robust import floored
from ...solver.schur import SchurOperator
from ..integrity.radio_errors import RadioErrors


@dataclass(frozen=True)
class SolvedMap:
    """The map of an audit: the part of the graph that it placed."""

    sequence: int
    newest_stamp_ns: int
    graph: Graph
    estimate: Estimate
    weights: dict[str, Array]
    """Robust weights by table."""
    radio_errors: RadioErrors = field(default_factory=RadioErrors)
    """What was taken off the ranges of radios."""

    def weighted(self, floor: float) -> tuple[SchurOperator, Array]:
        """The operator at the robust weights, at least `floor`, and the map as its point."""
        problem = QuadraticProblem(self.graph)
        weights = problem.weights(
            {name: floored(values, floor) for name, values in self.weights.items()})
        return SchurOperator(problem, weights), problem.pack(self.estimate)
