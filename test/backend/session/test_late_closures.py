"""Closures of a long loop in a session with a robust kernel: true ones close it, false ones not."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.session.session import Session
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.graph import RelativePoses

MILLIMETRE = 1e-3


def increments_of(world, shift):
    """A long walk without ranges but at its begin, closed by its last pose, `shift` m off."""
    increments = world.increments(12)
    first = increments[:2]
    walk = [
        dataclasses.replace(one, ranges=one.ranges.take(np.zeros(len(one.ranges), dtype=bool)))
        for one in increments[2:]]
    truth, back, at = world.truth, 3, len(world.truth.rotation) - 1
    to_last = truth.translation[at] + shift - truth.translation[back]
    closure = RelativePoses(
        np.array([back]), np.array([at]), (truth.rotation[back].T @ truth.rotation[at])[None],
        (truth.rotation[back].T @ to_last)[None], np.array([MILLIMETRE**-2]),
        np.array([MILLIMETRE**-2]), np.zeros(1, dtype=bool), np.zeros(1, dtype=np.int64))
    last = dataclasses.replace(
        walk[-1], relative_poses=walk[-1].relative_poses.append(closure))
    return [*first, *walk[:-1], last]


@pytest.mark.parametrize(('shift', 'believed'), [(0.0, True), (10.0, False), (1000.0, False)])
def test_a_closure_after_a_long_drift_is_tried_before_it_is_rejected(shift, believed):
    world = World(
        ['curved'], np.zeros((1, 2)), beacons=np.array([[3.0, 7.0]]), seed=1, steps=200)
    solver = SolverConfig(robust=RobustConfig(kernel='gm', gnc=True))
    session = Session(config(robots=('A',), solver=solver))
    costs = []
    for number, one in enumerate(increments_of(world, shift)):
        session.add(one)
        # Audits place the start, and try what came last.
        solution = session.solve(number in (1, 11))
        costs.append(solution.stats.cost_robust)
    closure = np.flatnonzero(~session.graph.relative_poses.odometry)
    weight = float(solution.stats.weights['relative_poses'][closure[-1]])
    assert (weight > 0.5) == believed
    assert len(solution.rejected) == (0 if believed else 1)
    # What is rejected costs c^2 and bends nothing, however precise it says it is.
    c2 = RobustConfig().threshold**2
    assert costs[-1] < costs[-2] + c2 + (8 if believed else 3)
