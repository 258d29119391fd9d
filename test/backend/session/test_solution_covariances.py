"""Covariances of solutions: the same as from the whole graph, and what they are relative to."""

from dataclasses import replace

import numpy as np
import pytest
from backend_world import World, carried, config

from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import KNOWN_POSITIONS, NETWORK, Location
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.solver.covariance import marginal_covariance

KERNEL = SolverConfig(robust=RobustConfig(kernel='gm', threshold=4.0, weight_floor=1e-12))
BEACONS = [[6.0, 1.0], [-2.0, 7.0], [4.0, -6.0], [9.0, 8.0]]


def session_of(world, increments=None, radios=None, **backend):
    """A session after four increments, with a solve after each."""
    options = config(robots=world.names, solver=KERNEL, dimension=world.dimension, **backend)
    if radios:
        options = replace(options, radios=radios)
    session = Session(options)
    for increment in increments or world.increments(4):
        session.add(increment)
        session.solve()
    return session


def lived(world, increments=None, radios=None, **backend):
    """The tracker's answer to the last of four increments, and the graph."""
    session = session_of(world, increments, radios, **backend)
    return session.solve(), session.tracker.graph


NOISE_ALONE = IntegrityConfig(
    solve_odometry=False, bias_floor_m=1e-6, scale_floor=1e-7, turn_floor_rad_s=1e-8)
"""Sound sources have no error, and no size of a fault of odometry is solved for."""


def judged(world, increments=None, integrity=NOISE_ALONE, **backend):
    """The same and the verdict."""
    session = session_of(world, increments, integrity=integrity, **backend)
    solution = session.solve()
    return solution, session.tracker.graph, session.tracker._verdict


def beside(estimate, points, dimension):
    """(n d, n d): takes the motion of the first points off displacements of all n points.

    S-transformation by normal equations; `points` is how many of the positions are the datum.
    """
    d, arm = dimension, estimate - estimate[:points].mean(axis=0)
    turns = [np.array([[0, -1], [1, 0]])] if d == 2 else list(
        np.cross(np.eye(3)[:, None], np.eye(3)[None]).swapaxes(1, 2))
    motion = np.column_stack([np.tile(np.eye(d), (len(arm), 1)), *(
        (arm @ turn.T).ravel() for turn in turns)])
    datum = motion[:points * d]
    fitted = np.linalg.inv(datum.T @ datum) @ datum.T
    return np.eye(len(arm) * d) - np.hstack([
        motion @ fitted, np.zeros((len(arm) * d, (len(arm) - points) * d))])


def positions(joint, poses, dimension):
    """Covariance of the positions among poses, then points; the points come first."""
    d, size = dimension, dimension + (1 if dimension == 2 else 3)
    rows = np.arange(len(joint))
    own = (rows[:poses * size].reshape(poses, size)[:, :d]).ravel()
    order = np.concatenate([rows[poses * size:], own])
    return joint[np.ix_(order, order)]


@pytest.mark.parametrize('known', [(), (0, 1, 2, 3)])
def test_covariances_are_those_of_the_whole_graph_by_the_noise_as_it_is(known):
    world = World(
        ['curved', 'curved'], [(0, 0), (3, 2)], BEACONS, seed=3, known=known)
    solution, graph, verdict = judged(world)
    stated = solution.covariances
    assert stated.gauge == (KNOWN_POSITIONS if known else NETWORK)
    assert all(state.location is Location.LOCATED for state in solution.robots)
    rows = [graph.n_poses - 2, graph.n_poses - 1]
    weights = dict(solution.stats.weights)
    whole = marginal_covariance(graph, solution.estimate, rows, range(4), weights=weights)
    factor = [verdict.variance[name] for name in 'AB']
    assert np.median(factor) == pytest.approx(stated.variance_factor)
    assert stated.variance_factor == pytest.approx(1.0, abs=0.5)
    scale = np.abs(whole.poses).max()
    if known:
        np.testing.assert_allclose(
            stated.poses, np.array(factor)[:, None, None] * whole.poses, atol=1e-7 * scale)
        assert np.all(whole.landmarks == 0) and np.all(stated.landmarks == 0)
        return
    joint = positions(whole.joint, 2, 2)
    points = np.concatenate([solution.estimate.landmarks, solution.estimate.translation[rows]])
    for number, datum in enumerate(([0, 1, 2, 3, 5], [0, 1, 2, 3, 4])):
        order = [*datum, 4 + number]
        at = (2 * np.array(order)[:, None] + np.arange(2)).ravel()
        keep = beside(points[order], 5, 2)
        expected = factor[number] * (keep @ joint[np.ix_(at, at)] @ keep.T)[-2:, -2:]
        np.testing.assert_allclose(stated.poses[number][:2, :2], expected, atol=1e-6 * scale)
        assert np.all(np.linalg.eigvalsh(stated.poses[number]) > 0)


def test_errors_that_sound_sources_have_are_in_the_covariance():
    """Radios are off by up to the floor of a bias: where a robot stands is not known better."""
    world = World(['curved', 'curved'], [(0, 0), (3, 2)], BEACONS, seed=3)
    increments, sigma = world.increments(4), {}
    for floor in (1e-6, 0.1, 0.3):
        solution, _, _ = judged(world, increments, replace(NOISE_ALONE, bias_floor_m=floor))
        stated = solution.covariances.poses[:, :2, :2]
        sigma[floor] = np.sqrt(np.linalg.eigvalsh(stated)[:, -1])
    assert np.all(sigma[1e-6] < sigma[0.1]) and np.all(sigma[0.1] < sigma[0.3])
    # Several radios tell each other's errors: a robot is surer than one of them.
    assert np.all(sigma[0.3] < 0.3 + sigma[1e-6])


def test_covariances_survive_the_pipe():
    world = World(['curved'], [(0, 0)], BEACONS, seed=4, known=(0, 1, 2, 3))
    increments = world.increments(4)
    fixed = lived(world, increments)[0]
    free = lived(World(['curved', 'curved'], [(0, 0), (3, 2)], BEACONS, seed=3))[0]
    for solution in (fixed, free):
        sent = solution.covariances
        copy = carried(solution).covariances
        np.testing.assert_array_equal(copy.poses, sent.poses)
        np.testing.assert_array_equal(copy.landmarks, sent.landmarks)
        assert (copy.robots, copy.gauge, copy.variance_factor) == (
            sent.robots, sent.gauge, sent.variance_factor)
    assert (fixed.covariances.gauge, free.covariances.gauge) == (KNOWN_POSITIONS, NETWORK)
    assert fixed.covariances.robots == ('A',)


def test_without_a_factor_there_is_no_covariance():
    world = World(['curved'], [(0, 0)], BEACONS, seed=5, known=(0, 1, 2, 3))
    options = config(robots=world.names, solver=KERNEL)
    session = Session(options)
    session.add(world.increments(4)[0])
    assert session.solve(full=False).covariances is None
    solution, _ = lived(world, incremental=False)
    assert solution.covariances is None
    assert carried(solution).covariances is None


@pytest.mark.parametrize('dimension', [2, 3])
def test_what_is_stated_does_not_depend_on_whose_start_the_map_is_relative_to(dimension):
    """S-transformation of the covariance of the whole graph; the same for every gauge."""
    beacons = np.pad(BEACONS, ((0, 0), (0, dimension - 2)))
    beacons[:, 2:] = np.array([[0.0], [3.0], [1.0], [-2.0]])
    world = World(['curved', 'curved'], [[0, 0, 0][:dimension], [3, 2, 1][:dimension]], beacons,
                  seed=7, dimension=dimension)
    increments = world.increments(4)
    stated, claimed = {}, {}
    for robot in 'AB':
        solution, graph, verdict = judged(world, increments, gauge_robot=robot)
        assert solution.covariances.gauge == NETWORK
        assert np.all(solution.landmark_located)
        stated[robot] = solution.covariances
        factor = np.array([verdict.variance[name] for name in 'AB'])[:, None, None]
        claimed[robot] = solution.covariances.poses[:, :dimension, :dimension] / factor
    a, b = stated['A'], stated['B']
    # The axes of the two maps differ, and so does what rounding leaves of a zero.
    for left, right in ((a.landmarks, b.landmarks), (claimed['A'], claimed['B'])):
        np.testing.assert_allclose(
            np.linalg.eigvalsh(left), np.linalg.eigvalsh(right), rtol=1e-2,
            atol=1e-3 * left.max())
    joint = marginal_covariance(
        graph, solution.estimate, [], range(4), weights=dict(solution.stats.weights)).joint
    keep, d = beside(solution.estimate.landmarks, 4, dimension), dimension
    expected = (keep @ joint @ keep.T).reshape(4, d, 4, d)[np.arange(4), :, np.arange(4)]
    expected *= np.array([verdict.variance[f'L{k}'] for k in range(4)])[:, None, None]
    np.testing.assert_allclose(b.landmarks, expected, atol=1e-3 * expected.max())


def test_one_known_beacon_moves_the_map_and_no_covariance():
    """It says where the map is and leaves its heading open: the datum is the network still."""
    world = World(['curved', 'curved'], [(0, 0), (3, 2)], BEACONS, seed=6)
    radios = {'L1': {'beacon': 'L1', 'position': [-2.0, 7.0, 0.0]}}
    increments = world.increments(4)
    pinned, _ = lived(world, increments, radios)
    free, _ = lived(world, increments)
    np.testing.assert_allclose(pinned.estimate.landmarks[1], [-2.0, 7.0], atol=1e-9)
    assert pinned.covariances.gauge == free.covariances.gauge == NETWORK
    for name in ('poses', 'landmarks'):
        stated = getattr(free.covariances, name)
        assert np.all(np.linalg.eigvalsh(stated) > 0)
        np.testing.assert_allclose(
            getattr(pinned.covariances, name), stated, atol=1e-6 * stated.max())
