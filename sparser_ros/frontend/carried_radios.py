"""Which robot carries which radio, from the motion of the robots and the ranges of the radios.

A range between a radio on a moving robot and one that stands still follows from the odometry of
that robot and one unknown point: r(t) = |p(t) - b| + a, with the delay a of both antennas. A range
between radios on two moving robots follows from both odometries and their unknown relative pose.
Each pair of radios is fitted under every such hypothesis; the assignment that explains all pairs
best is taken where it is clearly better than each assignment that differs in one radio, or that
exchanges two of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from ..array_types import Array

STILL = ''
"""Label of a radio that no moving robot carries."""
MOVED_M = 1.0
"""Extent of a track from which ranges tell its robot: several times the noise of UWB ranges."""
FITTED = 60
"""Ranges of a pair that are fitted, spread over the bag; a fit has at most four unknowns."""
LEAST_RANGES = 15
ROBOT_SIZE_M = 2.0
"""Radios on one robot are no farther from each other."""
FLOOR_M = 0.1
"""Noise of a good UWB range: smaller residuals do not speak for a hypothesis."""
MARGIN = 10.0
"""Log-likelihood by which an assignment must be better: odds of e^10, about 20 000 to 1."""
STARTS = 12
"""Directions from which a fit starts; its cost has few minima over the circle."""


@dataclass(frozen=True)
class Carried:
    """What motion says about the radios."""

    robot: dict[str, str] = field(default_factory=dict)
    """Radio -> moving robot that carries it, where that is clear."""
    doubtful: tuple[str, ...] = ()
    """Radios whose ranges fit several assignments about as well."""
    standing: tuple[str, ...] = ()
    """Robots that moved by less than MOVED_M: their radios look like beacons."""


def carried_radios(
    tracks: Mapping[str, Array], ranges: Mapping[tuple[str, str], Array]
) -> Carried:
    """Assign radios to robots.

    `tracks`: robot -> (n, 3) of seconds, x, y in the frame of its odometry. `ranges`: pair of
    radios -> (m, 2) of seconds and metres. Robots that stand still cannot be told from beacons.
    """
    extent = {robot: float(np.linalg.norm(np.ptp(track[:, 1:], axis=0)))
              for robot, track in tracks.items() if len(track)}
    moving = [robot for robot, size in extent.items() if size >= MOVED_M]
    standing = tuple(robot for robot in tracks if robot not in moving)
    pairs = _merged(ranges)
    if not moving or not pairs:
        return Carried(standing=standing)
    table = {pair: _costs(values, [tracks[robot] for robot in moving])
             for pair, values in pairs.items()}
    radios = sorted({name for pair in pairs for name in pair})
    labels = _best(table, radios, len(moving))
    doubtful = _doubtful(table, radios, labels, len(moving))
    return Carried(
        {radio: moving[label] for radio, label in labels.items()
         if label < len(moving) and radio not in doubtful}, doubtful, standing)


def _merged(ranges: Mapping[tuple[str, str], Array]) -> dict[tuple[str, str], Array]:
    """Both directions of a pair together, thinned, for pairs with enough ranges."""
    together: dict[tuple[str, str], list[Array]] = {}
    for (first, second), values in ranges.items():
        if first != second:
            together.setdefault((min(first, second), max(first, second)), []).append(values)
    merged = {}
    for pair, parts in together.items():
        values = np.concatenate(parts)
        values = values[np.isfinite(values[:, 1]) & (values[:, 1] > 0)]
        if len(values) >= LEAST_RANGES:
            order = np.argsort(values[:, 0])
            merged[pair] = values[order[np.unique(np.linspace(
                0, len(values) - 1, min(FITTED, len(values))).astype(int))]]
    return merged


def _costs(values: Array, tracks: list[Array]) -> Array:
    """(k+1, k+1) negative log-likelihoods of one pair by the labels of its ends; k = still."""
    k = len(tracks)
    cost = np.empty((k + 1, k + 1))
    seconds, distance = values.T
    at = [np.stack([np.interp(seconds, t[:, 0], t[:, axis]) for axis in (1, 2)], axis=1)
          for t in tracks]
    # Two radios that stand still keep their distance, and so do two on one robot, a small one.
    constant = _likelihood(distance - np.median(distance))
    cost[:] = constant
    np.fill_diagonal(cost[:k, :k], _likelihood(distance - min(
        float(np.median(distance)), ROBOT_SIZE_M)))
    if np.mean(np.abs(distance - np.median(distance))) < FLOOR_M / 2:
        return cost
    for one in range(k):
        cost[one, k] = cost[k, one] = min(constant, _fit_point(at[one], distance))
        for other in range(one):
            cost[one, other] = cost[other, one] = min(
                cost[one, k], cost[other, k], _fit_relative(at[one], at[other], distance))
    return cost


def _likelihood(residual: Array) -> float:
    """Negative log-likelihood of Laplace noise of unknown size, which outliers hardly move."""
    return float(len(residual) * np.log(np.mean(np.abs(residual)) + FLOOR_M))


def _fit_point(track: Array, distance: Array) -> float:
    """Best fit of |p(t) - b| + a over b (2,) and a."""
    def residual(x: Array) -> Any:
        return np.linalg.norm(track - x[:2], axis=1) + x[2] - distance

    starts = [np.append(track.mean(0) + np.median(distance) * _direction(k), 0.0)
              for k in range(STARTS)]
    return _fitted(residual, starts)


def _fit_relative(one: Array, other: Array, distance: Array) -> float:
    """Best fit of |R(x_2) p(t) + x_0:2 - q(t)| + x_3: the unknown relative pose of two robots."""
    def residual(x: Array) -> Any:
        c, s = np.cos(x[2]), np.sin(x[2])
        turned = one @ np.array([[c, s], [-s, c]])
        return np.linalg.norm(turned + x[:2] - other, axis=1) + x[3] - distance

    starts = []
    for turn in range(0, STARTS, 3):
        c, s = _direction(turn)
        centre = other.mean(0) - np.array([[c, -s], [s, c]]) @ one.mean(0)
        starts += [
            np.array([*(centre + np.median(distance) * _direction(k)), np.arctan2(s, c), 0.0])
            for k in range(0, STARTS, 2)]
    return _fitted(residual, starts)


def _direction(k: int) -> Array:
    angle = 2 * np.pi * k / STARTS
    return np.array([np.cos(angle), np.sin(angle)])


def _fitted(residual: Any, starts: list[Array]) -> float:
    """The best likelihood after polishing the two best starts."""
    starts = sorted(starts, key=lambda x: float(np.sum(np.abs(residual(x)))))[:2]
    return min(_likelihood(residual(least_squares(
        residual, start, loss='soft_l1', f_scale=FLOOR_M, max_nfev=40).x)) for start in starts)


def _total(table: Mapping[tuple[str, str], Array], labels: Mapping[str, int]) -> float:
    return float(sum(cost[labels[a], labels[b]] for (a, b), cost in table.items()))


def _best(table: Mapping[tuple[str, str], Array], radios: list[str], k: int) -> dict[str, int]:
    """The labelling of least cost: each radio in turn, from several starts, until none changes."""
    best: dict[str, int] = {}
    for start in range(k + 1):
        labels = dict.fromkeys(radios, k if start == k else start)
        changed = True
        while changed:
            changed = False
            for radio in radios:
                choice = min(range(k + 1), key=lambda label: (
                    _total(table, {**labels, radio: label}), label != k))
                if _total(table, {**labels, radio: choice}) < _total(table, labels) - 1e-9:
                    labels[radio], changed = choice, True
        if not best or _total(table, labels) < _total(table, best):
            best = labels
    return best


def _doubtful(
    table: Mapping[tuple[str, str], Array], radios: list[str], labels: dict[str, int], k: int
) -> tuple[str, ...]:
    """Radios that another assignment would place about as well."""
    cost = _total(table, labels)
    found: set[str] = set()
    for radio in radios:
        others = (_total(table, {**labels, radio: label})
                  for label in range(k + 1) if label != labels[radio])
        if min(others) < cost + MARGIN:
            found.add(radio)
    for a, b in combinations(radios, 2):
        if labels[a] != labels[b] and _total(
                table, {**labels, a: labels[b], b: labels[a]}) < cost + MARGIN:
            found |= {a, b}
    return tuple(sorted(found))
