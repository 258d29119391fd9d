"""A bias of all pairs against the size of the map: told apart where data do, else left alone."""

import numpy as np
import pytest
from faulty_world import graph, odometry_scaled, world
from radio_world import radio_world

from sparser_ros.backend.calibrate.radio_model import posterior
from sparser_ros.backend.calibrate.results import advice, lines, odometry_rows, scale_determined
from sparser_ros.backend.calibrate.self_calibration import self_calibrate
from sparser_ros.config import SolverConfig
from sparser_ros.config.calibration_config import CalibrationConfig

SOLVER = SolverConfig()
ALL = (0, 1, 2, 3, 4, 5)


def stretched(made, factor):
    """The odometry of all robots is too long by a factor."""
    for robot in range(len(made.robots)):
        made = odometry_scaled(made, robot, factor)
    return made


def pair_error(found, bias_m):
    """Error of the mean bias of all pairs, and its standard deviation."""
    low, high, _ = found.ends.pairs
    mean = (np.bincount(low, minlength=len(found.ends)) + np.bincount(
        high, minlength=len(found.ends))) / len(low)
    size = len(mean)
    variance = mean @ found.found.covariance[:size, :size] @ mean
    return mean @ (found.found.values[:size] - bias_m), np.sqrt(variance)


@pytest.mark.parametrize('known', [(), ALL])
def test_odometry_that_is_too_long_is_no_bias(known):
    place = world(3, known=known)
    made = stretched(graph(place, 3, share=0.0), 1.015)
    free = self_calibrate(made, place.truth, CalibrationConfig(), SOLVER)
    error, sigma = pair_error(free, np.zeros(len(free.ends)))
    assert abs(error) < 3 * sigma
    assert not free.applied or sigma < 0.05
    if known:
        assert not free.applied
        rows = odometry_rows(free)
        assert all(row.determined for row in rows)
        assert [row.scale for row in rows] == pytest.approx([1 / 1.015] * 3, abs=0.003)
        assert any('odometry of A: scale 0.98' in line for line in lines(free))


def test_a_common_bias_is_found_beside_the_odometrys_scale_where_beacons_are_known():
    made = radio_world(4, ALL, sigma_factor=1.0)
    found = self_calibrate(
        stretched(made.measured, 0.985), made.truth, CalibrationConfig(), SOLVER)
    error, sigma = pair_error(found, made.bias_m)
    assert found.applied
    assert sigma < 0.01
    assert abs(error) < 3.5 * sigma


def test_a_scale_of_ranges_without_known_beacons_is_the_maps_size_and_is_left_alone():
    made = radio_world(4, scaled=True)
    found = self_calibrate(
        made.measured, made.truth, CalibrationConfig(sigma='estimate', scale_sigma=0.006), SOLVER)
    assert scale_determined(found) is False
    assert any('the scale of ranges is not determined' in words for words in advice(found))
    assert abs(found.parameters.scale - 1) < 0.25 * 0.006, 'next to nothing of it is applied'
    assert found.applied, 'biases are'


def test_at_one_distance_a_bias_is_as_uncertain_as_the_odometrys_scale_times_it():
    """n ranges at 40 m, a map that is held by the odometry alone: sigma of 1 % is 0.4 m."""
    n, distance, sigma = 1e6, 40.0, 0.01
    column = np.array([1.0, -distance])
    information = n * np.outer(column, column)
    found = posterior(
        information, np.zeros(2), np.array([0.3, 0.0]), np.array([[100.0]]),
        np.array([[sigma**2]]))
    assert np.sqrt(found.covariance[0, 0]) == pytest.approx(sigma * distance, rel=1e-3)
    assert found.values[0] == pytest.approx(0.3, rel=2e-3)
    small = posterior(
        information, np.zeros(2), np.array([0.3, 0.0]), np.array([[0.01]]),
        np.array([[sigma**2]]))
    assert small.directions == 0
    assert small.determined == pytest.approx([0.0])


def test_ranges_that_the_map_follows_calibrate_nothing():
    """Few ranges, odometry that claims too much noise: any bias can be had for a little of it."""
    place = world(5)
    made = graph(place, 5, share=0.0)
    rel, ranges = made.relative_poses, made.ranges
    few = np.arange(len(ranges)) % 24 == 0
    loose = made.replaced(
        relative_poses=rel.replaced(tau=rel.tau / 100, kappa=rel.kappa / 100),
        ranges=ranges.take(few).replaced(distance_m=ranges.distance_m[few] + 0.4))
    found = self_calibrate(loose, place.truth, CalibrationConfig(), SOLVER)
    assert not found.applied and found.graph is loose
    assert 'is not determined' in found.reason
