"""Variance that odometry collects along its chains, for poses between kept ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...array_types import Array, Index
from ...graph import Graph


@dataclass(frozen=True)
class OdometryVariance:
    """Sums from the start of each chain, one entry a pose: differences are those of a piece."""

    turning: Array
    """(n,): of 1 / kappa."""
    drifting: Array
    """(n,): of 1 / tau, m^2."""

    @classmethod
    def of(cls, graph: Graph, chains: list[Index]) -> OdometryVariance:
        """`chains` list the poses of each chain in order."""
        rel = graph.relative_poses
        sums = []
        for weights in (rel.kappa, rel.tau):
            into = np.zeros(graph.n_poses)
            into[rel.j[rel.odometry]] = 1 / weights[rel.odometry]
            total = np.zeros(graph.n_poses)
            for chain in chains:
                total[chain[1:]] = np.cumsum(into[chain[1:]])
            sums.append(total)
        return cls(*sums)

    def shares(self, before: Index, after: Index) -> tuple[Array, Array]:
        """(n,) each: what part of the variance between two poses around each one precedes it,
        of rotations and of translations; 0 where there is none."""
        first, second = (_share(total, before, after) for total in (self.turning, self.drifting))
        return first, second

    def of_offsets(self, origin: Index, move: Array) -> Array:
        """(n,) m^2 along one axis: noise of the way `move` (n, d) from another pose of the chain.

        An error of a rotation turns the rest of the way. The mean of the squared rests is a third
        of the whole way's square where that is straight.
        """
        d = move.shape[1]
        # 1 / (2 kappa) is the variance of an angle, and (d - 1) / d of the axes are across.
        turned = (d - 1) / d * np.abs(self.turning - self.turning[origin]) / 2
        return (np.abs(self.drifting - self.drifting[origin])
                + turned * np.sum(move**2, axis=1) / 3)


def _share(total: Array, before: Index, after: Index) -> Array:
    span = total[after] - total[before]
    return np.divide(total - total[before], span, out=np.zeros(len(total)), where=span > 0)
