"""Covariances of solutions: the same as from the whole graph, and what they are relative to."""

from dataclasses import replace

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.process.codec import decode, decode_solution, encode_solution
from sparser_ros.backend.session.covariances import KNOWN_POSITIONS
from sparser_ros.backend.session.session import Session
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.solver.covariance import marginal_covariance

KERNEL = SolverConfig(robust=RobustConfig(kernel='gm', threshold=4.0, weight_floor=1e-12))
BEACONS = [[6.0, 1.0], [-2.0, 7.0], [4.0, -6.0], [9.0, 8.0]]


def lived(world, increments=None, radios=None, **backend):
    """The tracker's answer to the last of four increments, and the graph."""
    options = config(robots=world.names, solver=KERNEL, dimension=world.dimension, **backend)
    if radios:
        options = replace(options, radios=radios)
    session = Session(options)
    for increment in increments or world.increments(4):
        session.add(increment)
        session.solve()
    return session.solve(), session.tracker.graph


@pytest.mark.parametrize('known', [(), (0, 1, 2, 3)])
def test_covariances_are_those_of_the_whole_graph(known):
    world = World(
        ['curved', 'curved'], [(0, 0), (3, 2)], BEACONS, seed=3, known=known)
    solution, graph = lived(world)
    found = solution.covariances
    assert found.gauge == (KNOWN_POSITIONS if known else 'the start of A')
    rows = [graph.n_poses - 2, graph.n_poses - 1]
    weights = dict(solution.stats.weights)
    whole = marginal_covariance(graph, solution.estimate, rows, range(4), weights=weights)
    scale = np.abs(whole.poses).max()
    np.testing.assert_allclose(found.poses, whole.poses, atol=1e-8 * scale)
    np.testing.assert_allclose(found.landmarks, whole.landmarks, atol=1e-8 * scale)
    assert found.variance_factor == pytest.approx(1.0, abs=0.5)


def test_covariances_survive_the_pipe_and_are_scaled_on_request():
    world = World(['curved'], [(0, 0)], BEACONS, seed=4, known=(0, 1, 2, 3))
    increments = world.increments(4)
    solution, _ = lived(world, increments)
    copy = decode_solution(decode(encode_solution(solution))).covariances
    np.testing.assert_array_equal(copy.poses, solution.covariances.poses)
    free = lived(World(['curved', 'curved'], [(0, 0), (3, 2)], BEACONS, seed=3))[0]
    np.testing.assert_array_equal(
        decode_solution(decode(encode_solution(free))).covariances.network,
        free.covariances.network)
    assert copy.gauge == solution.covariances.gauge and copy.robots == ('A',)
    scaled, _ = lived(world, increments, covariance='found')
    np.testing.assert_allclose(
        scaled.covariances.poses,
        scaled.covariances.variance_factor * solution.covariances.poses, rtol=1e-9)
    assert lived(world, increments, covariance='off')[0].covariances is None


def test_without_a_factor_there_is_no_covariance():
    world = World(['curved'], [(0, 0)], BEACONS, seed=5, known=(0, 1, 2, 3))
    options = config(robots=world.names, solver=KERNEL)
    session = Session(options)
    session.add(world.increments(4)[0])
    assert session.solve(full=False).covariances is None
    solution, _ = lived(world, incremental=False)
    assert solution.covariances is None
    assert decode_solution(decode(encode_solution(solution))).covariances is None


@pytest.mark.parametrize('dimension', [2, 3])
def test_beacons_among_themselves_do_not_depend_on_whose_start_the_map_is_relative_to(dimension):
    """S-transformation of the covariance of the whole graph; the same for every gauge."""
    beacons = np.pad(BEACONS, ((0, 0), (0, dimension - 2)))
    beacons[:, 2:] = np.array([[0.0], [3.0], [1.0], [-2.0]])
    world = World(['curved', 'curved'], [[0, 0, 0][:dimension], [3, 2, 1][:dimension]], beacons,
                  seed=7, dimension=dimension)
    increments = world.increments(4)
    found = {}
    for robot in 'AB':
        solution, graph = lived(world, increments, gauge_robot=robot)
        assert solution.covariances.gauge == f'the start of {robot}'
        assert np.all(solution.landmark_located)
        found[robot] = solution.covariances
    a, b = found['A'], found['B']
    # The axes of the two maps differ, and so does what rounding leaves of a zero.
    sizes = [np.linalg.eigvalsh(one) for one in (a.network, b.network)]
    np.testing.assert_allclose(*sizes, rtol=1e-2, atol=1e-3 * a.network.max())
    assert not np.allclose(*(np.linalg.eigvalsh(one.landmarks) for one in (a, b)), rtol=0.1)
    np.testing.assert_array_equal(a.beacons, a.network)
    joint = marginal_covariance(
        graph, solution.estimate, [], range(4), weights=dict(solution.stats.weights)).joint
    d, arm = dimension, solution.estimate.landmarks - solution.estimate.landmarks.mean(axis=0)
    turns = [np.array([[0, -1], [1, 0]])] if d == 2 else list(
        np.cross(np.eye(3)[:, None], np.eye(3)[None]).swapaxes(1, 2))
    motion = np.column_stack([np.tile(np.eye(d), (4, 1)), *(
        (arm @ turn.T).ravel() for turn in turns)])
    keep = np.eye(4 * d) - motion @ np.linalg.inv(motion.T @ motion) @ motion.T
    expected = (keep @ joint @ keep.T).reshape(4, d, 4, d)[np.arange(4), :, np.arange(4)]
    np.testing.assert_allclose(b.network, expected, atol=1e-3 * expected.max())


def test_known_positions_are_the_frame_of_a_saved_map():
    world = World(['curved'], [(0, 0)], BEACONS, seed=4, known=(0, 1))
    known = lived(world)[0].covariances
    assert known.network is None
    np.testing.assert_array_equal(known.beacons, known.landmarks)


def test_with_one_known_beacon_positions_are_relative_to_it():
    world = World(['curved', 'curved'], [(0, 0), (3, 2)], BEACONS, seed=6)
    radios = {'L1': {'beacon': 'L1', 'position': [-2.0, 7.0, 0.0]}}
    increments = world.increments(4)
    pinned, graph = lived(world, increments, radios)
    free, _ = lived(world, increments)
    assert pinned.covariances.gauge == 'the position of L1 and the start of A'
    assert np.allclose(pinned.covariances.landmarks[1], 0, atol=1e-12)
    assert np.all(np.linalg.eigvalsh(free.covariances.landmarks[1]) > 0)
    joint = marginal_covariance(
        graph, free.estimate, [graph.n_poses - 1], [1], weights=dict(free.stats.weights)).joint
    away = np.concatenate([np.eye(2), np.zeros((2, 1)), -np.eye(2)], axis=1)
    np.testing.assert_allclose(
        pinned.covariances.poses[1][:2, :2], away @ joint @ away.T, rtol=1e-6)
