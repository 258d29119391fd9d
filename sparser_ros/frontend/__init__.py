"""Stamped sensor data to graph: validation, keyframes, range filter, attachment. No ROS."""

from .frontend import Frontend
from .inputs import Inputs, Route
from .samples import (
    ClosureSample,
    FixSample,
    FrameSample,
    OdometrySample,
    RangeSample,
    Refused,
    SightingSample,
)

__all__ = [
    'ClosureSample',
    'FixSample',
    'FrameSample',
    'Frontend',
    'Inputs',
    'OdometrySample',
    'RangeSample',
    'Refused',
    'Route',
    'SightingSample',
]
