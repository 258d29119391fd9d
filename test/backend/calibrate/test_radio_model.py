"""Derivatives of the cost by radio parameters, the map following."""

import numpy as np
import pytest
from radio_world import radio_world

from sparser_ros.backend.calibrate.radio_model import (
    RadioParameters,
    no_correction,
    radio_model,
    range_leverages,
)
from sparser_ros.config import SolverConfig
from sparser_ros.graph import cost, range_residuals
from sparser_ros.graph.range_ends import range_ends
from sparser_ros.solver import solve

SHARP = SolverConfig(gradient_tolerance=1e-16, cost_tolerance=1e-13)


@pytest.fixture(scope='module')
def made():
    """A small world without blocked ranges, and its map.

    In space, where the cost counts rotations as their noise says, as the model does.
    """
    world = radio_world(3, dimension=3, steps=40, sigma_factor=1.0, blocked=0.0)
    result = solve(world.measured, SHARP, initial=world.truth)
    return world, result.estimate


def test_derivatives_of_residuals_are_those_of_finite_differences(made):
    world, estimate = made
    ends = range_ends(world.measured)
    rng = np.random.default_rng(3)
    at = RadioParameters(0.02 * rng.normal(size=len(ends.names) + 1), np.zeros(ends.robots))

    def residual(step):
        """Of measured metres."""
        moved = at.moved(np.concatenate([step, np.zeros(ends.robots)]))
        return range_residuals(moved.corrected(world.measured, ends), estimate) / moved.scale

    corrected = at.corrected(world.measured, ends)
    model, columns = radio_model(at, corrected, ends, estimate, {})
    root = np.sqrt(corrected.ranges.precision)[:, None]
    size = len(ends.names) + 1
    matrix = columns[model.rows('ranges')].toarray()[:, :size] / root / at.scale
    for k in range(matrix.shape[1]):
        step = np.zeros(matrix.shape[1])
        step[k] = 1e-4
        found = (residual(step) - residual(-step)) / 2e-4
        assert found == pytest.approx(matrix[:, k], abs=1e-6)


def test_gradient_and_information_are_those_of_the_cost_after_the_map_has_followed(made):
    world, estimate = made
    ends = range_ends(world.measured)
    model, columns = radio_model(no_correction(ends), world.measured, ends, estimate, {})
    scores = model.scores(columns)
    size = len(ends.names) + 1
    direction = np.random.default_rng(0).normal(size=size + ends.robots)
    direction[size - 1:] *= 0.02

    def least(step):
        moved = RadioParameters(step * direction[:size], step * direction[size:])
        graph = moved.corrected(world.measured, ends)
        return cost(graph, solve(graph, SHARP, initial=estimate).estimate)

    h = 0.01
    slope = (least(h) - least(-h)) / (2 * h)
    bend = (least(h) - 2 * least(0.0) + least(-h)) / h**2
    assert slope == pytest.approx(2 * direction @ scores.score, rel=1e-3)
    # Gauss-Newton: the curvature of residuals is left out.
    assert bend == pytest.approx(2 * direction @ scores.information @ direction, rel=0.08)


def test_leverages_sum_to_what_the_map_follows(made):
    world, estimate = made
    ends = range_ends(world.measured)
    model, _ = radio_model(no_correction(ends), world.measured, ends, estimate, {})
    assert 0 < np.sum(range_leverages(model)) < len(world.measured.ranges) / 2
