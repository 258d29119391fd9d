"""The small problem of rigid pieces: derivatives, joints, merged ranges, relaxation, verticals."""

import numpy as np
import pytest
from backend_world import World, two_robots
from graphs import flying_graph

from sparser_ros.backend.observability.observability import observe
from sparser_ros.backend.observability.pieces import cut
from sparser_ros.backend.observability.registration import candidates, evidence_of
from sparser_ros.backend.observability.rigid_kernels import DIRECTION, HEIGHT
from sparser_ros.backend.observability.rigid_model import RobustWeights, rigid_problem
from sparser_ros.backend.session.frame import at_heights
from sparser_ros.config.backend_config import ObservabilityConfig
from sparser_ros.graph import Estimate, RelativePoses
from sparser_ros.graph.estimate import at_origin
from sparser_ros.graph.parts import find_segments
from sparser_ros.linalg.rotations import rotvec_to_matrix


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
    graph = world.graph()
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


def test_the_normal_equations_are_the_slope_of_the_gradient_where_all_fits(dimension):
    """Gauss-Newton leaves out what the residuals bend by."""
    if dimension == 3:
        graph, truth = flying_graph(2, steps=20, known=True, noise=0.0)
    else:
        world = two_robots(1, range_sigma=0.0)
        graph, truth = world.graph(), world.truth
    problem = rigid_problem(graph, truth, find_segments(graph), 0.0)
    normal, gradient = problem.normal_equations(problem.identity())
    assert np.abs(gradient).max() < 1e-6 * np.abs(normal).max()
    slopes = sloped(
        lambda there: problem.normal_equations(there)[1], problem, problem.identity())
    np.testing.assert_allclose(normal, slopes, atol=1e-4 * np.abs(normal).max())


def test_a_turn_about_the_vertical_and_a_shift_in_the_plane_are_free_and_no_more():
    problem = in_pieces(*flying_graph(3, steps=15, known=False), {})
    normal, _ = problem.normal_equations(problem.identity())
    values, vectors = np.linalg.eigh(normal)
    assert values[2] < 1e-6 * values[3]
    held = problem.held(0)
    assert len(held) == 3
    # What is held takes all of that: the rest is determined.
    assert np.linalg.svd(vectors[held, :3], compute_uv=False)[-1] > 1e-3


def test_a_body_is_placed_by_three_places_of_which_six_would_be_needed_without():
    graph, truth = flying_graph(4, robots=1, steps=8, beacons=3, noise=0.0, known=True)
    segments = find_segments(graph)
    problem = rigid_problem(graph, truth, segments, 0.0)
    evidence = evidence_of(problem, 0, np.zeros(0, dtype=np.int64))
    found = candidates(evidence, True)
    assert found.cost[0] == pytest.approx(0.0, abs=1e-3)
    np.testing.assert_allclose(found.rotation[0], np.eye(3), atol=1e-3)
    np.testing.assert_allclose(found.position[0], problem.centers[0], atol=1e-2)
    # All minima are level: the search is one over headings.
    few = found.rotation[found.cost < 10]
    np.testing.assert_allclose(few[:, 2, 2], 1.0, atol=1e-3)


def test_a_body_of_which_only_the_vertical_is_known_is_level_at_a_finite_place():
    graph, truth = flying_graph(4, robots=1, steps=8, heights=False, noise=0.0)
    graph = graph.replaced(ranges=graph.ranges.take([]))
    problem = rigid_problem(graph, truth, find_segments(graph), 0.0)
    found = candidates(evidence_of(problem, 0, np.zeros(0, dtype=np.int64)), True)
    assert np.all(np.isfinite(found.position)) and np.all(np.isfinite(found.cost))
    np.testing.assert_allclose(found.rotation[found.cost < 1][:, 2, 2], 1.0, atol=1e-3)


def test_the_origin_takes_heading_and_place_and_leaves_the_vertical():
    graph, truth = flying_graph(5, steps=6)
    tilted = rotvec_to_matrix(np.array([[0.2, -0.1, 0.7]]))[0]
    own = at_origin(truth, 3, (tilted, np.array([1.0, 2.0, 3.0])), graph)
    change = own.rotation @ np.swapaxes(truth.rotation, 1, 2)
    np.testing.assert_allclose(change[:, 2], np.tile([0, 0, 1.0], (len(change), 1)), atol=1e-12)
    np.testing.assert_allclose(own.translation[3, :2], [1.0, 2.0])
    assert own.translation[3, 2] == truth.translation[3, 2]


def test_the_gauge_robot_is_sure_of_its_own_path_although_others_know_each_other():
    graph, truth = flying_graph(6, robots=3, steps=15)
    ranges, robot = graph.ranges, graph.poses.robot
    of_a = [(end >= 0) & (robot[np.maximum(end, 0)] == 0)
            for end in (ranges.source, ranges.target)]
    rows = np.flatnonzero(of_a[0] | of_a[1])
    graph = graph.replaced(ranges=ranges.take(np.setdiff1d(np.arange(len(ranges)), rows[1:])))
    sigma = observe(graph, truth, find_segments(graph), 0, ObservabilityConfig()).sigma
    assert np.all(sigma.position < 0.4)
    assert np.sum(sigma.landmark < 0.4) == len(sigma.landmark)


@pytest.mark.parametrize('beacons', [1, 7])
def test_a_map_stands_at_the_heights_of_its_poses(beacons):
    """At the first tick there may be fewer poses than beacons whose heights are known."""
    graph, truth = flying_graph(1, robots=1, steps=2, beacons=beacons, noise=0.0)
    heights = graph.heights
    graph = graph.replaced(heights=heights.append(heights.take(heights.point < 0).replaced(
        point=~np.array([beacons - 1]))))
    low = Estimate(truth.rotation, truth.translation - [0.0, 0.0, 5.0], truth.landmarks)
    moved = at_heights(low, graph, np.array([True, False]))
    np.testing.assert_allclose(moved.translation, truth.translation, atol=1e-9)
