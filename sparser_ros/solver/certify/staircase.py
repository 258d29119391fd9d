"""The Riemannian staircase: where the certificate fails, more columns and down the escape."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..manifold.manifold import Manifold
from ..model.schur import SchurOperator
from ..optimize.compute_backend import ComputeBackend
from ..optimize.trust_region import Preconditioner, StoppingRule, TrustRegionRun
from ..result import SolveStatus
from .certificate import Certificate, Certifier

Array = NDArray[np.float64]

_MANY = 1_000_000
_POLISH = ((1e-5, 0.1, _MANY), (1e-7, 1e-2, _MANY), *12 * ((0.0, math.inf, 1),))
"""Polishing rounds at each rank: tolerance on the cost, the share of the cost above which a gap
after that round is a saddle to leave, not lack of polish, and the most steps."""
_HALVINGS = 40
_CG_STEPS = 500


@dataclass(frozen=True)
class Climb:
    """The last point of a staircase and what its certificate says."""

    run: TrustRegionRun
    certificate: Certificate
    iterations: int
    cg_steps: int


def climb(
    schur: SchurOperator,
    y: Array,
    preconditioner: Preconditioner,
    rule: StoppingRule,
    *,
    max_rank: int,
    certifier: Certifier | None = None,
    observer: Callable[[int, float, Array], None] | None = None,
    machine: ComputeBackend | None = None,
) -> Climb:
    """Polish y (rows, p) and raise its rank until it is certified, or max_rank is reached.

    A deadline in `rule` ends the climb with the best point so far and its certificate.
    """
    certifier = Certifier(schur) if certifier is None else certifier
    machine = machine or ComputeBackend()
    manifold = schur.problem.manifold
    rule = replace(rule, max_cg_steps=min(rule.max_cg_steps, _CG_STEPS))
    iterations = cg_steps = 0
    while True:
        radius = math.inf
        for tolerance, saddle_gap, accepted in _POLISH:
            run = machine.minimise(
                schur, manifold, y, preconditioner,
                replace(rule, cost_tolerance=tolerance, max_accepted=accepted), observer, radius,
                long=True)
            # The last rounds go step by step: each is long, and one may be enough.
            y, radius = run.y, run.radius
            iterations, cg_steps = iterations + run.iterations, cg_steps + run.cg_steps
            certificate = certifier.test(y)
            saddle = certificate.gap > saddle_gap * abs(run.cost)
            late = time.perf_counter() > rule.deadline or run.status is SolveStatus.TIME_LIMIT
            settled = accepted == 1 and run.status is not SolveStatus.MAX_ITERATIONS
            if certificate.certified or saddle or late or settled:
                break
        if (
            certificate.certified or late or certificate.directions is None
            or y.shape[1] >= max_rank
        ):
            return Climb(run, certificate, iterations, cg_steps)
        steps = certificate.directions[:, : max_rank - y.shape[1]]
        higher = escape(schur, manifold, y, steps)
        if higher is None:
            return Climb(run, certificate, iterations, cg_steps)
        y = higher


def escape(
    schur: SchurOperator, manifold: Manifold, y: Array, directions: Array
) -> Array | None:
    """A point of lower cost and q ranks more: steps along `directions` (rows, q) in new columns.

    With S v = lambda v, lambda < 0, the cost changes by lambda t^2 to second order. One column per
    negative direction, not just one, saves the critical points of the ranks between (tiers: 28 s
    instead of 70 s). None where no step lowers the cost beyond rounding.
    """
    p, q = y.shape[1], directions.shape[1]
    lifted = manifold.lift(y, p + q)
    step = np.zeros_like(lifted)
    step[:, p:] = directions / np.abs(directions).max(axis=0, initial=1e-300)
    start = schur(lifted)
    cost = float(np.sum(lifted * start))
    length, best, lowest = 1.0, None, -1e-13 * abs(cost)
    for _ in range(_HALVINGS):
        candidate = manifold.retract(lifted, length * step)
        change = float(np.sum((candidate - lifted) * (start + schur(candidate))))
        if change < lowest:
            best, lowest = candidate, change
        elif best is not None:
            break
        length *= 0.5
    return best
