"""Ranges that are long by a known length: it is taken off, and they count with less weight."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...array_types import Array, Index
from ...graph import Ranges
from ...graph.thinning import Renumbering

SHORTEST_M = 1e-6
"""What remains at least of a range: graphs hold no distance that is not positive."""


@dataclass(frozen=True, eq=False)
class RangeCorrections:
    """Corrections of some ranges, by rows of the sum of all increments."""

    rows: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(k,), ascending."""
    length_m: Array = field(default_factory=lambda: np.zeros(0))
    """(k,): what each is too long by."""
    factor: Array = field(default_factory=lambda: np.zeros(0))
    """(k,): by which the variance of each is multiplied, >= 1."""

    def __len__(self) -> int:
        return len(self.rows)

    def followed_by(self, later: RangeCorrections) -> RangeCorrections:
        """With corrections of later rows."""
        return RangeCorrections(*(
            np.concatenate([getattr(self, name), getattr(later, name)])
            for name in ('rows', 'length_m', 'factor')))

    def beside(self, other: RangeCorrections) -> RangeCorrections:
        """With those of another one that are of other rows."""
        new = ~np.isin(other.rows, self.rows)
        both = self.followed_by(RangeCorrections(
            other.rows[new], other.length_m[new], other.factor[new]))
        order = np.argsort(both.rows, kind='stable')
        return RangeCorrections(both.rows[order], both.length_m[order], both.factor[order])

    def same(self, other: RangeCorrections) -> bool:
        """Whether the other one corrects the same ranges by the same lengths."""
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ('rows', 'length_m', 'factor'))

    def applied(self, ranges: Ranges, rows: Index) -> Ranges:
        """Ranges corrected; `rows` (k,) are theirs in the sum of all increments."""
        if not len(self.rows) or not len(rows):
            return ranges
        place = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        own = self.rows[place] == rows
        return ranges.replaced(
            distance_m=np.maximum(
                ranges.distance_m - np.where(own, self.length_m[place], 0.0), SHORTEST_M),
            precision=ranges.precision / np.where(own, self.factor[place], 1.0))

    def thinned(self, to: Renumbering) -> RangeCorrections:
        """The same under the rows of a thinned graph."""
        rows = to.rows['ranges'][self.rows]
        order = np.argsort(rows, kind='stable')
        order = order[rows[order] >= 0]
        return RangeCorrections(rows[order], self.length_m[order], self.factor[order])
