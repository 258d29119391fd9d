"""Protection levels: how far off each robot may be with a stated probability, all told.

With the integrity risk p, half of it is that of noise and of errors that sound sources have, the
other half is divided among h faults of probability P each. The position of a robot is within

    max(d_0 + K(p / 2) sigma_0, max over faults of d_i + K(p / (2 h P)) sigma_i) + a

of the truth with probability 1 - p if one source at most is at fault: d_i is the distance from the
estimate to the one that allows for fault i, sigma_i^2 the largest variance of the latter along any
direction (integrity/undetected.py), K^2 the quantile of chi-square, a the distance to other
placements that fit about as well. What faults add is that of the newest audit, noise that of the
tick. What the position is relative to is said in protection_frame.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from ...array_types import Array
from ..integrity.undetected import HiddenFaults
from .protection_frame import Scene, view_of
from .solution import Location, Protection
from .verdict import Verdict

if TYPE_CHECKING:
    from ...config.backend_config import IntegrityConfig

STATED = frozenset({Location.LOCATED, Location.POSITION_ONLY, Location.AMBIGUOUS})
"""Robots whose position is published, or would be but for another placement."""


def protection_levels(
    scene: Scene, verdict: Verdict | None, config: IntegrityConfig,
) -> Protection:
    """The levels of all robots."""
    flat, up = [], []
    planar = scene.position.shape[1] == 2
    for one in scene.robots:
        known = None
        if verdict is not None and verdict.undetected is not None and one.location in STATED:
            known = _errors(one.robot, scene, verdict.undetected)
        if verdict is None or known is None:
            flat.append(math.inf)
            up.append(math.nan if planar else math.inf)
            continue
        apart = max((
            part.apart_m for part in verdict.segments if part.robot == one.robot), default=0.0)
        covariance, shift = known
        flat.append(apart + level(covariance[:, :2, :2], shift[:, :2], config))
        up.append(math.nan if planar else apart + level(
            covariance[:, 2:, 2:], shift[:, 2:], config))
    return Protection(
        tuple(one.robot for one in scene.robots), np.array(flat), np.array(up))


def level(covariance: Array, shift: Array, config: IntegrityConfig) -> float:
    """Metres, by covariances (1 + h, k, k) and shifts (1 + h, k): without a fault, with each."""
    k, faults = covariance.shape[1], len(covariance) - 1
    risk = np.full(faults + 1, 0.5 * config.risk)
    if faults * config.fault_probability <= 0.5 * config.risk:
        # Even faults that nobody would notice are rare enough.
        covariance, shift, risk = covariance[:1], shift[:1], risk[:1]
    risk[1:] /= faults * config.fault_probability
    sigma = np.sqrt(np.maximum(np.linalg.eigvalsh(covariance)[:, -1], 0.0))
    return float(np.max(np.linalg.norm(shift, axis=1) + np.sqrt(chdtri(k, risk)) * sigma))


def _errors(
    robot: str, scene: Scene, hidden: HiddenFaults
) -> tuple[Array, Array] | None:
    """Covariances (1 + h, d, d) and shifts (1 + h, d) of a robot's position; None = not known.

    Without a fault, and with each that levels allow for.
    """
    view = view_of(robot, scene, hidden)
    if view is None or np.any(view.rows < 0):
        return None
    common = view.of(hidden.common)
    sound = view.noise + common @ common.T
    counted = np.append(True, hidden.in_levels)
    faulty = view.with_faults(sound, hidden.added, hidden.owner)
    return faulty[counted], view.of(hidden.shift).T[counted]
