"""What is solved this time, and what `map` is for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array, Mask
from ...graph import Estimate, Graph
from ...graph.odometry_segments import OdometrySegments, connected_part, find_segments
from ...graph.subgraph import Subgraph, extract
from .gauge import (
    anchors_determine,
    first_segment,
    gauge_robot,
    level_at,
    spans,
    without_anchors,
    without_levels,
)

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


@dataclass(frozen=True)
class Frame:
    """What of a graph is connected to the frame of map."""

    graph: Graph
    """The whole graph, without absolute data where these do not fix the frame, without verticals
    and heights where nothing absolute does and the gauge robot has no vertical."""
    segments: OdometrySegments
    anchored: bool
    gauge: int | None
    """Segment whose first pose is the origin; None where anchored."""
    mask: Mask
    """(b + m,): segments and landmarks that are solved."""
    subgraph: Subgraph
    gauge_name: str | None
    """Robot of the gauge segment, also where it is not needed now."""

    def name(self, variable: int) -> str:
        """A name of a segment or landmark that stays the same while the graph grows."""
        count = len(self.segments)
        if variable < count:
            return segment_name(int(self.segments.first[variable]))
        return f'landmark {variable - count}'

    def names(self, mask: Mask) -> frozenset[str]:
        """Names of the masked (b + m,) variables."""
        return frozenset(self.name(v) for v in np.flatnonzero(mask).tolist())

    def named(self, names: Iterable[str]) -> Mask:
        """(b + m,): true where a variable's name is among `names`."""
        wanted = frozenset(names)
        return np.array([self.name(v) in wanted for v in range(len(self.mask))], dtype=bool)

    def restricted(self, mask: Mask) -> Subgraph:
        """The masked (b + m,) variables and the measurements among them."""
        count = len(self.segments)
        return extract(self.graph, mask[:count][self.segments.of_pose], mask[count:])

    @property
    def gauge_row(self) -> int:
        """Row of the origin pose in the subgraph."""
        assert self.gauge is not None
        return int(np.searchsorted(self.subgraph.poses, self.segments.first[self.gauge]))


def segment_name(first: int) -> str:
    """Name of the odometry segment whose first pose has this row."""
    return f'segment {first}'


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
        anchored = graph.anchored and anchors_determine(graph)
    if graph.anchored and not anchored:
        graph = without_anchors(graph)
    segments = find_segments(graph)
    name = gauge_name or gauge_robot(graph, config.robots, config.backend)
    gauge = None if name is None else first_segment(graph, segments, name)
    if gauge is None and not anchored:
        return None
    if not anchored and graph.levelled and not level_at(graph, segments, gauge or 0):
        graph = without_levels(graph)
    mask = connected_part(graph, segments, -1 if gauge is None else gauge, anchored)
    if anchored and not np.any(mask[:len(segments)]):
        return None
    chosen = extract(graph, mask[:len(segments)][segments.of_pose], mask[len(segments):])
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
    d = config.dimension
    places = {
        spec.beacon: np.array(spec.position[:d], dtype=float)
        for spec in config.radio_specs().values() if spec.beacon and spec.position}
    for row in np.flatnonzero(graph.landmarks.fixed).tolist():
        places[graph.landmarks.names[row]] = graph.landmarks.position[row]
    others = bool(
        config.fixes.topic or len(graph.pose_priors) or np.any(graph.point_priors.point >= 0))
    points = np.array(list(places.values())).reshape(-1, d)
    return KnownPlaces(
        bool(places) or others, others or spans(points), tuple(sorted(places)))


def pinned(graph: Graph, estimate: Estimate, located: Mask, config: SparserConfig) -> Array | None:
    """(d,): the shift that takes located known beacons to where they are configured.

    For a frame whose heading the gauge robot gives. None while no such beacon is located.
    """
    pins = pins_of(graph, located, config)
    shifts = [place - estimate.landmarks[row] for row, place in pins.items()]
    return np.mean(shifts, axis=0) if shifts else None


def pins_of(graph: Graph, located: Mask, config: SparserConfig) -> dict[int, Array]:
    """{row: configured position (d,)} of located known beacons."""
    known = {
        spec.beacon: spec.position[:config.dimension]
        for spec in config.radio_specs().values() if spec.beacon and spec.position}
    pins = {}
    for row, name in enumerate(graph.landmarks.names):
        if row >= len(located) or not located[row]:
            continue
        if graph.landmarks.fixed[row]:
            pins[row] = graph.landmarks.position[row]
        elif name in known:
            pins[row] = np.array(known[name], dtype=float)
    return pins
