"""Seeded problems of the paper's four classes, with the truth in their vertices."""

from .network import network_of, sensor_network
from .scene import scene
from .sphere import sphere

__all__ = ['network_of', 'scene', 'sensor_network', 'sphere']
