"""What a solve returns: the estimate, a status that says what to do next, and statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, unique

import numpy as np

from ..array_types import Array
from ..graph import Estimate


@unique
class SolveStatus(Enum):
    """Why a solve ended; `advice` says what to do next."""

    CONVERGED = 'converged'
    TARGET_REACHED = 'target_reached'
    MAX_ITERATIONS = 'max_iterations'
    TIME_LIMIT = 'time_limit'
    STALLED = 'stalled'
    FAILED = 'failed'

    @property
    def solved(self) -> bool:
        return self in (SolveStatus.CONVERGED, SolveStatus.TARGET_REACHED)

    @property
    def advice(self) -> str:
        return {
            SolveStatus.CONVERGED: 'A stationary point was reached; certify it if it matters.',
            SolveStatus.TARGET_REACHED: 'The requested cost was reached; stopped there.',
            SolveStatus.MAX_ITERATIONS:
                'The best iterate is kept. Raise max_iterations, or start closer.',
            SolveStatus.TIME_LIMIT:
                'The best iterate is kept. Raise time_limit_s, or warm-start from it.',
            SolveStatus.STALLED:
                'No step lowers the cost beyond rounding errors, but the gradient is above its '
                'tolerance: weights may differ too much in scale. The best iterate is kept.',
            SolveStatus.FAILED: 'No estimate could be computed; the message says why.',
        }[self]


@dataclass(frozen=True)
class SolveStats:
    """Figures of one solve; costs without the factor 1/2."""

    rank: int
    init: str
    formulation: str
    backend: str
    """`gpu` if any part ran there."""
    kernel: str
    iterations: int = 0
    cg_steps: int = 0
    cg_stops: dict[str, int] = field(default_factory=dict)
    """How often CG stopped for which reason (`trust_region.CGStop`)."""
    seconds: dict[str, float] = field(default_factory=dict)
    """setup, solve, refine, certify (whatever was run)."""
    cost_relaxed: float | None = None
    cost_final: float | None = None
    """At rank d, unit robust weights, bearings eliminated."""
    cost_robust: float | None = None
    reweightings: int = 0
    """Reweighted inner solves; 0 without a kernel."""
    certified: bool | None = None
    suboptimality: float | None = None
    lambda_min: float | None = None
    backend_reason: str = ''
    """Why that backend."""
    trace: tuple[tuple[float, float], ...] = ()
    """(seconds since the relaxed solve started, relaxed cost)."""
    plan: dict[str, str] = field(default_factory=dict)
    """What was chosen for this graph, with reasons, by name."""
    weights: dict[str, Array] = field(default_factory=dict)
    """Robust weights by measurement table; absent without a kernel."""


@dataclass(frozen=True, repr=False)
class SolveResult:
    """The outcome of one solve; on failure `estimate` is the best iterate, if there is one."""

    estimate: Estimate | None
    status: SolveStatus
    message: str
    stats: SolveStats

    def __repr__(self) -> str:
        return f'<SolveResult: {self}>'

    def __str__(self) -> str:
        stats = self.stats
        cost = stats.cost_relaxed if stats.cost_final is None else stats.cost_final
        shown = 'no cost' if cost is None else f'cost {cost:.8g}'
        return (
            f'{self.status.value}: {shown}, {stats.iterations} iterations, {stats.cg_steps} CG '
            f'steps, from {stats.init} at rank {stats.rank}')


def is_finite(estimate: Estimate) -> bool:
    """Whether all poses and landmarks are finite numbers."""
    return all(
        bool(np.all(np.isfinite(a)))
        for a in (estimate.rotation, estimate.translation, estimate.landmarks))
