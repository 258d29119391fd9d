"""Robust weights of the terms, updated wherever residuals change."""

from __future__ import annotations

import numpy as np

from ...array_types import Array, Index
from ...config import RobustConfig
from ...linalg.clique_tree.clique_tree import room
from ..robust.kernels import KERNELS, floored
from .terms import Terms


class TermWeights:
    """rho and w = rho'(s) of measurements, s the sum of the squares of a measurement's terms.

    The objective is sum rho(s), whose gradient is that of sum w s at the weights of the same
    point. The Hessian of sum w s bounds its own from above (rho is concave), so that steps
    computed with the weights of an older factor still descend.
    """

    def __init__(self, config: RobustConfig) -> None:
        self._kernel, self._floor = KERNELS[config.kernel], config.weight_floor
        self.trusting = config.kernel == 'none'
        self.values: Array = np.zeros(0)
        """(terms,): factor of each term's square: its precision times the robust weight."""
        self._rho: Array = np.zeros(0)
        """Of each measurement, at its first term."""
        self._weight: Array = np.zeros(0)

    def append(self, terms: Terms, last: int) -> None:
        """Take in terms that end before number `last`, at the weights of perfect fits."""
        first = last - len(terms)
        self.values, self._rho, self._weight = (room(column, last) for column in self._columns)
        self.values[first:last] = terms.weight
        self._rho[first:last], self._weight[first:last] = 0.0, 1.0

    def follow(self, chosen: Index, terms: Terms, squares: Array) -> float:
        """Weights at new squares (terms,), precision included; the change of the objective.

        `chosen` lists all terms of the measurements that changed.
        """
        leads = chosen[terms.members[chosen] > 0]
        total = measured(leads, terms, squares)
        doubted = np.isfinite(terms.threshold[leads])
        c2 = terms.threshold[leads][doubted]
        rho, weight = total.copy(), np.ones(len(leads))
        rho[doubted] = self._kernel.rho(total[doubted], c2)
        weight[doubted] = self._kernel.weight(total[doubted], c2)
        change = float(np.sum(rho - self._rho[leads]))
        self._rho[leads], self._weight[leads] = rho, weight
        weight = floored(weight, self._floor)
        for k in range(int(np.max(terms.members[leads], initial=0))):
            longer = terms.members[leads] > k
            at = leads[longer] + k
            self.values[at] = terms.weight[at] * weight[longer]
        return change

    def of(self, leads: Index) -> Array:
        """Weights of measurements, 1 = believed, without the floor."""
        return self._weight[leads]

    def saved(self, chosen: Index) -> tuple[Array, ...]:
        """Values at these terms, for `restore`."""
        return tuple(column[chosen] for column in self._columns)

    def restore(self, chosen: Index, saved: tuple[Array, ...]) -> None:
        """Undo `follow`."""
        for column, before in zip(self._columns, saved, strict=True):
            column[chosen] = before

    @property
    def _columns(self) -> tuple[Array, ...]:
        return self.values, self._rho, self._weight


def measured(leads: Index, terms: Terms, squares: Array) -> Array:
    """(leads,): squares of measurements, each the sum over its terms."""
    total = squares[leads]
    for k in range(1, int(np.max(terms.members[leads], initial=0))):
        longer = terms.members[leads] > k
        total[longer] += squares[leads[longer] + k]
    return total
