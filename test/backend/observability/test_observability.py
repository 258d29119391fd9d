"""What ranges determine, and what they do not."""

import time
from dataclasses import replace

import numpy as np
import pytest
from backend_world import World, longer
from graphs import flying_graph

from benchmark.synthetic import noisy_edges
from sparser_ros.backend.observability import alternatives
from sparser_ros.backend.observability.observability import observe
from sparser_ros.backend.observability.pieces import cut
from sparser_ros.backend.observability.rigid_model import RobustWeights, rigid_problem
from sparser_ros.backend.observability.rigid_problem import WIDTH
from sparser_ros.backend.session.frame import frame_of
from sparser_ros.backend.session.solution import Location
from sparser_ros.config import RobustConfig
from sparser_ros.config.backend_config import ObservabilityConfig
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import estimate_of, squared_residuals
from sparser_ros.graph.parts import find_segments
from sparser_ros.io.simulation import Simulation
from sparser_ros.io.simulation import graph_of as graph_of_run
from sparser_ros.solver.robust import KERNELS, squared_threshold

LOCATED, UNLOCATED = Location.LOCATED, Location.UNLOCATED
AMBIGUOUS = Location.AMBIGUOUS
APART_M, FLOOR_M = 1.0, 0.1


def judged(world, gauge=0, graph=None, estimate=None, weights=None, **options):
    """Verdicts at the truth; the odometry of these worlds is coarse."""
    graph = world.graph() if graph is None else graph
    return observe(
        graph, world.truth if estimate is None else estimate, find_segments(graph), gauge,
        ObservabilityConfig(**options), weights)


@pytest.mark.parametrize(('kinds', 'locations', 'heading'), [
    (('curved', 'curved'), (LOCATED, LOCATED), True),
    (('curved', 'still'), (LOCATED, LOCATED), False),
    (('still', 'curved'), (LOCATED, UNLOCATED), False),
    (('curved', 'curved', 'still'), (LOCATED, LOCATED, LOCATED), False)])
def test_robots_that_move_locate_each_other(kinds, locations, heading):
    d = len(kinds) if len(kinds) > 2 else 2
    starts = np.array([[0, 0, 0], [5, 2, 1], [1, 4, -3]])[:len(kinds), :d]
    seen = judged(World(kinds, starts, dimension=d))
    assert seen.location == locations
    assert ('undetermined' in seen.missing[-1]) == (locations[-1] is UNLOCATED)
    assert (seen.sigma.heading[-1] < 0.2) == heading


@pytest.mark.parametrize(('rows', 'words'), [([3], 'undetermined'), ([], 'no range or closure')])
def test_one_range_or_none_does_not_locate(rows, words):
    world = World(['curved', 'curved'], [[0, 0], [5, 2]])
    graph = world.graph()
    rows = np.array(rows, dtype=np.int64)
    seen = judged(world, graph=graph.replaced(ranges=graph.ranges.take(rows)))
    assert seen.location == (LOCATED, UNLOCATED)
    assert words in seen.missing[1]


def test_ranges_from_a_straight_line_leave_a_mirror_image():
    assert not judged(World(['straight'], [[0, 0]], beacons=[[2, 8]])).landmark_located[0]
    assert judged(World(['curved'], [[0, 0]], beacons=[[2, 8]])).landmark_located[0]


@pytest.mark.parametrize('seed', [8, 11, 24])
def test_false_ranges_do_not_hide_the_mirror_image_of_a_beacon(seed):
    random = np.random.default_rng(seed)
    beacon = [random.uniform(-2, 8), random.uniform(2, 12)]
    world = World(['straight'], [[0, 0]], beacons=[beacon], steps=40, seed=seed)
    graph = world.graph()
    false = random.random(len(graph.ranges)) < 0.2
    spoilt = longer(graph, np.where(false, 0.5 + random.exponential(3, len(false)), 0.0))
    seen = judged(world, graph=spoilt, weights={'ranges': np.where(false, 1e-4, 1.0)})
    assert not seen.landmark_located[0]


@pytest.mark.parametrize('beacons', [[], [[3, 6], [8, -4], [-2, 3]]], ids=len)
def test_two_straight_robots_have_a_mirror_image_with_all_beacons(beacons):
    seen = judged(World(
        ['straight', 'straight'], [[0, 0], [5, 2]], np.reshape(beacons, (-1, 2)), steps=30))
    assert seen.location == (LOCATED, AMBIGUOUS)
    assert 'mirrored about the line through the path of A' in seen.missing[1]
    assert seen.alternatives[0].variable == 1
    assert seen.hypotheses[seen.alternatives[0].hypothesis].gap < 25
    assert not np.any(seen.landmark_located)


@pytest.mark.parametrize('known', [(0, 1, 2), (0, 1)])
def test_known_beacons_fix_the_frame(known):
    world = World(
        ['curved', 'still'], [[0, 0], [4, 2]], beacons=[[3, 6], [8, -4], [-5, 3]], known=known)
    seen = judged(world, gauge=None)
    assert seen.location == (LOCATED, LOCATED)
    assert seen.sigma.heading[0] < 0.2 < seen.sigma.heading[1]
    assert np.all(seen.landmark_located)


@pytest.mark.parametrize('sigma_rad', [0.02, 0.1])
def test_a_closure_locates_a_robot_at_once(sigma_rad):
    world = World(['curved', 'still'], [[0, 0], [5, 2]], pairs=[])
    graph = world.graph()
    a, b = world.row(0, 5), world.row(1, 5)
    closure = noisy_edges(
        np.array([a]), np.array([b]), world.truth.rotation, world.truth.translation, np.zeros(1),
        np.zeros((1, 2)), 1 / sigma_rad**2, 1 / 0.1**2, np.array([False]))
    graph = graph.replaced(relative_poses=graph.relative_poses.append(closure))
    seen = judged(world, graph=graph)
    assert seen.location == (LOCATED, LOCATED)
    assert seen.sigma.heading[1] < 0.2 and seen.sigma.position[1] < 0.33


@pytest.mark.parametrize('share', [0.1, 0.4])
def test_rejected_ranges_change_no_verdict(share):
    world = World(
        ['curved', 'curved', 'still'], [[0, 0], [5, 2], [3, -4]], steps=60,
        beacons=[[3, 9], [8, -7], [-6, 4]], known=(0, 1, 2))
    graph = world.graph()
    clean = judged(world, None, graph)
    assert clean.location == (LOCATED, LOCATED, LOCATED)
    assert clean.sigma.heading[1] < 0.2 < clean.sigma.heading[2]
    # A share of the ranges is 5 to 20 m too long, and rejected.
    random = np.random.default_rng(1)
    false = random.uniform(size=len(graph.ranges)) < share
    spoilt = longer(graph, np.where(false, random.uniform(5, 20, len(false)), 0.0))
    seen = judged(world, None, spoilt, weights={'ranges': np.where(false, 1e-4, 1.0)})
    assert seen.location == clean.location
    blind = judged(world, None, spoilt)
    assert np.all((blind.sigma.position > 1.0) | (np.array(blind.location) == AMBIGUOUS))


def test_robots_that_two_known_beacons_tie_to_map_are_mirrored_together():
    world = World(
        ['straight', 'straight'], [[0, 3], [4, 6]], beacons=[[-5, 0], [9, 0]], known=(0, 1))
    seen = judged(world, gauge=None)
    assert seen.location == (AMBIGUOUS, AMBIGUOUS)
    first = seen.alternatives[0]
    assert 'mirrored about the line through known points' in first.words
    # The other placement is the mirror image of everything, ready to start a solve from.
    there = seen.hypotheses[first.hypothesis].estimate
    image = world.truth.translation * [1, -1]
    assert np.max(np.linalg.norm(there.translation - image, axis=1)) < 1.0


def test_a_wrong_placement_shows_the_right_one_as_the_better_hypothesis():
    world = World(
        ['straight'], [[0, 3]], beacons=[[-5, 0], [9, 0], [3, 12]], known=(0, 1, 2))
    wrong = judged(World(
        ['straight'], [[0, 3]], beacons=[[-5, 0], [9, 0]], known=(0, 1)), gauge=None)
    there = wrong.hypotheses[0].estimate
    mirrored = type(there)(there.rotation, there.translation, world.truth.landmarks.copy())
    seen = judged(world, gauge=None, estimate=mirrored)
    assert seen.location[0] is not LOCATED
    best = seen.hypotheses[0]
    assert best.gap < 0
    assert np.max(np.linalg.norm(best.estimate.translation - world.truth.translation, axis=1)) < 1


def test_a_gauge_robot_that_has_drifted_is_uncertain_beside_its_own_path():
    short, long = (judged(World([kind], [[0, 0]], steps=steps)).sigma.position[0]
                   for kind, steps in (('curved', 40), ('straight', 600)))
    assert short < 1.0 < long


def test_how_sure_places_are_beside_each_other_does_not_depend_on_the_gauge_robot(dimension):
    starts = [[0, 0, 0], [5, 2, 1], [1, 4, -3], [-3, 5, 2], [4, -4, 1]]
    world = World(['curved'] * 5, [s[:dimension] for s in starts], dimension=dimension)
    graph = world.graph()
    found = [judged(world, gauge, graph, alert_limit_m=5.0).sigma for gauge in range(5)]
    assert np.all(found[0].position < 2.0)
    for other in found[1:]:
        np.testing.assert_allclose(other.position, found[0].position, rtol=1e-5)
        np.testing.assert_allclose(other.heading, found[0].heading, rtol=1e-5)


def test_a_gauge_robot_whose_odometry_began_anew_is_the_frame_with_its_whole_path(dimension):
    """A second stretch that is tied to the first one as by odometry changes nothing."""
    world = World(['curved', 'curved'], [[0, 0, 0][:dimension], [5, 2, 1][:dimension]],
                  dimension=dimension, steps=100)
    graph = world.graph()
    edges = graph.relative_poses
    tied = replace(edges, odometry=edges.j != world.row(0, 25))

    def newest(table):
        one = graph.replaced(relative_poses=table)
        segments = find_segments(one)
        return judged(world, graph=one).sigma.position[[segments.newest(0), segments.newest(1)]]

    np.testing.assert_allclose(newest(tied), newest(edges), rtol=0.15)
    if dimension == 2:
        loose = edges.take(np.flatnonzero(tied.odometry))
        np.testing.assert_array_less(newest(loose), 1.5 * newest(edges), 'ranges tie it as well')


def test_a_second_stretch_that_nothing_ties_does_not_blur_the_frame():
    world = World(['curved', 'curved'], [[0, 0], [5, 2]], steps=60)
    graph = world.graph()
    edges, ranges = graph.relative_poses, graph.ranges
    before = world.row(0, 25)
    graph = graph.replaced(
        relative_poses=edges.take(np.flatnonzero(edges.j != before)),
        ranges=ranges.take(np.flatnonzero(ranges.source < before)))
    seen = judged(world, graph=graph)
    assert seen.sigma.position[find_segments(graph).newest(0)] > 100
    assert seen.sigma.position[find_segments(graph).newest(1)] < 1


def driven(robots, seconds, seed, known=0):
    """A pose a second of robots among six beacons, 5 % of the ranges false."""
    return graph_of_run(Simulation(SimulationConfig(
        robots=robots, beacons=6, minutes=seconds / 60, seed=seed, odometry_rate=1.0,
        radius=30.0, known_beacons=known)))


@pytest.mark.parametrize('seed', [501, 502, 503])
def test_a_place_that_is_no_minimum_is_not_called_located(seed):
    """B is slid to a slope, where what it still believes determines its place well."""
    graph = driven(3, 60, seed, known=4)
    frame = frame_of(graph, SparserConfig(robots=list(graph.robots)))
    truth, b = estimate_of(graph), frame.segments.of_pose == 1

    def seen(away):
        estimate = replace(truth, translation=truth.translation + np.where(
            b[:, None], [away, 0.0], 0.0))
        weights = KERNELS['gm'].weight(
            squared_residuals(frame.graph, estimate)['ranges'],
            squared_threshold(RobustConfig(), 1))
        return observe(frame.graph, estimate, frame.segments, frame.gauge, ObservabilityConfig(),
                       {'ranges': weights})

    assert seen(0.0).location[1] is LOCATED
    slid = seen(2.0)
    assert slid.location[1] is AMBIGUOUS and slid.gap < 0.0
    assert slid.missing[1].startswith('another place fits its measurements better')


@pytest.mark.parametrize('seed', [3, 6, 11])
def test_a_rival_is_a_minimum_and_no_stop_on_the_way_back(seed):
    """Robots after ten seconds: a dozen steps leave rivals on a slope."""
    graph, gauge = driven(2, 10, seed), 0
    truth = estimate_of(graph)
    turn = truth.rotation[0].T
    truth = truth.moved(turn, -turn @ truth.translation[0])
    segments = find_segments(graph)
    believed = RobustWeights({}, 0.1)
    pieces = cut(graph, truth, segments, FLOOR_M)
    whole = rigid_problem(graph, truth, segments, FLOOR_M, believed)
    fine = rigid_problem(graph, truth, pieces.parts, FLOOR_M, believed, pieces.joints)
    starts = alternatives.proposals(whole, [1], list(range(2, whole.variables)), APART_M)
    compared = alternatives.compare(whole, fine, pieces, starts, gauge, 1.0, APART_M)
    assert compared.rivals
    every = np.ones(fine.unknowns, dtype=bool)
    for rival in compared.rivals:
        if rival.gap < 100.0:
            at_rest = fine.relaxed(rival.placement, every, 300, WIDTH)
            left = fine.cost(rival.placement, WIDTH) - fine.cost(at_rest, WIDTH)
            assert left < 0.5, rival.mirror


def test_hundreds_of_segments_are_compared_in_seconds():
    """As where odometry breaks off at every false fix."""
    graph = driven(3, 40, 3)
    truth = estimate_of(graph)
    graph = graph.replaced(relative_poses=graph.relative_poses.take(
        ~graph.relative_poses.odometry))
    segments = find_segments(graph)
    assert len(segments) > 100
    whole = rigid_problem(graph, truth, segments, FLOOR_M, RobustWeights({}, 0.1))
    movable = list(range(1, len(segments)))
    begin = time.monotonic()
    starts = alternatives.proposals(whole, movable, [], APART_M)
    kept = alternatives._distinct(whole, starts, 0, APART_M, alternatives.MOST_STARTS)
    assert len(starts) < 10 * len(segments) and len(kept) == alternatives.MOST_STARTS
    assert time.monotonic() - begin < 20.0


@pytest.mark.parametrize('verticals', [True, False])
def test_sigmas_do_not_depend_on_where_map_has_its_origin(verticals):
    """Coordinates of a national grid are of millions of metres."""
    graph, truth = flying_graph(4, steps=40, verticals=verticals, heights=verticals)
    sigmas = []
    for far in (np.zeros(3), np.array([4.5e5, 5.4e6, 0.0])):
        frame = frame_of(graph, SparserConfig(dimension=3, robots=list(graph.robots)), None)
        seen = observe(frame.graph, truth.moved(np.eye(3), far), frame.segments, frame.gauge,
                       ObservabilityConfig())
        sigma = seen.sigma
        sigmas.append(np.concatenate([sigma.position, sigma.heading, sigma.landmark]))
    np.testing.assert_allclose(*sigmas, rtol=1e-3)
