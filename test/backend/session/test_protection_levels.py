"""Protection levels: their quantiles, what inflates them, and when there is none."""

import dataclasses
import math

import numpy as np
import pytest
from backend_world import World, carried, config
from scipy.stats import norm

from sparser_ros.backend.integrity.undetected import _separations
from sparser_ros.backend.session.belief import level, protection_levels
from sparser_ros.backend.session.scene import scene_of
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location, tracked_map
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.linalg.rotations import align

BEACONS = [[6.0, 1.0], [-2.0, 7.0], [4.0, -6.0], [9.0, 8.0]]
RISK = IntegrityConfig(risk=1e-3, fault_probability=0.05)


def lived(dimension=2):
    beacons = BEACONS if dimension == 2 else [[*one, 2.0 * k] for k, one in enumerate(BEACONS)]
    world = World(
        ['curved', 'curved'], [np.zeros(dimension), np.full(dimension, 2.0)], beacons, seed=3,
        known=range(4), dimension=dimension)
    session = Session(config(robots=world.names, dimension=dimension, solver=SolverConfig(
        robust=RobustConfig(kernel='gm'))))
    for one in world.increments(4):
        session.add(one)
        solution = session.solve()
    return session, solution


def test_normal_errors_are_within_the_level_as_often_as_stated():
    random = np.random.default_rng(0)
    root = np.array([[0.3, 0.0], [0.1, 0.2]])
    error = np.linalg.norm(random.normal(size=(400_000, 2)) @ root.T, axis=1)
    covariance, still = (root @ root.T)[None], np.zeros((1, 2))
    bound = level(covariance, still, RISK)
    assert 0 < np.mean(error > bound) <= RISK.risk / 2
    assert level(np.array([[[0.04]]]), still[:, :1], RISK) == pytest.approx(
        0.2 * norm.isf(RISK.risk / 4), rel=1e-6)


def test_of_faults_the_one_that_may_do_most_counts():
    covariance = np.stack([0.01 * np.eye(2), 0.01 * np.eye(2), 0.04 * np.eye(2)])
    shift = np.array([[0.0, 0.0], [0.3, 0.4], [0.0, 0.0]])
    beside = math.sqrt(-2 * math.log(RISK.risk / (4 * RISK.fault_probability)))
    assert level(covariance, shift, RISK) == pytest.approx(0.5 + 0.1 * beside)
    assert level(covariance, 0 * shift, RISK) == pytest.approx(0.2 * beside)
    sound = dataclasses.replace(RISK, fault_probability=RISK.risk / 4)
    assert level(covariance, shift, sound) == pytest.approx(level(
        covariance[:1], shift[:1], RISK))


@pytest.mark.parametrize('size', [1.0, 10.0, 100.0])
def test_errors_pass_their_level_no_more_often_than_the_risk_says(size):
    """Sound sources err within their floors, once in five times one errs `size` times as much."""
    config = IntegrityConfig(risk=0.05, fault_probability=0.2 / 3)
    random, parts, count = np.random.default_rng(5), np.array([1, 2, 1]), 4000
    owner, floor = np.repeat(np.arange(3), parts), 0.3
    J, G = random.normal(size=(60, 4)), np.zeros((60, 4))
    for column in range(4):
        G[random.choice(60, 20, replace=False), column] = random.normal(1.0, 0.3, 20)
    inverse = np.linalg.inv(J.T @ J)
    P = np.eye(60) - J @ inverse @ J.T
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
    # Shifts are linear in the score.
    made = [_separations(M, A, one, owner, parts, config.fault_size) for one in np.eye(4)]
    shift = np.einsum('nk,kdh->nhd', floor * r @ P @ G, np.stack([one[2] for one in made]))
    common, added, _ = made[0]
    roots = [0 * added, *(added * (owner == one) for one in range(3))]
    covariance = np.stack([noise + common @ common.T + part @ part.T for part in roots])
    bound = np.array([level(covariance, one, config) for one in shift])
    noise_alone = level(noise[None], np.zeros((1, 2)), config)
    assert np.mean(error > bound) <= config.risk
    if size > 1:
        assert np.mean(error > noise_alone) > config.risk


@pytest.mark.parametrize('known', [(), range(4)])
def test_levels_bound_the_error_of_a_radio_that_is_long(known):
    """One radio up to 1 m long, found or not; relative to known beacons, or to those found."""
    ratios, levels = [], []
    for seed in (0, 2, 4):
        place = World(['curved', 'curved'], [np.zeros(2), np.full(2, 2.0)], BEACONS, 60,
                      seed=seed, known=known)
        session = Session(config(robots=place.names, solver=SolverConfig(
            robust=RobustConfig(kernel='gm', gnc=True))))
        for one in place.increments(3):
            own = one.ranges.source % 2 == 0
            session.add(dataclasses.replace(one, ranges=one.ranges.replaced(
                distance_m=one.ranges.distance_m + 0.25 * seed * own)))
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


@pytest.mark.parametrize('dimension', [2, 3])
def test_a_session_states_levels_and_they_survive_the_pipe(dimension):
    _, solution = lived(dimension)
    known = carried(solution).protection
    np.testing.assert_array_equal(known.horizontal_m, solution.protection.horizontal_m)
    np.testing.assert_array_equal(known.vertical_m, solution.protection.vertical_m)
    for one in solution.robots:
        flat, up = known.of(one.robot)
        assert one.location is Location.LOCATED and 0 < flat < 5
        assert math.isnan(up) if dimension == 2 else 0 < up < 20
    assert known.of('nobody')[0] == math.inf


def test_other_placements_faults_and_lost_robots_raise_the_level():
    session, solution = lived()
    verdict = session.auditor.audit(tracked_map(solution))
    copy = carried(verdict)
    assert copy.undetected == verdict.undetected and verdict.undetected.robots == ('A', 'B')
    assert [one.apart_m for one in copy.segments] == [one.apart_m for one in verdict.segments]

    def of(verdict, robots=solution.robots, known=True):
        return protection_levels(
            scene(session, solution, robots, known=known), verdict, RISK).horizontal_m

    plain = of(verdict)
    apart = dataclasses.replace(verdict, segments=tuple(
        dataclasses.replace(one, apart_m=3.0 * (one.robot == 'A')) for one in verdict.segments))
    np.testing.assert_allclose(of(apart) - plain, [3.0, 0.0])
    hidden = verdict.undetected
    moved = hidden.shift.copy()
    moved[1, 0, -1] += 4.0
    bent = dataclasses.replace(verdict, undetected=dataclasses.replace(hidden, shift=moved))
    assert of(bent)[0] == plain[0] and of(bent)[1] > 4.0
    lost = tuple(dataclasses.replace(one, location=Location.UNLOCATED) for one in solution.robots)
    assert np.all(np.isinf(of(verdict, lost))) and np.all(np.isinf(of(None)))
    assert np.all(np.isinf(of(verdict, known=False)))
    assert np.all(np.isinf(of(dataclasses.replace(verdict, undetected=None))))


def scene(session, solution, robots, factor=1.0, known=True):
    tracker, none = session.tracker, np.zeros(0, dtype=np.int64)
    joint = tracker._map.covariance(tracker.graph, none)
    if not known:
        joint = dataclasses.replace(joint, poses=np.full_like(joint.poses, -1))
    return scene_of(
        tracker.graph, solution.estimate, robots, solution.landmark_located, joint, none, True,
        dict.fromkeys(tracker.graph.robots, factor))
