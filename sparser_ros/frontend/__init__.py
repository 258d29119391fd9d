"""Stamped sensor data to graph: validation, keyframes, range filter, attachment. No ROS."""

from .frontend import Frontend
from .inputs import Inputs, Route

__all__ = ['Frontend', 'Inputs', 'Route']
