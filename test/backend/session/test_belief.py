"""Robots are withdrawn where a likely fault may have moved them too far; protection levels."""

import dataclasses
import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from backend_world import BEACONS, ROBUST, World, config, lived, longer, pair_world, ticks
from dense import drawn
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from sparser_ros.backend.integrity.hypotheses import Hypothesis
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.integrity.odometry_errors import SCALE
from sparser_ros.backend.integrity.undetected import _lone, _sound
from sparser_ros.backend.observability.datum import Outside
from sparser_ros.backend.session import belief
from sparser_ros.backend.session.scene import (
    JointCovariance,
    Scene,
    landmarks_beside_each_other,
    scene_of,
    view_of,
)
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location, RobotLocation, tracked_map
from sparser_ros.config import SolverConfig
from sparser_ros.config.backend_config import BackendConfig, IntegrityConfig, ObservabilityConfig
from sparser_ros.linalg.rotations import align
from sparser_ros.solver import solve

NAMES = ('A', 'B', 'L0', 'L1', 'L2', 'L3')


@pytest.mark.parametrize('sigma', [0.05, 0.3, 0.7, 1.0])
@pytest.mark.parametrize('narrow', [0.0, 0.1, 0.3, 0.5])
@pytest.mark.parametrize('axes', [2, 3])
def test_the_probability_is_that_of_draws_of_long_and_narrow_errors(axes, narrow, sigma):
    """Three moments tell small probabilities to 0.01, those above 0.4 to 0.06."""
    random = np.random.default_rng(2)
    root = np.linalg.qr(random.normal(size=(axes, axes)))[0] * (
        sigma * np.array([1.0, narrow, narrow])[:axes])
    shifts = np.array([0.0, 0.5, 0.9, 1.5])[:, None] * np.eye(axes)[0]
    stated = belief.beyond(shifts, np.broadcast_to(root @ root.T, (4, axes, axes)), 1.0)
    drawn = random.normal(size=(200_000, axes)) @ root.T
    share = np.array([np.mean(np.linalg.norm(drawn + each, axis=1) > 1.0) for each in shifts])
    assert np.all(np.abs(stated - share) < np.where(share < 0.1, 0.01, 0.02 + 0.04 * (share > 0.4)))


@given(st.lists(st.tuples(
    st.floats(0.0, 1e9), st.floats(0.0, 1e9)), min_size=1, max_size=20), st.floats(1e-3, 1e4))
def test_it_is_a_probability_that_grows_with_the_distance(pairs, limit):
    distance, sigma = np.array(pairs).T
    shift = distance[:, None] * np.eye(3)[0]
    covariance = sigma[:, None, None] ** 2 * np.eye(3)
    stated = belief.beyond(shift, covariance, limit)
    assert np.all((stated >= 0) & (stated <= 1))
    assert np.all(belief.beyond(shift + limit * np.eye(3)[0], covariance, limit) >= stated - 0.02)


@cache
def situation(dimension=2):
    """Two located robots among known beacons: the session, its solution, and the verdict."""
    session, solution = lived(pair_world(dimension))
    assert all(one.location is Location.LOCATED for one in solution.robots)
    return session, solution, session.auditor.audit(tracked_map(solution))


def scene_for(dimension, variance, robots=None):
    """The scene of a tick, of beacons whose places are known."""
    session, solution, _ = situation(dimension)
    tracker, none = session.tracker, np.zeros(0, dtype=np.int64)
    return scene_of(
        tracker.graph, solution.estimate, robots or solution.robots, solution.landmark_located,
        tracker._map.covariance(tracker.graph, none), none, True, variance)


def placed(evidence, metres, *, axis=0, dimension=2, variance=1.0, accepted=None, **options):
    """Robots that are withdrawn, and why; robots that are placed at some risk, and which.

    The scale of B's odometry is that likely, and moves it by so many metres then.
    """
    session, _, verdict = situation(dimension)
    hidden = verdict.undetected
    fault = hidden.causes.index('odometry_scale of B')
    found, shift = np.full(len(hidden.causes), -9.0), np.zeros_like(hidden.lone_shift)
    found[fault], shift[1, axis, fault] = evidence, metres
    hidden = dataclasses.replace(
        hidden, evidence=found, lone_shift=shift, lone=0.1 * hidden.lone)
    backend = dataclasses.replace(
        session.tracker.config.backend, integrity=IntegrityConfig(**options),
        observability=ObservabilityConfig(**{'heading_sigma_rad': 3.0, **(accepted or {})}))
    scene, cautions = belief.without_the_doubtful(
        scene_for(dimension, {'B': (variance, variance)}), hidden, backend)
    assert [one.robot for one in scene.robots] == ['A', 'B']
    lost = {one.robot: one.missing for one in scene.robots if one.location is not Location.LOCATED}
    assert not {one.subject for one in cautions} & set(lost)
    return lost, {one.subject: one for one in cautions}


def withdrawn(*arguments, **options):
    return placed(*arguments, **options)[0]


def test_a_robot_that_is_placed_at_a_risk_or_withdrawn_is_told_of():
    lost, told = placed(1.0, 3.0)
    assert not lost and set(told) == {'B'}
    assert told['B'].kind == 'position_risk' and 0.02 < told['B'].value < 0.05
    assert told['B'].text.startswith(
        'the position of B is off by more than 1 m with a probability of 2.6 %: with a probability')
    # A twentieth of the accepted risk is small.
    assert placed(1.0, 3.0, accepted={'integrity_risk': 0.9}) == ({}, {})
    assert placed(-3.0, 3.0) == ({}, {})
    assert set(placed(-1.0, 3.0)[1]) == {'B'}
    # The prior 0.01 times exp(5) are odds of 1.48.
    assert withdrawn(5.0, 3.0)['B'].startswith(
        'with a probability of 60 % the odometry of B is too long or too short, and it is 3.0 m '
        'away then')


@pytest.mark.parametrize(('sigma', 'location', 'told'), [
    (0.01, Location.LOCATED, False), (0.02, Location.LOCATED, True),
    (0.03, Location.POSITION_ONLY, False)])
def test_a_heading_that_is_uncertain_for_the_size_of_the_map_is_told_of(sigma, location, told):
    """B knows its place to 0.04 m and its heading to `sigma`; A is 20 m away."""
    paths = [np.column_stack([np.linspace(0, 4, 4), [0.0, 1.0, 1.0, 0.0]]) + at
             for at in ([0.0, 0.0], [22.0, 0.0])]
    position = np.concatenate([paths[0][-1:], paths[1][-1:], *paths])
    of_b = np.array([0, 1, 0, 0, 0, 0, 1, 1, 1, 1])
    arm = position - paths[1].mean(axis=0)
    turned = (of_b[:, None] * np.column_stack([-arm[:, 1], arm[:, 0], np.ones(10)])).ravel()
    scene = Scene(
        [RobotLocation(name, Location.LOCATED) for name in 'AB'], ('A', 'B'), position, (),
        np.arange(10), sigma**2 * np.outer(turned, turned) + 1e-5 * np.eye(30), {}, False,
        tuple('AAAABBBB'))
    found, cautions = belief.without_the_doubtful(scene, None, BackendConfig())
    assert [state.location for state in found.robots] == [Location.LOCATED, location]
    assert [one.subject for one in cautions] == ['B'] * told
    assert all(one.text.startswith('the position of A beside the path of B is off')
               for one in cautions)
    if location is not Location.LOCATED:
        assert found.robots[1].missing.startswith('heading too uncertain for the size of the map')


def test_a_robot_that_drives_off_with_no_heading_is_lost_however_far_it_may_be():
    """It has stood among beacons; nothing tells where it drives to."""
    world = pair_world(kind='straight', robots=1)
    session = Session(config(robots=world.names, solver=ROBUST))
    stood, = ticks(session, [world.increment(0, 0, 1)], True)
    off, = ticks(session, [world.increment(1, 1, 20, every=100)], False)
    assert stood.robots[0].location is Location.POSITION_ONLY
    assert off.robots[0].location is Location.UNLOCATED
    assert off.robots[0].missing.startswith('its position is not determined; more ranges')


def test_a_heading_that_was_open_at_an_audit_is_trusted_after_the_next_one():
    """Steps from a heading that is a quarter turn off may end in another minimum."""
    world = pair_world(robots=1, seed=6)
    session = Session(config(robots=world.names, solver=ROBUST))
    stood, = ticks(session, [world.increment(0, 0, 1)], True)
    off, = ticks(session, [world.increment(1, 1, 8)], False)
    audited = session.solve(True)
    states = [solution.robots[0] for solution in (stood, off, audited)]
    assert [state.location for state in states] == [
        Location.POSITION_ONLY, Location.POSITION_ONLY, Location.LOCATED]
    assert states[1].missing.startswith('its heading was not determined at the newest audit')


@pytest.mark.parametrize(('evidence', 'metres', 'options', 'robots'), [
    (5.0, 3.0, {}, {'B'}), (5.0, 0.5, {}, set()),
    # Odds of 0.027 are below the risk of 0.05, those of 0.07 are not.
    (1.0, 3.0, {}, set()), (2.0, 3.0, {}, {'B'}),
    (1.0, 3.0, {'fault_probability': 0.1}, {'B'}), (5.0, 3.0, {'gate': False}, set()),
    (5.0, 3.0, {'accepted': {'alert_limit_m': 6.0}}, set()),
    (3.0, 3.0, {}, {'B'}), (3.0, 3.0, {'accepted': {'integrity_risk': 0.2}}, set()),
    # In space its height counts as well.
    (5.0, 3.0, {'axis': 2, 'dimension': 3}, {'B'}), (5.0, 0.3, {'axis': 2, 'dimension': 3}, set())])
def test_a_likely_fault_that_moves_a_robot_withdraws_that_robot(evidence, metres, options, robots):
    assert set(withdrawn(evidence, metres, **options)) == robots


def test_noise_withdraws_alone_and_together_with_what_may_be_at_fault():
    """Both are one probability: of either half of the risk, together they are too much."""
    view = view_of('B', scene_for(2, {}), None)
    low, high = 1.0, 1e6
    for _ in range(60):
        factor = (low * high) ** 0.5
        risk = belief.beyond(np.zeros((1, 2)), factor * view.noise[None], 1.0)[0]
        low, high = (factor, high) if risk < 0.04 else (low, factor)
    assert not withdrawn(-9.0, 0.0, variance=factor) and not withdrawn(1.0, 3.0)
    assert set(withdrawn(1.0, 3.0, variance=factor)) == {'B'}
    reasons = withdrawn(-9.0, 0.0, variance=2 * factor)
    assert set(reasons) == {'B'} and reasons['B'].startswith('its position is uncertain by')
    assert withdrawn(-9.0, 0.0, variance=2 * factor, gate=False) == reasons
    assert not withdrawn(-9.0, 0.0, variance=2 * factor, accepted={'alert_limit_m': 2.0})


def alone(seed, factor, **options):
    """(located, located and more than 1 m off) of 30 ticks of one robot with odometry too long."""
    world = World(['curved'], [np.zeros(2)], [[14.0, 5.0], [-9.0, 10.0], [6.0, -12.0]], 160, seed,
                  range_sigma=0.15)
    turn, move, frame_turn, frame_place = world.odometry[0]
    world.odometry[0] = turn, factor * move, frame_turn, factor * frame_place
    session = Session(config(
        robots=world.names, solver=ROBUST, integrity=IntegrityConfig(**options)))
    truth, located, wrong = world.true_in_map().translation, 0, 0
    for solution in ticks(session, world.increments(40, every=4)[:30]):
        here = solution.estimate.translation
        if solution.robots[0].location is Location.LOCATED:
            located += 1
            wrong += np.linalg.norm(here[-1] - truth[len(here) - 1]) > 1.0
    return located, wrong


def test_odometry_that_is_too_long_is_solved_for_and_its_robot_stays_located():
    assert alone(1, 1.0) == (30, 0)
    located, wrong = zip(*(alone(seed, 1.15) for seed in (1, 2)), strict=True)
    # 5 % is the accepted risk.
    assert located == (30, 30) and sum(wrong) <= 3


def test_odometry_that_is_not_solved_for_is_suspected_before_it_is_proved():
    before = [alone(seed, 1.15, solve_odometry=False, gate=False)[1] for seed in (1, 2)]
    after = [alone(seed, 1.15, solve_odometry=False)[1] for seed in (1, 2)]
    assert sum(after) <= sum(before) / 2 > 2


@pytest.mark.parametrize('heard', [False, True])
def test_ranges_since_the_audit_hold_an_error_of_odometry_back(dimension, heard):
    """As much as a solve with that error has it: ranges come from the newest pose only."""
    world = World(['curved'], [np.zeros(dimension)], BEACONS[:, :dimension], 60, 3,
                  known=range(4), range_sigma=0.02, dimension=dimension)
    whole = world.graph(4)
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
    hidden = SimpleNamespace(robots=('A',), driven_on=lambda way, seconds, share: share)
    (share,) = belief.driven_on(hidden, made, estimate, joint, np.array([begin]), np.array([1]))

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


@pytest.mark.parametrize('size', [1.0, 10.0, 100.0])
def test_errors_pass_their_level_no_more_often_than_the_risk_says(size):
    """Sound sources err within their floors, once in five times one errs `size` times as much."""
    config = IntegrityConfig(risk=0.05, fault_probability=0.2 / 3)
    random, parts, count = np.random.default_rng(5), np.array([1, 2, 1]), 4000
    owner, floor = np.repeat(np.arange(3), parts), 0.3
    J, G, inverse, P, _ = drawn(4)
    at_fault = np.where(random.random(count) < 0.2, random.integers(3, size=count), -1)
    theta = np.zeros((count, 4))
    for one, c in enumerate(parts):
        way = random.normal(size=(count, c))
        ball = way / np.linalg.norm(way, axis=1, keepdims=True)
        length = random.random((count, 1)) ** (1 / c)
        theta[:, owner == one] = ball * length * np.where(at_fault == one, size, 1.0)[:, None]
    r = random.normal(size=(count, 60)) - floor * theta @ G.T
    error = np.linalg.norm((r @ J @ inverse)[:, :2], axis=1)
    M, A, noise = floor * (inverse @ J.T @ G)[:2], floor**2 * G.T @ P @ G, inverse[:2, :2]
    common, _ = _sound(M, A, np.zeros(4), (parts + 2.0)[owner])
    faults = [Hypothesis(SCALE, 'A', sp.csc_matrix((60, c)), 1.0, None) for c in parts]
    bound = []
    for s in floor * r @ P @ G:
        lone, shift, evidence = _lone(M, A, s, faults, config.fault_size)
        covariance = noise + common @ common.T + np.stack([0 * noise, *(
            lone[:, owner == one] @ lone[:, owner == one].T for one in range(3))])
        bound.append(belief.level(
            softmax(np.append(0.0, np.log(config.fault_probability) + evidence)),
            np.vstack([_sound(M, A, s, (parts + 2.0)[owner])[1], shift.T]), covariance,
            config.risk))
    noise_alone = belief.level(np.ones(1), np.zeros((1, 2)), noise[None], config.risk)
    assert np.mean(error > bound) <= config.risk
    if size > 1:
        assert np.mean(error > noise_alone) > config.risk


@pytest.mark.parametrize('known', [(), range(4)])
def test_levels_bound_the_error_of_a_radio_that_is_long(known):
    """One radio up to 1 m long, found or not; relative to known beacons, or to those found."""
    ratios, levels = [], []
    for seed in (0, 2, 4):
        place = pair_world(seed=seed, known=known, steps=60)
        session = Session(config(solver=ROBUST))
        for one in place.increments(3):
            session.add(longer(one, 0.25 * seed * (one.ranges.source % 2 == 0)))
        solution = session.solve()
        here = np.concatenate([solution.estimate.translation[-2:], solution.estimate.landmarks])
        true = np.concatenate([place.truth.translation[-2:], place.beacons])
        for row, one in enumerate(solution.robots):
            if one.location is not Location.LOCATED:
                continue
            others = np.arange(len(true)) != row
            turn, shift = (np.eye(2), np.zeros(2)) if known else align(here[others], true[others])
            error = np.linalg.norm(turn @ here[row] + shift - true[row])
            levels.append(solution.protection.of(one.robot)[0])
            ratios.append(error / levels[-1])
    assert len(ratios) >= 4 and max(ratios) < 1
    assert np.median(levels) < 1


def test_a_session_states_levels(dimension):
    _, solution, _ = situation(dimension)
    known = solution.protection
    for one in solution.robots:
        flat, up = known.of(one.robot)
        assert one.location is Location.LOCATED and 0 < flat < 5
        assert math.isnan(up) if dimension == 2 else 0 < up < 20
    assert known.of('nobody')[0] == math.inf


def test_a_fault_that_levels_do_not_count_does_not_lower_them():
    """A jump of odometry that is as good as sure, of another robot."""
    _, _, verdict = situation()
    hidden = verdict.undetected
    sure = dataclasses.replace(
        hidden, causes=(*hidden.causes[:-1], 'odometry_jump of A'),
        evidence=np.append(hidden.evidence[:-1], 40.0),
        lone_shift=np.zeros_like(hidden.lone_shift))
    sound = dataclasses.replace(sure, evidence=np.append(hidden.evidence[:-1], -40.0))
    scene = scene_for(2, {})
    levels = [belief.protection_levels(scene, known, verdict, IntegrityConfig()).horizontal_m
              for known in (sure, sound)]
    assert np.min(levels) > 0.1
    np.testing.assert_allclose(levels[0], levels[1], rtol=1e-2)


def test_other_placements_faults_and_lost_robots_raise_the_level():
    (_, solution, verdict), risk = situation(), IntegrityConfig(risk=1e-3, fault_probability=0.05)

    def of(verdict, robots=None, known=True):
        scene = scene_for(2, {}, robots)
        if not known:
            scene = dataclasses.replace(scene, place=np.full_like(scene.place, -1))
        hidden = None if verdict is None else verdict.undetected
        return belief.protection_levels(scene, hidden, verdict, risk).horizontal_m

    plain = of(verdict)
    apart = dataclasses.replace(verdict, segments=tuple(
        dataclasses.replace(one, apart_m=3.0 * (one.robot == 'A')) for one in verdict.segments))
    np.testing.assert_allclose(of(apart) - plain, [3.0, 0.0])
    hidden = verdict.undetected
    fault, moved = hidden.causes.index('odometry_scale of B'), hidden.lone_shift.copy()
    moved[1, 0, fault] += 4.0
    bent = dataclasses.replace(verdict, undetected=dataclasses.replace(hidden, lone_shift=moved))
    assert of(bent)[0] == plain[0] and of(bent)[1] > 4.0
    lost = tuple(dataclasses.replace(one, location=Location.UNLOCATED) for one in solution.robots)
    assert np.all(np.isinf(of(verdict, lost))) and np.all(np.isinf(of(None)))
    assert np.all(np.isinf(of(verdict, known=False)))
    assert np.all(np.isinf(of(dataclasses.replace(verdict, undetected=None))))


def scene(dimension, located=NAMES[2:], owners='AAAABBBB'):
    """Robots A and B, four landmarks, keyframes of `owners`, of random covariance."""
    random = np.random.default_rng(dimension)
    bodies, size = len(NAMES) + len(owners), dimension + (1 if dimension == 2 else 3)
    root = random.normal(size=(bodies * size, bodies * size))
    return Scene(
        tuple(RobotLocation(name, Location.LOCATED, '') for name in 'AB'), NAMES,
        random.normal(scale=5.0, size=(bodies, dimension)), located, np.arange(bodies),
        1e-3 * root @ root.T, {}, False, tuple(owners))


def not_located(place):
    return dataclasses.replace(place, robots=tuple(
        RobotLocation(name, Location.UNLOCATED) for name in 'AB'))


def test_too_few_beacons_make_keyframes_the_datum(dimension):
    """Those of the path of the first robot, or of another reference."""
    place = not_located(scene(dimension, ()))
    assert place.gauge == 'A'
    assert place.datum('A').tolist() == place.datum('B').tolist() == [6, 7, 8, 9]
    beside = dataclasses.replace(place, reference='B')
    assert beside.datum('A').tolist() == beside.datum('B').tolist() == [10, 11, 12, 13]
    alone = not_located(scene(dimension, (), owners='BBBB'))
    assert alone.datum('A').tolist() == alone.datum('B').tolist() == [6, 7, 8, 9]
    # Of three beacons two are enough in the plane only.
    few = not_located(scene(dimension, NAMES[2:4]))
    assert (few.datum('A').tolist() == [2, 3]) is (dimension == 2)


def test_without_anything_to_refer_to_no_pose_is_known():
    place = not_located(scene(2, (), owners=''))
    assert view_of('A', place, None) is None
    assert np.all(np.isinf(np.diagonal(landmarks_beside_each_other(place, 4), axis1=1, axis2=2)))
    place = scene(2)
    assert view_of('nobody', place, None) is None
    unknown = dataclasses.replace(place, place=np.where(np.arange(14) == 0, -1, np.arange(14)))
    assert view_of('A', unknown, None) is None and view_of('B', unknown, None) is not None
    broken = place.joint.copy()
    broken[0, 0] = np.nan
    assert view_of('A', dataclasses.replace(place, joint=broken), None) is None


@pytest.mark.parametrize('located', [NAMES[2:], ()])
def test_sizes_that_the_map_is_solved_with_add_to_the_noise_beside_the_datum(dimension, located):
    place = scene(dimension, located)
    solved = np.zeros((14, dimension, 2))
    solved[0, 0, 0], solved[:, :, 1] = 2.0, 1.0
    hidden = SimpleNamespace(
        place=lambda name: NAMES.index(name), bodies=6, keyframes=np.arange(8), solved=solved)
    alone, view = view_of('A', place, None), view_of('A', place, hidden)
    added = np.zeros_like(alone.pose)
    # The second moves everything alike, which is no error.
    added[0, 0] = 4.0
    np.testing.assert_allclose(view.pose - alone.pose, added, atol=1e-9)
    np.testing.assert_allclose(view.noise, view.pose[:dimension, :dimension])
    assert view.rows.tolist() == [0, *place.datum('A').tolist()]


def located(together, sigma, outside):
    """Of three robots with three keyframes each, of which `together` move as one by sigma (m)."""
    robots, owners = tuple('ABC'), tuple('AAABBBCCC')
    position = np.random.default_rng(1).uniform(-20, 20, (12, 3))
    shared = np.zeros((12, 6))
    shared[[k for k, name in enumerate([*robots, *owners]) if name in together], 0] = sigma
    joint = np.outer(shared.ravel(), shared.ravel()) + 1e-4 * np.eye(72)
    place = Scene(
        tuple(RobotLocation(name, Location.LOCATED) for name in robots), robots, position, (),
        np.arange(12), joint, {}, False, owners, outside)
    seen, _ = belief.without_the_doubtful(place, None, BackendConfig())
    return ''.join(one.robot for one in seen.robots if one.location is Location.LOCATED)


@pytest.mark.parametrize('outside', Outside)
@pytest.mark.parametrize(('together', 'apart'), [
    ('BC', 'BC'), ('A', 'BC'), ('AC', 'AC'), ('B', 'AC'), ('ABC', 'ABC')])
def test_whoever_is_apart_from_two_that_know_each_other_is_not_located(together, apart, outside):
    assert located(together, 2.0, outside) == apart
    assert located(together, 0.05, outside) == 'ABC'
