"""Robots that a fault which nobody has found may have moved beyond the alert limit.

A fault is named once false alarms are rarer than stated, which may take a minute in which it
bends the map. Before that it is one of h + 1 hypotheses: no source errs, or one of them does, each
with the prior probability P (`integrity.fault_probability`). With the evidence B_i of the newest
audit (integrity/undetected.py) the probability of each follows from Bayes' rule, and under each
the position is normal about the estimate that allows for it, so that

    risk = sum over i of p_i Pr(|N(d_i, sigma_i^2)| > limit),   p_i = P B_i / (1 + sum P B_j).

An antenna that stands elsewhere than configured counts in its own p_i only, not in the sums of the
others. Errors of noise alone are not in the risk: `observability.position_sigma_m` bounds these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chndtr, ndtr

from ...array_types import Array
from ...graph import Estimate, Graph
from ..integrity.undetected import HiddenFaults, in_words
from .covariances import Covariances
from .protection_frame import Scene, view_of
from .solution import Location, RobotLocation

if TYPE_CHECKING:
    from ...config.backend_config import BackendConfig

_LIMIT_SIGMAS = 3.0
"""The limit is at least so many times what `position_sigma_m` accepts: who accepts 100 m of
standard deviation does not ask for 1 m."""
_FLAT = 50.0
"""A limit of so many standard deviations is as good as a plane, not a sphere."""


def driven_on(hidden: HiddenFaults, graph: Graph, estimate: Estimate) -> HiddenFaults:
    """The faults of an audit, for robots that have driven on along an estimate since."""
    way, seconds = np.zeros((len(hidden.robots), graph.dimension)), np.zeros(len(hidden.robots))
    for row, name in enumerate(hidden.robots):
        own = np.flatnonzero(graph.poses.robot == graph.robots.index(name))
        stamps = graph.poses.stamp_ns[own]
        at = int(np.searchsorted(stamps, hidden.stamp_ns[row], side='right')) - 1
        # A thinned graph may have dropped what the audit knew.
        if at >= 0:
            way[row] = estimate.translation[own[-1]] - estimate.translation[own[at]]
            seconds[row] = (stamps[-1] - stamps[at]) * 1e-9
    return hidden.driven_on(way, seconds)


def without_the_doubtful(
    scene: Scene, covariances: Covariances | None, hidden: HiddenFaults | None,
    config: BackendConfig,
) -> tuple[RobotLocation, ...]:
    """The robots of a scene; those at risk are withdrawn, with the likeliest cause in words."""
    integrity = config.integrity
    if hidden is None or not integrity.gate or not len(hidden.causes):
        return tuple(scene.robots)
    likely = hidden.likely(integrity.fault_probability)
    accepted = config.observability
    limit = max(accepted.alert_limit_m, _LIMIT_SIGMAS * accepted.sigma_limit_m)
    found = []
    for one in scene.robots:
        view = None
        if one.location in (Location.LOCATED, Location.POSITION_ONLY):
            view = view_of(one.robot, scene, covariances, hidden)
        if view is None:
            found.append(one)
            continue
        covariance = view.with_faults(view.noise, hidden.lone, hidden.owner, scene.factor)
        sigma = np.sqrt(np.maximum(np.linalg.eigvalsh(covariance[1:])[:, -1], 0.0))
        distance = np.linalg.norm(view.of(hidden.lone_shift), axis=0)
        risk = likely * beyond(distance, sigma, limit, len(view.noise))
        if np.sum(risk) > integrity.hidden_fault_risk:
            worst = int(np.argmax(risk))
            one = replace(one, location=Location.UNLOCATED, missing=_reason(
                hidden.causes[worst], float(likely[worst]), float(distance[worst]),
                float(sigma[worst])))
        found.append(one)
    return tuple(found)


def beyond(distance: Array, sigma: Array, limit: float, axes: int) -> Array:
    """Probability that a position is further off than `limit`, for each of h hypotheses.

    The position is `distance` (h,) away in the mean, with `sigma` (h,) along all axes, metres.
    """
    sigma = np.maximum(sigma, 1e-9)
    far = ndtr((distance - limit) / sigma)
    curved = sigma * _FLAT > np.maximum(limit, distance)
    near, wide = distance[curved], sigma[curved]
    far[curved] = 1 - chndtr((limit / wide) ** 2, float(axes), (near / wide) ** 2)
    return np.clip(far, 0.0, 1.0)


def _reason(cause: str, likely: float, distance: float, sigma: float) -> str:
    return (f'with a probability of {100 * likely:.0f} % {in_words(cause)}, and it is '
            f'{distance:.1f} m away then (standard deviation {sigma:.1f} m)')
