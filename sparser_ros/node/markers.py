"""What RViz shows: robots, beacons, measurements, and what was rejected or is ignored.

`visualization_msgs/MarkerArray` as CDR bytes. A message with `WIPE` first takes the place of the
one before.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..array_types import Array, Mask
from ..backend.session.rulings import Rulings
from ..backend.session.solution import Fix, Location, Solution
from ..config.node_config import PublishConfig
from ..graph import Graph, antennas
from ..io.tum import quats, xyz
from .messages import CdrWriter
from .picture import drawable, ellipsoid, newest_rows, rows_of, trajectory

Color = tuple[float, float, float, float]

ARROW, SPHERE, LINE_LIST, TEXT = 0, 2, 5, 9
ADD, DELETE, DELETE_ALL = 0, 2, 3

KNOWN: Color = (0.95, 0.75, 0.1, 1.0)
# No colour of a robot that could stand beside it, on a dark background.
ESTIMATED: Color = (0.92, 0.92, 0.92, 1.0)
UNDETERMINED: Color = (0.9, 0.4, 0.9, 1.0)
RANGE: Color = (0.75, 0.8, 0.85, 0.12)
CLOSURE: Color = (0.75, 0.6, 1.0, 0.9)
SIGHTING: Color = (0.9, 0.8, 0.3, 0.25)
IGNORED: Color = (0.6, 0.6, 0.6, 0.6)
REJECTED: Color = (0.9, 0.1, 0.1, 0.8)
UNCERTAIN: Color = (0.92, 0.92, 0.92, 0.25)
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
MOST_RANGES, MOST_CLOSURES = 200, 5000
"""Newest ranges, sightings, and closures drawn: more would hide the map. RViz refuses a line list
of more than 16 384 points, which are two for each of them or of a trajectory's."""
MARKER_SHARE = 0.01
"""Least radius of a beacon, as a share of the extent of the map."""
ARROW_LENGTH, ARROW_WIDTH = 6.0, 1.5
"""Sizes of a robot's arrow, in radii of a beacon."""
NOTICE: Color = (1.0, 0.75, 0.3, 0.9)
_HEIGHT, _STEP = 3.0, 9.0
"""Height of letters and distance of two texts of two lines, in radii of a beacon."""
_MOST_LETTERS = 70


@dataclass(frozen=True)
class Marker:
    """One marker; its points are in the frame of the array."""

    namespace: str
    id: int
    type: int = SPHERE
    action: int = ADD
    position_xyz: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat_xyzw: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    scale: tuple[float, float, float] = (0.1, 0.1, 0.1)
    color: Color = (1.0, 1.0, 1.0, 1.0)
    points: Array | None = None
    """(k, 3)."""
    text: str = ''


WIPE = Marker('', 0, action=DELETE_ALL)


def replacing(before: Sequence[Marker], markers: Sequence[Marker]) -> list[Marker]:
    """Markers that leave nothing of those `before` in RViz; what is drawn again comes first."""
    kept = {(marker.namespace, marker.id) for marker in markers}
    return [*markers, *(
        Marker(marker.namespace, marker.id, action=DELETE) for marker in before
        if (marker.namespace, marker.id) not in kept)]


def line_list(
    namespace: str, number: int, segments: Array, color: Color, width: float
) -> list[Marker]:
    """Segments (k, 2, 3) as a line list, if there are any."""
    return [Marker(namespace, number, LINE_LIST, scale=(width, 0.0, 0.0), color=color,
                   points=segments.reshape(-1, 3))] if len(segments) else []


def marker_array_bytes(stamp_ns: int, frame_id: str, markers: Sequence[Marker]) -> bytes:
    """A serialised `visualization_msgs/MarkerArray`."""
    writer = CdrWriter().pack('I', len(markers))
    for marker in markers:
        _marker(writer, stamp_ns, frame_id, marker)
    return writer.bytes()


def _marker(writer: CdrWriter, stamp_ns: int, frame_id: str, marker: Marker) -> None:
    writer.header(stamp_ns, frame_id).string(marker.namespace)
    writer.pack('i', marker.id, marker.type, marker.action)
    writer.pack('d', *marker.position_xyz, *marker.quat_xyzw)
    writer.pack('d', *marker.scale).pack('f', *marker.color)
    writer.pack('i', 0).pack('I', 0).pack('?', False)  # lifetime: for ever; frame_locked
    writer.rows(np.zeros((0, 3)) if marker.points is None else marker.points, '<f8')
    writer.pack('I', 0)  # colors
    writer.string('')  # texture_resource
    writer.header(0, '').string('').pack('I', 0)  # texture: header, format, data
    writer.pack('I', 0)  # uv_coordinates
    writer.string(marker.text)
    writer.string('').string('').pack('I', 0)  # mesh_resource; mesh_file: name, data
    writer.pack('?', False)  # mesh_use_embedded_materials


def scene_markers(
    solution: Solution, graph: Graph, rulings: Rulings, publish: PublishConfig,
    laid: Collection[str],
) -> list[Marker]:
    """Robots, beacons, and lines of the newest measurements: rejected ones in red, those that the
    operator ignores in grey. `laid`: robots whose paths are drawn."""
    shown = drawable(solution, graph)
    size = marker_size(solution, shown, publish)
    return [
        *robot_markers(solution, graph, size, laid),
        *beacon_markers(solution, graph, size),
        *notice_markers(solution, solution.estimate.points[shown], size),
        *measurement_lines(solution, graph, rulings, shown, size),
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
    return max(publish.beacon_size_m, MARKER_SHARE * extent)


def robot_markers(
    solution: Solution, graph: Graph, size: float, laid: Collection[str]
) -> list[Marker]:
    """Of every robot with a pose, in the order of the names; `size`: radius of a beacon, metres.

    A robot that is not located is faint. Of one whose heading is open no arrow is drawn.
    Namespaces: trajectories, robots, robots_names, robot_uncertainty.
    """
    markers: list[Marker] = []
    drawn, fixes = newest_rows(solution, graph, Fix.FLOAT), solution.fixes
    turning = {
        item.robot for item in solution.robots if item.location is Location.POSITION_ONLY}
    for number, robot in enumerate(sorted(item.robot for item in solution.robots)):
        if robot not in drawn or robot in turning:
            continue
        row, colour = drawn[robot], COLOURS[number % len(COLOURS)]
        if fixes[robot] is not Fix.FIXED:
            colour = (*colour[:3], FLOAT_ALPHA)
        if robot in laid:
            track = trajectory(solution, graph, robot, MOST_POINTS)[1]
            markers += line_list('trajectories', number, np.stack([track[:-1], track[1:]], axis=1),
                                 colour, size / 2)
        place = xyz(solution.estimate.translation[row:row + 1])[0]
        x, y, z = place.tolist()
        a, b, c, d = quats(solution.estimate.rotation[row:row + 1])[0].tolist()
        markers.append(Marker(
            'robots', number, ARROW, position_xyz=(x, y, z), quat_xyzw=(a, b, c, d),
            scale=(ARROW_LENGTH * size, ARROW_WIDTH * size, ARROW_WIDTH * size), color=colour,
            text=robot))
        markers.append(_name('robots_names', number, place, robot, 3 * size, 3 * size))
        own = None if solution.covariances is None else solution.covariances.of(robot)
        if own is not None:
            dimension = 2 if len(own) == 3 else 3
            markers += _ellipsoid_marker(
                'robot_uncertainty', number, (x, y, z), own[:dimension, :dimension], size,
                (*colour[:3], 0.25 * colour[3]), MOST_ELLIPSE * size)
    return markers


def beacon_markers(solution: Solution, graph: Graph, size: float) -> list[Marker]:
    """One sphere per located beacon, its name as text, and the 95 % ellipse of its position where
    that is known; then robots without known heading."""
    markers = []
    positions, known = xyz(solution.estimate.landmarks), solution.covariances
    for k in np.flatnonzero(solution.landmark_located).tolist():
        color = KNOWN if graph.landmarks.fixed[k] else ESTIMATED
        markers += _labelled('beacons', k, positions[k], graph.landmarks.names[k], size, color)
        if known is not None and k < len(known.landmarks):
            x, y, z = map(float, positions[k])
            markers += _ellipsoid_marker(
                'beacon_uncertainty', k, (x, y, z), known.landmarks[k], size, UNCERTAIN)
    solved = len(solution.estimate.translation)
    for number, item in enumerate(solution.robots):
        rows = rows_of(graph, item.robot, solved)
        if item.location is Location.POSITION_ONLY and len(rows):
            here = xyz(solution.estimate.translation[rows[-1:]])[0]
            markers += _labelled('position_only', number, here, item.robot, size, UNDETERMINED)
    return markers


def _labelled(
    namespace: str, number: int, position: Array, name: str, size: float, color: Color
) -> list[Marker]:
    """A sphere of radius `size` at `position` (3,) and its name."""
    x, y, z = position.tolist()
    return [
        Marker(namespace, number, SPHERE, position_xyz=(x, y, z), scale=(2 * size,) * 3,
               color=color, text=name),
        _name(f'{namespace}_names', number, position, name, 3 * size, 2 * size)]


def _name(
    namespace: str, number: int, position: Array, name: str, height: float, above: float
) -> Marker:
    """A text of that height: beside `position` (3,) from above, above it from the side."""
    x, y, z = position.tolist()
    return Marker(namespace, number, TEXT, position_xyz=(x, y + 1.5 * above, z + above),
                  scale=(0.0, 0.0, height), color=LABEL, text=name)


def _ellipsoid_marker(
    namespace: str, number: int, position_xyz: tuple[float, float, float], covariance: Array,
    size: float, color: Color, most: float = math.inf,
) -> list[Marker]:
    """Where a position with that covariance (d, d) lies; none where it is not known, or where a
    diameter is `most` or more."""
    region = ellipsoid(covariance)
    if region is None or max(region[0]) >= most:
        return []
    (a, b, c), (x, y, z, w) = region[0].tolist(), region[1].tolist()
    # RViz draws nothing that has no thickness.
    return [Marker(namespace, number, SPHERE, position_xyz=position_xyz, quat_xyzw=(x, y, z, w),
                   scale=(a, b, c or size / 10), color=color)]


def notice_markers(solution: Solution, points: Array, size: float) -> list[Marker]:
    """A text for every robot without a place in `map`, below what is drawn.

    `points` (k, d) are what is drawn, `size` is the radius of a beacon in metres. Without it an
    empty picture would look like a broken one.
    """
    corner = np.zeros((2, 2)) if not len(points) else np.array(
        [np.min(points[:, :2], axis=0), np.max(points[:, :2], axis=0)])
    x, y = float(np.mean(corner[:, 0])), float(corner[0, 1])
    markers: list[Marker] = []
    for number, item in enumerate(solution.robots):
        if item.location.placed:
            continue
        state = ('not located' if item.location is Location.UNLOCATED else item.location.value)
        reason = item.missing.split('; ')[0]
        if len(reason) > _MOST_LETTERS:
            reason = reason[:_MOST_LETTERS - 3].rstrip() + '...'
        line = len(markers) + 1
        markers.append(Marker(
            'not_located', number, TEXT, position_xyz=(x, y - _STEP * size * line, 0.0),
            scale=(0.0, 0.0, _HEIGHT * size), color=NOTICE,
            text=f'{item.robot}: {state}\n{reason}'.rstrip()))
    return markers


def measurement_lines(
    solution: Solution, graph: Graph, rulings: Rulings, shown: Mask, size: float,
) -> list[Marker]:
    """The newest ranges between their antennas, sightings and closures, where both ends are drawn.

    Of each kind, those that count, that are rejected, and that the operator leaves out.
    """
    estimate = solution.estimate
    n, m = len(estimate.translation), len(estimate.landmarks)
    points = xyz(estimate.points)
    markers: list[Marker] = []
    for name, kind, most, color, width in (
        ('ranges', 'ranges', MOST_RANGES, RANGE, size / 6),
        ('sightings', 'sightings', MOST_RANGES, SIGHTING, size / 6),
        ('closures', 'relative_poses', MOST_CLOSURES, CLOSURE, size / 3),
    ):
        table: Any = graph.tables()[kind]
        rows = np.flatnonzero(~table.odometry) if name == 'closures' else np.arange(len(table))
        both = np.stack([getattr(table, end)[rows] for end in table.endpoints()])
        solved = np.all((both < n) & (both >= -m), axis=0)
        rows, both = rows[solved][-most:], both[:, solved][:, -most:]
        both = np.where(both >= 0, both, n + ~both)
        visible, part = np.all(shown[both], axis=0), table.take(rows)
        out = rulings.ignored(graph, kind, part)
        bad = np.isin(rows, [item.index for item in solution.rejected if item.type == kind])
        if kind == 'ranges':
            first = xyz(antennas(estimate, part.source, part.lever_source))
            second = xyz(antennas(estimate, part.target, part.lever_target))
        else:
            first, second = points[both[0]], points[both[1]]
        segments = np.stack([first, second], axis=1)
        markers += [
            *line_list(name, 0, segments[visible & ~bad & ~out], color, width),
            *line_list(f'{name}_rejected', 0, segments[visible & bad & ~out], REJECTED, 2 * width),
            *line_list(f'{name}_ignored', 0, segments[visible & out], IGNORED, width)]
    return markers
