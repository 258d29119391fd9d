"""What RViz shows: robots, beacons, measurements, and what was rejected or is ignored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..array_types import Array, Index, Mask
from ..backend.session.rulings import Rulings
from ..backend.session.solution import Location, Solution
from ..config.node_config import PublishConfig
from ..graph import Ranges, RelativePoses, Sightings
from ..graph.measurements import concatenated
from .keyframe_arrays import Keyframes
from .markers import SPHERE, TEXT, Color, Marker, line_list
from .notice_markers import notice_markers
from .picture import drawable, newest, range_segments
from .pose_covariance import ellipsoid
from .robot_markers import LABEL, robot_markers
from .transforms import spatial

KNOWN: Color = (0.95, 0.75, 0.1, 1.0)
# No colour of a robot (robot_markers.py) that could stand beside it, on a dark background.
ESTIMATED: Color = (0.92, 0.92, 0.92, 1.0)
UNDETERMINED: Color = (0.9, 0.4, 0.9, 1.0)
RANGE: Color = (0.75, 0.8, 0.85, 0.12)
CLOSURE: Color = (0.75, 0.6, 1.0, 0.9)
SIGHTING: Color = (0.9, 0.8, 0.3, 0.25)
IGNORED: Color = (0.6, 0.6, 0.6, 0.6)
REJECTED: Color = (0.9, 0.1, 0.1, 0.8)
UNCERTAIN: Color = (0.92, 0.92, 0.92, 0.25)


@dataclass(frozen=True)
class Newest:
    """Measurements as they came, in tables, and what the operator says about them."""

    ranges: Sequence[Ranges] = ()
    n_ranges: int = 0
    """Rows in all of these tables together; others as well."""
    closures: Sequence[RelativePoses] = ()
    sightings: Sequence[Sightings] = ()
    n_sightings: int = 0
    rulings: Rulings = Rulings()


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
    solution: Solution, keyframes: Keyframes, measured: Newest, publish: PublishConfig,
) -> list[Marker]:
    """Robots, beacons, and lines of the newest measurements: rejected ones in red, those that the
    operator ignores in grey."""
    shown = drawable(solution, keyframes)
    size = marker_size(solution, shown, publish)
    width, wide = size / 6, size / 3
    return [
        *robot_markers(solution, keyframes, size),
        *beacon_markers(solution, keyframes, size),
        *notice_markers(solution, solution.estimate.points[shown], size),
        *_range_lines(solution, shown, measured, keyframes, publish.marker_max_ranges, width),
        *_sighting_lines(solution, shown, measured, keyframes, publish.marker_max_ranges, width),
        *_closure_lines(solution, shown, measured, keyframes, publish.marker_max_closures, wide),
    ]


def marker_size(
    solution: Solution, shown: Mask, publish: PublishConfig
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
        # Beside it as seen from above, above it as seen from the side.
        Marker(namespace + '_names', number, TEXT,
               position_xyz=(x, y + 1.5 * scale[2], z + scale[2]),
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
    solution: Solution, shown: Mask, measured: Newest, keyframes: Keyframes,
    count: int, width: float,
) -> list[Marker]:
    recent = newest(measured.ranges, count)
    if not recent:
        return []
    ranges = concatenated(recent)
    segments, rows = range_segments(solution, ranges)
    n = len(solution.estimate.translation)
    part = ranges.take(rows)
    visible = shown[_points(part.source, n)] & shown[_points(part.target, n)]
    bad = _rejected(solution, 'ranges', rows + measured.n_ranges - len(ranges))
    out = measured.rulings.ignored(keyframes.graph(), 'ranges', part)
    return _lines('ranges', segments, visible, bad, out, count, RANGE, width)


def _sighting_lines(
    solution: Solution, shown: Mask, measured: Newest, keyframes: Keyframes,
    count: int, width: float,
) -> list[Marker]:
    recent = newest(measured.sightings, count)
    if not recent:
        return []
    table = concatenated(recent)
    estimate = solution.estimate
    n, m = len(estimate.translation), len(estimate.landmarks)
    rows = np.flatnonzero((table.i < n) & (table.point < n) & (table.point >= -m))
    part = table.take(rows)
    ends = part.i, _points(part.point, n)
    points = spatial(estimate.points)
    visible = shown[ends[0]] & shown[ends[1]]
    bad = _rejected(solution, 'sightings', rows + measured.n_sightings - len(table))
    out = measured.rulings.ignored(keyframes.graph(), 'sightings', part)
    segments = np.stack([points[end] for end in ends], axis=1)
    return _lines('sightings', segments, visible, bad, out, count, SIGHTING, width)


def _closure_lines(
    solution: Solution, shown: Mask, measured: Newest, keyframes: Keyframes,
    count: int, width: float,
) -> list[Marker]:
    recent = newest(measured.closures, count)
    if not recent:
        return []
    table = concatenated(recent)
    n = len(solution.estimate.translation)
    part = table.take(np.flatnonzero((table.i < n) & (table.j < n)))
    visible = shown[part.i] & shown[part.j]
    out = measured.rulings.ignored(keyframes.graph(), 'relative_poses', part)
    points = spatial(solution.estimate.translation)
    segments = np.stack([points[part.i], points[part.j]], axis=1)
    # Closures are numbered among all relative poses: which of them are rejected is not known here.
    return _lines('closures', segments, visible, np.zeros(len(part), dtype=bool), out, count,
                  CLOSURE, width)


def _rejected(solution: Solution, name: str, rows: Index) -> Mask:
    """(k,): which rows of all measurements of a type the solution rejects."""
    return np.isin(rows, [item.index for item in solution.rejected if item.type == name])


def _lines(
    name: str, segments: Array, visible: Mask, bad: Mask,
    out: Mask, count: int, color: Color, width: float,
) -> list[Marker]:
    """Lines (k, 2, 3) that count, that are rejected, and that the operator leaves out."""
    return [
        *line_list(name, segments[visible & ~bad & ~out][-count:], color, width),
        *line_list(f'{name}_rejected', segments[visible & bad & ~out][-count:], REJECTED,
                   2 * width),
        *line_list(f'{name}_ignored', segments[visible & out][-count:], IGNORED, width),
    ]


def _points(endpoint: Index, n_poses: int) -> Index:
    return np.where(endpoint >= 0, endpoint, n_poses + ~endpoint)
