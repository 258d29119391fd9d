"""What RViz shows: robots, beacons, ranges, loop closures, and what was rejected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..backend.session.graph_store import concatenated
from ..backend.session.solution import Location, Solution
from ..config.node_config import PublishConfig
from ..graph import Ranges, RelativePoses
from .keyframe_arrays import Keyframes
from .markers import SPHERE, TEXT, Color, Marker, line_list
from .picture import drawable, newest, range_segments
from .pose_covariance import ellipsoid
from .robot_markers import robot_markers
from .transforms import spatial

KNOWN: Color = (0.95, 0.75, 0.1, 1.0)
ESTIMATED: Color = (0.2, 0.7, 1.0, 1.0)
UNDETERMINED: Color = (0.9, 0.4, 0.9, 1.0)
RANGE: Color = (0.3, 0.8, 0.4, 0.25)
CLOSURE: Color = (0.2, 0.3, 0.9, 0.8)
REJECTED: Color = (0.9, 0.1, 0.1, 0.8)
UNCERTAIN: Color = (0.2, 0.7, 1.0, 0.25)
LABEL: Color = (1.0, 1.0, 1.0, 0.9)


def beacon_markers(solution: Solution, keyframes: Keyframes, size: float) -> list[Marker]:
    """One sphere per located beacon, its name as text, and the 95 % ellipse of its position where
    that is known; then robots without known heading."""
    scale = (2 * size, 2 * size, 2 * size)
    markers = []
    positions = spatial(solution.estimate.landmarks)
    for k in np.flatnonzero(solution.landmark_located):
        color = KNOWN if keyframes.landmark_fixed[k] else ESTIMATED
        markers += _labelled('beacons', int(k), positions[k], keyframes.landmarks[k], scale, color)
        markers += _ellipse(solution, int(k), positions[k], size)
    solved = len(solution.estimate.translation)
    for number, item in enumerate(solution.robots):
        rows = keyframes.rows(item.robot, solved)
        if item.location is Location.POSITION_ONLY and len(rows):
            here = spatial(solution.estimate.translation[rows[-1:]])[0]
            markers += _labelled('position_only', number, here, item.robot, scale, UNDETERMINED)
    return markers


def scene_markers(
    solution: Solution, keyframes: Keyframes, ranges: Sequence[Ranges], n_ranges: int,
    closures: Sequence[RelativePoses], publish: PublishConfig,
) -> list[Marker]:
    """Robots, beacons, and lines of the newest ranges and closures, rejected ones in red.

    `n_ranges` rows are in the tables `ranges` together.
    """
    shown = drawable(solution, keyframes)
    size = marker_size(solution, shown, publish)
    width = size / 4
    return [
        *robot_markers(solution, keyframes, size),
        *beacon_markers(solution, keyframes, size),
        *_range_lines(solution, shown, ranges, n_ranges, publish.marker_max_ranges, width),
        *_closure_lines(solution, shown, closures, publish.marker_max_closures, width),
    ]


def marker_size(
    solution: Solution, shown: NDArray[np.bool_], publish: PublishConfig
) -> float:
    """Radius of a beacon in metres: the configured one, or more where the map is large.

    `shown`: (n + m,) the points that are drawn.
    """
    points = solution.estimate.points[shown]
    if not len(points):
        return publish.beacon_size_m
    extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    return max(publish.beacon_size_m, publish.marker_share * extent)


def _labelled(
    namespace: str, number: int, position: NDArray, name: str,
    scale: tuple[float, float, float], color: Color,
) -> list[Marker]:
    x, y, z = map(float, position)
    return [
        Marker(namespace, number, SPHERE, position_xyz=(x, y, z), scale=scale, color=color,
               text=name),
        Marker(namespace + '_names', number, TEXT, position_xyz=(x, y, z + scale[2]),
               scale=(0.0, 0.0, 1.5 * scale[2]), color=LABEL, text=name),
    ]


def _ellipse(solution: Solution, row: int, position: NDArray, thickness: float) -> list[Marker]:
    known = solution.covariances
    if known is None or row >= len(known.landmarks):
        return []
    region = ellipsoid(known.landmarks[row])
    if region is None:
        return []
    x, y, z = map(float, position)
    a, b, c = region.diameters
    # RViz draws nothing that has no thickness.
    return [Marker(
        'beacon_uncertainty', row, SPHERE, position_xyz=(x, y, z), quat_xyzw=region.quat_xyzw,
        scale=(a, b, c or thickness / 10), color=UNCERTAIN)]


def _range_lines(
    solution: Solution, shown: NDArray, tables: Sequence[Ranges], total: int, count: int,
    width: float,
) -> list[Marker]:
    recent = newest(tables, count)
    if not recent:
        return []
    ranges = concatenated(recent)
    first = total - len(ranges)
    segments, rows = range_segments(solution, ranges)
    n = len(solution.estimate.translation)
    part = ranges.take(rows)
    visible = shown[_points(part.source, n)] & shown[_points(part.target, n)]
    doubted = {item.index for item in solution.rejected if item.type == 'ranges'}
    bad = np.isin(rows + first, list(doubted))
    return [
        *line_list('ranges', segments[visible & ~bad][-count:], RANGE, width),
        *line_list('ranges_rejected', segments[visible & bad][-count:], REJECTED, 2 * width),
    ]


def _closure_lines(
    solution: Solution, shown: NDArray, tables: Sequence[RelativePoses], count: int, width: float
) -> list[Marker]:
    recent = newest(tables, count)
    if not recent:
        return []
    i = np.concatenate([table.i for table in recent])[-count:]
    j = np.concatenate([table.j for table in recent])[-count:]
    n = len(solution.estimate.translation)
    solved = (i < n) & (j < n)
    i, j = i[solved], j[solved]
    visible = shown[i] & shown[j]
    ends = spatial(solution.estimate.translation)
    return line_list('closures', np.stack([ends[i], ends[j]], axis=1)[visible], CLOSURE, width)


def _points(endpoint: NDArray[np.int64], n_poses: int) -> NDArray[np.int64]:
    return np.where(endpoint >= 0, endpoint, n_poses + ~endpoint)
