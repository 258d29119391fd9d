"""Latitude, longitude and height to the local map (WGS 84)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ..array_types import Array

SEMI_MAJOR_M = 6378137.0
ECCENTRICITY_SQUARED = 6.69437999014e-3


def earth_fixed(latitude: float, longitude: float, height: float) -> Array:
    """Earth-centred coordinates (3,) in metres of degrees and metres."""
    phi, lam = math.radians(latitude), math.radians(longitude)
    normal = SEMI_MAJOR_M / math.sqrt(1 - ECCENTRICITY_SQUARED * math.sin(phi) ** 2)
    return np.array([
        (normal + height) * math.cos(phi) * math.cos(lam),
        (normal + height) * math.cos(phi) * math.sin(lam),
        (normal * (1 - ECCENTRICITY_SQUARED) + height) * math.sin(phi),
    ])


@dataclass(frozen=True)
class Datum:
    """Origin of the map on the earth; x points `heading` counter-clockwise from east."""

    latitude: float
    longitude: float
    height: float
    heading_rad: float = 0.0
    origin: Array = field(init=False, repr=False, compare=False)
    rotation: Array = field(init=False, repr=False, compare=False)
    """(3, 3): R_map_enu."""
    _axes: Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        phi, lam = math.radians(self.latitude), math.radians(self.longitude)
        cosine, sine = math.cos(self.heading_rad), math.sin(self.heading_rad)
        east = [-math.sin(lam), math.cos(lam), 0.0]
        north = [-math.sin(phi) * math.cos(lam), -math.sin(phi) * math.sin(lam), math.cos(phi)]
        up = [math.cos(phi) * math.cos(lam), math.cos(phi) * math.sin(lam), math.sin(phi)]
        turn = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        object.__setattr__(
            self, 'origin', earth_fixed(self.latitude, self.longitude, self.height))
        object.__setattr__(self, 'rotation', turn)
        object.__setattr__(self, '_axes', turn @ np.array([east, north, up]))

    def to_map(self, latitude: float, longitude: float, height: float) -> Array:
        """Position (3,) in the map frame, metres; an unknown height counts as the datum's."""
        if not math.isfinite(height):
            height = self.height
        return self._axes @ (earth_fixed(latitude, longitude, height) - self.origin)
