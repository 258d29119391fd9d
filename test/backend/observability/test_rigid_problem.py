"""The small problem: derivatives, merged ranges, relaxation."""

import numpy as np
import pytest
from backend_world import World, graph_of
from flying_world import flying_graph

from sparser_ros.backend.observability.pieces import cut
from sparser_ros.backend.observability.rigid_kernels import DIRECTION, HEIGHT
from sparser_ros.backend.observability.rigid_model import RobustWeights, rigid_problem
from sparser_ros.graph import RelativePoses
from sparser_ros.graph.parts import find_segments


def in_pieces(graph, truth, weights):
    pieces = cut(graph, truth, find_segments(graph), 0.03)
    return rigid_problem(
        graph, truth, pieces.parts, 0.1, RobustWeights(weights), joints=pieces.joints)


def with_closures(dimension):
    """Joints, landmarks of which one is known, closures, rejected ranges."""
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
    rejected = np.where(np.arange(len(graph.ranges)) % 5 == 0, 0.0, 1.0)
    problem = in_pieces(graph, world.truth, {'ranges': rejected})
    assert len(problem.joints) > 0 and len(problem.ties.part) > 0
    return problem


def upright(known):
    """Verticals, and heights of which some are rejected."""
    graph, truth = flying_graph(2, steps=20, known=known)
    problem = in_pieces(
        graph, truth, {'heights': np.where(np.arange(len(graph.heights)) % 7 == 3, 0.0, 1.0)})
    assert {DIRECTION, HEIGHT} <= set(problem.ties.part.tolist())
    return problem


def sloped(function, problem, at, size=1e-6):
    """Central differences of a function by every unknown."""
    return np.array([
        (function(problem.stepped(at, move)) - function(problem.stepped(at, -move))) / (2 * size)
        for move in size * np.eye(problem.unknowns)])


@pytest.mark.parametrize('width', [np.inf, 9.0])
@pytest.mark.parametrize(('made', 'option'), [
    (with_closures, 2), (with_closures, 3), (upright, False), (upright, True)])
def test_the_gradient_is_the_slope_of_the_cost(made, option, width):
    problem = made(option)
    at = problem.stepped(
        problem.identity(), 0.1 * np.random.default_rng(1).normal(size=problem.unknowns))
    _, gradient = problem.normal_equations(at, width)
    np.testing.assert_allclose(
        2 * gradient, sloped(lambda there: problem.cost(there, width), problem, at),
        atol=1e-5 * (1 + np.abs(gradient).max()))


@pytest.mark.parametrize('dimension', [2, 3])
def test_the_normal_equations_are_the_slope_of_the_gradient_where_all_fits(dimension):
    """Gauss-Newton leaves out what the residuals bend by."""
    if dimension == 3:
        graph, truth = flying_graph(2, steps=20, known=True, noise=0.0)
    else:
        world = World(['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 6]])
        graph, truth = graph_of(world.increments(1)), world.truth
        exact = np.linalg.norm(
            truth.points[graph.points(graph.ranges.source)]
            - truth.points[graph.points(graph.ranges.target)], axis=1)
        graph = graph.replaced(ranges=graph.ranges.replaced(distance_m=exact))
    problem = rigid_problem(graph, truth, find_segments(graph), 0.0)
    normal, gradient = problem.normal_equations(problem.identity())
    assert np.abs(gradient).max() < 1e-6 * np.abs(normal).max()
    slopes = sloped(
        lambda there: problem.normal_equations(there)[1], problem, problem.identity())
    np.testing.assert_allclose(normal, slopes, atol=1e-4 * np.abs(normal).max())


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
    assert np.sum(~some.ties.kept) > 0
    assert some.cost(far) < problem.cost(far)
    # Every contradiction of a range costs the kernel's width, rejected or not.
    between = np.sum((some.ties.first == 0) & (some.ties.second == 1))
    assert some.cost(far, 9.0) > 8.0 * between
    assert some.cost(far, 9.0) < 9.0 * len(some.ties.kept) + 1


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
