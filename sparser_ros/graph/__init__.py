"""The factor graph as arrays: variables, measurements, estimates and residuals."""

from .estimate import Estimate, estimate_of, with_estimate
from .graph import Graph, Landmarks, Poses, empty_graph
from .increment import Increment, extended
from .keys import is_landmark, landmark_endpoint, point_index
from .measurement_tables import MeasurementTables
from .measurements import (
    MEASUREMENT_TYPES,
    Kind,
    MeasurementType,
    PointPriors,
    PointResidual,
    PosePriors,
    Ranges,
    RelativePoses,
    RotationResidual,
    Sightings,
    Table,
    concatenated,
    empty,
    register,
)
from .residuals import (
    antennas,
    cost,
    range_directions,
    range_lever_derivatives,
    range_residuals,
    range_vectors,
    squared_residuals,
)
from .wire import poses_from, tables_from, to_arrays

__all__ = [
    'MEASUREMENT_TYPES',
    'Estimate',
    'Graph',
    'Increment',
    'Kind',
    'Landmarks',
    'MeasurementTables',
    'MeasurementType',
    'PointPriors',
    'PointResidual',
    'PosePriors',
    'Poses',
    'Ranges',
    'RelativePoses',
    'RotationResidual',
    'Sightings',
    'Table',
    'antennas',
    'concatenated',
    'cost',
    'empty',
    'empty_graph',
    'estimate_of',
    'extended',
    'is_landmark',
    'landmark_endpoint',
    'point_index',
    'poses_from',
    'range_directions',
    'range_lever_derivatives',
    'range_residuals',
    'range_vectors',
    'register',
    'squared_residuals',
    'tables_from',
    'to_arrays',
    'with_estimate',
]
