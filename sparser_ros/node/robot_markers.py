"""What RViz shows of robots: trajectories, newest poses as arrows with names, their ellipses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..backend.session.solution import Fix, Location, Solution
from .keyframe_arrays import Keyframes
from .markers import ARROW, SPHERE, TEXT, Color, Marker, line_list
from .picture import newest_rows, trajectory
from .pose_covariance import ellipsoid
from .transforms import planar_quats, spatial

# Okabe and Ito's palette, as in the pictures, without black: RViz's background is dark.
COLOURS: tuple[Color, ...] = (
    (0.34, 0.71, 0.91, 1.0), (0.90, 0.62, 0.0, 1.0), (0.0, 0.62, 0.45, 1.0),
    (0.80, 0.47, 0.65, 1.0), (0.0, 0.45, 0.70, 1.0), (0.84, 0.37, 0.0, 1.0),
    (0.94, 0.89, 0.26, 1.0))
LABEL: Color = (1.0, 1.0, 1.0, 0.9)
FLOAT_ALPHA = 0.4
"""Opacity of robots that are not located."""
MOST_ELLIPSE = 300.0
"""Diameter of an ellipse, in radii of a beacon, from which it would hide the map: some three times
its extent."""
MOST_POINTS = 4000
"""Points of a drawn trajectory; more are thinned evenly."""
ARROW_LENGTH, ARROW_WIDTH = 6.0, 1.5
"""Sizes of a robot's arrow, in radii of a beacon."""


def robot_markers(solution: Solution, keyframes: Keyframes, size: float) -> list[Marker]:
    """Of every robot with a pose, in the order of the names; `size`: radius of a beacon, metres.

    A robot that is not located is faint. Of one whose heading is open no arrow is drawn.
    Namespaces: trajectories, robots, robots_names, robot_uncertainty.
    """
    markers: list[Marker] = []
    located = newest_rows(solution, keyframes)
    turning = {one.robot for one in solution.robots if one.location is Location.POSITION_ONLY}
    drawn = newest_rows(solution, keyframes, Fix.FLOAT)
    for number, robot in enumerate(sorted(one.robot for one in solution.robots)):
        if robot not in drawn or robot in turning:
            continue
        row, colour = drawn[robot], COLOURS[number % len(COLOURS)]
        if robot not in located:
            colour = (*colour[:3], FLOAT_ALPHA)
        track = trajectory(solution, keyframes, robot, MOST_POINTS).positions_xyz
        pieces = line_list(
            'trajectories', np.stack([track[:-1], track[1:]], axis=1), colour, size / 2)
        # Ids of different robots must not meet in one namespace.
        markers += [Marker(
            one.namespace, 1000 * number + one.id, one.type, scale=one.scale, color=one.color,
            points=one.points) for one in pieces]
        markers += _robot(solution, robot, row, number, colour, size)
    return markers


def _robot(
    solution: Solution, robot: str, row: int, number: int, colour: Color, size: float
) -> list[Marker]:
    x, y, z = spatial(solution.estimate.translation[row:row + 1])[0].tolist()
    a, b, c, d = planar_quats(solution.estimate.rotation[row:row + 1])[0].tolist()
    markers = [
        Marker('robots', number, ARROW, position_xyz=(x, y, z), quat_xyzw=(a, b, c, d),
               scale=(ARROW_LENGTH * size, ARROW_WIDTH * size, ARROW_WIDTH * size), color=colour,
               text=robot),
        # Beside it as seen from above, above it as seen from the side.
        Marker('robots_names', number, TEXT, position_xyz=(x, y + 4.5 * size, z + 3 * size),
               scale=(0.0, 0.0, 3 * size), color=LABEL, text=robot)]
    own = None if solution.covariances is None else solution.covariances.of(robot)
    region = None if own is None else ellipsoid(_position_block(own))
    if region is not None and max(region.diameters) < MOST_ELLIPSE * size:
        p, q, r = region.diameters
        markers.append(Marker(
            'robot_uncertainty', number, SPHERE, position_xyz=(x, y, z),
            quat_xyzw=region.quat_xyzw, scale=(p, q, r or size / 10),
            color=(*colour[:3], 0.25 * colour[3])))
    return markers


def _position_block(covariance: NDArray) -> NDArray:
    d = 2 if len(covariance) == 3 else 3
    return covariance[:d, :d]
