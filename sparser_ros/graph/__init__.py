"""The factor graph as arrays: variables, measurements, estimates and residuals."""

from .estimate import Estimate, estimate_of, with_estimate
from .graph import Graph, Landmarks, Poses, empty_graph
from .increment import Increment, extended
from .keys import is_landmark, landmark_endpoint, point_index
from .measurements import (
    PointPriors,
    PosePriors,
    Ranges,
    RelativePoses,
    Sightings,
    Table,
    empty,
)
from .residuals import cost, range_residuals, range_vectors, squared_residuals

__all__ = [
    'Estimate',
    'Graph',
    'Increment',
    'Landmarks',
    'PointPriors',
    'PosePriors',
    'Poses',
    'Ranges',
    'RelativePoses',
    'Sightings',
    'Table',
    'cost',
    'empty',
    'empty_graph',
    'estimate_of',
    'extended',
    'is_landmark',
    'landmark_endpoint',
    'point_index',
    'range_residuals',
    'range_vectors',
    'squared_residuals',
    'with_estimate',
]
