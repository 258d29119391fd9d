"""How good a trajectory is: its own certificate, else the certified relaxation below it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...array_types import Array
from .. import thresholds
from ..optimize.trust_region import TrustRegionRun
from .certificate import Certifier
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
    polish: Callable[[Array], TrustRegionRun],
    climb: Callable[[Array], Climb] | None,
    descend: Callable[[TrustRegionRun], TrustRegionRun],
) -> Assessment:
    """Test a rank-d run, polished if that may help; where it fails, climb the staircase.

    `climb` takes a point (the relaxed one if there is one) to a certified relaxation, whose cost
    bounds the trajectory's from below, and `descend` rounds that again; without `climb` (a live
    solve) the bound is what the failed test still proves. Costs are never below zero.
    """
    certificate = certifier.test(refined.y)
    near = thresholds.current().polishing_gap * abs(refined.cost)
    if not certificate.certified and certificate.gap <= near:
        refined = polish(refined.y)
        certificate = certifier.test(refined.y)
    least, lower = certificate.lambda_min, certificate.lower_bound
    if not certificate.certified and climb is not None:
        top = climb(refined.y if relaxed is None else relaxed.y)
        relaxed = top.run
        lower = max(lower, top.certificate.lower_bound)
        other = descend(top.run)
        if other.cost < refined.cost:
            refined = other
    gap = max(refined.cost - max(lower, 0.0), 0.0)
    return Assessment(refined, relaxed, gap, gap <= certifier.tolerance(refined.cost), least)
