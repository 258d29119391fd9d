"""The present placement against its discrete alternatives.

How much worse must an alternative fit? Under the present placement, the likelihood ratio of any
fixed other one is a non-negative martingale of mean 1, so that it ever exceeds a with probability
1 / a at most (Ville's inequality). A ratio of a is a gap of 2 ln a in chi-square: a wrong
placement ever leads the right one by a gap g with probability exp(-g / 2) at most, however often
one looks. The gap is taken between relaxed placements, whose fitted unknowns are as many.

Gaps are divided by the variance factor of the present placement. Costs are Geman-McClure sums
over all measurements, rejected ones included: a contradiction counts for at most `WIDTH`, and an
alternative that explains what the present placement rejects gains by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...array_types import Index, Mask
from ...linalg.rotations import nearest_about_vertical, nearest_rotation
from .pieces import Pieces
from .proposals import Proposal
from .rigid_problem import GROUND, WIDE, WIDTH, Placement, RigidProblem

MOST_STARTS, MOST_FOLLOWED = 12, 6
"""Alternatives relaxed with rigid segments, and the best of them with pieces."""
_FAR = 500.0
"""Chi-square beyond which a rival is not relaxed further: more than 55 contradictions."""
_ROUGH = ((64 * WIDE, 5), (WIDE, 5))
_FINE = ((8 * WIDE, 4), (WIDE, 4))
"""Kernel widths that fall, and steps with each: what is far off has to come near first."""
_MOST_STEPS = 100
"""With the kernel that compares. A rival is a minimum: a stop on the way back to the present place,
along a valley of little slope, costs as little and is none. Comparisons of the geometry study take
12 % longer than with 12 steps."""


@dataclass(frozen=True)
class Rival:
    """A relaxed alternative to the present placement."""

    placement: Placement
    """Of the pieces."""
    gap: float
    """Chi-square, over the variance factor."""
    proposal: Proposal


@dataclass(frozen=True)
class Comparison:
    """The present placement, relaxed, and its rivals, best first."""

    here: Placement
    rivals: tuple[Rival, ...]
    fallen: Placement
    """`here` in the frame of the gauge segment's path before it was relaxed."""
    gained: float
    """By relaxing it: chi-square, over the variance factor."""

    def against(self, present: Placement) -> Comparison:
        """The same with a placement as it is in place of `here`, which becomes a rival."""
        first = Rival(self.fallen, -self.gained, Proposal(self.fallen))
        return replace(self, here=present, rivals=(first, *(
            replace(one, gap=one.gap - self.gained) for one in self.rivals)))


def compare(
    whole: RigidProblem, fine: RigidProblem, pieces: Pieces, starts: list[Proposal],
    gauge: int | None, variance_factor: float, apart_m: float,
) -> Comparison:
    """Relax alternatives of whole segments, then the best of them piece by piece."""
    free_fine = _free(fine, None if gauge is None else int(pieces.first[gauge]))
    here = fine.relaxed(fine.identity(), free_fine, _MOST_STEPS, WIDTH)
    base = fine.cost(here, WIDTH)
    gained = (fine.cost(fine.identity(), WIDTH) - base) / variance_factor
    own = None if gauge is None else np.flatnonzero(pieces.segment == gauge)
    fallen = here if own is None else _aligned(fine, own, fine.identity(), here, apart_m)
    rivals = []
    for proposal, placement in _promising(whole, starts, gauge, apart_m):
        there = _carried(whole, fine, pieces, placement)
        there = _narrowing(fine, there, free_fine, _FINE)
        if fine.cost(there, WIDTH) - base < _FAR * variance_factor:
            there = fine.relaxed(there, free_fine, _MOST_STEPS, WIDTH)
        gap = (fine.cost(there, WIDTH) - base) / variance_factor
        if own is not None:
            there = _aligned(fine, own, here, there, apart_m)
        rivals.append(Rival(there, gap, proposal))
    return Comparison(here, tuple(sorted(rivals, key=_rank)), fallen, gained)


def _rank(rival: Rival) -> tuple[float, bool, int]:
    """Best first; of equal ones, which rounding would order, the simplest mirror image."""
    mirror = rival.proposal.mirror
    return round(rival.gap, 6), not mirror, len(mirror)


def _promising(
    whole: RigidProblem, starts: list[Proposal], gauge: int | None, apart_m: float
) -> list[tuple[Proposal, Placement]]:
    """The best alternatives with rigid segments that differ from each other."""
    free = _free(whole, gauge)
    here = _narrowing(whole, whole.identity(), free, _ROUGH[1:])
    first = _distinct(whole, starts, gauge, 0.5 * apart_m)
    relaxed = [
        (start, _narrowing(whole, start.placement, free, _ROUGH)) for start in first]
    relaxed.sort(key=lambda pair: whole.cost(pair[1], WIDE))
    kept: list[tuple[Proposal, Placement]] = []
    for start, at in relaxed:
        if _distance(whole, at, here, gauge) < 0.5 * apart_m:
            continue
        same = [k for k, (_, other) in enumerate(kept)
                if _distance(whole, at, other, gauge) < 0.5 * apart_m]
        if not same and len(kept) < MOST_FOLLOWED:
            kept.append((start, at))
        elif same and start.mirror and not kept[same[0]][0].mirror:
            # The same place by another way, which has better words.
            kept[same[0]] = (start, kept[same[0]][1])
    return kept


def _narrowing(
    problem: RigidProblem, at: Placement, free: Mask,
    stages: tuple[tuple[float, int], ...],
) -> Placement:
    for width, steps in stages:
        at = problem.relaxed(at, free, steps, width)
    return at


def _distinct(
    whole: RigidProblem, starts: list[Proposal], gauge: int | None, apart_m: float
) -> list[Proposal]:
    """One start of each of the best MOST_STARTS places, best first; with the words of a mirror
    image where it is one."""
    kept: list[Proposal] = []
    for start in sorted(starts, key=lambda start: whole.cost(start.placement, 64 * WIDE)):
        same = [k for k, other in enumerate(kept)
                if _distance(whole, start.placement, other.placement, gauge) < apart_m]
        if not same and len(kept) < MOST_STARTS:
            kept.append(start)
        elif same and start.mirror and not kept[same[0]].mirror:
            kept[same[0]] = Proposal(kept[same[0]].placement, start.mirror)
    return kept


def _distance(
    problem: RigidProblem, one: Placement, other: Placement, gauge: int | None
) -> float:
    """Largest difference of any variable: of its place, or of points its extent away."""
    moved = np.linalg.norm(one.shift - other.shift, axis=1)
    if gauge is not None:
        moved[gauge] = 0
    turn = np.linalg.norm(one.rotation - other.rotation, axis=(1, 2))
    turn[problem.pieces:] = 0
    return float(np.max(np.maximum(moved, 2.0 * turn), initial=0.0))


def _aligned(
    fine: RigidProblem, own: Index, here: Placement, there: Placement, apart_m: float
) -> Placement:
    """The rival in the frame of the gauge segment's path as a whole; its pieces are `own`.

    Uncertainties refer to that frame too. A path shorter than `apart_m` keeps its first pose.
    """
    wanted = fine.centers[own] + here.shift[own]
    found = fine.centers[own] + there.shift[own]
    offset = found - np.mean(found, axis=0)
    if np.max(np.linalg.norm(offset, axis=1)) < apart_m:
        return there
    best = ((wanted - np.mean(wanted, axis=0)).T @ offset
            + sum(here.rotation[k] @ there.rotation[k].T for k in own.tolist()))
    turn = nearest_about_vertical(best) if fine.level else nearest_rotation(best[None])[0]
    middle = np.mean(found, axis=0)
    moved = np.mean(wanted, axis=0)
    if len(fine.held(int(own[0]))) < fine.dimension + 1 and fine.level:
        # Heights say how high everything is.
        moved[-1] = middle[-1]
    shift = (fine.centers + there.shift - middle) @ turn.T + moved - fine.centers
    shift[GROUND] = 0
    rotation = turn @ there.rotation
    rotation[GROUND] = np.eye(fine.dimension)
    return Placement(rotation, shift)


def _free(problem: RigidProblem, held: int | None) -> Mask:
    free = np.ones(problem.unknowns, dtype=bool)
    if held is not None:
        free[problem.held(held)] = False
    return free


def _carried(
    whole: RigidProblem, fine: RigidProblem, pieces: Pieces, at: Placement
) -> Placement:
    """A placement of whole segments as one of their pieces."""
    start = fine.identity()
    rotation, shift = start.rotation.copy(), start.shift.copy()
    p, b = fine.pieces, whole.pieces
    rotation[:p] = at.rotation[pieces.segment]
    arm = fine.centers[:p] - whole.centers[pieces.segment]
    shift[:p] = (
        np.einsum('kij,kj->ki', rotation[:p], arm) - arm + at.shift[pieces.segment])
    shift[p:-1] = at.shift[b:-1]
    return Placement(rotation, shift)
