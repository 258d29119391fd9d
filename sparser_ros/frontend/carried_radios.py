"""Assignment of radios to robots: from names, from the motion of robots, from the ranges.

A range between a radio on a moving robot and one that stands still follows from the odometry of
that robot and one unknown point: r(t) = |p(t) - b| + a, with the delay a of both antennas. A range
between radios on two moving robots follows from both odometries and their unknown relative pose.
Each pair of radios is fitted under every such hypothesis. That alone leaves a mirror image: with
one robot, the radio that all pairs share rides and the others stand, or all others ride and that
one stands. What decides is that two radios on one robot are about equally far from any third, that
a robot carries few radios, and names. The assignment of least cost is taken; a radio is doubtful
where another assignment costs about as much.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from ..array_types import Array, Index, Mask

MOVED_M = 1.0
"""Extent of a track from which ranges tell its robot: several times the noise of UWB ranges."""
FITTED, LEAST_RANGES, STARTS = 60, 15, 12
"""Ranges of a pair that are fitted, spread over the bag, and at least; a fit has at most five
unknowns, and few minima over the circle of directions from which it starts."""
ROBOT_SIZE_M, LONGEST_GAP_S, MOST_APART = 2.0, 5.0, 0.3
"""Radios on one robot are no farther from each other; ranges to a third, so close in time, differ
by more for at most such a share, by blocked paths."""
FLOOR_M = 0.1
"""Noise of a good UWB range: smaller residuals do not speak for a hypothesis."""
MARGIN = 10.0
"""Log-likelihood by which an assignment must be better: odds of e^10, about 20 000 to 1."""
FURTHER, NEITHER, SILENT, IMPOSSIBLE = 5.0, 2.0, 0.5, 1e3
"""Costs: of each further radio on a robot (it carries one more often than several); of a pair with
few ranges of which neither end rides (who would range it?); of a ride of a radio that measures
nothing (tags mostly do, anchors answer); of two radios on one robot that are apart."""
OF_ITS_NAME, OF_ITS_NUMBER, WORD = 1e6, 3 * MARGIN, 1.5 * MARGIN
"""Cost of a radio elsewhere than on the robot of its name, than on that of its number (radios and
robots may both be counted from 1), and against a word in its name."""
STANDING_WORDS = frozenset({'anchor', 'anc', 'beacon', 'base', 'basestation', 'landmark', 'fixed'})
RIDING_WORDS = frozenset({'tag', 'rover', 'mobile', 'robot', 'uav', 'ugv', 'drone', 'turtlebot'})

@dataclass(frozen=True)
class Carried:
    """Assignment of radios to robots, with the doubtful ones."""

    robot: dict[str, str] = field(default_factory=dict)
    """Radio -> moving robot that most likely carries it."""
    doubtful: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Radio -> what may be as well: robots that may carry it, '' = it may stand still."""
    named: dict[str, str] = field(default_factory=dict)
    """Radio -> what its name says: the robot of that name, 'rides' or 'stands'."""
    standing: tuple[str, ...] = ()
    """Robots that moved by less than MOVED_M: their radios look like beacons."""


def carried_radios(tracks: Mapping[str, Array], ranges: Mapping[tuple[str, str], Array]) -> Carried:
    """Assign radios to robots.

    `tracks`: robot -> (n, 1 + d) of seconds and position in the frame of its odometry, d = 2 or 3.
    `ranges`: (radio that measured, other radio) -> (m, 2) of seconds and metres. Robots that stand
    still cannot be told from beacons.
    """
    extent = {robot: float(np.linalg.norm(np.ptp(track[:, 1:], axis=0)))
              for robot, track in tracks.items() if len(track)}
    moving = [robot for robot, size in extent.items() if size >= MOVED_M]
    standing = tuple(robot for robot in tracks if robot not in moving)
    pairs = _both_ways(ranges)
    radios = sorted({name for pair in pairs for name in pair})
    named = {name: said for name in radios if (said := name_says(name, tracks))}
    if not moving or not pairs:
        return Carried(named=named, standing=standing)
    prior = {
        radio: _prior(radio, named.get(radio, ''), moving, any(a == radio for a, _ in ranges))
        for radio in radios}
    at = [tracks[robot] for robot in moving]
    # Where a name tells, other labels need no fits.
    open_to = {radio: cost < OF_ITS_NAME for radio, cost in prior.items()}
    assignment = _Assignment(
        {(a, b): _costs(values, at, np.outer(open_to[a], open_to[b]))
         for (a, b), values in pairs.items()}, prior, _apart(pairs), len(moving))
    labels, doubtful = assignment.best()
    words = [*moving, '']
    return Carried(
        {radio: words[label] for radio, label in zip(radios, labels, strict=True) if words[label]},
        {radios[row]: tuple(words[label] for label in others) for row, others in doubtful.items()},
        named, standing)


def name_says(radio: str, robots: Mapping[str, Any]) -> str:
    """Clue in the name of a radio: a robot, 'rides' on one, 'stands', or '' = none.

    Numbers alone count where they are the whole name: radio 1 of robot 1, but not n_1.
    """
    if radio in robots:
        return radio
    parts = re.split(r'[^0-9a-z]+', radio.lower())
    words = {part.rstrip('0123456789') for part in parts}
    if words & STANDING_WORDS:
        return 'stands'
    carriers = [robot for robot in robots if robot.lower() in parts and not robot.isdigit()]
    if len(carriers) == 1:
        return carriers[0]
    return 'rides' if words & RIDING_WORDS else ''


def _prior(radio: str, said: str, moving: list[str], measures: bool) -> Array:
    """(k+1,) costs of the labels of a radio before any range is looked at; k = still."""
    k = len(moving)
    cost = np.full(k + 1, 0.0 if measures else SILENT)
    cost[k] = 0.0
    weight = OF_ITS_NUMBER if radio.isdigit() else OF_ITS_NAME if radio == said else WORD
    if said == 'rides':
        cost[k] += WORD
    elif said == 'stands':
        cost[:k] += WORD
    elif said:
        # A robot that stands keeps its radio: that stands as well.
        cost[np.arange(k + 1) != (moving.index(said) if said in moving else k)] += weight
    return cost


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


def _apart(pairs: Mapping[tuple[str, str], Array]) -> set[tuple[str, str]]:
    """Pairs of radios that cannot ride together: they are far apart, or their distances to a third
    radio differ. A range of one is compared with those of the other before and after it."""
    to: dict[str, dict[str, Array]] = {}
    for (a, b), values in pairs.items():
        to.setdefault(a, {})[b] = to.setdefault(b, {})[a] = values
    return {
        (a, b) for a, b in combinations(sorted(to), 2)
        if (b in to[a] and np.median(to[a][b][:, 1]) > 2 * ROBOT_SIZE_M)
        or any(_differ(to[a][third], to[b][third]) for third in to[a].keys() & to[b].keys())}


def _differ(one: Array, other: Array) -> bool:
    """True if distances (m, 2) to one radio are those of two places more than a robot apart."""
    after = np.searchsorted(other[:, 0], one[:, 0])
    inside = (after > 0) & (after < len(other))
    rows, after = one[inside], after[inside]
    before = other[after - 1]
    near = other[after, 0] - before[:, 0] <= LONGEST_GAP_S
    if np.sum(near) < LEAST_RANGES:
        return False
    bracket = np.stack([before[near, 1], other[after[near], 1]])
    beyond = np.maximum(bracket.min(0) - rows[near, 1], rows[near, 1] - bracket.max(0))
    return bool(np.mean(beyond > ROBOT_SIZE_M) > MOST_APART)


def _costs(values: Array, tracks: list[Array], wanted: Mask) -> Array:
    """(k+1, k+1) negative log-likelihoods of one pair by the labels of its ends; k = still.

    `wanted` (k+1, k+1): the labels to be fitted; others keep the cost of two ends that stand.
    """
    k = len(tracks)
    spread = np.linspace(0, len(values) - 1, min(FITTED, len(values))).astype(int)
    values = values[np.unique(spread)]
    seconds, distance = values.T
    middle = float(np.median(distance))
    if len(values) < LEAST_RANGES:
        cost = np.zeros((k + 1, k + 1))
        cost[k, k] = NEITHER
        cost[np.arange(k), np.arange(k)] = MARGIN * (middle > ROBOT_SIZE_M)
        return cost
    # Two radios that stand still keep their distance, and so do two on one robot, a small one.
    constant = _likelihood(distance - middle)
    cost = np.full((k + 1, k + 1), constant)
    np.fill_diagonal(cost[:k, :k], _likelihood(distance - min(middle, ROBOT_SIZE_M)))
    if np.mean(np.abs(distance - middle)) < FLOOR_M / 2:
        return cost
    wanted = wanted | wanted.T
    at = [np.stack([np.interp(seconds, t[:, 0], t[:, axis]) for axis in range(1, t.shape[1])],
                   axis=1) for t in tracks]
    for one in range(k):
        if np.any(wanted[one]):
            cost[one, k] = cost[k, one] = min(constant, _fit(at[one], None, distance))
    for one, other in combinations(range(k), 2):
        if wanted[one, other]:
            cost[one, other] = cost[other, one] = min(
                cost[one, k], cost[other, k], _fit(at[one], at[other], distance))
    return cost


def _likelihood(residual: Array) -> float:
    """Negative log-likelihood of Laplace noise of unknown size, which outliers hardly move."""
    return float(len(residual) * np.log(np.mean(np.abs(residual)) + FLOOR_M))


def _fit(track: Array, other: Array | None, distance: Array) -> float:
    """Best likelihood of |R(yaw) p(t) + x - q(t)| + a over the relative pose x, yaw of two robots
    (in space both odometries have their z axis upright) and a; without a second robot, of
    |p(t) + x| + a. From several starts of which the two best are polished."""
    d, aim = track.shape[1], np.zeros(track.shape) if other is None else other
    yaws = [0.0] if other is None else [2 * np.pi * k / STARTS for k in range(0, STARTS, 3)]

    def turned(yaw: float) -> Array:
        c, s = np.cos(yaw), np.sin(yaw)
        return np.concatenate([track[:, :2] @ [[c, s], [-s, c]], track[:, 2:]], axis=1)

    def residual(x: Array) -> Any:
        moved = turned(float(x[d + 1])) if len(x) > d + 1 else track
        return np.linalg.norm(moved + x[:d] - aim, axis=1) + x[d] - distance

    starts = []
    for yaw in yaws:
        centre = (aim - turned(yaw)).mean(axis=0)
        for k in range(0, STARTS, 1 if other is None else 2):
            angle = 2 * np.pi * k / STARTS
            way = np.array([np.cos(angle), np.sin(angle)])
            if d == 3:  # up and down in turn, for the plane of a track is a mirror
                way = np.array([*(way * np.sqrt(0.75)), 0.5 - k // 2 % 2])
            start = [*(centre + np.median(distance) * way), 0.0, yaw]
            starts.append(np.array(start[:d + 1] if other is None else start))
    starts = sorted(starts, key=lambda x: float(np.sum(np.abs(residual(x)))))[:2]
    return min(_likelihood(residual(least_squares(
        residual, start, loss='soft_l1', f_scale=FLOOR_M, max_nfev=40).x)) for start in starts)


class _Assignment:
    """Labels of radios (R,), and their cost: label i rides on the i-th moving robot, k stands."""

    def __init__(
        self, table: Mapping[tuple[str, str], Array], prior: Mapping[str, Array],
        apart: set[tuple[str, str]], k: int,
    ) -> None:
        self._k = k
        row = {radio: number for number, radio in enumerate(prior)}
        self._ends, self._apart = (
            np.array([[row[name] for name in pair] for pair in pairs], dtype=int).reshape(-1, 2)
            for pairs in (table, sorted(apart)))
        self._table, self._prior = np.stack(list(table.values())), np.stack(list(prior.values()))

    def _cost(self, labels: Index) -> Array:
        """(m,) negative log-likelihoods of assignments (m, R), up to a constant."""
        a, b = (labels[:, self._ends[:, end]] for end in (0, 1))
        pairs = self._table[np.arange(len(self._table)), a, b].sum(axis=1)
        one, other = (labels[:, self._apart[:, end]] for end in (0, 1))
        together = np.sum((one == other) & (one < self._k), axis=1)
        prior = self._prior[np.arange(len(self._prior)), labels].sum(axis=1)
        on = np.sum(labels[:, :, None] == np.arange(self._k), axis=1)
        further = np.sum(np.maximum(on - 1, 0), axis=1)
        return np.asarray(pairs + prior + FURTHER * further + IMPOSSIBLE * together)

    def _steps(self, labels: Index) -> Index:
        """(m, R) assignments that differ in at most one radio, or exchange two."""
        steps = [labels[None]]
        for radio, label in enumerate(labels):
            single = np.tile(labels, (self._k, 1))
            single[:, radio] = np.delete(np.arange(self._k + 1), label)
            others = np.flatnonzero(labels[radio:] != label) + radio
            both = np.tile(labels, (len(others), 1))
            both[:, radio], both[np.arange(len(others)), others] = labels[others], label
            steps += [single, both]
        return np.concatenate(steps)

    def best(self) -> tuple[Index, dict[int, list[int]]]:
        """(R,) the labelling of least cost: the best step from several starts, until none helps.

        And the radios that another assignment places about as well, with their labels there.
        Beside one step: a radio that stands, with all those that it ranges on its robot.
        """
        ends = []
        for labels in (*(np.full(len(self._prior), label) for label in range(self._k + 1)),
                       np.argmin(self._prior, axis=1)):
            while True:
                steps = self._steps(labels)
                cost = self._cost(steps)
                if cost.min() > cost[0] - 1e-9:
                    break
                labels = steps[np.argmin(cost)]
            ends.append((float(cost[0]), labels))
        least, labels = min(ends, key=lambda end: end[0])
        near = [self._steps(labels)]
        for radio in np.flatnonzero(labels < self._k):
            turned = labels.copy()
            mine = np.any(self._ends == radio, axis=1)
            turned[self._ends[mine].ravel()] = labels[radio]
            turned[radio] = self._k
            near.append(turned[None])
        every = np.concatenate(near)
        every = every[self._cost(every) < least + MARGIN]
        return labels, {
            radio: np.unique(every[every[:, radio] != labels[radio], radio]).tolist()
            for radio in np.flatnonzero(np.any(every != labels, axis=0)).tolist()}
