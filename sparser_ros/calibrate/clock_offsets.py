"""Clocks of radios against those of the odometry, from ranges that change while radios move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Array, Index, Mask
from ..graph import Estimate, Graph, range_directions
from .self_calibration import SelfCalibration

_USEFUL_S = 0.1
"""An offset whose standard deviation is above this is not worth a line: a robot at 1 m/s moves
0.1 m in that time."""


@dataclass(frozen=True)
class ClockRow:
    """How late the stamps of ranges of one source are; `ranges.time_offsets` is the negative."""

    source: str
    late_s: float
    sigma_s: float
    rate_m_s: float
    """Root mean square of how fast its ranges change: what an offset is worth."""

    @property
    def determined(self) -> bool:
        """Whether the ranges say how late the stamps are."""
        return self.sigma_s < _USEFUL_S

    def significant(self, sigmas: float) -> bool:
        """Whether the stamps are off by so many standard deviations."""
        return self.determined and abs(self.late_s) > sigmas * self.sigma_s


def clock_columns(found: SelfCalibration) -> tuple[list[int], Array]:
    """Sources (s,) whose stamps tell, and derivatives (k, s) of residuals by their lateness.

    Stamps that are late by tau let a range be measured where the radios were tau before:
    the residual (predicted minus measured) is tau d|v|/dt.
    """
    graph, ends = found.graph, found.ends
    rate, moving = range_rates(graph, found.estimate)
    sources = [int(k) for k in np.unique(ends.first[moving])]
    columns = np.zeros((len(graph.ranges), len(sources)))
    for at, source in enumerate(sources):
        columns[:, at] = np.where(moving & (ends.first == source), -rate, 0.0)
    return sources, columns


def range_rates(graph: Graph, estimate: Estimate) -> tuple[Array, Mask]:
    """(k,): change of every distance in m/s, and where stamps tell it."""
    velocity = np.zeros((graph.n_poses, graph.dimension))
    timed = np.zeros(graph.n_poses, dtype=bool)
    for robot in range(len(graph.robots)):
        rows = np.flatnonzero(graph.poses.robot == robot)
        seconds = graph.poses.stamp_ns[rows] * 1e-9
        if len(rows) < 3 or np.any(np.diff(seconds) <= 0):
            continue
        velocity[rows] = np.gradient(estimate.translation[rows], seconds, axis=0)
        timed[rows] = True
    unit = range_directions(graph, estimate)
    ranges = graph.ranges

    def of(endpoint: Index) -> tuple[Array, Mask]:
        pose = endpoint >= 0
        row = np.maximum(endpoint, 0)
        return np.where(pose[:, None], velocity[row], 0.0), ~pose | timed[row]

    (end, end_timed), (start, start_timed) = of(ranges.target), of(ranges.source)
    rate = np.sum(unit * (end - start), axis=1)
    return np.asarray(rate), np.asarray(end_timed & start_timed & (rate != 0.0))
