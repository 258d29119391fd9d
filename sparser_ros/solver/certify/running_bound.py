"""A lower bound in rounds of bounded work, for a node that has no time to climb the staircase.

The bound is that of docs/method.md, section 7: any point of any rank gives one. So the relaxed
point may be kept while the graph grows (`Relaxed`), a few steps lower it on the graph of now, and
a few rounds of better multipliers prove what it is worth. Work is limited by counts, not by time:
the same calls give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...array_types import Array, Index
from .. import thresholds
from ..certificate import Certifier, Multipliers
from ..newton_descent import NewtonDescent
from ..preconditioner import NewtonPreconditioner
from ..result import SolveStatus
from ..schur import SchurOperator
from ..staircase import raised
from ..trust_region import Preconditioner, StoppingRule, minimise
from .dual_proof import DualProof
from .names import take_known


@dataclass(frozen=True)
class Relaxed:
    """A point of higher rank, by names that stay the same while the graph grows."""

    poses: Index
    """(n,): ascending names of poses."""
    blocks: Array
    """(n, d, p)"""
    ranges: Index
    """(k,): ascending names of ranges."""
    bearings: Array
    """(k, p)"""
    least: float
    """Least eigenvalue of S at its last proof, times the rows of X_c, over the cost."""

    def carried(self, poses: Index, before: Index, ranges: Index, source: Index, y: Array) -> Array:
        """The point on a grown graph: known blocks stay, new ones follow the rank-d point y.

        `before` (n,) is the newest known pose at or before each pose on its path, as a row of the
        new graph; `source` (k,) the pose of each range, -1 = none.
        """
        d, p = self.blocks.shape[1:]
        n, k = len(poses), len(ranges)
        low = y[: n * d].reshape(n, d, d)
        at = np.searchsorted(self.poses, poses[before])
        # R_i^T R_j of the map takes the neighbour's block along.
        lift = np.einsum('nij,nik->njk', low[before], self.blocks[at])
        blocks = np.einsum('nij,njk->nik', low, lift)
        bearings = y[n * d : n * d + k] @ np.eye(d, p)
        tied = source >= 0
        bearings[tied] = np.einsum('kj,kjp->kp', y[n * d : n * d + k][tied], lift[source[tied]])
        take_known(bearings, ranges, self.bearings, self.ranges)
        rest = len(y) - n * d - k
        return np.concatenate([blocks.reshape(n * d, p), bearings, np.eye(d, p)[:rest]])


class RunningBound:
    """The bound of one problem, sharper step by step."""

    def __init__(self, schur: SchurOperator, y: Array, relaxed: Array | None, least: float) -> None:
        """`y` (rows, d) is the map to be bounded; `relaxed` (rows, p) where to begin.

        `least` is `Relaxed.least` of an earlier one, 0 = not known.
        """
        self.schur, self.manifold = schur, schur.problem.manifold
        self.certifier = Certifier(schur)
        self.y, self.cost = relaxed, _cost(schur, y)
        self.relaxed_cost = self.cost
        """Of the lowest point that was reached."""
        self.lower = 0.0
        """No point of any rank costs less; costs are never below zero."""
        self.multipliers: Multipliers | None = None
        """The best ones that were proved; their trace is a bound."""
        self.tolerance = self.certifier.tolerance(self.cost)
        self._map = y
        self._newton = NewtonDescent(schur)
        self._spectrum: tuple[Array, Array] | None = None
        self.least = least

    @property
    def certified(self) -> bool:
        """Whether the map is proved to be the best one."""
        return self.cost - self.lower <= self.tolerance

    @property
    def enough(self) -> bool:
        """Whether a sharper bound would tell a user no more."""
        return self.certified or self.relaxed_cost - self.lower <= self._wanted

    @property
    def _wanted(self) -> float:
        numbers, above = thresholds.current(), self.cost - self.relaxed_cost
        if above <= self.tolerance:
            return self.tolerance
        # A point below the map shows already that the map cannot be certified.
        return max(numbers.bound_gap * self.cost, numbers.bound_share * above)

    def steps(self, rounds: int) -> Iterator[None]:
        """At most `rounds` rounds, in steps between which other work may be done.

        `lower` holds what is proved whenever a step has ended.
        """
        if self.y is None:
            polished = self._polished()
            yield
            self.lower = max(self.lower, _cost(self.schur, polished) - self._held_gap(polished))
            if self.enough:
                return
            yield
            self.y = polished
        for _ in range(rounds):
            if self.y.shape[1] > self.manifold.d:
                yield from self._descend()
            yield from self._proved()
            if self.enough or not self._leave():
                return

    def _polished(self) -> Array:
        """The map at the optimum of its present weights: reweighting stops just before that."""
        newton: Preconditioner = NewtonPreconditioner(self.schur)
        run = minimise(self.schur, self.manifold, self._map, newton, StoppingRule(
            max_iterations=thresholds.current().live_polish_steps, cost_tolerance=0.0))
        self.relaxed_cost = min(self.relaxed_cost, run.cost)
        return run.y

    def _held_gap(self, y: Array) -> float:
        return self.certifier.held_gap(y, self.schur(y), self.tolerance)

    def _descend(self) -> Iterator[None]:
        """Down from the relaxed point, a few steps at a time."""
        numbers = thresholds.current()
        for _ in range(numbers.live_bursts):
            assert self.y is not None
            run = self._newton.run(
                self.y, gain=numbers.staircase_tolerance, most=numbers.live_steps)
            self.y = run.y
            self.relaxed_cost = min(self.relaxed_cost, run.cost)
            yield
            if run.status is not SolveStatus.MAX_ITERATIONS:
                return

    def _proved(self) -> Iterator[None]:
        """Raise the bound by what the point proves, in steps; keep its least eigenpairs."""
        certifier, y = self.certifier, self.y
        assert y is not None
        numbers, rows = thresholds.current(), self.certifier.rows
        gradient = self.schur(y)
        cost = float(np.sum(y * gradient))
        proof = DualProof(certifier, Multipliers.of(self.manifold, y, gradient))
        begin = max(numbers.dual_shift * self.least * self.cost, self.tolerance) / rows
        for _ in proof.steps(begin, self._wanted, numbers.staircase_saddle_gap * cost):
            self._raise(proof)
            yield
            if self.enough:
                break
        assert proof.spectrum is not None
        self._spectrum = proof.spectrum
        least = float(self._spectrum[0][0])
        self.least = max(-least * rows / cost, 0.0) if cost > 0 else 0.0

    def _raise(self, proof: DualProof) -> None:
        self.lower = max(self.lower, proof.lower)
        if self.multipliers is None or proof.lower > self.multipliers.trace:
            self.multipliers = proof.multipliers

    def _leave(self) -> bool:
        """Go down the directions of escape where the point is a saddle; False at the end."""
        numbers, y = thresholds.current(), self.y
        assert y is not None and self._spectrum is not None
        values, vectors = self._spectrum
        if values[0] >= 0:
            return False
        d = self.manifold.d
        if self.least > numbers.staircase_saddle_gap or y.shape[1] == d:
            down = self.certifier.escapes(y, values, vectors, self.tolerance)
            higher = raised(self.schur, y, down, numbers.live_rank) if down.size else None
            if higher is not None:
                self.y = higher
        return self.y is not None and self.y.shape[1] > d

    def kept(self, poses: Index, ranges: Index) -> Relaxed | None:
        """The relaxed point for a later graph; None where the map itself served."""
        d, n, k = self.manifold.d, self.manifold.n, self.manifold.k
        if self.y is None or self.y.shape[1] == d:
            return None
        p = self.y.shape[1]
        return Relaxed(poses, self.y[: n * d].reshape(n, d, p), ranges,
                       self.y[n * d : n * d + k], self.least)


def _cost(schur: SchurOperator, y: Array) -> float:
    return float(np.sum(y * schur(y)))
