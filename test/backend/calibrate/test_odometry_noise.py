"""Odometry that claims a wrong noise."""

import numpy as np
import pytest
from radio_world import radio_world

from sparser_ros.backend.calibrate.odometry_noise import (
    VarianceComponents,
    as_claimed,
    odometry_noise,
)
from sparser_ros.backend.calibrate.results import advice, odometry_rows
from sparser_ros.backend.calibrate.self_calibration import held_to, self_calibrate
from sparser_ros.config import SolverConfig
from sparser_ros.config.calibration_config import CalibrationConfig


def calibrated(factor, steps=480):
    """A world where one robot's odometry claims `factor` times its sigmas, the others theirs."""
    world = radio_world(
        4, tuple(range(6)), steps=steps, sigma_factor=1.0, blocked=0.0, biased=False)
    rel = world.measured.relative_poses
    claim = np.where(world.measured.poses.robot[rel.i] == 1, factor, 1.0)
    measured = world.measured.replaced(relative_poses=rel.replaced(
        tau=rel.tau / claim**2, kappa=rel.kappa / claim**2))
    return world, self_calibrate(
        measured, world.truth, CalibrationConfig(sigma='estimate'), SolverConfig())


@pytest.mark.parametrize('factor', [0.2, 5.0])
def test_claims_of_one_robot_that_are_wrong_are_found(factor):
    _, found = calibrated(factor)
    noise = found.odometry_noise
    used = noise.used.reshape(2, 3)
    assert not np.any(used[:, [0, 2]])
    assert np.any(used[:, 1])
    off = noise.log_factor + 2 * np.log(factor)
    assert np.all(np.abs(off[noise.used]) < 3.3 * noise.log_sigma[noise.used])
    said = [words for words in advice(found) if 'odometry of B' in words]
    assert ('too small' if factor < 1 else 'too large') in said[0]
    row = odometry_rows(found)[1]
    factors = np.array([row.translation_sigma_factor, row.rotation_sigma_factor])
    assert np.all((factors == 1) | ((factors > 1) == (factor < 1)))


def test_claims_that_are_right_stay():
    world, found = calibrated(1.0, steps=240)
    assert not np.any(found.odometry_noise.used)
    assert found.graph.relative_poses.tau == pytest.approx(
        world.measured.relative_poses.tau, rel=0.1)


def test_errors_that_ranges_share_are_no_fault_of_the_odometry():
    components = VarianceComponents(
        np.array([300.0, -90.0]), np.diag([200.0, 200.0]), np.array([50.0, 50.0]), np.zeros(2))
    alone = odometry_noise(components, as_claimed(1), 1.0)
    shared = odometry_noise(components, as_claimed(1), 8.0)
    assert alone.used.tolist() == [True, True]
    assert shared.used.tolist() == [False, True]
    assert alone.log_factor[0] > 0 > alone.log_factor[1]


def test_what_other_claims_explain_is_no_fault_of_the_odometry():
    components = VarianceComponents(
        np.array([90.0, -90.0]), np.diag([200.0, 200.0]), np.zeros(2), np.array([95.0, 95.0]))
    assert not np.any(odometry_noise(components, as_claimed(1), 1.0).used)


def test_held_to_a_reference_radios_settle_and_odometry_stays():
    world = radio_world(8, sigma_factor=1.0, steps=120)
    held = held_to(
        world.measured, world.truth.translation, np.ones(world.measured.n_poses, dtype=bool), 0.02)
    found = self_calibrate(held, None, CalibrationConfig(), SolverConfig())
    assert found.applied and not found.doubted
    assert not np.any(found.odometry_noise.used)
