"""Measurements as terms of the cost, in the form that the incremental solver works on.

At rank d, with bearings at their best direction, every residual is the difference of two vectors
c t + R a, each of a body (pose or landmark), or the distance of two such points less the measured
one (linalg/clique_tree/term_kernels.py). A relative rotation is one term for each axis:
kappa |R_j e_a - R_i R~ e_a|^2, summed over a.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ...array_types import Array, Index
from ...config import RobustConfig
from ...graph import Kind, MeasurementTables, PointResidual, RotationResidual
from ...graph.measurements import Residual
from ...linalg.clique_tree.term_kernels import TermColumns
from ..robust.kernels import thresholds

__all__ = ['GROUND', 'Kind', 'Terms', 'terms_of']

GROUND = -1
"""End of a term that is fixed in the map: known beacons, priors and position fixes."""


_Columns = tuple[Index, Array, Array, Array, Array]
"""Ends, arms, position factor, distance and weight of the terms that one residual gives."""


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
    source: MeasurementTables, dimension: int, body: Callable[[Index], Index],
    robust: RobustConfig,
) -> Terms:
    """The terms of all measurements of a graph or increment; `body` numbers its endpoints."""
    c2 = thresholds(source, robust, dimension)
    parts = [
        _terms(kind.residuals(table), kind.kinds(table), c2[kind.name], dimension, body)
        for kind, table in source.typed()]
    return Terms(*(
        np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Terms)))


def _terms(
    residuals: tuple[Residual, ...], kinds: NDArray[np.int8], threshold: Array, dimension: int,
    body: Callable[[Index], Index],
) -> Terms:
    """The terms of one table: of each measurement its points first, then its axes."""
    ordered = sorted(residuals, key=lambda part: isinstance(part, RotationResidual))
    blocks = [
        _axes(part, dimension, body) if isinstance(part, RotationResidual)
        else _points(part, dimension, body) for part in ordered]
    ends, arms, position_factor, distance, weight = (
        np.concatenate(column, axis=1) for column in zip(*blocks, strict=True))
    size = weight.shape[1]
    members = np.zeros(weight.shape, dtype=np.int8)
    members[:, 0] = size
    return Terms(
        ends.reshape(-1, 2), arms.reshape(-1, 2, dimension), position_factor.ravel(),
        distance.ravel(), weight.ravel(), np.repeat(kinds, size), members.ravel(),
        np.repeat(threshold, size))


def _points(part: PointResidual, d: int, body: Callable[[Index], Index]) -> _Columns:
    """One term for each row: ends (m, 1, 2), arms (m, 1, 2, d), then (m, 1) numbers."""
    m = len(part)
    none = np.zeros((m, d))
    arms = np.stack(
        [none if arm is None else arm for arm in (part.arm_first, part.arm_second)], axis=1)
    distance = np.full(m, -1.0) if part.distance is None else part.distance
    return (
        _ends(part, body)[:, None], arms[:, None], np.ones((m, 1)), distance[:, None],
        part.weight[:, None])


def _axes(part: RotationResidual, d: int, body: Callable[[Index], Index]) -> _Columns:
    """A term for each axis a, kappa |R_j e_a - R_i R~ e_a|^2: ends (m, d, 2) and so on."""
    m = len(part)
    axes = np.broadcast_to(np.eye(d), (m, d, d))
    return (
        np.repeat(_ends(part, body)[:, None], d, axis=1),
        np.stack([np.swapaxes(part.rotation, 1, 2), axes], axis=2), np.zeros((m, d)),
        np.full((m, d), -1.0), np.repeat(part.weight[:, None], d, axis=1))


def _ends(part: Residual, body: Callable[[Index], Index]) -> Index:
    first = np.full(len(part), GROUND) if part.first is None else body(part.first)
    return np.stack([first, body(part.second)], axis=1)
