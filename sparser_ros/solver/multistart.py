"""Random starts of an `auto` solve: relaxed, rounded, refined, until one can be trusted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .initialize.initialization import start_point
from .manifold.rounding import round_to_rotations
from .optimize.trust_region import TrustRegionRun
from .result import SolveStatus
from .solve_context import EARLY, LATER, ROUNDING_GAP, SolveContext

Array = NDArray[np.float64]
Draw = tuple[TrustRegionRun, TrustRegionRun]
"""A relaxed and a refined run."""

SEED_STRIDE = 1000
"""Between the seeds of one solve, which its caller may count up by ones."""
STARTS = 6
"""Most random starts of an `auto` solve."""
_TRIED = 60
"""Iterations of refinement that each gets at first: from a good rounding 3 to 20 converge, from a
bad one hundreds end in a bad minimum."""
_SOON, _STRAIGHT = 5, 10
"""Most iterations, or CG steps, of a refinement that began near its minimum: of the roundings of
outfinite that went elsewhere the quickest took 7 and 16."""
_SAME = 5e-4
"""Share of the cost within which two starts have found the same minimum, or minima so near that
neither is worth another start."""


class Multistart(SolveContext):
    """Relaxation, rounding and refinement from random starts."""

    settled = False
    """Whether the last rounding was near its minimum, so that no other start need confirm it."""

    def relax_and_round(self, y: Array) -> Draw:
        """Relaxation, rounding, refinement from y (rows, p) and, where that fails, other starts.

        An `auto` solve with ranges rounds early: refinement by the exact Hessian is so strong
        that a relaxed cost good to 1e-3 leads to the same trajectory (plaza2, tiers and
        single_drone: 16 starts of 16) in a third of the time. Where the rounded cost stays far
        above, which happens while little is determined, it draws another start.
        """
        if not (self.config.init == 'auto' and len(self.graph.ranges)):
            relaxed = self.relax(y, 1.0)
            return relaxed, self.descend(relaxed)
        found: list[Draw] = []
        for attempt in range(STARTS):
            if attempt:
                seed = self.config.seed + attempt * SEED_STRIDE
                y = start_point(self.problem, 'random', y.shape[1], seed)
            draw = self._rounded(self.relax(y, EARLY))
            found.append(draw)
            self.settled = draw[1].iterations <= _SOON or draw[1].cg_steps <= _STRAIGHT
            if not self.settled and self.graph.poses.robot.max(initial=0) > 0:
                # Far from its minimum, one rounding of several robots in three (outfinite) ends
                # in a neighbouring one; after a relaxation ten times as exact, one in sixteen.
                # The radius saves half of the CG steps and more that a new run would take.
                draw = self._rounded(self.relax(draw[0].y, LATER, draw[0].radius))
                found.append(draw)
            relaxed, refined = draw
            if refined.cost <= ROUNDING_GAP * relaxed.cost + 1e-9:
                break
            if attempt and agree(refined.cost, min(run.cost for _, run in found[:-1])):
                # The gap is the graph's own.
                break
        relaxed, refined = min(found, key=lambda runs: runs[1].cost)
        if refined.status is SolveStatus.MAX_ITERATIONS:
            refined = self.refine(refined.y)
        return relaxed, refined

    def _rounded(self, relaxed: TrustRegionRun) -> Draw:
        rounded = round_to_rotations(self.problem.manifold, relaxed.y)
        return relaxed, self.refine(rounded, at_most=_TRIED)


def agree(one: float, other: float) -> bool:
    """Whether two costs are those of one minimum."""
    return abs(one - other) <= _SAME * min(one, other) + 1e-9
