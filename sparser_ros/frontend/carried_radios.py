"""Which robot carries which radio: from names, from the motion of robots, from the ranges.

A range between a radio on a moving robot and one that stands follows from the odometry of that
robot and one unknown point: r(t) = |p(t) - b| + a, with the delay a of both antennas. By how much
that explains the ranges of a pair better than a constant speaks for either of its ends as the one
that rides. A radio on a robot collects this from all radios that stand, and those each only from
it: the radio with the most evidence for any robot rides there, its ranges are explained, and the
next one is looked for in the rest. Radios on two moving robots say little by their common ranges.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from ..array_types import Array

MOVED_M = 1.0
"""Extent of a track from which ranges tell its robot: several times the noise of UWB ranges."""
FITTED, LEAST_RANGES, STARTS = 60, 15, 12
"""Ranges of a pair that are fitted, spread over the bag, and at least; a fit has at most four
unknowns, and few minima over the circle of directions from which it starts."""
FLOOR_M = 0.1
"""Noise of a good UWB range: smaller residuals do not speak for a hypothesis."""
MOST_LEFT = 0.5
"""Share of the deviations from a constant that a fit may leave: more is the other end's motion."""
MARGIN = 10.0
"""Log-likelihood by which something must be better: odds of e^10, about 20 000 to 1."""
OF_ITS_NUMBER, WORD, MEASURES = 3 * MARGIN, 1.5 * MARGIN, 0.5
"""Evidence of a name that is the number of a robot (radios and robots may both be counted from 1);
of a word in it; of measuring (tags mostly do, anchors answer)."""
STANDING_WORDS = frozenset({'anchor', 'anc', 'beacon', 'base', 'basestation', 'landmark', 'fixed'})
RIDING_WORDS = frozenset({'tag', 'rover', 'mobile', 'robot', 'uav', 'ugv', 'drone', 'turtlebot'})


@dataclass(frozen=True)
class Carried:
    """Assignment of radios to robots, with the doubtful ones."""

    robot: dict[str, str] = field(default_factory=dict)
    """Radio -> moving robot that most likely carries it."""
    doubtful: dict[str, set[str]] = field(default_factory=dict)
    """Radio -> what may be as well: robots that may carry it, '' = it may stand still."""
    standing: tuple[str, ...] = ()
    """Robots that moved by less than MOVED_M: their radios look like beacons."""


def carried_radios(tracks: Mapping[str, Array], ranges: Mapping[tuple[str, str], Array]) -> Carried:
    """Assign radios to robots.

    `tracks`: robot -> (n, 1 + d) of seconds and position in the frame of its odometry, d = 2 or 3.
    `ranges`: (radio that measured, other radio) -> (m, 2) of seconds and metres. Robots that stand
    still cannot be told from beacons.
    """
    moving = [robot for robot, track in tracks.items() if len(track)
              and np.linalg.norm(np.ptp(track[:, 1:], axis=0)) >= MOVED_M]
    pairs = _both_ways(ranges)
    radios = sorted({name for pair in pairs for name in pair})
    # A number may be that of a robot by chance, another name not.
    sure = {name for name in radios if name in tracks and not name.isdigit()}
    carried = Carried(
        {name: name for name in sorted(sure) if name in moving},
        standing=tuple(robot for robot in tracks if robot not in moving))
    gain = {pair: _gains(values, [
        tracks[robot] if all(carried.robot.get(end, robot) == robot for end in pair) else None
        for robot in moving]) for pair, values in pairs.items()}
    candidates = [radio for radio in radios if radio not in sure]
    prior = {radio: _by_name(radio, tracks, moving)
             + MEASURES * any(first == radio for first, _ in ranges) for radio in candidates}
    while True:
        evidence: dict[tuple[str, str], float] = {}
        for radio in candidates:
            by_motion = sum((values for pair, values in gain.items() if radio in pair and not any(
                end in carried.robot for end in pair)), np.zeros(len(moving)))
            both = by_motion + prior[radio]
            evidence |= {(radio, robot): float(both[k]) for k, robot in enumerate(moving)
                         if min(by_motion[k], both[k]) > MARGIN}
        if not evidence:
            return carried
        radio, robot = max(evidence, key=lambda key: evidence[key])
        near = [key for key, value in evidence.items()
                if value > evidence[radio, robot] - MARGIN and key != (radio, robot)]
        for other, on in near:
            if other == radio:
                carried.doubtful.setdefault(radio, set()).add(on)
            elif on == robot and (min(radio, other), max(radio, other)) in pairs:
                carried.doubtful.setdefault(radio, set()).add('')
                carried.doubtful.setdefault(other, set()).add(robot)
        carried.robot[radio] = robot
        candidates.remove(radio)


def _by_name(radio: str, robots: Collection[str], moving: Sequence[str]) -> Array:
    """Evidence of the name of a radio for each of the robots that move; 0 where it says nothing.

    Numbers alone count where they are the whole name: radio 1 of robot 1, but not n_1.
    """
    if radio in robots:
        return np.array([OF_ITS_NUMBER if robot == radio else -OF_ITS_NUMBER for robot in moving])
    parts = re.split(r'[^0-9a-z]+', radio.lower())
    words = {part.rstrip('0123456789') for part in parts}
    if words & STANDING_WORDS:
        return np.full(len(moving), -WORD)
    carriers = [robot for robot in robots if robot.lower() in parts and not robot.isdigit()]
    if len(carriers) == 1:
        return np.array([WORD if robot in carriers else -WORD for robot in moving])
    return np.full(len(moving), WORD if words & RIDING_WORDS else 0.0)


def _both_ways(ranges: Mapping[tuple[str, str], Array]) -> dict[tuple[str, str], Array]:
    """Both directions of a pair together, in order of time, for pairs with any range."""
    together: dict[tuple[str, str], list[Array]] = {}
    for (first, second), values in ranges.items():
        if first != second:
            together.setdefault((min(first, second), max(first, second)), []).append(values)
    merged = {}
    for pair, parts in together.items():
        values = np.concatenate(parts)
        values = values[np.isfinite(values[:, 1]) & (values[:, 1] > 0)]
        if len(values):
            merged[pair] = values[np.argsort(values[:, 0], kind='stable')]
    return merged


def _gains(values: Array, tracks: Sequence[Array | None]) -> Array:
    """Evidence of the ranges of a pair for each robot as the one that carries an end of it.

    What another robot explains far better speaks against one. Without a track: 0.
    """
    gain = np.array([0.0 if track is None else _gain(values, track) for track in tracks])
    most = gain.max(initial=0.0)
    return np.where(gain < most - MARGIN, gain - most, gain)


def _gain(values: Array, track: Array) -> float:
    """Log-likelihood of the ranges of a pair with one end on a robot, over that of a constant.

    Of the best |p(t) + x| + a over the point x and the delay a, from the two best of several
    starts, with Laplace noise of unknown size, which outliers hardly move.
    """
    spread = np.linspace(0, len(values) - 1, min(FITTED, len(values))).astype(int)
    seconds, distance = values[np.unique(spread)].T
    away = np.mean(np.abs(distance - np.median(distance)))
    if len(distance) < LEAST_RANGES:
        return 0.0
    at = np.column_stack([
        np.interp(seconds, track[:, 0], track[:, axis]) for axis in range(1, track.shape[1])])
    d = at.shape[1]

    def residual(x: Array) -> Any:
        return np.linalg.norm(at + x[:d], axis=1) + x[d] - distance

    starts = []
    for k in range(STARTS):
        angle = 2 * np.pi * k / STARTS
        way = np.array([np.cos(angle), np.sin(angle)])
        if d == 3:  # up and down in turn, for the plane of a track is a mirror
            way = np.array([*(way * np.sqrt(0.75)), 0.5 - k % 2])
        starts.append(np.array([*(np.median(distance) * way - at.mean(axis=0)), 0.0]))
    starts = sorted(starts, key=lambda x: float(np.sum(np.abs(residual(x)))))[:2]
    left = min(np.mean(np.abs(residual(least_squares(
        residual, start, loss='soft_l1', f_scale=FLOOR_M, max_nfev=40).x))) for start in starts)
    return float(len(distance) * np.log((away + FLOOR_M) / (left + FLOOR_M))) \
        if left < MOST_LEFT * away else 0.0
