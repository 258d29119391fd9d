"""Radios that calibrate themselves against the map, and radios that cannot."""

import numpy as np
import pytest
from backend_world import World, graph_of
from radio_world import radio_world

from sparser_ros.backend.calibrate.results import advice, as_dict, pair_rows, radio_rows
from sparser_ros.backend.calibrate.self_calibration import robust_solver, self_calibrate
from sparser_ros.config import SolverConfig
from sparser_ros.config.calibration_config import CalibrationConfig
from sparser_ros.graph.subgraph import extract
from sparser_ros.linalg.rotations import aligned_errors

ESTIMATE = CalibrationConfig(sigma='estimate')
SOLVER = SolverConfig()


def calibrated(world, config=ESTIMATE):
    return self_calibrate(world.measured, world.truth, config, SOLVER)


def error(estimate, world):
    return float(np.mean(aligned_errors(estimate.translation, world.truth.translation)))


@pytest.mark.parametrize(('seed', 'known'), [(1, ()), (2, (0, 1, 2, 3, 4, 5))])
def test_biases_are_found_within_their_sigmas(seed, known):
    world = radio_world(seed, known)
    found = calibrated(world)
    miss = world.bias_m - found.parameters.bias_m
    covariance = found.found.covariance[:-1, :-1]
    assert found.applied
    assert np.all(np.abs(miss) <= 3 * np.sqrt(np.diagonal(covariance)))
    # 9 degrees of freedom: 0.1 % and 99.9 % quantiles of chi-square.
    assert 1.15 < miss @ np.linalg.solve(covariance, miss) < 27.9
    best, _ = robust_solver(SOLVER)(world.calibrated, world.truth)
    assert error(found.estimate, world) <= 1.3 * error(best, world)


@pytest.mark.parametrize('factor', [0.2, 5.0])
def test_sigmas_are_found_whatever_is_claimed(factor):
    found = calibrated(radio_world(4, sigma_factor=factor))
    claimed = 1 / np.sqrt(found.measured.ranges.precision[0])
    sigma = [row.sigma_m for row in pair_rows(found)]
    assert claimed == pytest.approx(0.1 * factor)
    assert np.median(sigma) == pytest.approx(0.1, rel=0.1)
    assert np.all(np.abs(np.array(sigma) - 0.1) < 0.05)
    said = [words for words in advice(found) if 'claimed sigmas' in words]
    assert ('too small' if factor < 1 else 'too large') in said[0]


def test_a_scale_is_found_beside_the_biases():
    world = radio_world(5, (0, 1, 2, 3, 4, 5), scaled=True)
    found = calibrated(world, CalibrationConfig(sigma='estimate', scale_sigma=0.02))
    spread = np.sqrt(found.found.covariance[-1, -1])
    assert spread < 0.002
    assert abs(found.parameters.scale - world.scale) < 3 * spread


def test_radios_without_bias_are_left_alone():
    world = radio_world(6, biased=False, sigma_factor=1.0)
    found = calibrated(world, CalibrationConfig())
    assert not found.applied
    assert found.graph is world.measured
    assert 'nothing is changed' in found.reason


def test_what_cannot_be_observed_is_said_and_changes_nothing():
    """A robot on a straight line, one beacon: a bias and the beacon's place look alike."""
    place = World(['still', 'still'], [(0, 0), (6, 1)], [(3, 8)], steps=60, range_sigma=0.05)
    graph = graph_of(place.increments(1))
    longer = graph.replaced(
        ranges=graph.ranges.replaced(distance_m=graph.ranges.distance_m + 0.4))
    found = self_calibrate(longer, place.truth, ESTIMATE, SOLVER)
    assert not found.applied
    assert found.parameters.bias_m == pytest.approx(0.0)
    assert not any(row.determined for row in radio_rows(found))
    assert 'drive' in advice(found)[0]
    assert as_dict(found)['undetermined']


def test_a_radio_that_is_known_keeps_its_bias():
    world = radio_world(1)
    known = dict.fromkeys(world.measured.robots, 0.0)
    found = calibrated(world, CalibrationConfig(radio_bias_sigma_m=known))
    assert found.found.values[:3] == pytest.approx(0.0, abs=1e-4)


def test_a_graph_without_ranges_has_nothing_to_calibrate():
    world = radio_world(1, steps=20)
    bare = world.measured.replaced(
        ranges=world.measured.ranges.take(np.zeros(0, dtype=np.int64)))
    bare = bare.replaced(landmarks=type(bare.landmarks)((), np.zeros((0, 2)), np.zeros(0, bool)))
    alone = bare.poses.robot == 0
    part = extract(bare, alone, np.zeros(0, dtype=bool))
    found = self_calibrate(part.graph, part.of(world.truth), ESTIMATE, SOLVER)
    assert not found.applied and 'no ranges' in found.reason
