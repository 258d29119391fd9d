"""Protection levels: how far off each robot may be with a stated probability, all told.

With the integrity risk p, half of it for noise alone and half for faults that the tests miss, the
position of a robot is within

    max(K(p / 2) sigma, b + K(p_f) sigma) + a,   p_f = p / (2 P_fault),

of the truth with probability 1 - p: sigma^2 is the largest variance of the position along any
direction, K^2 the quantile of chi-square, b what hidden faults may do (integrity/undetected.py),
a the distance to other placements that fit about as well. b and a are those of the newest audit,
sigma is that of the tick.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from ...array_types import Array
from ..integrity.undetected import tail_probability
from .covariances import Covariances
from .protection import Protection
from .solution import Location, RobotLocation
from .verdict import Verdict

if TYPE_CHECKING:
    from ...config.integrity import IntegrityConfig

STATED = frozenset({Location.LOCATED, Location.POSITION_ONLY, Location.AMBIGUOUS})
"""Robots whose position is published, or would be but for another placement."""


def protection_levels(
    robots: Sequence[RobotLocation], covariances: Covariances | None, verdict: Verdict | None,
    config: IntegrityConfig,
) -> Protection:
    """The levels of all robots; `covariances` are those that the solution states."""
    flat, up = [], []
    for one in robots:
        hidden = None if verdict is None else verdict.undetected.get(one.robot)
        own = None if covariances is None else covariances.of(one.robot)
        planar = covariances is not None and covariances.poses.shape[1] == 3
        if verdict is None or hidden is None or own is None or one.location not in STATED:
            flat.append(math.inf)
            up.append(math.nan if planar else math.inf)
            continue
        assert covariances is not None
        if not covariances.found:
            own = own * covariances.variance_factor
        apart = max((
            part.apart_m for part in verdict.segments if part.robot == one.robot), default=0.0)
        flat.append(apart + level(own[:2, :2], hidden.horizontal_m, config))
        up.append(math.nan if planar else apart + level(
            own[2:3, 2:3], hidden.vertical_m, config))
    return Protection(tuple(one.robot for one in robots), np.array(flat), np.array(up))


def level(covariance: Array, hidden_m: float, config: IntegrityConfig) -> float:
    """max(K(p / 2) sigma, b + K(p_f) sigma) for a (k, k) covariance; metres."""
    k = len(covariance)
    sigma = math.sqrt(max(float(np.linalg.eigvalsh(covariance)[-1]), 0.0))
    noise = math.sqrt(float(chdtri(k, 0.5 * config.risk)))
    if config.fault_probability <= 0.5 * config.risk:
        # Even faults that nobody would notice are rare enough.
        return noise * sigma
    beside = math.sqrt(float(chdtri(k, tail_probability(config))))
    return max(noise * sigma, hidden_m + beside * sigma)
