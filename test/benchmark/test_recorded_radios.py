"""Biases by a map and by a reference: differences fit the covariance that they should have."""

import numpy as np
import pytest
from radio_world import radio_world
from scipy.stats import chi2

from benchmark.recorded_radios import disagreement, of_pairs, rows, until
from sparser_ros.calibrate.reference_trajectory import held_to
from sparser_ros.calibrate.self_calibration import self_calibrate
from sparser_ros.config import SolverConfig
from sparser_ros.config.calibration_config import CalibrationConfig


@pytest.fixture(scope='module')
def found():
    """(world, calibration by its map, the same held to the true trajectory)."""
    world = radio_world(11, steps=160)
    graph = world.measured
    held = held_to(graph, world.truth.translation, np.ones(graph.n_poses, dtype=bool), 0.02)
    return world, *(
        self_calibrate(one, world.truth, CalibrationConfig(sigma='estimate'), SolverConfig())
        for one in (graph, held))


def test_differences_fit_the_covariance_of_the_map_less_that_of_the_reference(found):
    _, by_map, reference = found
    square, degrees = disagreement(by_map, reference)
    assert degrees >= 1
    assert chi2.ppf(1e-4, degrees) < square < chi2.ppf(0.9999, degrees)


def test_rows_have_what_both_say(found):
    _, by_map, reference = found
    table = rows(by_map, reference)
    assert [row['radio'] for row in table] == list(by_map.ends.names)
    assert all(row['off'] == pytest.approx(row['map'] - row['reference']) for row in table)
    off, spread = of_pairs(by_map, reference)
    assert 0 < off < 4 * spread
    assert of_pairs(reference, reference)[0] == 0.0


def test_a_part_ends_in_time_and_keeps_its_beacons(found):
    graph = found[0].measured
    start = int(graph.poses.stamp_ns.min())
    part = until(graph, start, 10.0)
    assert part.n_landmarks == graph.n_landmarks
    assert part.poses.stamp_ns.max() <= start + int(10e9) < graph.poses.stamp_ns.max()
    part.validate()
