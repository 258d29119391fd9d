"""Robots are withdrawn where a fault that nothing proves may well have moved them too far."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config, graph_of
from hypothesis import given
from hypothesis import strategies as st

from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.session.belief import (
    _share_left,
    audited_rows,
    beyond,
    driven_on,
    without_the_doubtful,
)
from sparser_ros.backend.session.scene import JointCovariance, scene_of, view_of
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location, tracked_map
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import IntegrityConfig, ObservabilityConfig
from sparser_ros.solver import solve

BEACONS = [[6.0, 1.0], [-2.0, 7.0], [4.0, -6.0], [9.0, 8.0]]


@pytest.mark.parametrize('sigma', [0.05, 0.3, 0.7, 1.0])
@pytest.mark.parametrize('narrow', [0.0, 0.1, 0.3, 0.5])
@pytest.mark.parametrize('axes', [2, 3])
def test_the_probability_is_that_of_draws_of_long_and_narrow_errors(axes, narrow, sigma):
    """Three moments tell small probabilities to 0.01, those above 0.4 to 0.06."""
    random = np.random.default_rng(2)
    root = np.linalg.qr(random.normal(size=(axes, axes)))[0] * (
        sigma * np.array([1.0, narrow, narrow])[:axes])
    shifts = np.array([0.0, 0.5, 0.9, 1.5])[:, None] * np.eye(axes)[0]
    stated = beyond(shifts, np.broadcast_to(root @ root.T, (4, axes, axes)), 1.0)
    drawn = random.normal(size=(200_000, axes)) @ root.T
    share = np.array([np.mean(np.linalg.norm(drawn + each, axis=1) > 1.0) for each in shifts])
    assert np.all(np.abs(stated - share) < np.where(share < 0.1, 0.01, 0.02 + 0.04 * (share > 0.4)))


@given(st.lists(st.tuples(
    st.floats(0.0, 1e9), st.floats(0.0, 1e9)), min_size=1, max_size=20), st.floats(1e-3, 1e4))
def test_it_is_a_probability_that_grows_with_the_distance(pairs, limit):
    distance, sigma = np.array(pairs).T
    shift = distance[:, None] * np.eye(3)[0]
    covariance = sigma[:, None, None] ** 2 * np.eye(3)
    stated = beyond(shift, covariance, limit)
    assert np.all((stated >= 0) & (stated <= 1))
    assert np.all(beyond(shift + limit * np.eye(3)[0], covariance, limit) >= stated - 0.02)


def lived(dimension=2):
    beacons = np.column_stack([BEACONS, [0.0, 4.0, 1.0, 5.0]])[:, :dimension]
    world = World(
        ['curved', 'curved'], [np.zeros(dimension), np.full(dimension, 2.0)], beacons, seed=3,
        known=range(4), dimension=dimension)
    session = Session(config(robots=world.names, dimension=dimension, solver=SolverConfig(
        robust=RobustConfig(kernel='gm'))))
    for one in world.increments(4):
        session.add(one)
        solution = session.solve()
    return session, solution


def scene_for(session, solution, variance):
    """The scene of a tick, of beacons whose places are known."""
    tracker, none = session.tracker, np.zeros(0, dtype=np.int64)
    return scene_of(
        tracker.graph, solution.estimate, solution.robots, solution.landmark_located,
        tracker._map.covariance(tracker.graph, none), none, True, variance)


def withdrawn(session, solution, evidence, metres, **options):
    """{robot: why}, of a verdict in which the scale of B's odometry is that likely."""
    return placed(session, solution, evidence, metres, **options)[0]


def placed(
    session, solution, evidence, metres, *, axis=0, variance=1.0, accepted=None, **options
):
    """Robots that are withdrawn, and why; robots that are placed at some risk, and which.

    `variance`: of the place of B, over the claimed one.
    """
    verdict = session.auditor.audit(tracked_map(solution))
    hidden = verdict.undetected
    fault = hidden.causes.index('odometry_scale of B')
    found, shift = np.full(len(hidden.causes), -9.0), np.zeros_like(hidden.lone_shift)
    found[fault], shift[1, axis, fault] = evidence, metres
    hidden = dataclasses.replace(
        hidden, evidence=found, lone_shift=shift, lone=0.1 * hidden.lone)
    scene = scene_for(session, solution, {'B': variance})
    backend = dataclasses.replace(
        session.tracker.config.backend, integrity=IntegrityConfig(**options),
        observability=ObservabilityConfig(**accepted or {}))
    scene, cautions = without_the_doubtful(scene, hidden, backend)
    assert [one.robot for one in scene.robots] == ['A', 'B']
    lost = {one.robot: one.missing for one in scene.robots if one.location is not Location.LOCATED}
    assert not {one.subject for one in cautions} & set(lost)
    return lost, {one.subject: one for one in cautions}


def test_a_robot_that_is_placed_at_a_risk_is_told_of():
    session, solution = lived()
    lost, told = placed(session, solution, 1.0, 3.0)
    assert not lost and set(told) == {'B'}
    assert told['B'].kind == 'position_risk' and 0.02 < told['B'].value < 0.05
    assert told['B'].text.startswith(
        'the position of B is off by more than 1 m with a probability of 3 %: with a probability')
    # A fifth of the accepted risk is small.
    assert placed(session, solution, 1.0, 3.0, accepted={'integrity_risk': 0.2}) == ({}, {})
    assert placed(session, solution, -1.0, 3.0) == ({}, {})


def test_a_likely_fault_that_moves_a_robot_withdraws_that_robot_and_says_why():
    session, solution = lived()
    assert all(one.location is Location.LOCATED for one in solution.robots)
    found = withdrawn(session, solution, 5.0, 3.0)
    assert set(found) == {'B'}
    # The prior 0.01 times exp(5) are odds of 1.48.
    assert found['B'].startswith(
        'with a probability of 60 % the odometry of B is too long or too short, and it is 3.0 m '
        'away then')
    assert not withdrawn(session, solution, 5.0, 0.5)
    # Odds of 0.027 are below the risk of 0.05, those of 0.07 are not.
    assert not withdrawn(session, solution, 1.0, 3.0)
    assert withdrawn(session, solution, 2.0, 3.0)
    assert not withdrawn(session, solution, 5.0, 3.0, accepted={'alert_limit_m': 6.0})
    assert withdrawn(session, solution, 1.0, 3.0, fault_probability=0.1)
    assert withdrawn(session, solution, 3.0, 3.0)
    assert not withdrawn(session, solution, 3.0, 3.0, accepted={'integrity_risk': 0.2})
    assert not withdrawn(session, solution, 5.0, 3.0, gate=False)


def test_noise_withdraws_alone_and_together_with_what_may_be_at_fault():
    """Both are one probability: of either half of the risk, together they are too much."""
    session, solution = lived()
    view = view_of('B', scene_for(session, solution, {}), None)
    low, high = 1.0, 1e6
    for _ in range(60):
        factor = (low * high) ** 0.5
        risk = beyond(np.zeros((1, 2)), factor * view.noise[None], 1.0)[0]
        low, high = (factor, high) if risk < 0.04 else (low, factor)
    assert not withdrawn(session, solution, -9.0, 0.0, variance=factor)
    assert not withdrawn(session, solution, 1.0, 3.0)
    assert set(withdrawn(session, solution, 1.0, 3.0, variance=factor)) == {'B'}
    reasons = withdrawn(session, solution, -9.0, 0.0, variance=2 * factor)
    assert set(reasons) == {'B'} and reasons['B'].startswith('its position is uncertain by')
    assert withdrawn(session, solution, -9.0, 0.0, variance=2 * factor, gate=False) == reasons
    assert not withdrawn(
        session, solution, -9.0, 0.0, variance=2 * factor, accepted={'alert_limit_m': 2.0})


def test_in_space_its_height_counts_as_well():
    session, solution = lived(3)
    assert solution.robots[1].location is Location.LOCATED
    assert set(withdrawn(session, solution, 5.0, 3.0, axis=2)) == {'B'}
    assert not withdrawn(session, solution, 5.0, 0.3, axis=2)


def alone(seed, factor, **options):
    """(located, located and more than 1 m off) of 40 ticks of one robot with odometry too long."""
    world = World(['curved'], [np.zeros(2)], [[14.0, 5.0], [-9.0, 10.0], [6.0, -12.0]], 160, seed,
                  range_sigma=0.15)
    turn, move, frame_turn, frame_place = world.odometry[0]
    world.odometry[0] = turn, factor * move, frame_turn, factor * frame_place
    session = Session(config(
        robots=world.names, solver=SolverConfig(robust=RobustConfig(kernel='gm', gnc=True)),
        integrity=IntegrityConfig(**options)))
    truth, located, wrong = world.true_in_map().translation, 0, 0
    for one in world.increments(40, every=4):
        session.add(one)
        solution = session.solve()
        here = solution.estimate.translation
        if solution.robots[0].location is Location.LOCATED:
            located += 1
            wrong += np.linalg.norm(here[-1] - truth[len(here) - 1]) > 1.0
    return located, wrong


def test_odometry_that_is_too_long_is_solved_for_and_its_robot_stays_located():
    assert alone(1, 1.0) == (40, 0)
    for seed in (1, 2):
        located, wrong = alone(seed, 1.15)
        assert located == 40 and wrong <= 1


def test_odometry_that_is_not_solved_for_is_suspected_before_it_is_proved():
    before = [alone(seed, 1.15, solve_odometry=False, gate=False)[1] for seed in (1, 2)]
    after = [alone(seed, 1.15, solve_odometry=False)[1] for seed in (1, 2)]
    assert sum(after) <= sum(before) / 2 > 2


def test_robots_have_driven_on_since_the_audit():
    session, solution = lived()
    hidden = session.auditor.audit(tracked_map(solution)).undetected
    graph, estimate = session.tracker.graph, solution.estimate

    def now(one):
        rows = audited_rows(one, graph)
        joint = session.tracker._map.covariance(graph, np.maximum(rows, 0))
        return driven_on(one, graph, estimate, joint, rows, np.full(2, -1)), rows

    assert now(hidden)[0] == hidden
    rows = [np.flatnonzero(graph.poses.robot == robot) for robot in range(2)]
    ago = np.array([own[-1 - steps] for own, steps in zip(rows, (3, 8), strict=True)])
    newest = np.array([own[-1] for own in rows])
    earlier = dataclasses.replace(hidden, stamp_ns=graph.poses.stamp_ns[ago] + 1)
    expected = earlier.driven_on(
        estimate.translation[newest] - estimate.translation[ago],
        (graph.poses.stamp_ns[newest] - graph.poses.stamp_ns[ago]) * 1e-9,
        np.tile(np.eye(2, 3), (2, 1, 1)))
    found, at = now(earlier)
    assert found == expected
    np.testing.assert_array_equal(at, ago)
    assert np.max(np.abs(expected.lone - hidden.lone)) > 0.01
    # What the audit knew is no longer in the graph.
    found, at = now(dataclasses.replace(hidden, stamp_ns=np.zeros(2, dtype=np.int64)))
    assert at.tolist() == [-1, -1]
    assert found.lone.tolist() == hidden.lone.tolist()


@pytest.mark.parametrize('dimension', [2, 3])
@pytest.mark.parametrize('heard', [False, True])
def test_ranges_since_the_audit_hold_an_error_of_odometry_back(dimension, heard):
    """As much as a solve with that error has it: ranges come from the newest pose only."""
    beacons = np.column_stack([BEACONS, [0.0, 4.0, 1.0, 5.0]])[:, :dimension]
    world = World(['curved'], [np.zeros(dimension)], beacons, 60, 3, known=range(4),
                  range_sigma=0.02, dimension=dimension)
    whole = graph_of(world.increments(4), dimension)
    begin, end = 40, whole.n_poses - 1
    far = np.maximum(whole.ranges.source, whole.ranges.target)
    made = whole.replaced(ranges=whole.ranges.take((far <= begin) | (heard & (far == end))))
    estimate = solve(made, SolverConfig(), initial=world.truth).estimate
    model, size = linear_model(made, estimate, {}), dimension + (1 if dimension == 2 else 3)
    information = (model.jacobian.T @ model.jacobian).toarray()
    bodies = np.concatenate([size * row + np.arange(size) for row in (end, begin)])
    joint = JointCovariance(
        np.linalg.inv(information)[np.ix_(bodies, bodies)], np.array([0]),
        np.full(4, -1), np.array([1]), 1.0)
    share = _share_left(made, estimate, begin, end, joint, 1, 0)

    rel = made.relative_poses
    late = np.zeros(len(model.residual))
    at = np.flatnonzero(rel.j > begin)
    rows = model.starts['moves'] + at[:, None] * dimension + np.arange(dimension)
    step = estimate.translation[rel.j[at]] - estimate.translation[rel.i[at]]
    late[rows] = np.sqrt(rel.tau[at])[:, None] * step
    moved = np.linalg.solve(information, model.jacobian.T @ late)[bodies[:dimension]]
    by_odometry = np.zeros(size)
    by_odometry[:dimension] = estimate.translation[end] - estimate.translation[begin]
    if not heard:
        np.testing.assert_allclose(share, np.eye(dimension, size), atol=1e-6)
    assert np.linalg.norm(share @ by_odometry - moved) < 0.1 * np.linalg.norm(by_odometry)
    assert heard == (np.linalg.norm(moved) < 0.7 * np.linalg.norm(by_odometry))
