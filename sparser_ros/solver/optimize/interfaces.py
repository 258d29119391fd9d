"""What a trust region is given: the operator, the preconditioner, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ...array_types import Array
from ...linalg.arrays import Arrays

Operator = Callable[[Array, Array], Array]
"""operator(x, out): out = Q x for x (rows, p); returns out."""
Observer = Callable[[int, float, Array], None]
"""observer(iteration, cost, y), called at every accepted step."""


class Preconditioner(Protocol):
    """An approximate inverse of the Hessian, symmetric positive definite on tangent vectors."""

    portable: bool
    """Whether it works on device arrays."""

    def placed(self, arrays: Arrays) -> bool:
        """Whether it is ready for this backend."""
        ...

    def apply(self, v: Array, out: Array) -> Array:
        """out = P^-1 v before projection."""
        ...

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        """Called once per accepted point with the ambient gradient Q Y and the last CG count."""
        ...


@dataclass(frozen=True)
class StoppingRule:
    """When a trust-region run ends; costs without the factor 1/2."""

    max_iterations: int = 1000
    max_accepted: int = 1_000_000
    """Most accepted steps; rejected ones only shrink the region."""
    max_cg_steps: int = 2000
    gradient_tolerance: float = 1e-12
    """On |gradient|^2 in the norm of P^-1, an estimate of the cost to gain, over the cost."""
    cost_tolerance: float = 1e-6
    """Relative gain of a step that counts as small."""
    cost_floor: float = 0.0
    """Costs below it are rounding errors; tolerances are shares of the larger of it and the
    cost."""
    target_cost: float = -math.inf
    deadline: float = math.inf
    """time.perf_counter() value."""
