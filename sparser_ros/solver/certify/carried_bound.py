"""The bound of a map by multipliers of an earlier one: seconds of work in one factorisation.

More measurements and larger weights only add to Q, so that multipliers that proved a bound prove
it of a grown graph as well, with zeros for its new blocks. What has become lighter or longer is
found by the factorisation; then the multipliers are lowered as far as need be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...array_types import Index
from .. import thresholds
from ..certificate import Certifier, Multipliers
from ..manifold import Manifold
from ..schur import SchurOperator
from .dual_proof import DualProof
from .names import take_known


@dataclass(frozen=True)
class KeptMultipliers:
    """Multipliers by names that stay the same while the graph grows."""

    poses: Index
    """(n,): ascending names of poses."""
    ranges: Index
    """(k,): ascending names of ranges."""
    multipliers: Multipliers

    def on(self, manifold: Manifold, poses: Index, ranges: Index) -> Multipliers:
        """The same on another graph, given its names: zero on what is new."""
        kept, found = self.multipliers, Multipliers.zero(manifold)
        take_known(found.blocks, poses, kept.blocks, self.poses)
        take_known(found.scalars, ranges, kept.scalars, self.ranges)
        if manifold.homogenised:
            found.fixed[...] = kept.fixed
        return found

    def joined(self, other: KeptMultipliers) -> KeptMultipliers:
        """Those of both: where the measurements of two bounds differ, their sum is proved."""
        mine, its = self.multipliers.manifold, other.multipliers.manifold
        poses, ranges = np.union1d(self.poses, other.poses), np.union1d(self.ranges, other.ranges)
        manifold = Manifold(mine.d, len(poses), len(ranges), mine.homogenised or its.homogenised)
        return KeptMultipliers(poses, ranges, self.on(manifold, poses, ranges).plus(
            other.on(manifold, poses, ranges)))


class CarriedBound:
    """The bound of one map; `lower` holds what is proved whenever a step has ended."""

    def __init__(self, schur: SchurOperator, cost: float, known: Sequence[Multipliers]) -> None:
        """`cost` is that of the map, `known` are multipliers to be tried."""
        self.certifier = Certifier(schur)
        self.cost, self.tolerance = cost, self.certifier.tolerance(cost)
        self.lower = 0.0
        """No point of any rank costs less; costs are never below zero."""
        self.multipliers: Multipliers | None = None
        """Those that prove it."""
        self._known = sorted(known, key=lambda one: one.trace, reverse=True)

    @property
    def certified(self) -> bool:
        """Whether the map is proved to be the best one."""
        return self.cost - self.lower <= self.tolerance

    def steps(self) -> Iterator[None]:
        """Try what is known as it is, then shares of it, then lower the best of it."""
        for one in self._known:
            if self._plain(one):
                break
            yield
        if not self._known:
            return
        best, numbers = self._known[0], thresholds.current()
        for share in numbers.carried_shares:
            if share * best.trace <= self.lower or self._plain(best.scaled(share)):
                break
            yield
        loss = best.trace - self.lower
        wanted = max(numbers.bound_gap * self.cost, numbers.bound_share * (self.cost - best.trace))
        proof = DualProof(self.certifier, best)
        if loss <= wanted or not proof.positive(loss):
            return
        for _ in proof.steps(self.tolerance / self.certifier.rows, wanted, loss):
            self._raise(proof)
            yield

    def _plain(self, known: Multipliers) -> bool:
        if known.trace <= self.lower:
            return True
        proof = DualProof(self.certifier, known)
        if not proof.plain():
            return False
        self._raise(proof)
        return True

    def _raise(self, proof: DualProof) -> None:
        if proof.lower > self.lower:
            self.lower, self.multipliers = proof.lower, proof.multipliers
