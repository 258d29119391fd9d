"""Other placements worth a look: mirror images of groups, and turned or moved single variables.

Ranges fix a group by the points outside it that it measures. Where these lie on a line (a plane
in space), the mirror image of the group fits as well; where they nearly do, almost as well.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ...array_types import Array, Index, Mask
from ...linalg.rotations import nearest_rotation
from .registration import candidates, evidence_of
from .rigid_kernels import DIRECTION, HEIGHT, WHOLE
from .rigid_problem import WIDE, Placement, RigidProblem

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
class Proposal:
    """A placement to start from; `mirror` are the variables whose points span its mirror."""

    placement: Placement
    mirror: tuple[int, ...] = ()
    """Variables, the ground included; empty where it is no mirror image."""


@dataclass(frozen=True)
class _Ties:
    """Who is measured where; rejected measurements may be the true ones, and count."""

    first: Index
    second: Index
    point_first: Array
    point_second: Array


def proposals(
    problem: RigidProblem, movable: list[int], landmarks: list[int], apart_m: float
) -> list[Proposal]:
    """Starts for a search of other minima of the problem of whole segments.

    `movable` are segments, `landmarks` variables of unknown landmarks; what is closer than
    `apart_m` to the present place is none.
    """
    ties = _ties(problem)
    found = []
    for group in _subsets(movable):
        found += _mirrored(problem, ties, group, landmarks)
    for variable in movable:
        found += _registered(problem, ties, variable, True, apart_m)
    for variable in landmarks:
        found += _registered(problem, ties, variable, False, apart_m)
    return found + _rebuilt(problem, movable, landmarks)


def _ties(problem: RigidProblem) -> _Ties:
    places = problem.same.take(problem.same.part == WHOLE)
    columns = [
        np.concatenate([getattr(pairs, name) for pairs in (problem.ranges, places)])
        for name in ('first', 'second', 'point_first', 'point_second')]
    return _Ties(*columns)


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
    ties = _ties(problem)
    inside, tied, shared = (np.zeros(problem.variables + 1, dtype=bool) for _ in range(3))
    inside[list(group)] = True
    tied[ties.first], tied[ties.second] = True, True
    shared[ties.first[~inside[ties.second]]] = True
    shared[ties.second[~inside[ties.first]]] = True
    alone = np.flatnonzero((tied & ~shared)[:-1])
    return np.asarray(alone[alone >= problem.pieces])


def _mirrored(
    problem: RigidProblem, ties: _Ties, group: tuple[int, ...], landmarks: list[int]
) -> list[Proposal]:
    """The group mirrored with its own landmarks, and with all unknown landmarks."""
    result: list[Proposal] = []
    for marks in (private_landmarks(problem, group).tolist(), landmarks):
        members = np.zeros(problem.variables + 1, dtype=bool)
        members[list(group)] = True
        members[list(marks)] = True
        out = members[ties.first] & ~members[ties.second]
        back = members[ties.second] & ~members[ties.first]
        points = np.concatenate([ties.point_second[out], ties.point_first[back]])
        if len(points) == 0:
            continue
        names = np.unique(np.concatenate([ties.second[out], ties.first[back]]))
        placement = _reflected(problem, ties, members, points)
        chosen = _best_landmarks(problem, placement, landmarks)
        result.append(Proposal(chosen, tuple(names.tolist())))
        if list(marks) == landmarks:
            break
    return result


def _reflected(
    problem: RigidProblem, ties: _Ties, members: Mask, points: Array
) -> Placement:
    """Members mirrored about the line (plane) that fits points best."""
    d = problem.dimension
    middle = np.mean(points, axis=0)
    normal = np.linalg.eigh((points - middle).T @ (points - middle))[1][:, 0]
    mirror = np.eye(d) - 2 * np.outer(normal, normal)
    start = problem.identity()
    rotation, shift = start.rotation.copy(), start.shift.copy()
    for variable in np.flatnonzero(members[:-1]).tolist():
        center = problem.centers[variable]
        shift[variable] = (center - middle) @ mirror.T + middle - center
        if variable < problem.pieces:
            # A reflection is no motion of a robot; the nearest proper one is.
            arm = np.concatenate([
                ties.point_first[ties.first == variable],
                ties.point_second[ties.second == variable]]) - center
            rotation[variable] = nearest_rotation((mirror @ (arm.T @ arm))[None])[0]
    return Placement(rotation, shift)


def _best_landmarks(
    problem: RigidProblem, moved: Placement, landmarks: list[int]
) -> Placement:
    """Every landmark where it fits the moved segments better: as it was, or as it is moved."""
    if not landmarks:
        return moved
    stay = Placement(moved.rotation, moved.shift.copy())
    stay.shift[landmarks] = 0
    before, after = (_cost_by_variable(problem, at) for at in (stay, moved))
    shift = moved.shift.copy()
    back = [v for v in landmarks if before[v] < after[v]]
    shift[back] = 0
    return Placement(moved.rotation, shift)


def _cost_by_variable(problem: RigidProblem, at: Placement) -> Array:
    residuals = problem.residuals(at)
    total = np.zeros(problem.variables + 1)
    for pairs, square in (
        (problem.ranges, residuals.ranges**2), (problem.same, np.sum(residuals.same**2, axis=1))):
        for variable in (pairs.first, pairs.second):
            np.add.at(total, variable, square / (1 + square / WIDE))
    return total


def _registered(
    problem: RigidProblem, ties: _Ties, variable: int, turn: bool, apart_m: float
) -> list[Proposal]:
    """Other minima of one variable among the others as they are.

    Landmarks that only this variable measures prove nothing; they move along.
    """
    own = private_landmarks(problem, (variable,)) if turn else np.zeros(0, dtype=np.int64)
    evidence = evidence_of(problem, variable, own, rejected=True)
    if evidence.rows == 0:
        return []
    d, center = problem.dimension, problem.centers[variable]
    found = candidates(evidence, turn, (np.eye(d), center), WIDE)
    here = float(found.cost[0])
    result: list[Proposal] = []
    taken: list[Array] = []
    for rotation, position, cost in zip(
            found.rotation, found.position, found.cost, strict=True):
        if not turn and cost - here > _HOPELESS:
            break
        image = np.concatenate([position, position + apart_m * 5 * rotation[:, 0]])
        same = np.concatenate([center, center + apart_m * 5 * np.eye(d)[0]])
        if any(np.linalg.norm(image - other) < apart_m for other in [same, *taken]):
            continue
        taken.append(image)
        start = problem.identity()
        turned, shift = start.rotation.copy(), start.shift.copy()
        turned[variable], shift[variable] = rotation, position - center
        for mark in own.tolist():
            arm = problem.centers[mark] - center
            shift[mark] = rotation @ arm + position - problem.centers[mark]
        result.append(Proposal(Placement(turned, shift)))
        if len(result) == (_PER_VARIABLE if turn else 1):
            break
    return result


def _rebuilt(
    problem: RigidProblem, movable: list[int], landmarks: list[int]
) -> list[Proposal]:
    """Everything placed anew, one after the other, best tied first, rejected ranges included.

    Where the whole present placement is wrong, no change of a part of it leads to the right one.
    Further minima of the first segment branch: the others follow from it.
    """
    turning = set(movable)
    branches = [(problem.identity(), [*movable, *landmarks])]
    branched = False
    finished: list[Proposal] = []
    while branches:
        at, rest = branches.pop()
        best = _best_tied(problem, rest)
        if best < 0:
            finished.append(Proposal(at))
            continue
        evidence = evidence_of(problem, best, np.array(rest), rejected=True, at=at)
        found = candidates(evidence, best in turning, None, _REBUILD_WIDTH)
        count = _PER_VARIABLE if best in turning and not branched else 1
        branched = branched or best in turning
        taken: list[Array] = []
        for rotation, position in zip(found.rotation, found.position, strict=True):
            image = np.concatenate([position, 5 * rotation[:, 0]])
            if len(taken) == count or any(np.linalg.norm(image - t) < 1.0 for t in taken):
                continue
            taken.append(image)
            turned, shift = at.rotation.copy(), at.shift.copy()
            turned[best] = rotation if best in turning else turned[best]
            shift[best] = position - problem.centers[best]
            branches.append((Placement(turned, shift), [v for v in rest if v != best]))
    return finished


def _best_tied(problem: RigidProblem, rest: list[int]) -> int:
    """The variable of `rest` with most constraints by the others for its unknowns; -1 = none."""
    if not rest:
        return -1
    d = problem.dimension
    waiting = np.zeros(problem.variables + 1, dtype=bool)
    waiting[rest] = True
    rows = np.zeros(problem.variables + 1)
    for part, most in ((HEIGHT, 1), (DIRECTION, d - 1)):
        # Of a vertical and of heights there is one each, however often measured.
        rows[problem.same.first[problem.same.part == part]] += most
    same = problem.same.take(problem.same.part == WHOLE)
    for pairs, each in ((problem.ranges, 1), (same, d)):
        for own, other in ((pairs.first, pairs.second), (pairs.second, pairs.first)):
            np.add.at(rows, own[~waiting[other]], each)
    size = np.full(problem.variables + 1, d)
    size[:problem.pieces] += problem.turns
    share = rows / size
    best = max(rest, key=lambda v: (share[v], -v))
    return best if share[best] >= 1 else -1
