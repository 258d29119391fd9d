"""Measurements as structures of arrays, one file and one frozen table per type.

A file declares a type completely (`MeasurementType`): table, endpoints, residuals, kind. A new
file here is a new type; graphs, solver, robust weights and the wire form know it from then on.

Weights are the scalars of the quadratic cost (no factor 1/2): `kappa` on rotations, `tau` on
translations, `precision` = 1/sigma^2 on ranges and positions; `graph/precision.py` derives them
from covariances. Stamps are int nanoseconds, 0 = unknown.
"""

from importlib import import_module
from pkgutil import iter_modules

# The order of these imports is the order of the rows in the problem.
from .relative_poses import RelativePoses  # isort: skip
from .sightings import Sightings  # isort: skip
from .ranges import Ranges, range_residual  # isort: skip
from .pose_priors import PosePriors  # isort: skip
from .point_priors import PointPriors  # isort: skip
from .verticals import Verticals  # isort: skip
from .heights import Heights  # isort: skip
from .measurement_type import MEASUREMENT_TYPES, Kind, MeasurementType, register
from .residual import (
    HeightResidual,
    PointResidual,
    Residual,
    RotationResidual,
    VerticalResidual,
    turned_arms,
)
from .table import Column, Table, concatenated, empty

__all__ = [
    'MEASUREMENT_TYPES',
    'Column',
    'HeightResidual',
    'Heights',
    'Kind',
    'MeasurementType',
    'PointPriors',
    'PointResidual',
    'PosePriors',
    'Ranges',
    'RelativePoses',
    'Residual',
    'RotationResidual',
    'Sightings',
    'Table',
    'VerticalResidual',
    'Verticals',
    'concatenated',
    'empty',
    'range_residual',
    'register',
    'turned_arms',
]

for _file in sorted(module.name for module in iter_modules(__path__)):
    import_module(f'{__name__}.{_file}')
