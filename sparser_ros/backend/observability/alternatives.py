"""The present placement against its discrete alternatives: what is proposed, and how well it fits.

Proposed are mirror images of groups, and turned or moved single variables. Ranges fix a group by
the points outside it that it measures. Where these lie on a line (a plane in space), the mirror
image of the group fits as well; where they nearly do, almost as well.

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

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...array_types import Array, Index, Mask
from ...linalg.rotations import nearest_about_vertical, nearest_rotation
from .pieces import Pieces
from .registration import Candidates, candidates, constraints, evidence_of
from .rigid_kernels import DIRECTION, HEIGHT
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
MOST_SUBSETS, MOST_PAIRED = 5, 30
"""Up to so many movable segments every subset is mirrored; of more, singles, pairs and all; of more
than the second number, as where odometry breaks off all the time, singles and all."""
_PER_VARIABLE = 3
"""Other minima of one segment that are followed up."""
_REBUILD_WIDTH = 16 * WIDE
"""c^2 while everything is placed anew: a few tens of metres for ranges of some decimetres."""
_HOPELESS = 400.0
"""Chi-square by which another minimum of one landmark may be worse while all else stands still."""


@dataclass(frozen=True)
class Rival:
    """An alternative to the present placement: of whole segments, then of the pieces."""

    placement: Placement
    mirror: tuple[int, ...] = ()
    """Variables, the ground included, whose points span its mirror; empty where it has none."""
    gap: float = np.nan
    """Chi-square by which it fits worse once relaxed, over the variance factor."""
    near: bool = False
    """Whether it is a minimum already, from which false ranges would pull it under wide kernels."""


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
        return replace(self, here=present, rivals=(Rival(self.fallen, gap=-self.gained), *(
            replace(rival, gap=rival.gap - self.gained) for rival in self.rivals)))


def compare(
    whole: RigidProblem, fine: RigidProblem, pieces: Pieces, starts: list[Rival],
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
    for start in _promising(whole, starts, gauge, apart_m):
        there = _carried(whole, fine, pieces, start.placement)
        there = _narrowing(fine, there, free_fine, () if start.near else _FINE)
        if fine.cost(there, WIDTH) - base < _FAR * variance_factor:
            there = fine.relaxed(there, free_fine, _MOST_STEPS, WIDTH)
        gap = (fine.cost(there, WIDTH) - base) / variance_factor
        if own is not None:
            there = _aligned(fine, own, here, there, apart_m)
        rivals.append(Rival(there, start.mirror, gap))
    return Comparison(here, tuple(sorted(rivals, key=_rank)), fallen, gained)


def _rank(rival: Rival) -> tuple[float, bool, int]:
    """Best first; of equal ones, which rounding would order, the simplest mirror image."""
    return round(rival.gap, 6), not rival.mirror, len(rival.mirror)


def _promising(
    whole: RigidProblem, starts: list[Rival], gauge: int | None, apart_m: float
) -> list[Rival]:
    """The best alternatives with rigid segments that differ from each other and from the present
    one."""
    free = _free(whole, gauge)
    here = _narrowing(whole, whole.identity(), free, _ROUGH[1:])
    apart = 0.5 * apart_m
    starts = sorted(starts, key=lambda start: whole.cost(start.placement, 64 * WIDE))
    relaxed = sorted((
        replace(start, placement=_narrowing(
            whole, start.placement, free, () if start.near else _ROUGH))
        for start in _distinct(whole, starts, gauge, apart, MOST_STARTS)),
        key=lambda start: whole.cost(start.placement, WIDE))
    return _distinct(
        whole, [start for start in relaxed if _distance(
            whole, start.placement, here, gauge) >= apart], gauge, apart, MOST_FOLLOWED)


def _narrowing(
    problem: RigidProblem, at: Placement, free: Mask,
    stages: tuple[tuple[float, int], ...],
) -> Placement:
    for width, steps in stages:
        at = problem.relaxed(at, free, steps, width)
    return at


def _distinct(
    whole: RigidProblem, ordered: list[Rival], gauge: int | None, apart_m: float, most: int
) -> list[Rival]:
    """The first of each of so many places; with the words of a mirror image where it is one."""
    kept: list[Rival] = []
    for start in ordered:
        same = [k for k, other in enumerate(kept)
                if _distance(whole, start.placement, other.placement, gauge) < apart_m]
        if not same and len(kept) < most:
            kept.append(start)
        elif same and start.mirror and not kept[same[0]].mirror:
            kept[same[0]] = replace(kept[same[0]], mirror=start.mirror)
    return kept


def _distance(
    problem: RigidProblem, first: Placement, second: Placement, gauge: int | None
) -> float:
    """Largest difference of any variable: of its place, or of points its extent away."""
    moved = np.linalg.norm(first.shift - second.shift, axis=1)
    if gauge is not None:
        moved[gauge] = 0
    turn = np.linalg.norm(first.rotation - second.rotation, axis=(1, 2))
    turn[problem.pieces:] = 0
    return float(np.max(np.maximum(moved, 2.0 * turn), initial=0.0))


def _aligned(
    fine: RigidProblem, own: Index, here: Placement, there: Placement, apart_m: float
) -> Placement:
    """The rival in the frame of the gauge segment's path as a whole; its pieces are `own`.

    Uncertainties refer to that frame too. A path shorter than `apart_m` keeps its first pose.
    """
    wanted = fine.centers[own] + here.shift[own]
    centers = fine.centers[own] + there.shift[own]
    offset = centers - np.mean(centers, axis=0)
    if np.max(np.linalg.norm(offset, axis=1)) < apart_m:
        return there
    best = ((wanted - np.mean(wanted, axis=0)).T @ offset
            + sum(here.rotation[k] @ there.rotation[k].T for k in own.tolist()))
    turn = nearest_about_vertical(best) if fine.level else nearest_rotation(best[None])[0]
    middle = np.mean(centers, axis=0)
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
    there = fine.identity()
    rotation, shift = there.rotation, there.shift
    p, b = fine.pieces, whole.pieces
    rotation[:p] = at.rotation[pieces.segment]
    arm = fine.centers[:p] - whole.centers[pieces.segment]
    shift[:p] = (
        np.einsum('kij,kj->ki', rotation[:p], arm) - arm + at.shift[pieces.segment])
    shift[p:-1] = at.shift[b:-1]
    return there


def proposals(
    problem: RigidProblem, movable: list[int], landmarks: list[int], apart_m: float
) -> list[Rival]:
    """Starts for a search of other minima of the problem of whole segments.

    `movable` are segments, `landmarks` variables of unknown landmarks; what is closer than
    `apart_m` to the present place is none.
    """
    rivals = []
    for group in _subsets(movable):
        rivals += _mirrored(problem, group, landmarks)
    for variable in movable:
        rivals += _registered(problem, variable, True, apart_m)
    for variable in landmarks:
        rivals += _registered(problem, variable, False, apart_m)
    return rivals + _rebuilt(problem, movable, landmarks)


def _subsets(movable: list[int]) -> list[tuple[int, ...]]:
    if len(movable) <= MOST_SUBSETS:
        sizes = list(range(1, len(movable) + 1))
    else:
        sizes = [1, 2, len(movable)] if len(movable) <= MOST_PAIRED else [1, len(movable)]
    return [group for size in sizes for group in itertools.combinations(movable, size)]


def private_landmarks(problem: RigidProblem, group: tuple[int, ...]) -> Index:
    """Landmarks tied to a group of segments and to nothing outside it.

    Known landmarks are tied to nothing, since the ground stands for them: they never move along.
    """
    ties = problem.placing
    inside, tied, shared = (np.zeros(problem.variables + 1, dtype=bool) for _ in range(3))
    inside[list(group)] = True
    tied[ties.first], tied[ties.second] = True, True
    shared[ties.first[~inside[ties.second]]] = True
    shared[ties.second[~inside[ties.first]]] = True
    alone = np.flatnonzero((tied & ~shared)[:-1])
    return np.asarray(alone[alone >= problem.pieces])


def _mirrored(
    problem: RigidProblem, group: tuple[int, ...], landmarks: list[int]
) -> list[Rival]:
    """The group mirrored with its own landmarks, and with all unknown landmarks."""
    result: list[Rival] = []
    ties, here = problem.placing, problem.identity()
    for marks in (private_landmarks(problem, group).tolist(), landmarks):
        members = np.zeros(problem.variables + 1, dtype=bool)
        members[list(group)] = True
        members[list(marks)] = True
        out = members[ties.first] & ~members[ties.second]
        back = members[ties.second] & ~members[ties.first]
        others = np.concatenate([ties.second[out], ties.first[back]])
        if len(others) == 0:
            continue
        points = problem.placed(here, others, np.concatenate([
            ties.arm_second[out], ties.arm_first[back]]))
        placement = _reflected(problem, members, points)
        chosen = _best_landmarks(problem, placement, landmarks)
        result.append(Rival(chosen, tuple(np.unique(others).tolist())))
        if list(marks) == landmarks:
            break
    return result


def _reflected(
    problem: RigidProblem, members: Mask, points: Array
) -> Placement:
    """Members mirrored about the line (plane) that fits points best."""
    d = problem.dimension
    middle = np.mean(points, axis=0)
    normal = np.linalg.eigh((points - middle).T @ (points - middle))[1][:, 0]
    mirror = np.eye(d) - 2 * np.outer(normal, normal)
    image = problem.identity()
    rotation, shift = image.rotation, image.shift
    for variable in np.flatnonzero(members[:-1]).tolist():
        center = problem.centers[variable]
        shift[variable] = (center - middle) @ mirror.T + middle - center
        if variable < problem.pieces:
            # A reflection is no motion of a robot; the nearest proper one is.
            ties = problem.placing
            arm = np.concatenate([
                ties.arm_first[ties.first == variable],
                ties.arm_second[ties.second == variable]])
            rotation[variable] = nearest_rotation((mirror @ (arm.T @ arm))[None])[0]
    return image


def _best_landmarks(
    problem: RigidProblem, moved: Placement, landmarks: list[int]
) -> Placement:
    """Every landmark where it fits the moved segments better: as it was, or as it is moved."""
    stay = Placement(moved.rotation, moved.shift.copy())
    stay.shift[landmarks] = 0
    before, after = (_cost_by_variable(problem, at) for at in (stay, moved))
    moved.shift[[v for v in landmarks if before[v] < after[v]]] = 0
    return moved


def _cost_by_variable(problem: RigidProblem, at: Placement) -> Array:
    ties = problem.ties
    apart = np.linalg.norm(
        problem.placed(at, ties.second, ties.arm_second)
        - problem.placed(at, ties.first, ties.arm_first), axis=1)
    square = ties.weight * (apart - ties.distance)**2
    total = np.zeros(problem.variables + 1)
    for variable in (ties.first, ties.second):
        np.add.at(total, variable, square / (1 + square / WIDE))
    return total


def _registered(
    problem: RigidProblem, variable: int, turn: bool, apart_m: float
) -> list[Rival]:
    """Other minima of one variable among the others as they are.

    Landmarks that only this variable measures prove nothing; they move along.
    """
    own = private_landmarks(problem, (variable,)) if turn else np.zeros(0, dtype=np.int64)
    evidence = evidence_of(problem, variable, own, rejected=True)
    if constraints(evidence) == 0:
        return []
    center = problem.centers[variable]
    here = np.eye(problem.dimension), center
    placements = candidates(evidence, turn, here, WIDE if turn else WIDTH)
    result: list[Rival] = []
    for rotation, position, cost in _different(placements, apart_m, [here]):
        if not turn and cost - float(placements.cost[0]) > _HOPELESS:
            break
        start = problem.identity()
        start.rotation[variable], start.shift[variable] = rotation, position - center
        for mark in own.tolist():
            arm = problem.centers[mark] - center
            start.shift[mark] = rotation @ arm + position - problem.centers[mark]
        result.append(Rival(start, near=not turn))
        if len(result) == (_PER_VARIABLE if turn else 1):
            break
    return result


def _different(
    placements: Candidates, apart_m: float, taken: list[tuple[Array, Array]]
) -> Iterator[tuple[Array, Array, float]]:
    """Rotations, positions and costs of minima that are apart from those `taken` and each other, as
    points at their centre and five times as far as that ahead of it tell."""
    def images(rotation: Array, position: Array) -> Array:
        return np.concatenate([position, position + 5 * apart_m * rotation[:, 0]])

    seen = [images(*place) for place in taken]
    for rotation, position, cost in zip(
            placements.rotation, placements.position, placements.cost, strict=True):
        image = images(rotation, position)
        if all(np.linalg.norm(image - other) >= apart_m for other in seen):
            seen.append(image)
            yield rotation, position, float(cost)


def _rebuilt(
    problem: RigidProblem, movable: list[int], landmarks: list[int]
) -> list[Rival]:
    """Everything placed anew, one after the other, best tied first, rejected ranges included.

    Where the whole present placement is wrong, no change of a part of it leads to the right one.
    Further minima of the first segment branch: the others follow from it.
    """
    turning = set(movable)
    branches = [(problem.identity(), [*movable, *landmarks])]
    branched = False
    finished: list[Rival] = []
    while branches:
        at, rest = branches.pop()
        best = best_tied(problem, rest)
        if best < 0:
            finished.append(Rival(at))
            continue
        evidence = evidence_of(problem, best, np.array(rest), rejected=True, at=at)
        placements = candidates(evidence, best in turning, None, _REBUILD_WIDTH)
        count = _PER_VARIABLE if best in turning and not branched else 1
        branched = branched or best in turning
        for rotation, position, _ in itertools.islice(_different(placements, 1.0, []), count):
            turned, shift = at.rotation.copy(), at.shift.copy()
            if best in turning:
                turned[best] = rotation
            shift[best] = position - problem.centers[best]
            branches.append((Placement(turned, shift), [v for v in rest if v != best]))
    return finished


def best_tied(problem: RigidProblem, rest: list[int]) -> int:
    """The variable of `rest` with most constraints by the others for its unknowns; -1 = none."""
    if not rest:
        return -1
    d, ties = problem.dimension, problem.ties
    waiting = np.zeros(problem.variables + 1, dtype=bool)
    waiting[rest] = True
    rows = np.zeros(problem.variables + 1)
    for part, most in ((HEIGHT, 1), (DIRECTION, d - 1)):
        # Of a vertical and of heights there is one each, however often measured.
        rows[ties.first[ties.part == part]] += most
    places = problem.placing
    for own, other in ((places.first, places.second), (places.second, places.first)):
        placed = ~waiting[other]
        np.add.at(rows, own[placed], places.scalars[placed])
    size = np.full(problem.variables + 1, d)
    size[:problem.pieces] += problem.turns
    share = rows / size
    best = max(rest, key=lambda v: (share[v], -v))
    return best if share[best] >= 1 else -1
