"""A stretch of time in which the ranges of one source share a fault that is to be tested."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ...array_types import Array, Index
from ...graph.finding import Finding


@dataclass(frozen=True)
class Stretch(ABC):
    """Picked for its residuals; whether it explains more than other faults is to be tested."""

    source: int
    rows: Index
    """All its ranges in the stretch."""
    begin_s: float
    end_s: float
    tests: int
    """Stretches that it was picked from."""

    @abstractmethod
    def finding(self, name: str, theta: Array) -> Finding:
        """Words for the estimated parameters of the fault, `name` being that of the source."""
