"""Derivatives of the cost by radio parameters, the map following; posterior; noise of odometry."""

import numpy as np
import pytest
from radio_world import radio_world
from scipy.linalg import block_diag

from sparser_ros.backend.calibrate.radio_model import (
    RadioParameters,
    no_correction,
    posterior,
    radio_model,
    range_leverages,
)
from sparser_ros.backend.calibrate.self_calibration import OdometryNoise
from sparser_ros.backend.integrity import noise
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.integrity.noise import (
    MOVES,
    RANGES,
    TURNS,
    VarianceComponents,
    variance_components,
)
from sparser_ros.config import SolverConfig
from sparser_ros.graph import cost, range_residuals
from sparser_ros.graph.ends import range_ends
from sparser_ros.solver import solve
from sparser_ros.solver.covariance import Linearised

SHARP = SolverConfig(gradient_tolerance=1e-16, cost_tolerance=1e-13)


@pytest.fixture(scope='module')
def made():
    """A small world without blocked ranges, its map, and the ends of its ranges.

    In space, where the cost counts rotations as their noise says, as the model does.
    """
    world = radio_world(3, dimension=3, steps=40, sigma_factor=1.0, blocked=0.0)
    result = solve(world.measured, SHARP, initial=world.truth)
    return world, result.estimate, range_ends(world.measured)


def test_derivatives_of_residuals_are_those_of_finite_differences(made):
    world, estimate, ends = made
    rng = np.random.default_rng(3)
    size = len(ends.names) + 1
    at = RadioParameters(ends, np.append(0.02 * rng.normal(size=size), np.zeros(ends.robots)))

    def residual(step):
        """Of measured metres."""
        moved = RadioParameters(ends, at.values + np.append(step, np.zeros(ends.robots)))
        return range_residuals(moved.corrected(world.measured), estimate) / moved.scale

    corrected = at.corrected(world.measured)
    model, columns = radio_model(at, corrected, estimate, {})
    root = np.sqrt(corrected.ranges.precision)[:, None]
    matrix = columns[model.rows('ranges')].toarray()[:, :size] / root / at.scale
    for k, step in enumerate(1e-4 * np.eye(size)):
        found = (residual(step) - residual(-step)) / 2e-4
        assert found == pytest.approx(matrix[:, k], abs=1e-6)


def test_gradient_and_information_are_those_of_the_cost_after_the_map_has_followed(made):
    world, estimate, ends = made
    model, columns = radio_model(no_correction(ends), world.measured, estimate, {})
    scores = model.scores(columns)
    direction = np.random.default_rng(0).normal(size=columns.shape[1])
    direction[len(ends.names):] *= 0.02

    def least(step):
        graph = RadioParameters(ends, step * direction).corrected(world.measured)
        return cost(graph, solve(graph, SHARP, initial=estimate).estimate)

    h = 0.01
    slope = (least(h) - least(-h)) / (2 * h)
    bend = (least(h) - 2 * least(0.0) + least(-h)) / h**2
    assert slope == pytest.approx(2 * direction @ scores.score, rel=1e-3)
    # Gauss-Newton: the curvature of residuals is left out.
    assert bend == pytest.approx(2 * direction @ scores.information @ direction, rel=0.08)
    assert 0 < np.sum(range_leverages(model)) < len(world.measured.ranges) / 2


def test_at_one_distance_a_bias_is_as_uncertain_as_the_odometrys_scale_times_it():
    """n ranges at 40 m, a map that is held by the odometry alone: sigma of 1 % is 0.4 m."""
    n, distance, sigma = 1e6, 40.0, 0.01
    column = np.array([1.0, -distance])

    def found(variance):
        return posterior(n * np.outer(column, column), np.zeros(2), np.array([0.3, 0.0]),
                         np.diag([variance, sigma**2]), 1)

    assert np.sqrt(found(100.0).covariance[0, 0]) == pytest.approx(sigma * distance, rel=1e-3)
    assert found(100.0).values[0] == pytest.approx(0.3, rel=2e-3)
    assert found(0.01).directions == 0
    assert found(0.01).determined[0] == pytest.approx(0.0)


def test_a_posterior_is_that_of_all_parameters_together():
    random = np.random.default_rng(2)
    columns = random.normal(size=(9, 5))
    information = columns.T @ columns
    prior = block_diag(np.diag([2.0, 3.0, 1.0]), [[1.0, 0.4], [0.4, 1.0]])
    at, gradient = random.normal(size=(2, 5))
    found = posterior(information, gradient, at, prior, 3)
    covariance = np.linalg.inv(information + np.linalg.inv(prior))
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-12)
    np.testing.assert_allclose(
        found.values, covariance @ (information @ at - gradient), atol=1e-12)


@pytest.mark.parametrize('dimension', [2, 3])
def test_components_are_those_of_dense_projections(dimension, monkeypatch):
    monkeypatch.setattr(noise, 'PROBES', 400)
    world = radio_world(
        3, tuple(range(6)), dimension=dimension, steps=30, sigma_factor=1.0, blocked=0.0)
    graph = world.measured
    estimate = solve(graph, SolverConfig(), initial=world.truth).estimate
    model = linear_model(graph, estimate, {})
    system = Linearised(graph, estimate, {})
    J = system.jacobian[:, system.free(None)].toarray()
    R = np.eye(len(J)) - J @ np.linalg.solve(J.T @ J, J.T)
    robot = graph.poses.robot[graph.relative_poses.i]
    # Rows: rotations, translations, then ranges.
    group = np.concatenate([
        np.repeat(robot + 3, 1 if dimension == 2 else 3), np.repeat(robot, dimension),
        np.full(len(graph.ranges), 6)])
    squares = np.array([[np.sum(R[np.ix_(group == a, group == b)] ** 2)
                         for b in range(7)] for a in range(7)])
    found = variance_components(model)
    assert found.names == (
        *((part, name) for part in (MOVES, TURNS) for name in 'ABC'), (RANGES, ''))
    np.testing.assert_allclose(
        found.square, np.bincount(group, (R @ model.residual)**2), rtol=1e-6)
    redundancy = np.bincount(group, np.diagonal(R))
    # Random signs: the variance of an estimated trace is at most 2 tr R_gg R_gg / PROBES.
    off = np.sqrt(2 * np.diagonal(squares) / 400)
    assert np.all(np.abs(found.expected - redundancy) < 4 * off)
    assert np.diagonal(found.share) == pytest.approx(np.diagonal(squares), rel=0.2)
    assert found.share[:6, 6] == pytest.approx(squares[:6, 6], rel=0.2)


@pytest.mark.parametrize(('excess', 'with_ranges', 'others', 'shared', 'blamed'), [
    ((300.0, -90.0), 50.0, 0.0, 1.0, [MOVES, TURNS]),
    # Errors that ranges share, and claims of others, explain an excess.
    ((300.0, -90.0), 50.0, 0.0, 8.0, [TURNS]), ((90.0, -90.0), 0.0, 95.0, 1.0, [])])
def test_what_else_explains_residuals_is_no_fault_of_the_odometry(
        excess, with_ranges, others, shared, blamed):
    expected = np.array([200.0 + with_ranges + others] * 2 + [1e6])
    share = np.diag([200.0, 200.0, 1e6])
    share[:2, 2] = with_ranges
    parts = VarianceComponents(
        ((MOVES, 'A'), (TURNS, 'A'), (RANGES, '')), None,
        expected + np.array([*excess, 0.0]), share, expected)
    log = OdometryNoise().after(parts, shared).noise.log_factor
    assert [part for part, _ in log] == blamed
    assert all(np.sign(value) == np.sign(excess[part == TURNS]) for (part, _), value in log.items())
