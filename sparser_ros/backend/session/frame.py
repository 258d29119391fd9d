"""What is solved this time, and what `map` is for it.

Absolute data fix the frame `map` where they determine it, else the gauge robot does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array, Index, Mask
from ...config.backend_config import BackendConfig
from ...graph import Estimate, Graph, height_residuals
from ...graph.parts import OdometrySegments, Subgraph, components, extract, find_segments
from ...linalg.rotations import angle_to_matrix
from ..observability.datum import directions_open, frame_fixed

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


def initial_pose(config: BackendConfig, dimension: int) -> tuple[Array, Array]:
    """Rotation and translation of the gauge robot's first pose in map."""
    values = list(config.gauge_initial_pose) or [0.0] * (3 if dimension == 2 else 6)
    if dimension == 2:
        return angle_to_matrix(np.array(values[2])), np.array(values[:2])
    roll, pitch, yaw = (angle_to_matrix(np.array(angle)) for angle in values[3:])
    about_x, about_y, about_z = np.eye(3), np.eye(3), np.eye(3)
    about_x[1:, 1:], about_z[:2, :2] = roll, yaw
    about_y[np.ix_([2, 0], [2, 0])] = pitch
    return about_z @ about_y @ about_x, np.array(values[:3])


def gauge_robot(graph: Graph, robots: Sequence[str], config: BackendConfig) -> str | None:
    """The robot whose first pose is the origin; None while it has no poses yet.

    Without a configured one it is the first of the list or, when that has not shown up
    `gauge_wait_s` after the first pose of any, the one seen first.
    """
    seen = {graph.robots[k] for k in np.unique(graph.poses.robot).tolist()}
    wanted = config.gauge_robot or (robots[0] if robots else '')
    if wanted in seen:
        return wanted
    if config.gauge_robot or not seen:
        return None
    stamps = graph.poses.stamp_ns
    waited = (int(np.max(stamps)) - int(np.min(stamps))) * 1e-9
    if wanted in robots and np.any(stamps) and waited < config.gauge_wait_s:
        return None
    return graph.robots[graph.poses.robot[np.argmin(stamps)]]


def without_anchors(graph: Graph) -> Graph:
    """The graph with all absolute data left out and fixed landmarks unknown."""
    return graph.replaced(
        landmarks=replace(graph.landmarks, fixed=np.zeros(graph.n_landmarks, dtype=bool)),
        **{kind.name: table.take([]) for kind, table in graph.typed() if kind.absolute},
    )


def at_heights(estimate: Estimate, graph: Graph, poses: Mask) -> Estimate:
    """The estimate moved up or down so that half of the heights of these poses are above theirs."""
    point = graph.heights.point
    own = graph.heights.take((point >= 0) & poses[np.maximum(point, 0)])
    if not len(own):
        return estimate
    errors = height_residuals(graph.replaced(heights=own), estimate)
    shift = np.zeros(estimate.dimension)
    shift[-1] = -float(np.median(errors))
    return estimate.moved(np.eye(estimate.dimension), shift)


@dataclass(frozen=True)
class Frame:
    """What of a graph is connected to the frame of map."""

    graph: Graph
    """The whole graph, without absolute data where these do not fix the frame, without verticals
    and heights where nothing absolute does and no robot in it has a vertical."""
    segments: OdometrySegments
    anchored: bool
    gauge: int | None
    """Segment whose first pose is the origin; None where anchored."""
    mask: Mask
    """(b + m,): segments and landmarks that are solved."""
    subgraph: Subgraph
    gauge_name: str | None
    """Robot of the gauge segment, also where it is not needed now."""

    @property
    def endpoints(self) -> Index:
        """(b + m,): first poses of segments, and landmarks: the same while the graph grows."""
        return np.concatenate([self.segments.first, ~np.arange(self.graph.n_landmarks)])

    @property
    def robots(self) -> tuple[str, ...]:
        """Those that are part of map, ascending."""
        numbers = self.segments.robot[self.mask[:len(self.segments)]]
        return tuple(sorted({self.graph.robots[number] for number in numbers.tolist()}))

    def placed(self, mask: Mask) -> tuple[int, ...]:
        """Endpoints of the masked (b + m,) variables, in order."""
        return tuple(np.sort(self.endpoints[mask]).tolist())

    def among(self, endpoints: Sequence[int]) -> Mask:
        """(b + m,): variables that are among some endpoints."""
        return np.isin(self.endpoints, np.array(endpoints, dtype=np.int64))

    def restricted(self, mask: Mask) -> Subgraph:
        """The masked (b + m,) variables and the measurements among them."""
        count = len(self.segments)
        return extract(self.graph, mask[:count][self.segments.of_pose], mask[count:])

    @property
    def gauge_row(self) -> int:
        """Row of the origin pose in the subgraph."""
        assert self.gauge is not None
        return int(np.searchsorted(self.subgraph.poses, self.segments.first[self.gauge]))


def frame_of(
    graph: Graph, config: SparserConfig, gauge_name: str | None = None,
    anchored: bool | None = None,
) -> Frame | None:
    """The frame of a graph; None while nothing can be placed in map.

    `gauge_name` is the gauge robot chosen before: the origin does not change hands. `anchored`
    says whether absolute data fix the frame, None = wherever they can.
    """
    if graph.n_poses == 0:
        return None
    if anchored is None:
        anchored = graph.anchored and frame_fixed(graph)
    if graph.anchored and not anchored:
        graph = without_anchors(graph)
    segments = find_segments(graph)
    name = gauge_name or gauge_robot(graph, config.robots, config.backend)
    gauge = None if name is None else int(
        np.flatnonzero(segments.robot == graph.robots.index(name))[0])
    if (anchored and not graph.anchored) or (not anchored and gauge is None):
        return None
    labels, n = components(graph), graph.n_poses
    placed = labels == (0 if anchored else labels[segments.first[gauge]])
    mask = placed[np.concatenate([segments.first, np.arange(n, len(placed))])]
    if not anchored and graph.levelled and not np.any(
            mask[segments.of_pose[graph.verticals.i]]):
        # No robot of the frame knows where up is.
        graph = graph.replaced(
            verticals=graph.verticals.take([]), heights=graph.heights.take([]))
    if anchored and not np.any(mask[:len(segments)]):
        return None
    chosen = extract(graph, placed[:n], placed[n:])
    return Frame(graph, segments, anchored, None if anchored else gauge, mask, chosen, name)


@dataclass(frozen=True)
class KnownPlaces:
    """Absolute data that are configured or were received, and whether they can fix `map`."""

    expected: bool
    """Known beacons or position fixes are configured, or have come."""
    enough: bool
    """All of them together would fix the frame."""
    names: tuple[str, ...]
    """Beacons of known position."""


def known_places(graph: Graph, config: SparserConfig) -> KnownPlaces:
    """What could fix the frame of map besides the gauge robot."""
    d, places = config.dimension, _known(graph, config)
    others = bool(
        config.fixes.topic or len(graph.pose_priors) or np.any(graph.point_priors.point >= 0))
    points = np.array(list(places.values())).reshape(-1, d)
    return KnownPlaces(
        bool(places) or others,
        others or directions_open(points, bool(len(graph.verticals))) <= 1, tuple(sorted(places)))


def _known(graph: Graph, config: SparserConfig) -> dict[str, Array]:
    """(d,) of each beacon whose position is configured, or exact in the graph."""
    configured = {
        spec.beacon: np.array(spec.position[:config.dimension], dtype=float)
        for spec in config.radio_specs().values() if spec.beacon and spec.position}
    return configured | {
        graph.landmarks.names[row]: graph.landmarks.position[row]
        for row in np.flatnonzero(graph.landmarks.fixed).tolist()}


def pinned(graph: Graph, estimate: Estimate, located: Mask, config: SparserConfig) -> Array | None:
    """(d,): the shift that takes located known beacons to where they are configured.

    For a frame whose heading the gauge robot gives; heights stay where the graph has them. None
    while no such beacon is located.
    """
    known = _known(graph, config)
    shifts = [known[name] - estimate.landmarks[row]
              for row, name in enumerate(graph.landmarks.names[:len(located)])
              if located[row] and name in known]
    if not shifts:
        return None
    shift = np.mean(shifts, axis=0)
    if len(graph.heights) and len(graph.verticals):
        shift[-1] = 0.0
    return np.asarray(shift)
