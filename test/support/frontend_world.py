"""Robots that glide and turn at constant rates, so that linear interpolation is exact."""

import math
from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from sparser_ros.config import SparserConfig
from sparser_ros.frontend import Frontend
from sparser_ros.frontend.samples import (
    ClosureSample,
    FixSample,
    OdometrySample,
    RangeSample,
    SightingSample,
)
from sparser_ros.graph import Estimate, Graph, empty_graph, extended
from sparser_ros.linalg.rotations import hat, matrix_to_quat, rotvec_to_matrix

SECOND = 1_000_000_000
START = 1_000 * SECOND
NAN = float('nan')
POSE_COVARIANCE = np.diag([0.01] * 3 + [0.001] * 3)
TWIST_COVARIANCE = np.diag([0.04] * 3 + [0.01] * 3)
FIX_POSITION, FIX_ORIENTATION = np.eye(3) * 0.04, np.eye(3) * 0.01


def config(**values) -> SparserConfig:
    """A configuration with two robots, nested or dotted names."""
    return SparserConfig.from_mapping({'robots': ['A', 'B'], **values})


def feed(frontend, route, message, received_ns):
    """The object of a message of a topic into a front-end; the samples taken."""
    return frontend.feed(replace(route, read=None), message, received_ns, lambda _, body: body)


def ns(seconds: float) -> int:
    """Stamp of a time since the start."""
    return START + round(seconds * 1e9)


class Robot:
    """T_map_base(t): constant velocity in map, constant turning about one axis."""

    def __init__(self, name: str, dimension: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        flat = np.array([1.0, 1.0, float(dimension == 3)])
        self.name = name
        self.position = rng.normal(size=3) * 5 * flat
        self.velocity = rng.normal(size=3) * flat
        self.axis = np.array([0.0, 0.0, 1.0]) if dimension == 2 else rng.normal(size=3) * 0.3
        self.turn = rotvec_to_matrix(
            np.array([0, 0, rng.uniform(-3, 3)]) if dimension == 2 else rng.normal(size=3))
        self.rate = rng.uniform(0.2, 0.6)
        self.start = (self.turn.copy(), self.position.copy())
        self.length = math.hypot(*self.axis)
        self.direction = self.axis / self.length
        self.cross = hat(self.direction)
        self.cross_twice = self.cross @ self.cross

    # Tests play hundreds of thousands of messages: one by one, scalars cost a tenth of arrays.
    def turned(self, t: float) -> np.ndarray:
        """(3, 3) rotation since t = 0 (Rodrigues' formula)."""
        angle = self.length * self.rate * t
        return np.eye(3) + math.sin(angle) * self.cross + (1 - math.cos(angle)) * self.cross_twice

    def turned_quat(self, t: float) -> np.ndarray:
        """(4,) the same as a quaternion x y z w, w >= 0."""
        half = 0.5 * self.length * self.rate * t
        sine, cosine = math.sin(half), math.cos(half)
        sign = math.copysign(1.0, cosine)
        return np.append(sign * sine * self.direction, sign * cosine)

    def pose(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """(rotation, translation) of the base in map."""
        return self.turn @ self.turned(t), self.position + self.velocity * t

    def antenna(self, t: float, lever: np.ndarray) -> np.ndarray:
        rotation, translation = self.pose(t)
        return translation + rotation @ lever

    def odometry(self, t, covariance=None, **changes) -> OdometrySample:
        """Odometry whose frame is the pose at t = 0."""
        first, origin = self.start
        values = {
            'robot': self.name, 'stamp_ns': ns(t), 'received_ns': ns(t) + SECOND // 100,
            'position_xyz': first.T @ (self.position + self.velocity * t - origin),
            'quat_xyzw': self.turned_quat(t),
            'pose_covariance': POSE_COVARIANCE.copy() if covariance is None else covariance,
            'twist_covariance': TWIST_COVARIANCE.copy(),
            'frame_id': f'{self.name}/odom', 'child_frame_id': f'{self.name}/base_link'}
        return OdometrySample(**{**values, **changes})

    def sighting(self, t, landmark, place, **changes) -> SightingSample:
        """The true place of a landmark in the base frame, without covariance."""
        rotation, translation = self.pose(t)
        return SightingSample(**{
            'robot': self.name, 'landmark': landmark, 'stamp_ns': ns(t),
            'received_ns': ns(t) + SECOND // 100, 'covariance': np.zeros((3, 3)),
            'position_xyz': rotation.T @ (place - translation), **changes})

    def closure(self, t, other, t_other, **changes) -> ClosureSample:
        """The true relative pose."""
        (turn, move), (turn_other, move_other) = self.pose(t), other.pose(t_other)
        return ClosureSample(**{
            'from_robot': self.name, 'from_stamp_ns': ns(t), 'to_robot': other.name,
            'to_stamp_ns': ns(t_other), 'received_ns': ns(max(t, t_other)),
            'position_xyz': turn.T @ (move_other - move),
            'quat_xyzw': matrix_to_quat(turn.T @ turn_other),
            'covariance': np.diag([0.01] * 3 + [0.002] * 3), **changes})

    def fix(
        self, t, lever=None, position_covariance=FIX_POSITION,
        orientation_covariance=FIX_ORIENTATION, **changes,
    ) -> FixSample:
        """The true pose of an antenna in map, heading included."""
        rotation, _ = self.pose(t)
        return FixSample(**{
            'robot': self.name, 'stamp_ns': ns(t), 'received_ns': ns(t),
            'position_xyz': self.antenna(t, np.zeros(3) if lever is None else lever),
            'covariance': block_diag(position_covariance, orientation_covariance),
            'quat_xyzw': matrix_to_quat(rotation), 'frame_id': 'map', **changes})


def range_sample(one, other, t, distance, **changes) -> RangeSample:
    """A range without variance of its own."""
    return RangeSample(**{
        'source': one, 'target': other, 'stamp_ns': ns(t),
        'received_ns': ns(t) + SECOND // 100, 'range_m': distance, 'variance': NAN, **changes})


def drive(frontend: Frontend, robots: list[Robot], seconds: float, period: float = 0.1) -> None:
    """Odometry of all robots at a fixed rate, both ends included."""
    for step in range(round(seconds / period) + 1):
        for robot in robots:
            frontend.add(robot.odometry(step * period))


def driven(seconds, dimension=2, **values) -> tuple[Frontend, list[Robot]]:
    """A front-end that has heard so much odometry of two robots, and the robots."""
    frontend = Frontend(config(dimension=dimension, **values))
    robots = [Robot('A', dimension, 1), Robot('B', dimension, 2)]
    drive(frontend, robots, seconds)
    return frontend, robots


def graph_of(frontend: Frontend, *, flush: bool = True, graph: Graph | None = None) -> Graph:
    """The graph after everything that the front-end hands out."""
    graph = graph or empty_graph(frontend.config.dimension)
    increment = frontend.take(flush=flush)
    return graph if increment is None else extended(graph, increment)


def truth(graph, robots, beacons=None) -> Estimate:
    """The true values of a graph's variables."""
    d = graph.dimension
    by_name = {robot.name: robot for robot in robots}
    poses = [
        by_name[graph.robots[r]].pose((stamp - START) * 1e-9)
        for r, stamp in zip(graph.poses.robot, graph.poses.stamp_ns, strict=True)]
    marks = [(beacons or {})[name] for name in graph.landmarks.names]
    return Estimate(
        np.array([p[0][:d, :d] for p in poses]).reshape(-1, d, d),
        np.array([p[1][:d] for p in poses]).reshape(-1, d),
        np.array(marks, dtype=float).reshape(-1, 3)[:, :d])
