"""The small problem: derivatives, kernels, merged ranges, relaxation."""

import numpy as np
import pytest
from backend_world import World, graph_of

from sparser_ros.backend.observability.pieces import cut
from sparser_ros.backend.observability.rigid_model import RobustWeights, rigid_problem
from sparser_ros.graph import RelativePoses
from sparser_ros.graph.odometry_segments import find_segments


@pytest.mark.parametrize('dimension', [2, 3])
def test_the_jacobian_is_the_derivative_of_the_residuals(dimension):
    starts = np.eye(3)[:, :dimension] * 5
    world = World(
        ['curved', 'curved', 'still'], starts, beacons=np.ones((2, dimension)) * [[2], [-3]],
        dimension=dimension, steps=40)
    graph = graph_of(world.increments(1), dimension)
    pieces = cut(graph, world.truth, find_segments(graph), 0.03)
    assert len(pieces.joints) > 0
    problem = rigid_problem(graph, world.truth, pieces.parts, 0.1, joints=pieces.joints)
    at = problem.stepped(
        problem.identity(), 0.1 * np.random.default_rng(1).normal(size=problem.unknowns))
    _, jacobian = problem.linearised(at)
    step = 1e-6
    for column in range(problem.unknowns):
        move = np.zeros(problem.unknowns)
        move[column] = step
        difference = (
            problem.linearised(problem.stepped(at, move))[0]
            - problem.linearised(problem.stepped(at, -move))[0]) / (2 * step)
        np.testing.assert_allclose(
            jacobian[:, column].toarray().ravel(), difference, atol=1e-4 * (
                1 + np.abs(difference).max()))


@pytest.mark.parametrize('dimension', [2, 3])
@pytest.mark.parametrize('width', [np.inf, 9.0])
def test_compiled_normal_equations_and_costs_are_those_of_the_jacobian(dimension, width):
    starts = np.eye(3)[:, :dimension] * 5
    world = World(
        ['curved', 'curved', 'still'], starts, beacons=np.ones((2, dimension)) * [[2], [-3]],
        dimension=dimension, steps=40, known=(0,))
    graph = graph_of(world.increments(1), dimension)
    last = np.array([10, 50]), np.array([100, 30])
    closures = RelativePoses(
        *last, np.tile(np.eye(dimension), (2, 1, 1)), np.ones((2, dimension)), np.array([30., 2.]),
        np.array([9., 5.]), np.zeros(2, dtype=bool), np.zeros(2, dtype=np.int64))
    graph = graph.replaced(relative_poses=graph.relative_poses.append(closures))
    pieces = cut(graph, world.truth, find_segments(graph), 0.03)
    rejected = np.where(np.arange(len(graph.ranges)) % 5 == 0, 0.0, 1.0)
    problem = rigid_problem(
        graph, world.truth, pieces.parts, 0.1, RobustWeights({'ranges': rejected}),
        joints=pieces.joints)
    assert len(problem.same) > 0
    at = problem.stepped(
        problem.identity(), 0.1 * np.random.default_rng(1).normal(size=problem.unknowns))
    residual, jacobian = problem.linearised(at, width)
    normal, gradient = problem.normal_equations(at, width)
    np.testing.assert_allclose(normal, (jacobian.T @ jacobian).toarray(), rtol=1e-10, atol=1e-7)
    np.testing.assert_allclose(gradient, jacobian.T @ residual, rtol=1e-10, atol=1e-7)
    if np.isinf(width):
        assert problem.cost(at) == pytest.approx(float(residual @ residual), rel=1e-12)
    step = 1e-6
    for column in range(problem.unknowns):
        move = np.zeros(problem.unknowns)
        move[column] = step
        slope = (problem.cost(problem.stepped(at, move), width)
                 - problem.cost(problem.stepped(at, -move), width)) / (2 * step)
        assert 2 * gradient[column] == pytest.approx(
            slope, abs=1e-5 * (1 + np.abs(gradient).max()))


def small(weights=None):
    world = World(['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 6]])
    graph = graph_of(world.increments(1))
    return world, rigid_problem(
        graph, world.truth, find_segments(graph), 0.1, RobustWeights(weights or {}))


def test_rejected_ranges_count_with_a_kernel_only():
    world, problem = small()
    number = 3 * world.steps
    weights = {'ranges': np.where(np.arange(number) % 4 == 0, 0.0, 1.0)}
    _, some = small(weights)
    at = some.identity()
    shift = at.shift.copy()
    shift[1] += [50.0, 0.0]
    far = type(at)(at.rotation, shift)
    assert np.sum(~some.ranges.kept) > 0
    assert some.cost(far) < problem.cost(far)
    # Every contradiction of a range costs the kernel's width, rejected or not.
    between = np.sum((some.ranges.first == 0) & (some.ranges.second == 1))
    assert some.cost(far, 9.0) > 8.0 * between
    assert some.cost(far, 9.0) < 9.0 * len(some.ranges) + 1


def test_relaxation_finds_the_way_back():
    _, problem = small()
    free = np.ones(problem.unknowns, dtype=bool)
    free[problem.columns(0)] = False
    start = problem.stepped(problem.identity(), np.where(
        free, 0.2 * np.random.default_rng(2).normal(size=problem.unknowns), 0.0))
    for width in (np.inf, 9.0):
        back = problem.relaxed(start, free, 40, width)
        assert problem.cost(back, width) <= problem.cost(problem.identity(), width) + 0.1
        assert np.max(np.abs(back.shift)) < 0.5
