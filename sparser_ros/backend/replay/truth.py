"""Comparison with ground truth recorded beside the data: positions and headings.

The truth's frame and map differ by one rigid motion, which is fitted to the positions of all
located robots together (without scale); what remains is error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import Akima1DInterpolator
from scipy.spatial.transform import Rotation, Slerp

from ...array_types import Array, Index, Mask
from ...config import ConfigError, FormatError
from ...frontend.draft_config import TRUTH_TYPES
from ...graph import Estimate, Graph
from ...io.availability import Availability, TruePositions
from ...linalg.rotations import align, angle_to_matrix
from ..session.solution import Location, Solution

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig
    from ...io.bag import BagReader

LEFT_OUT_SHARE = 0.05
"""Share of keyframes without truth from which it is worth a warning; bags end raggedly."""
MOST_GAP_S = 1.5
"""Between truth farther apart than this nothing is compared. At 1 m/s and 0.5 rad/s a curve through
positions a second apart is off by less than 2 cm, a straight line by 6."""


Curve = Callable[[Index], tuple[Array, Array, Mask]]
"""Stamps in ns (n,) -> rotations (n, d, d), positions (n, d) in metres, and which of the stamps the
recording covers (n,)."""


@dataclass
class TruthTrack:
    """Recorded poses of one robot, in the order of arrival."""

    stamps_ns: list[int]
    positions_xyz: list[Array]
    quats_xyzw: list[Array]

    def add(self, msg: Any, received_ns: int) -> None:
        """Append a message of one of `TRUTH_TYPES`; not where it has numbers that are not finite,
        which tracking systems send of what they do not see."""
        pose = getattr(msg, 'transform', None) or getattr(msg.pose, 'pose', msg.pose)
        p, q = (pose.position, pose.orientation) if hasattr(pose, 'position') else (
            pose.translation, pose.rotation)
        numbers = np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w], dtype=float)
        if not np.all(np.isfinite(numbers)):
            return
        stamp = msg.header.stamp
        stamp_ns = int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
        self.stamps_ns.append(stamp_ns or received_ns)
        self.positions_xyz.append(numbers[:3])
        self.quats_xyzw.append(numbers[3:])

    def curve(self, dimension: int) -> Curve:
        """The way between the recorded poses."""
        d = dimension
        recorded, rows = np.unique(np.array(self.stamps_ns, dtype=np.int64), return_index=True)
        if len(recorded) < 2:
            return lambda stamps_ns: (
                np.tile(np.eye(d), (len(stamps_ns), 1, 1)), np.zeros((len(stamps_ns), d)),
                np.zeros(len(stamps_ns), dtype=bool))
        seconds = (recorded - recorded[0]) * 1e-9
        positions = Akima1DInterpolator(seconds, np.array(self.positions_xyz)[rows, :d])
        quats = np.array(self.quats_xyzw)[rows]
        # References of positions alone may say that all quaternions are 0.
        quats[np.linalg.norm(quats, axis=1) < 1e-6, 3] = 1.0
        turns = Slerp(seconds, Rotation.from_quat(quats))

        def at(stamps_ns: Index) -> tuple[Array, Array, Mask]:
            n, wanted = len(stamps_ns), (stamps_ns - recorded[0]) * 1e-9
            rotation, position = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d))
            after = np.clip(np.searchsorted(seconds, wanted), 1, len(seconds) - 1)
            inside = (wanted >= 0) & (wanted <= seconds[-1]) & (
                seconds[after] - seconds[after - 1] <= MOST_GAP_S)
            position[inside] = positions(wanted[inside])
            turned = turns(wanted[inside]).as_matrix()
            rotation[inside] = turned if d == 3 else angle_to_matrix(
                np.arctan2(turned[:, 1, 0], turned[:, 0, 0]))
            return rotation, position, inside

        return at


def tracks_of(bag: BagReader, config: SparserConfig) -> dict[str, TruthTrack]:
    """A track without poses of every robot whose truth the bag may have."""
    for robot, topic in config.backend.truth_topics.items():
        if bag.topics.get(topic, TRUTH_TYPES[0]) not in TRUTH_TYPES:
            raise ConfigError(
                f'backend.truth_topics: {robot}: {topic} has messages of {bag.topics[topic]}; '
                f'poses are read from {", ".join(TRUTH_TYPES)}')
    return {robot: TruthTrack([], [], []) for robot in config.backend.truth_topics}


def read_truth(bag: BagReader, config: SparserConfig) -> TruePositions | None:
    """The recorded positions of a bag; None without any."""
    tracks = tracks_of(bag, config)
    robots = {topic: robot for robot, topic in config.backend.truth_topics.items()}
    for message in bag.messages(set(robots)):
        # What cannot be read is not compared.
        with suppress(FormatError):
            tracks[robots[message.topic]].add(message.msg, message.bag_time_ns)
    known = any(track.stamps_ns for track in tracks.values())
    return recorded(tracks, config.dimension) if known else None


def recorded(tracks: Mapping[str, TruthTrack], dimension: int) -> TruePositions:
    """The recorded positions of robots."""
    curves = {robot: track.curve(dimension) for robot, track in tracks.items()}

    def at(robot: str, stamps_ns: Index) -> Array:
        if robot not in curves:
            return np.full((len(stamps_ns), dimension), np.nan)
        _, position, inside = curves[robot](stamps_ns)
        return np.where(inside[:, None], position, np.nan)
    return at


def uncovered(graph: Graph, tracks: Mapping[str, TruthTrack]) -> list[str]:
    """Robots that are compared with the truth in part or not at all, in words."""
    texts = []
    for name, track in tracks.items():
        if name not in graph.robots:
            continue
        stamps = graph.poses.stamp_ns[graph.poses.robot == graph.robots.index(name)]
        inside = track.curve(graph.dimension)(stamps)[2]
        left_out = len(stamps) - int(np.sum(inside))
        if not track.stamps_ns:
            texts.append(f'ground truth of {name}: no message on its topic: nothing is compared')
        elif left_out > LEFT_OUT_SHARE * len(stamps):
            longest = np.diff(np.sort(np.array(track.stamps_ns))).max(initial=0) * 1e-9
            texts.append(
                f'ground truth of {name}: {left_out} of {len(stamps)} keyframes are not compared: '
                f'recorded poses are up to {longest:.1f} s apart, or do not span them '
                f'(gaps of at most {MOST_GAP_S} s are filled in)')
    return texts


def compare(
    graph: Graph, solution: Solution, tracks: Mapping[str, TruthTrack], availability: Availability,
) -> dict[str, Any]:
    """Errors of located robots against their tracks; {} where nothing can be compared.

    `availability` has the maps as they were meanwhile.
    """
    where = {robot.robot: robot.location for robot in solution.robots}
    matched: dict[str, tuple[Index, Array, Array]] = {}
    of = 0
    for name, track in tracks.items():
        if not where.get(name, Location.UNLOCATED).placed or name not in graph.robots:
            continue
        rows = np.flatnonzero(graph.poses.robot == graph.robots.index(name))
        rotation, position, inside = track.curve(graph.dimension)(
            graph.poses.stamp_ns[rows])
        of += len(rows)
        if np.any(inside):
            matched[name] = rows[inside], rotation[inside], position[inside]
    if not matched:
        return {}
    fitted = [n for n in matched if where[n] is Location.LOCATED] or list(matched)
    turn, shift = align(
        np.concatenate([solution.estimate.translation[matched[n][0]] for n in fitted]),
        np.concatenate([matched[n][2] for n in fitted]))
    moved = solution.estimate.moved(turn, shift)
    errors = {name: np.linalg.norm(moved.translation[rows] - position, axis=1)
              for name, (rows, _, position) in matched.items()}
    every = np.concatenate([errors[name] for name in fitted])
    return {
        'ate_m': float(np.mean(every)),
        'ate_rmse_m': float(np.sqrt(np.mean(every**2))),
        'aligned_on': fitted,
        'compared': sum(len(rows) for rows, *_ in matched.values()),
        'keyframes': of,
        'robots': {
            name: {'location': where[name].value, 'poses': len(rows),
                   'ate_m': float(np.mean(errors[name])),
                   'ate_max_m': float(np.max(errors[name])),
                   **(_headings(moved, rows, rotation) if where[name] is Location.LOCATED else {})}
            for name, (rows, rotation, _) in matched.items()},
        'stated': availability.accuracy(recorded(tracks, graph.dimension)),
    }


def _headings(moved: Estimate, rows: Index, rotation: Array) -> dict[str, float]:
    """Mean heading against the truth's frame, which a tracking system may turn, and spread."""
    turns = np.swapaxes(rotation, 1, 2) @ moved.rotation[rows]
    angles = np.arctan2(turns[:, 1, 0], turns[:, 0, 0])
    mean = float(np.angle(np.mean(np.exp(1j * angles))))
    spread = float(np.sqrt(np.mean(np.angle(np.exp(1j * (angles - mean))) ** 2)))
    return {'heading_offset_rad': mean, 'heading_spread_rad': spread}
