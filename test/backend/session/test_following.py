"""Ticks that follow what is new: whole solves gain nothing; what came after an estimate."""

import numpy as np
import pytest
from backend_world import World, added_up, config, ticks, two_robots, with_false_ranges

from benchmark.synthetic import noisy_edges
from sparser_ros.backend.session.contest import run
from sparser_ros.backend.session.continuation import continued, with_tail
from sparser_ros.backend.session.frame import frame_of
from sparser_ros.backend.session.maps import PlacedMap
from sparser_ros.backend.session.session import Session
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import AuditConfig
from sparser_ros.graph import Estimate, PosePriors, cost
from sparser_ros.linalg.rotations import angle_to_matrix
from sparser_ros.solver.result import SolveStatus

FOLLOWED = 'incremental'
MILLIMETRE = 1e-3


def settings(**options):
    """Few audits: they are no matter here."""
    return config(
        audit=AuditConfig(growth=3.0, growth_unlocated=3.0, stale_s=1e6), **options)


def world_of(seed=0, dimension=2, steps=60):
    return two_robots(dimension + 1, dimension=dimension, steps=steps, seed=seed)


def followed(solutions):
    return [solution.stats.init == FOLLOWED for solution in solutions]


def beside_whole_solves(session, increments):
    """The solutions after each of the increments, each with a solve of all that it has placed."""
    for one in increments:
        solution = ticks(session, [one])[-1]
        frame = frame_of(session.graph, session.config)
        placed = frame.among(solution.placed)
        placed[len(frame.segments):] |= frame.graph.landmarks.fixed
        chosen = frame.restricted(placed)
        yield solution, run(chosen.graph, session.config, chosen.of(solution.estimate))


@pytest.mark.parametrize('dimension, seed', [(2, 0), (2, 1), (3, 0), (3, 1)])
def test_a_whole_solve_gains_nothing_on_a_tick(seed, dimension):
    world = world_of(seed, dimension=dimension)
    session = Session(settings(dimension=dimension))
    pairs = list(beside_whole_solves(session, world.increments(12)))
    found = [solution for solution, _ in pairs]
    assert sum(followed(found)) >= 5
    # Three poses of a robot hardly determine the height of beacons: updates then end at their
    # largest number of steps and say so.
    assert all(one.status is SolveStatus.CONVERGED for one in found[dimension * 2:])
    for one, whole in pairs:
        assert one.status in (SolveStatus.CONVERGED, SolveStatus.STALLED)
        if one.status is SolveStatus.CONVERGED:
            assert one.stats.cost_final == pytest.approx(
                whole.stats.cost_final, abs=0.02, rel=1e-4)
    last = found[-1]
    assert last.stats.cost_final == pytest.approx(cost(session.graph, last.estimate), rel=1e-9)
    np.testing.assert_allclose(last.estimate.translation[0], 0, atol=1e-12)


def test_absolute_data_that_change_the_frame_are_not_followed():
    world = world_of()
    increments = world.increments(12)
    prior = PosePriors(
        np.array([0]), world.truth.rotation[:1], world.truth.translation[:1],
        np.array([1e4]), np.array([1e4]), np.array([0]))
    increments[8] = increments[8].replaced(pose_priors=prior)
    session = Session(settings())
    found = ticks(session, increments)
    assert followed(found)[7] and not followed(found)[8]
    np.testing.assert_allclose(
        found[-1].estimate.translation[0], world.truth.translation[0], atol=0.05)
    assert followed(found)[-1]


@pytest.mark.parametrize('dimension, gnc', [(2, True), (2, False), (3, True)])
def test_robust_ticks_reject_what_is_false(dimension, gnc):
    world = world_of(1, dimension=dimension, steps=80)
    increments, false = with_false_ranges(world.increments(15), 0.08)
    solver = SolverConfig(robust=RobustConfig(kernel='gm', gnc=gnc))
    session = Session(settings(dimension=dimension, solver=solver))
    pairs = list(beside_whole_solves(session, increments))
    found = [solution for solution, _ in pairs]
    assert sum(followed(found)) >= 5
    for one, whole in pairs[5:]:
        assert one.stats.cost_robust <= whole.stats.cost_robust * 1.001 + 0.05
    *_, last = (one for one in found if one.stats.init == FOLLOWED)
    solved = len(last.estimate.rotation)
    assert last.stats.kernel == 'gm' and len(last.rejected) > 3
    graph = session.graph
    for one in last.rejected:
        assert one.type == 'ranges' and one.index in false and one.weight < 0.5
        ends = graph.ranges.source[one.index], graph.ranges.target[one.index]
        assert (one.source, one.target) == tuple(graph.endpoint_name(int(end)) for end in ends)
    assert solved <= graph.n_poses


def test_another_configuration_holds_from_the_next_tick_on():
    increments = world_of().increments(12)
    session = Session(settings())
    assert followed(ticks(session, increments[:8]))[-1]
    session.config = settings(solver=SolverConfig(robust=RobustConfig(kernel='huber')))
    last = ticks(session, increments[8:])[-1]
    assert followed([last])[0] and last.stats.kernel == 'huber'


@pytest.mark.parametrize(('shift', 'believed'), [(0.0, True), (10.0, False), (1000.0, False)])
def test_a_closure_after_a_long_drift_is_tried_before_it_is_rejected(shift, believed):
    world = World(
        ['curved'], np.zeros((1, 2)), beacons=np.array([[3.0, 7.0]]), seed=1, steps=200)
    increments = world.increments(12)
    walk = [one.replaced(ranges=one.ranges.take(slice(0))) for one in increments[2:]]
    truth, back, at = world.truth, 3, len(world.truth.rotation) - 1
    off = np.full((1, 2), shift) @ truth.rotation[back]
    closure = noisy_edges(
        np.array([back]), np.array([at]), truth.rotation, truth.translation, np.zeros(1), off,
        MILLIMETRE**-2, MILLIMETRE**-2, np.zeros(1, dtype=bool))
    last = walk[-1].replaced(relative_poses=walk[-1].relative_poses.append(closure))
    solver = SolverConfig(robust=RobustConfig(kernel='gm', gnc=True))
    session = Session(config(robots=('A',), solver=solver))
    costs = []
    for number, one in enumerate([*increments[:2], *walk[:-1], last]):
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


def drifting(seed, turn=0.03):
    """Two robots whose odometry turns so many radians too far at every step, as it says it may."""
    world = World(
        ['curved', 'curved'], [[0, 0], [5, 2]], seed=seed, steps=240,
        beacons=[[3, 7], [-14, 11], [16, -13], [-9, -16]])
    world.odometry = [
        added_up(turns @ angle_to_matrix(np.array(turn)), moves)
        for turns, moves, *_ in world.odometry]
    graph = world.graph(12, every=6)
    edges = graph.relative_poses
    graph = graph.replaced(relative_poses=edges.replaced(
        kappa=np.full(len(edges), 1 / (1.5 * turn)**2)))
    return graph, run(graph, config(), world.true_in_map()).estimate


def first_poses(estimate, count):
    return Estimate(
        estimate.rotation[:count], estimate.translation[:count], estimate.landmarks)


@pytest.mark.parametrize('seed', range(4))
def test_a_tail_ends_in_the_basin_of_the_map_where_composed_odometry_does_not(seed):
    graph, best = drifting(seed)
    frame, least = frame_of(graph, config()), cost(graph, best)
    for share in (0.5, 0.8):
        known = first_poses(best, int(share * graph.n_poses))
        tail = with_tail(graph, frame.segments, frame.mask, known, config(), frame.anchored)
        assert np.array_equal(tail.translation[:len(known.translation)], known.translation)
        solved = PlacedMap(frame, frame.placed(frame.mask), tail, config())
        for _ in range(5):
            solved.update()
        assert solved.cost == pytest.approx(least, rel=1e-3)
    composed = continued(graph, frame.segments, first_poses(best, graph.n_poses // 2))
    solved = run(graph, config(), composed).estimate
    assert cost(graph, solved) > 2 * least, 'composed odometry is good enough: this shows nothing'


def test_a_range_that_no_solve_survives_leaves_the_tail_finite():
    graph, best = drifting(0)
    frame = frame_of(graph, config())
    known = first_poses(best, graph.n_poses // 2)
    distance = graph.ranges.distance_m.copy()
    distance[-1] = np.inf
    broken = graph.replaced(ranges=graph.ranges.replaced(distance_m=distance))
    tail = with_tail(broken, frame.segments, frame.mask, known, config(), frame.anchored)
    assert np.all(np.isfinite(tail.translation)) and np.all(np.isfinite(tail.rotation))
