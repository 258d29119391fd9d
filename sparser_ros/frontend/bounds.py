"""Every number that enters the graph lies within bounds: floors, ceilings, sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..config import SparserConfig


class Bounds:
    """The bounds of `bounds.*` and the least noise of each kind of measurement.

    Behind them no sum or product of the solver can overflow: coordinates are at most 1e9 m,
    standard deviations between 1e-9 m and 1e9 m, so weighted squares stay below 1e54.
    """

    def __init__(self, config: SparserConfig) -> None:
        b, c, f = config.bounds, config.closures, config.fixes
        self._max_distance_m = f.max_distance_m or math.inf
        self.max_coordinate_m = b.max_coordinate_m
        self._most = (b.max_sigma_m**2, b.max_sigma_rad**2)
        self._least = {
            'odometry': (b.odometry_min_sigma_m**2, b.odometry_min_sigma_rad**2),
            'closures': (c.min_sigma_m**2, c.min_sigma_rad**2),
            'fixes': (f.min_sigma_m**2, f.min_sigma_rad**2),
            'ranges': (config.ranges.min_sigma_m**2, 0.0),
            'sightings': (config.sightings.min_sigma_m**2, 0.0),
        }

    def within(self, coordinates: Iterable[float]) -> bool:
        """True if all coordinates are finite and no larger than any place on Earth has."""
        return all(abs(value) <= self.max_coordinate_m for value in coordinates)

    def place_fault(self, coordinates: list[float]) -> str:
        """Why coordinates are none, or ''."""
        if not all(map(math.isfinite, coordinates)):
            return 'not_finite'
        return '' if self.within(coordinates) else 'out_of_bounds'

    def datum_fault(self, metres: float) -> str:
        """Why a satellite fix so far from the datum is none, or ''."""
        return 'far_from_datum' if metres > self._max_distance_m else ''

    def variance(self, kind: str, variance_m2: float) -> float:
        """A variance of lengths (m^2) as far as it is believed."""
        return _clipped(variance_m2, self._least[kind][0], self._most[0])

    def variances(self, kind: str, variance_m2: float, variance_rad2: float
                  ) -> tuple[float, float]:
        """Variances of translation (m^2) and rotation (rad^2) as far as they are believed."""
        return (self.variance(kind, variance_m2),
                _clipped(variance_rad2, self._least[kind][1], self._most[1]))


def _clipped(value: float, least: float, most: float) -> float:
    """NaN counts as knowing nothing."""
    return most if math.isnan(value) else min(max(value, least), most)
