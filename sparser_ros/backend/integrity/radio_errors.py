"""Errors of radios, by name: taken off every range, and in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...array_types import Array, Index
from ...graph import Graph, Ranges
from ...graph.ends import owners

ALL_RADIOS = 'all radios'
"""Subject of a length that all ranges share."""
SHORTEST_M = 1e-6
"""What remains at least of a range: graphs hold no distance that is not positive."""
BIAS = 'radio_bias'
"""Kind of findings whose value is to be added to `bias_m` of a robot's or beacon's radio, m."""

ANTENNA_AXES = tuple(f'antenna_{axis}' for axis in 'xyz')
"""Of findings whose value is to be added to that axis of a robot's lever arms, m."""

PLAUSIBLE_M = 1.5
"""An antenna is seldom further than this from where it is configured: most robots are smaller.
What else bends a map in the same way is likelier then."""
_DIRECTIONS = (
    ('further ahead', 'further back'), ('further left', 'further right'), ('higher', 'lower'))
"""Along the axes of a robot (REP 103), positive and negative."""


@dataclass(frozen=True)
class RadioErrors:
    """What ranges are too long by, and by how much antennas stand elsewhere than configured."""

    bias_m: Mapping[str, float] = field(default_factory=dict)
    """Of the radios of robots and landmarks; a range has the sum of those of its two radios, and
    what is said of ALL_RADIOS once."""
    antenna_m: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """(d,) of robots: true less configured lever arm, in the frame of the robot."""

    def __bool__(self) -> bool:
        return bool(self.bias_m or self.antenna_m)

    @property
    def negative(self) -> RadioErrors:
        """What puts back what this takes off."""
        return RadioErrors(
            {name: -bias for name, bias in self.bias_m.items()},
            {name: tuple(-metres for metres in error) for name, error in self.antenna_m.items()})

    def off(self, graph: Graph, ranges: Ranges) -> Ranges:
        """Ranges with the errors taken off.

        `graph` holds the poses and landmarks that the endpoints of `ranges` number. A range that
        acts between keyframes has its antenna moved along the axes of the keyframe: robots turn
        little between two.
        """
        if not self or not len(ranges):
            return ranges
        ends = owners(graph, ranges.source), owners(graph, ranges.target)
        own = np.array([
            self.bias_m.get(name, 0.0) for name in (*graph.robots, *graph.landmarks.names)])
        moved = self._moved(graph, ends)
        return ranges.replaced(
            distance_m=np.maximum(
                ranges.distance_m - own[ends[0]] - own[ends[1]]
                - self.bias_m.get(ALL_RADIOS, 0.0), SHORTEST_M),
            lever_source=ranges.lever_source + moved[0],
            lever_target=ranges.lever_target + moved[1])

    def off_all(self, graph: Graph) -> Graph:
        """A graph with the errors taken off its ranges; itself where there are none."""
        return graph.replaced(ranges=self.off(graph, graph.ranges)) if self else graph

    def put_back(self, graph: Graph) -> Graph:
        """A graph off whose ranges these errors are taken, with the ranges as they came."""
        return self.negative.off_all(graph)

    def may_differ(self, other: RadioErrors, by_m: float) -> bool:
        """Whether the ranges of a pair may differ by more than `by_m`."""
        steps = sorted((self._step(other, name) for name in {
            *self.bias_m, *self.antenna_m, *other.bias_m, *other.antenna_m}), reverse=True)
        return sum(steps[:2]) > by_m

    def _step(self, other: RadioErrors, name: str) -> float:
        """How much the end of a range at a radio may differ, m."""
        own, theirs = self.antenna_m.get(name, ()), other.antenna_m.get(name, ())
        axes = np.zeros(max(len(own), len(theirs)))
        axes[:len(own)] += own
        axes[:len(theirs)] -= theirs
        return float(
            abs(self.bias_m.get(name, 0.0) - other.bias_m.get(name, 0.0)) + np.linalg.norm(axes))

    def _moved(self, graph: Graph, ends: tuple[Index, Index]) -> tuple[Array, Array]:
        """(k, d) of both ends: what is added to lever arms; those of landmarks are zero."""
        place = np.zeros((len(graph.robots) + graph.n_landmarks, graph.dimension))
        for number, robot in enumerate(graph.robots):
            place[number] = self.antenna_m.get(robot, 0.0)
        return place[ends[0]], place[ends[1]]


def moved(axis: int, error_m: float) -> str:
    """Where an antenna is whose lever arm lacks `error_m` along an axis of its robot."""
    return _DIRECTIONS[axis][error_m < 0]


def antenna_moved(robot: str, axis: int, error_m: float) -> str:
    """The same as a sentence."""
    return (f'the antenna of {robot} is {abs(error_m):.2f} m {moved(axis, error_m)} '
            'than its lever_arm says')


def doubt(error_m: Iterable[float]) -> str:
    """What is likelier than an antenna that is so far off, (d,) metres; empty if it may well be."""
    if math.hypot(*error_m) <= PLAUSIBLE_M:
        return ''
    return (f'more than {PLAUSIBLE_M:g} m off is doubtful, unless the robot is that large: '
            'late stamps, a wrong position of a beacon, a radio named for another robot or wrong '
            'odometry are likelier')


def lateness(late_s: float) -> str:
    """How late stamps are, or how early."""
    return f'{abs(late_s):.2f} s {"late" if late_s > 0 else "early"}'


def either_words(robot: str, late_s: float, axis: int, error_m: float) -> str:
    """A robot whose stamps are off, or its antenna along an axis: the data do not tell which."""
    doubted = doubt([error_m])
    return (f'stamps of ranges of {robot} are {lateness(late_s)}, or its antenna is '
            f'{abs(error_m):.2f} m {moved(axis, error_m)} than its lever_arm says'
            + (f' ({doubted})' if doubted else ': drive at different speeds to tell'))
