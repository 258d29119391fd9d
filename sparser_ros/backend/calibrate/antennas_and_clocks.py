"""Places of antennas and lateness of stamps, estimated together.

A robot that drives ahead at v m/s looks the same with stamps that are tau late as with an antenna
that is tau v further back: one without the other would take the blame for both. Only changes of
speed tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.linalg import block_diag

from ...array_types import Array, Index, Mask
from ...config import SolverConfig
from ...config.calibration_config import CalibrationConfig
from ...graph import Estimate, Graph, range_directions
from ..integrity.hypotheses import antenna_places
from ..integrity.radio_errors import SHORTEST_M, RadioErrors, doubt
from .radio_model import posterior, radio_model
from .self_calibration import SelfCalibration, calibration_steps

SIGNIFICANT = 3.0
"""Standard deviations from which a lever arm, or stamps, are said to be off."""
_MOST_TURNS = 4
"""Calibrations after each other, each with the errors that the last one has found taken off."""
_PRIOR_M = 1.0
"""Prior standard deviation of an antenna's place, per axis: the size of a robot."""
_PRIOR_S = 1.0
"""That of lateness; larger offsets are named by the front-end."""
_USEFUL_M = 0.1
"""A place whose standard deviation is above this says no more than a look at the robot."""
_USEFUL_S = 0.1
"""An offset whose standard deviation is above this is not worth a line: a robot at 1 m/s moves
0.1 m in that time."""


@dataclass(frozen=True)
class LeverRow:
    """By how much the lever arm of a robot is off; all antennas of a robot are one."""

    robot: str
    error_m: tuple[float, ...]
    """(d,): true less configured lever arm, in the frame of the robot."""
    sigma_m: tuple[float, ...]

    @property
    def determined(self) -> bool:
        """Whether the ranges say where the antenna is."""
        return max(self.sigma_m) < _USEFUL_M

    def significant(self, sigmas: float) -> bool:
        """Whether the configured lever arm is wrong by so many standard deviations of an axis."""
        off = np.abs(self.error_m) > sigmas * np.array(self.sigma_m)
        return self.determined and bool(np.any(off))

    def to_move(self, sigmas: float) -> bool:
        """Whether the lever arm is wrong, and by no more than an antenna may well be off."""
        return self.significant(sigmas) and not doubt(self.error_m)


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
            column[:self._levers].reshape(
                len(self.robots), self._levers // max(len(self.robots), 1)).tolist()
            for column in (self.value, self._sigma))
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
        d, rows = self._levers // max(len(self.robots), 1), []
        for number, robot in enumerate(self.robots):
            if robot not in self.sources or robot in blamed:
                continue
            clock, own = self.sources.index(robot), slice(number * d, (number + 1) * d)
            axis = int(np.argmax(np.abs(lever[own]) / lever_sigma[own]))
            if abs(late[clock]) > sigmas * late_sigma[clock] and abs(
                    lever[own][axis]) > sigmas * lever_sigma[own][axis]:
                rows.append(
                    EitherRow(robot, axis, float(lever[own][axis]), float(late[clock])))
        return tuple(rows)

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


def antennas_and_clocks(calibration: SelfCalibration) -> AntennasAndClocks:
    """Errors of lever arms and lateness of stamps, where biases and the map are free as well."""
    graph, ends, parameters = calibration.graph, calibration.ends, calibration.parameters
    if not len(graph.ranges):
        return AntennasAndClocks((), (), np.zeros(0), np.zeros((0, 0)), np.zeros(0))
    model, radios = radio_model(parameters, graph, calibration.estimate, calibration.weights)
    antennas = antenna_places(model, ends)
    sources, lateness = clock_columns(calibration)
    places = [*antennas.values(), model.columns(
        'ranges', np.arange(len(graph.ranges)), model.root_of_ranges[:, None] * lateness)]
    levers, clocks = len(antennas) * graph.dimension, len(sources)
    size, count = len(ends.names) + 1, levers + clocks
    scores = model.scores(
        sp.hstack([radios[:, :size], *places, radios[:, size:]], format='csc'))
    share, known = calibration.inflation[0] * calibration.inflation[1], calibration.posterior.prior
    prior = np.repeat([_PRIOR_M**2, _PRIOR_S**2], [levers, clocks])
    later = posterior(
        scores.information / share, scores.score / share,
        np.insert(parameters.values, size, np.zeros(count)),
        block_diag(known[:size, :size], np.diag(prior), known[size:, size:]), size + count)
    own = slice(size, size + count)
    changing = np.maximum(np.sum(lateness != 0.0, axis=0), 1)
    return AntennasAndClocks(
        tuple(antennas), tuple(ends.names[k] for k in sources), later.values[own],
        later.covariance[own, own], np.sqrt(np.sum(lateness**2, axis=0) / changing))


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
        calibration: SelfCalibration | None = None
        for calibration in calibration_steps(graph, initial, config, solver):
            if calibration is None:
                yield None
        assert calibration is not None
        left = antennas_and_clocks(calibration)
        if told is not None and (told.robots, told.sources) == (left.robots, left.sources):
            told, settled = replace(left, value=told.value + left.value), left.within(1.0)
        else:
            told, settled = left, not left.significant(sigmas)
        if calibration.doubted or settled:
            break
        yield None
        graph, initial = _without(graph, calibration, left), calibration.estimate
    assert calibration is not None and told is not None
    yield calibration, told


def _without(graph: Graph, calibration: SelfCalibration, told: AntennasAndClocks) -> Graph:
    """The graph with the errors of lever arms taken off, and those of stamps to first order."""
    late_s = np.array([row.late_s for row in told.clocks])
    moved = RadioErrors(antenna_m={row.robot: row.error_m for row in told.antennas}).off_all(graph)
    return moved.replaced(ranges=moved.ranges.replaced(distance_m=np.maximum(
        moved.ranges.distance_m - clock_columns(calibration)[1] @ late_s, SHORTEST_M)))


def clock_columns(calibration: SelfCalibration) -> tuple[list[int], Array]:
    """Sources (s,) whose stamps tell, and derivatives (k, s) of residuals by their lateness.

    Stamps that are late by tau let a range be measured where the radios were tau before:
    the residual (predicted minus measured) is tau d|v|/dt.
    """
    graph, ends = calibration.graph, calibration.ends
    rate, moving = range_rates(graph, calibration.estimate)
    sources = [int(k) for k in np.unique(ends.first[moving])]
    columns = np.zeros((len(graph.ranges), len(sources)))
    for at, source in enumerate(sources):
        columns[:, at] = np.where(moving & (ends.first == source), -rate, 0.0)
    return sources, columns


def range_rates(graph: Graph, estimate: Estimate) -> tuple[Array, Mask]:
    """(k,): change of every distance in m/s, and where stamps tell it."""
    d = graph.dimension
    velocity, spin = np.zeros((graph.n_poses, d)), np.zeros((graph.n_poses, d, d))
    timed = np.zeros(graph.n_poses, dtype=bool)
    for robot in range(len(graph.robots)):
        own = np.flatnonzero(graph.poses.robot == robot)
        seconds, first = np.unique(graph.poses.stamp_ns[own] * 1e-9, return_index=True)
        rows = own[first]
        if len(rows) < 3:
            continue
        velocity[rows] = np.gradient(estimate.translation[rows], seconds, axis=0)
        spin[rows] = np.gradient(estimate.rotation[rows], seconds, axis=0)
        timed[rows] = True
    unit = range_directions(graph, estimate)
    ranges = graph.ranges

    def of(endpoint: Index, lever: Array) -> tuple[Array, Mask]:
        """Velocities of antennas, which swing where a robot turns."""
        pose = endpoint >= 0
        row = np.maximum(endpoint, 0)
        moving = velocity[row] + np.einsum('kij,kj->ki', spin[row], lever)
        return np.where(pose[:, None], moving, 0.0), ~pose | timed[row]

    end, end_timed = of(ranges.target, ranges.lever_target)
    start, start_timed = of(ranges.source, ranges.lever_source)
    rate = np.sum(unit * (end - start), axis=1)
    return np.asarray(rate), np.asarray(end_timed & start_timed & (rate != 0.0))
