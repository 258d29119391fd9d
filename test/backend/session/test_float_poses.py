"""Poses of robots that are not located: their covariance holds every place that they may have."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Fix, Location
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.linalg.rotations import align

KERNEL = SolverConfig(robust=RobustConfig(kernel='gm', threshold=4.0, weight_floor=1e-12))


def solutions(seed, steps=36, ticks=12):
    """Two robots 15 m apart that begin to move, and range each other: (solution, steps so far)."""
    random = np.random.default_rng(seed)
    bearing = random.uniform(-np.pi, np.pi)
    world = World(['curved', 'curved'], [
        np.zeros(2), 15 * np.array([np.cos(bearing), np.sin(bearing)])], steps=steps, seed=seed)
    session = Session(config(robots=world.names, solver=KERNEL))
    for increment in world.increments(ticks):
        session.add(increment)
        yield world, session.solve()


def error_of(world, solution, robot):
    """Of a newest position, the path of A laid on its true place."""
    paths = [slice(k, len(solution.estimate.translation), 2) for k in range(2)]
    turn, shift = align(solution.estimate.translation[paths[0]],
                        world.truth.translation[:len(solution.estimate.translation)][paths[0]])
    own = paths[world.names.index(robot)]
    return (turn @ solution.estimate.translation[own][-1] + shift
            - world.truth.translation[:len(solution.estimate.translation)][own][-1])


def test_a_place_that_may_be_the_mirrored_one_has_that_in_its_covariance():
    """Under a normal law three standard deviations hold all but 1 %, and 15 m are no noise."""
    floats, far = 0, 0
    for seed in range(8):
        for world, solution in solutions(seed):
            fix = solution.fixes['B']
            if fix is not Fix.FLOAT:
                continue
            covariance = solution.covariances.of('B')[:2, :2]
            error = error_of(world, solution, 'B')
            floats += 1
            far += np.linalg.norm(error) > 3 * np.sqrt(np.trace(covariance))
    assert floats >= 30
    assert far <= 0.05 * floats, (far, floats)


@pytest.mark.parametrize('seed', [1, 2])
def test_paths_of_others_are_shown_once_two_robots_are_placed(seed):
    alone = together = 0
    for _, solution in solutions(seed):
        placed = [state.robot for state in solution.robots if state.location.placed]
        fixes = solution.fixes
        assert {robot for robot, fix in fixes.items() if fix is Fix.FIXED} <= set(solution.laid)
        if len(placed) > 1:
            together += 1
            assert set(solution.laid) == {
                robot for robot, fix in fixes.items() if fix is not Fix.NONE}
        elif fixes['B'] is Fix.FLOAT:
            alone += 1
            assert solution.laid == ('A',)
            known = dataclasses.replace(solution, anchored=True)
            assert known.laid == ('A', 'B'), 'beside known positions a path stands where it is'
    assert alone and together
    assert Location.LOCATED in [state.location for state in solution.robots]
