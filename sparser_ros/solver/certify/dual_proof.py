"""What given multipliers prove, and what better ones near them do (docs/method.md, section 7)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...array_types import Array
from .. import thresholds
from ..certificate import Certifier, Multipliers
from ..dual_ascent import DualAscent


class DualProof:
    """A lower bound: `lower` is the trace of `multipliers`, of which Q less them is definite."""

    def __init__(self, certifier: Certifier, base: Multipliers) -> None:
        self._certifier, self._base = certifier, base
        self._S = certifier.less(base.matrix())
        self.lower = -math.inf
        self.multipliers: Multipliers | None = None
        """None while nothing is proved."""
        self.spectrum: tuple[Array, Array] | None = None
        """Least eigenvalues of S, ascending, and their eigenvectors; after the first of `steps`."""

    def plain(self) -> bool:
        """Whether the multipliers prove their trace as they are, by one factorisation."""
        shift = self._certifier.rounding / self._certifier.rows
        if self._certifier.factor(self._S, shift) is None:
            return False
        self.multipliers = self._base.lowered(shift)
        self.lower = self.multipliers.trace
        return True

    def positive(self, loss: float) -> bool:
        """Whether the multipliers, lowered alike by that much in all, prove a bound."""
        certifier = self._certifier
        return certifier.factor(self._S, loss / certifier.rows) is not None

    def steps(self, begin: float, wanted: float, most: float) -> Iterator[None]:
        """Lower the multipliers as far as need be, then look for better ones, in steps.

        `begin` is a shift to begin with, `wanted` what the bound may be below the trace of the
        multipliers, `most` the same from where on better ones are not worth looking for.
        """
        certifier = self._certifier
        self.spectrum = certifier.least(self._S, begin, thresholds.current().dual_vectors)
        least = float(self.spectrum[0][0])
        gap = certifier.proven_gap(self._S, 0.0, least)
        if not math.isfinite(gap):
            return
        ascent = DualAscent(certifier, self._S, self.spectrum, gap, wanted)
        self._keep(ascent)
        yield
        more = least < 0 and wanted < gap < most
        while more:
            more = ascent.round()
            self._keep(ascent)
            yield

    def _keep(self, ascent: DualAscent) -> None:
        self.multipliers = ascent.multipliers(self._base)
        self.lower = self.multipliers.trace
