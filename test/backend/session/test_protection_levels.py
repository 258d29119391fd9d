"""Protection levels: their quantiles, what inflates them, and when there is none."""

import dataclasses
import math

import numpy as np
import pytest
from backend_world import World, config
from scipy.stats import norm

from sparser_ros.backend.integrity.undetected import Undetected
from sparser_ros.backend.process.codec import decode, decode_solution, encode_solution
from sparser_ros.backend.process.protocol import Answer
from sparser_ros.backend.process.verdict_codec import decode_verdict, encode_verdict
from sparser_ros.backend.session.protection_levels import level, protection_levels
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.backend.session.tracked_map import tracked_map
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.integrity import IntegrityConfig

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
    bound = level(root @ root.T, 0.0, RISK)
    assert 0 < np.mean(error > bound) <= RISK.risk / 2
    assert level(np.array([[0.04]]), 0.0, RISK) == pytest.approx(
        0.2 * norm.isf(RISK.risk / 4), rel=1e-6)
    # A hidden fault counts beside the noise that is then allowed for.
    assert level(np.eye(2) * 0.01, 1.0, RISK) == pytest.approx(
        1.0 + 0.1 * math.sqrt(-2 * math.log(0.01)))
    sound = dataclasses.replace(RISK, fault_probability=RISK.risk / 2)
    assert level(root @ root.T, 9.0, sound) == pytest.approx(bound)


@pytest.mark.parametrize('dimension', [2, 3])
def test_a_session_states_levels_and_they_survive_the_pipe(dimension):
    _, solution = lived(dimension)
    known = decode_solution(decode(encode_solution(solution))).protection
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
    copy = decode_verdict(decode(encode_verdict(verdict, Answer(0, -1))))
    assert copy.undetected == verdict.undetected and set(verdict.undetected) == {'A', 'B'}
    assert [one.apart_m for one in copy.segments] == [one.apart_m for one in verdict.segments]

    def of(verdict, robots=solution.robots, covariances=solution.covariances):
        return protection_levels(robots, covariances, verdict, RISK).horizontal_m

    plain = of(verdict)
    apart = dataclasses.replace(verdict, segments=tuple(
        dataclasses.replace(one, apart_m=3.0 * (one.robot == 'A')) for one in verdict.segments))
    np.testing.assert_allclose(of(apart) - plain, [3.0, 0.0])
    hidden = dataclasses.replace(verdict, undetected={
        **verdict.undetected, 'B': Undetected(4.0, 0.0, 'a fault')})
    assert of(hidden)[0] == plain[0] and of(hidden)[1] > 4.0
    lost = tuple(dataclasses.replace(one, location=Location.UNLOCATED) for one in solution.robots)
    assert np.all(np.isinf(of(verdict, lost))) and np.all(np.isinf(of(None)))
    assert np.all(np.isinf(of(verdict, covariances=None)))
    assert np.all(np.isinf(of(dataclasses.replace(verdict, undetected={}))))


def test_noise_beyond_the_claimed_one_raises_the_level_once():
    session, solution = lived()
    verdict = session.auditor.audit(tracked_map(solution))
    still = dataclasses.replace(verdict, undetected={
        robot: Undetected(0.0, 0.0, '') for robot in 'AB'})
    claimed = dataclasses.replace(solution.covariances, variance_factor=4.0)
    scaled = protection_levels(solution.robots, claimed, still, RISK)
    again = protection_levels(solution.robots, claimed.scaled(), still, RISK)
    once = protection_levels(
        solution.robots, dataclasses.replace(claimed, variance_factor=1.0), still, RISK)
    np.testing.assert_allclose(scaled.horizontal_m, 2 * once.horizontal_m)
    np.testing.assert_allclose(again.horizontal_m, scaled.horizontal_m)
