"""What ranges determine, and what they do not."""

import numpy as np
import pytest
from backend_world import World, config, graph_of

from sparser_ros.backend.observability.observability import observe
from sparser_ros.backend.observability.rigid_model import rigid_problem
from sparser_ros.backend.session.odometry_segments import find_segments
from sparser_ros.backend.session.solution import Location
from sparser_ros.config.backend import ObservabilityConfig
from sparser_ros.graph import Ranges, RelativePoses, empty

LOCATED, POSITION, UNLOCATED = Location.LOCATED, Location.POSITION_ONLY, Location.UNLOCATED
AMBIGUOUS = Location.AMBIGUOUS


def judged(world, gauge=0, graph=None, estimate=None):
    """Verdicts at the truth; the odometry of these worlds is too coarse for a third of a metre."""
    graph = graph_of(world.increments(1), world.dimension) if graph is None else graph
    return observe(
        graph, world.truth if estimate is None else estimate, find_segments(graph), gauge,
        ObservabilityConfig(position_sigma_m=0.5))


def test_two_moving_robots_locate_each_other():
    seen = judged(World(['curved', 'curved'], [[0, 0], [5, 2]], steps=40))
    assert seen.location == (LOCATED, LOCATED)
    assert seen.missing == ('', '')
    assert seen.heading_sigma_rad[1] < 0.2


def test_a_robot_that_stands_still_has_a_position_only():
    seen = judged(World(['curved', 'still'], [[0, 0], [5, 2]]))
    assert seen.location == (LOCATED, POSITION)
    assert 'heading' in seen.missing[1]


def test_nothing_is_known_of_others_while_the_gauge_robot_stands_still():
    seen = judged(World(['still', 'curved'], [[0, 0], [5, 2]]))
    assert seen.location == (LOCATED, UNLOCATED)


def test_one_range_does_not_locate():
    world = World(['curved', 'curved'], [[0, 0], [5, 2]])
    graph = graph_of(world.increments(1))
    seen = judged(world, graph=graph.replaced(ranges=graph.ranges.take([3])))
    assert seen.location == (LOCATED, UNLOCATED)
    assert 'undetermined' in seen.missing[1]


def test_a_robot_without_any_range_is_said_to_be_untied():
    world = World(['curved', 'curved'], [[0, 0], [5, 2]])
    graph = graph_of(world.increments(1)).replaced(ranges=empty(Ranges, 2))
    seen = judged(world, graph=graph)
    assert seen.location == (LOCATED, UNLOCATED)
    assert 'no range or closure' in seen.missing[1]


def test_ranges_from_a_straight_line_leave_a_mirror_image():
    world = World(['straight'], [[0, 0]], beacons=[[2, 8]])
    seen = judged(world)
    assert not seen.landmark_located[0]
    bent = World(['curved'], [[0, 0]], beacons=[[2, 8]])
    assert judged(bent).landmark_located[0]


def test_two_straight_robots_have_a_mirror_image():
    seen = judged(World(['straight', 'straight'], [[0, 0], [5, 2]], steps=30))
    assert seen.location == (LOCATED, AMBIGUOUS)
    assert 'mirrored about the line through the path of A' in seen.missing[1]
    assert seen.alternatives[0].variable == 1
    assert seen.hypotheses[seen.alternatives[0].hypothesis].gap < 25


def test_beacons_and_robots_that_could_all_be_mirrored_together_are_not_located():
    world = World(['straight', 'straight'], [[0, 0], [5, 2]], beacons=[[3, 6], [8, -4], [-2, 3]])
    seen = judged(world)
    assert seen.location[1] is AMBIGUOUS
    assert not np.any(seen.landmark_located)


@pytest.mark.parametrize('known', [(0, 1, 2), (0, 1)])
def test_known_beacons_fix_the_frame(known):
    world = World(
        ['curved', 'still'], [[0, 0], [4, 2]], beacons=[[3, 6], [8, -4], [-5, 3]], known=known)
    seen = judged(world, gauge=None)
    assert seen.location == (LOCATED, POSITION)
    assert np.all(seen.landmark_located)


def test_space():
    world = World(['curved', 'curved', 'still'], [[0, 0, 0], [5, 2, 1], [1, 4, -3]], dimension=3)
    assert judged(world).location == (LOCATED, LOCATED, POSITION)


def test_a_closure_locates_a_robot_at_once():
    world = World(['curved', 'still'], [[0, 0], [5, 2]], pairs=[])
    graph = graph_of(world.increments(1))
    a, b = world.row(0, 5), world.row(1, 5)
    turn = world.truth.rotation[a].T
    closure = RelativePoses(
        np.array([a]), np.array([b]), (turn @ world.truth.rotation[b])[None],
        (turn @ (world.truth.translation[b] - world.truth.translation[a]))[None],
        np.array([1 / 0.05**2]), np.array([1 / 0.1**2]), np.array([False]), np.array([0]))
    graph = graph.replaced(relative_poses=graph.relative_poses.append(closure))
    assert judged(world, graph=graph).location == (LOCATED, LOCATED)


@pytest.mark.parametrize('dimension', [2, 3])
def test_the_jacobian_is_the_derivative_of_the_residuals(dimension):
    starts = np.eye(3)[:, :dimension] * 5
    world = World(
        ['curved', 'curved', 'still'], starts, beacons=np.ones((2, dimension)) * [[2], [-3]],
        dimension=dimension, steps=6)
    graph = graph_of(world.increments(1), dimension)
    problem = rigid_problem(graph, world.truth, find_segments(graph), 0.1)
    at = problem.stepped(
        problem.identity(), 0.3 * np.random.default_rng(1).normal(size=problem.unknowns))
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


def test_thresholds_come_from_the_configuration():
    world = World(['curved', 'curved'], [[0, 0], [5, 2]])
    graph = graph_of(world.increments(1))
    strict = config().backend.observability
    strict = type(strict)(heading_sigma_rad=1e-3)
    seen = observe(graph, world.truth, find_segments(graph), 0, strict)
    assert seen.location[1] is not LOCATED
