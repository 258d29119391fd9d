"""How good a trajectory is: its own certificate, else the certified relaxation below it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..optimize.trust_region import TrustRegionRun
from .certificate import Certificate, Certifier
from .staircase import Climb


@dataclass(frozen=True)
class Assessment:
    """A trajectory with a bound on what a better one could gain; costs are the weighted ones."""

    run: TrustRegionRun
    relaxed: TrustRegionRun | None
    suboptimality: float
    certified: bool
    lambda_min: float | None


def assess(
    certifier: Certifier,
    refined: TrustRegionRun,
    relaxed: TrustRegionRun | None,
    *,
    climb: Callable[[TrustRegionRun, Certificate | None, float], Climb] | None,
    descend: Callable[[TrustRegionRun], TrustRegionRun],
    leaves: bool = True,
    loose: bool = False,
) -> Assessment:
    """Test a rank-d run; where it fails, climb the staircase.

    A run that costs more than a relaxation known already is not tested: it cannot be certified.
    `loose` says so of the relaxation of a thinned graph that the run came from.
    `climb` takes a run (the relaxed one if there is one), with its certificate where known, to a
    certified relaxation, whose cost bounds the trajectory's from below, and `descend` rounds that
    again; `leaves` = False where it starts elsewhere and takes no directions from the run. Without
    `climb` (a live solve) the bound is what the failed test still proves. Costs are
    never below zero.
    """
    certificate: Certificate | None = None
    known_above = climb is not None and (loose or (relaxed is not None and (
        refined.cost - relaxed.cost > certifier.tolerance(refined.cost))))
    if not known_above:
        certificate = certifier.test(refined.y, directions=leaves or climb is None)
    least = None if certificate is None else certificate.lambda_min
    lower = -math.inf if certificate is None else certificate.lower_bound
    if climb is not None and (certificate is None or not certificate.certified):
        top = (climb(refined, certificate, refined.cost) if relaxed is None
               else climb(relaxed, None, refined.cost))
        relaxed = top.run
        lower = max(lower, top.lower_bound)
        other = descend(top.run)
        if other.cost < refined.cost:
            refined = other
    gap = max(refined.cost - max(lower, 0.0), 0.0)
    return Assessment(refined, relaxed, gap, gap <= certifier.tolerance(refined.cost), least)
