"""Node parameters that rebuild a graph from its bag."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..array_types import Array
from ..config import GraphError
from ..graph import Graph, Ranges

MOST_ANTENNAS = 16
"""Distinct lever arms of a robot above which its graph was made from keyframes, not antennas."""

FILE_POSITION_SIGMA_M = 100.0
"""Standard deviation (m) up to which positions of a graph file count: it is shown as a whole."""

FILE_PAUSE_S = 600.0
"""Pause (s) of a robot's odometry across which its measurements wait for the next pose."""


class RadioNames:
    """Radio names of the ends of ranges: robot or beacon, with a number per antenna."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        ranges = graph.ranges
        self.levers: dict[str, list[tuple[float, ...]]] = {}
        for endpoint, lever in (
            (ranges.source, ranges.lever_source), (ranges.target, ranges.lever_target)
        ):
            pose = endpoint >= 0
            for number, robot in enumerate(graph.robots):
                rows = pose.copy()
                rows[pose] = graph.poses.robot[endpoint[pose]] == number
                known = self.levers.setdefault(robot, [])
                known += [r for r in map(tuple, np.unique(lever[rows], axis=0).tolist())
                          if r not in known]
        for robot, antennas in self.levers.items():
            if len(antennas) > MOST_ANTENNAS:
                raise GraphError(
                    f'the ranges of robot {robot} have {len(antennas)} different lever arms; a '
                    f'bag can name at most {MOST_ANTENNAS} antennas of a robot (a graph made '
                    'from keyframes holds odometry in them: use the original one)')

    def name(self, endpoint: int, lever: Array) -> str:
        """Radio at one end of a range."""
        if endpoint < 0:
            return self.graph.landmarks.names[~endpoint]
        robot = self.graph.robots[self.graph.poses.robot[endpoint]]
        return self._antenna(robot, self.levers[robot].index(tuple(lever.tolist())))

    def _antenna(self, robot: str, number: int) -> str:
        return robot if len(self.levers[robot]) == 1 else f'{robot}_{number}'

    def specs(self) -> dict[str, dict[str, Any]]:
        """The entries of the `radios` parameter: lever arms and known beacons."""
        specs: dict[str, dict[str, Any]] = {}
        for robot, antennas in self.levers.items():
            for number, lever in enumerate(antennas):
                if any(lever) or len(antennas) > 1:
                    specs[self._antenna(robot, number)] = {
                        'robot': robot, 'lever_arm': list(lever)}
        marks, priors = self.graph.landmarks, self.graph.point_priors
        for name in marks.names:
            specs[name] = {'beacon': name}
        for row in np.flatnonzero(priors.point < 0):
            specs[marks.names[~priors.point[row]]] |= {
                'position': priors.position[row].tolist(),
                'sigma_m': float(priors.precision[row] ** -0.5)}
        for row in np.flatnonzero(marks.fixed):
            specs[marks.names[row]] |= {'position': marks.position[row].tolist(), 'sigma_m': 0.0}
        return specs


def node_config(graph: Graph) -> dict[str, Any]:
    """Parameters with which the node rebuilds the graph from its bag."""
    config: dict[str, Any] = {
        'dimension': graph.dimension,
        'robots': list(graph.robots),
        'radios': RadioNames(graph).specs(),
        'odometry_noise': 'pose_increment',
        'keyframes': {'every_message': True, 'max_count': 0},
        # What a file measures at a pose counts at that pose, however long its robot pauses there.
        'stamps': {'timeout_s': FILE_PAUSE_S},
        'ranges': {'attach': 'nearest', 'max_m': max(300.0, 2 * _longest(graph.ranges)),
                   'min_m': 0.0, 'min_sigma_m': 1e-9},
        # The steps and noise of a graph are what they are: nothing is to be judged or bounded.
        'odometry': {'max_speed_m_per_s': math.inf, 'max_turn_rate_rad_per_s': math.inf,
                     'gap_s': 1e6, 'max_extrapolation_s': 60.0},
        'closures': {'max_translation_m': 0.0, 'min_sigma_m': 1e-9, 'min_sigma_rad': 1e-9},
        'bounds': {'odometry_min_sigma_m': 1e-9, 'odometry_min_sigma_rad': 1e-9},
        # Costs of a file are stated without a kernel. Its sigmas may be far too large (outfinite:
        # residuals of 0.06 sigma), so that a position is uncertain by tens of metres on paper.
        'solver': {'robust': {'kernel': 'none', 'gnc': False}},
        'backend': {'observability': {
            'position_sigma_m': FILE_POSITION_SIGMA_M, 'heading_sigma_rad': 3.0},
            'integrity': {
                'gate': False, 'doubt_ranges': False, 'doubt_odometry': False,
                'widen_odometry': False}},
    }
    if len(graph.sightings):
        longest = np.linalg.norm(graph.sightings.translation, axis=1).max()
        config['sightings'] = {
            'min_m': 0.0, 'max_m': max(100.0, 2 * float(longest)), 'min_sigma_m': 1e-9,
            'min_interval_s': 0.0, 'max_total_rate_hz': 1e6}
    if len(graph.pose_priors) or np.any(graph.point_priors.point >= 0):
        config['fixes'] = {
            'min_sigma_m': 1e-9, 'min_sigma_rad': 1e-9,
            'topic': '/{robot}/fix', 'lever_arms': _fix_levers(graph),
            'max_heading_sigma_rad': 10.0}
    return config


def _fix_levers(graph: Graph) -> dict[str, list[float]]:
    """The antenna of each robot's position fixes, where it is off the body origin."""
    priors = graph.point_priors.take(graph.point_priors.point >= 0)
    levers: dict[str, list[float]] = {}
    for number, robot in enumerate(graph.robots):
        mine = priors.lever[graph.poses.robot[priors.point] == number]
        if len(np.unique(mine, axis=0)) > 1:
            raise GraphError(
                f'the position fixes of robot {robot} have several lever arms; a bag can hold one')
        if np.any(mine):
            levers[robot] = [*mine[0].tolist(), 0.0][:3]
    return levers


def _longest(ranges: Ranges) -> float:
    return float(ranges.distance_m.max()) if len(ranges) else 0.0
