"""Places of antennas and lateness of stamps, estimated together.

A robot that drives ahead at v m/s looks the same with stamps that are tau late as with an antenna
that is tau v further back: one without the other would take the blame for both. Only changes of
speed tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..array_types import Array, Mask
from ..config import SolverConfig
from ..config.calibration_config import CalibrationConfig
from ..graph import Estimate, Graph
from .clock_offsets import ClockRow, clock_columns
from .further_parameters import further_parameters
from .lever_arms import LeverRow, lever_columns
from .radio_parameters import SHORTEST_M
from .self_calibration import SelfCalibration, calibration_steps

SIGNIFICANT = 3.0
"""Standard deviations from which a lever arm, or stamps, are said to be off."""
_MOST_TURNS = 4
"""Calibrations after each other, each with the errors that the last one has found taken off."""
_PRIOR_M = 1.0
"""Prior standard deviation of an antenna's place, per axis: the size of a robot."""
_PRIOR_S = 1.0
"""That of lateness; larger offsets are named by the front-end."""


@dataclass(frozen=True)
class EitherRow:
    """A robot whose antenna or stamps are off, and the data do not tell which."""

    robot: str
    axis: int
    error_m: float
    """Of that axis of the lever arm, if all stamps are right."""
    late_s: float
    """If all lever arms are right."""


@dataclass(frozen=True)
class AntennasAndClocks:
    """Errors of lever arms, then lateness of stamps, and their joint covariance."""

    robots: tuple[str, ...]
    """(r,): robots that have ranges."""
    sources: tuple[str, ...]
    """(s,): robots and beacons whose stamps tell something."""
    value: Array
    """(r d + s,), metres and seconds."""
    covariance: Array
    rate_m_s: Array
    """(s,): root mean square of how fast the ranges of each source change."""

    @property
    def antennas(self) -> tuple[LeverRow, ...]:
        """All robots that have ranges."""
        values, sigmas = (
            one[:self._levers].reshape(len(self.robots), -1).tolist()
            for one in (self.value, self._sigma))
        return tuple(
            LeverRow(robot, tuple(value), tuple(sigma))
            for robot, value, sigma in zip(self.robots, values, sigmas, strict=True))

    @property
    def clocks(self) -> tuple[ClockRow, ...]:
        """All sources whose stamps tell something."""
        return tuple(map(
            ClockRow, self.sources, self.value[self._levers:].tolist(),
            self._sigma[self._levers:].tolist(), self.rate_m_s.tolist()))

    def either(self, sigmas: float) -> tuple[EitherRow, ...]:
        """Robots of which something is off by so many standard deviations, whichever it is."""
        blamed = {row.robot for row in self.antennas if row.significant(sigmas)} | {
            row.source for row in self.clocks if row.significant(sigmas)}
        levers = np.arange(len(self.value)) < self._levers
        lever, lever_sigma = self._given(levers)
        late, late_sigma = self._given(~levers)
        d, found = self._levers // max(len(self.robots), 1), []
        for number, robot in enumerate(self.robots):
            if robot not in self.sources or robot in blamed:
                continue
            clock, own = self.sources.index(robot), slice(number * d, (number + 1) * d)
            axis = int(np.argmax(np.abs(lever[own]) / lever_sigma[own]))
            if abs(late[clock]) > sigmas * late_sigma[clock] and abs(
                    lever[own][axis]) > sigmas * lever_sigma[own][axis]:
                found.append(
                    EitherRow(robot, axis, float(lever[own][axis]), float(late[clock])))
        return tuple(found)

    def significant(self, sigmas: float) -> bool:
        """Whether anything is off by so many standard deviations."""
        return any(row.significant(sigmas) for row in self.antennas) or any(
            row.significant(sigmas) for row in self.clocks) or bool(self.either(sigmas))

    def within(self, sigmas: float) -> bool:
        """Whether nothing is off by more than so many standard deviations."""
        return bool(np.all(np.abs(self.value) <= sigmas * self._sigma))

    @property
    def _levers(self) -> int:
        return len(self.value) - len(self.sources)

    @property
    def _sigma(self) -> Array:
        return np.asarray(np.sqrt(np.diagonal(self.covariance)))

    def _given(self, own: Mask) -> tuple[Array, Array]:
        """Values and standard deviations of some parameters if all others are zero."""
        if not np.any(own) or np.all(own):
            return self.value[own], self._sigma[own]
        across = self.covariance[np.ix_(own, ~own)]
        gain = np.linalg.solve(self.covariance[np.ix_(~own, ~own)], across.T).T
        left = self.covariance[np.ix_(own, own)] - gain @ across.T
        return (self.value[own] - gain @ self.value[~own],
                np.sqrt(np.maximum(np.diagonal(left), 1e-18)))


def antennas_and_clocks(found: SelfCalibration) -> AntennasAndClocks:
    """Errors of lever arms and lateness of stamps, where biases and the map are free as well."""
    if not len(found.graph.ranges):
        return AntennasAndClocks((), (), np.zeros(0), np.zeros((0, 0)), np.zeros(0))
    robots, levers = lever_columns(found)
    sources, lateness = clock_columns(found)
    value, covariance = further_parameters(
        found, np.hstack([levers, lateness]),
        np.repeat([_PRIOR_M, _PRIOR_S], [levers.shape[1], lateness.shape[1]]))
    rows = np.maximum(np.sum(lateness != 0.0, axis=0), 1)
    names = found.ends.names
    return AntennasAndClocks(
        tuple(names[k] for k in robots), tuple(names[k] for k in sources), value, covariance,
        np.sqrt(np.sum(lateness**2, axis=0) / rows))


def calibration_with_places(
    graph: Graph, initial: Estimate | None, config: CalibrationConfig, solver: SolverConfig,
    sigmas: float = SIGNIFICANT,
) -> Iterator[tuple[SelfCalibration, AntennasAndClocks] | None]:
    """`calibration_steps`, and what it says of antennas and clocks at the end.

    Where these are off by `sigmas` standard deviations, the odometry has taken the blame for a part
    of it. So the radios are calibrated again with these errors taken off the ranges, until what is
    left is within one standard deviation.
    """
    told: AntennasAndClocks | None = None
    for _ in range(_MOST_TURNS):
        found: SelfCalibration | None = None
        for found in calibration_steps(graph, initial, config, solver):
            if found is None:
                yield None
        assert found is not None
        left = antennas_and_clocks(found)
        if told is not None and (told.robots, told.sources) == (left.robots, left.sources):
            told, settled = replace(left, value=told.value + left.value), left.within(1.0)
        else:
            told, settled = left, not left.significant(sigmas)
        if found.doubted or settled:
            break
        yield None
        graph, initial = _without(graph, found, left), found.estimate
    assert found is not None and told is not None
    yield found, told


def _without(graph: Graph, found: SelfCalibration, told: AntennasAndClocks) -> Graph:
    """The graph with ranges as they would be with right lever arms and stamps, to first order."""
    columns = np.hstack([lever_columns(found)[1], clock_columns(found)[1]])
    return graph.replaced(ranges=graph.ranges.replaced(
        distance_m=np.maximum(graph.ranges.distance_m - columns @ told.value, SHORTEST_M)))
