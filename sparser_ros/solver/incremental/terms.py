"""Measurements as terms of the cost, in the form that the incremental solver works on.

At rank d, with bearings at their best direction, every residual is the difference of two vectors
c t + R a, each of a body (pose or landmark), or the distance of two such points less the measured
one (linalg/clique_tree/term_kernels.py). A relative rotation is one term for each axis:
kappa |R_j e_a - R_i R~ e_a|^2, summed over a.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum, unique

import numpy as np
from numpy.typing import NDArray

from ...array_types import Array, Index
from ...config import RobustConfig
from ...graph import Graph, Increment
from ...linalg.clique_tree.term_kernels import TermColumns
from ..robust.kernels import thresholds

GROUND = -1
"""End of a term that is fixed in the map: known beacons, priors and position fixes."""


@unique
class Kind(IntEnum):
    """The kind of measurement that a term is part of."""

    ODOMETRY = 0
    CLOSURE = 1
    SIGHTING = 2
    RANGE = 3
    PRIOR = 4


@dataclass(frozen=True)
class Terms:
    """Terms in columns of equal length; ends are bodies, or GROUND."""

    ends: Index
    """(k, 2)"""
    arms: Array
    """(k, 2, d): a, in the frames of the ends."""
    position_factor: Array
    """(k,): c, 1 for points fixed to bodies, 0 for directions."""
    distance: Array
    """(k,): measured distance in metres, -1 where the two ends should coincide."""
    weight: Array
    """(k,): precision."""
    kind: NDArray[np.int8]
    members: NDArray[np.int8]
    """(k,): at the first term of a measurement the number of its terms, which follow each other;
    else 0."""
    threshold: Array
    """(k,): c^2 of a robust kernel for the measurement, infinite where it is trusted."""

    def __len__(self) -> int:
        return len(self.weight)

    def columns(self, weight: Array) -> TermColumns:
        """What the kernels read, with these weights (k,)."""
        return TermColumns(self.ends, self.arms, self.position_factor, self.distance, weight)

    @classmethod
    def none(cls, dimension: int) -> Terms:
        """No terms."""
        few, many = np.zeros(0), np.zeros(0, dtype=np.int8)
        return cls(
            np.zeros((0, 2), dtype=np.int64), np.zeros((0, 2, dimension)), few, few, few, many,
            many, few)


def terms_of(
    source: Graph | Increment, dimension: int, body: Callable[[Index], Index],
    robust: RobustConfig,
) -> Terms:
    """The terms of all measurements of a graph or increment; `body` numbers its endpoints."""
    d, c2 = dimension, thresholds(source, robust, dimension)
    relative, see, ranges = source.relative_poses, source.sightings, source.ranges
    pose, point = source.pose_priors, source.point_priors
    zero = np.zeros
    parts = [
        _frames(body(relative.i), body(relative.j), relative.rotation, relative.translation,
                relative.kappa, relative.tau, np.where(
                    relative.odometry, Kind.ODOMETRY, Kind.CLOSURE), c2['relative_poses']),
        _pairs(body(see.i), body(see.point), see.translation, zero((len(see), d)), see.tau,
               Kind.SIGHTING, c2['sightings']),
        _pairs(body(ranges.source), body(ranges.target), ranges.lever_source,
               ranges.lever_target, ranges.precision, Kind.RANGE, c2['ranges'],
               ranges.distance_m),
        _frames(np.full(len(pose), GROUND), body(pose.i), pose.rotation, pose.translation,
                pose.kappa, pose.tau, np.full(len(pose), Kind.PRIOR), c2['pose_priors']),
        _pairs(np.full(len(point), GROUND), body(point.point), point.position, point.lever,
               point.precision, Kind.PRIOR, c2['point_priors']),
    ]
    return Terms(*(
        np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Terms)))


def _frames(
    first: Index, second: Index, rotation: Array, translation: Array, kappa: Array, tau: Array,
    kind: Index, threshold: Array,
) -> Terms:
    """Coincidence of two frames: one term for their origins and one for each axis."""
    m, d = translation.shape
    arms = np.zeros((m, d + 1, 2, d))
    arms[:, 0, 0] = translation
    arms[:, 1:, 0] = np.swapaxes(rotation, 1, 2)
    arms[:, 1:, 1] = np.eye(d)
    weight = np.repeat(kappa[:, None], d + 1, axis=1)
    weight[:, 0] = tau
    position_factor = np.zeros((m, d + 1))
    position_factor[:, 0] = 1
    members = np.zeros((m, d + 1), dtype=np.int8)
    members[:, 0] = d + 1
    return Terms(
        np.repeat(np.stack([first, second], axis=1), d + 1, axis=0), arms.reshape(-1, 2, d),
        position_factor.ravel(), np.full(m * (d + 1), -1.0), weight.ravel(),
        np.repeat(kind, d + 1).astype(np.int8), members.ravel(), np.repeat(threshold, d + 1))


def _pairs(
    first: Index, second: Index, arm_first: Array, arm_second: Array, weight: Array, kind: Kind,
    threshold: Array, distance: Array | None = None,
) -> Terms:
    """Coincidence, or distance, of two points."""
    m = len(first)
    return Terms(
        np.stack([first, second], axis=1), np.stack([arm_first, arm_second], axis=1), np.ones(m),
        np.full(m, -1.0) if distance is None else distance, weight,
        np.full(m, kind, dtype=np.int8), np.ones(m, dtype=np.int8), threshold)
