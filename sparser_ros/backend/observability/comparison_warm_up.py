"""Compile or load the kernels of the comparison of placements, before the first audit."""

from __future__ import annotations

import numpy as np

from .joints import Joints
from .registration import Evidence, candidates
from .rigid_problem import GROUND, Pairs, RigidProblem


def warm_up(dimension: int) -> None:
    """Relax and register a tiny problem: two pieces, joined, and one landmark."""
    d = dimension
    size = d + (1 if d == 2 else 3)
    places = np.vander(np.arange(1.0, 7.0), d)
    zero = np.zeros(6)
    pairs = Pairs(
        np.array([0, 0, 1, 1, 0, 1]), np.array([2, 2, 2, 2, GROUND, GROUND]), places,
        places[::-1].copy(), zero + 1, np.arange(6), zero == 0, zero + d,
        np.zeros(6, dtype=np.int64))
    joints = Joints(
        np.array([0]), np.array([1]), places[:1], np.zeros((1, size)), np.eye(size)[None])
    problem = RigidProblem(2, np.eye(4, d), pairs, zero + 3, pairs, joints)
    problem.relaxed(problem.identity(), np.ones(problem.unknowns, dtype=bool), 1)
    evidence = Evidence(
        places, places[::-1].copy(), zero + 3, zero + 1, places[:1], places[1:2], zero[:1] + 1,
        np.zeros(1, dtype=np.int64))
    candidates(evidence, turn=True)
