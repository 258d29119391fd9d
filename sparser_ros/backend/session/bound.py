"""The map of an audit, and what is proved of it: no map of the same data costs less than this."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from ...array_types import Array
from ...graph import Estimate, Graph
from ...linalg.process import single_threaded_blas
from ...solver import thresholds
from ...solver.certificate import Certifier
from ...solver.preconditioner import NewtonPreconditioner
from ...solver.problem import QuadraticProblem
from ...solver.robust import floored
from ...solver.schur import SchurOperator
from ...solver.staircase import Goal, climb
from ...solver.trust_region import Observer, StoppingRule, minimise
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


NOTHING = 'no bound on better maps is known yet'
_POLISH_STEPS = 2
"""Most Newton steps that take the map to the optimum of its robust weights before it is tested:
reweighting stops that near."""


@dataclass(frozen=True)
class Bound:
    """Costs have no factor 1/2; all are those of the quadratic problem at the robust weights
    that the map had at its audit, so a map with other weights is not in it."""

    sequence: int
    """Newest increment of the map."""
    newest_stamp_ns: int
    """Of the data of the map."""
    cost: float
    lower: float
    certified: bool
    """Whether the map is proved to be the best one."""

    @property
    def suboptimality(self) -> float:
        """What the best possible map may gain, at most."""
        return max(self.cost - self.lower, 0.0)

    @property
    def words(self) -> str:
        """For an operator."""
        if self.certified:
            return (f'the map audited last is the best possible one at its robust weights (cost '
                    f'{self.cost:.6g})')
        share = f' ({100 * self.suboptimality / self.cost:.2g} %)' if self.cost > 0 else ''
        return (f'no map costs less than {self.lower:.5g} at the robust weights of the one audited '
                f'last, which costs {self.cost:.5g}: the best possible is at most '
                f'{self.suboptimality:.3g}{share} better')


def bound_of(
    solved: SolvedMap, weight_floor: float, limit_s: float = 0.0, observer: Observer | None = None
) -> Bound | None:
    """The certificate of a map at its robust weights, else of the relaxation below it; None where
    nothing is proved.

    The climb of the staircase ends after `limit_s` of wall time (0 = no limit) with what is proved
    by then; `observer` is called at each of its steps.
    """
    graph = solved.graph
    if graph.n_poses == 0 or graph.n_measurements == 0 or graph.free_scale or len(graph.heights):
        return None
    deadline = time.perf_counter() + limit_s if limit_s > 0 else math.inf
    with single_threaded_blas():
        schur, y = solved.weighted(weight_floor)
        cost = float(np.sum(y * schur(y)))
        certifier = Certifier(schur)
        polished = minimise(
            schur, schur.problem.manifold, y, NewtonPreconditioner(schur),
            StoppingRule(max_iterations=_POLISH_STEPS, cost_tolerance=0.0, deadline=deadline))
        top = climb(
            schur, polished.y, Goal(polished.cost, deadline=deadline),
            max_rank=thresholds.current().staircase_highest_rank,
            tested=(polished, certifier.test(polished.y)), certifier=certifier, observer=observer)
    certified = cost - top.lower_bound <= certifier.tolerance(cost)
    if not certified and top.lower_bound <= 0:
        # Costs are never below zero.
        return None
    return Bound(
        solved.sequence, solved.newest_stamp_ns, cost, max(top.lower_bound, 0.0), certified)
