"""Kernel of ranges that are too long rather than too short: derivatives, mean influence, solves."""

from dataclasses import replace

import numpy as np
import pytest
from radio_world import radio_world
from scipy.special import ndtr

from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.graph import range_residuals
from sparser_ros.linalg.rotations import aligned_errors
from sparser_ros.solver import solve
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.robust import (
    KERNELS,
    Reweighting,
    long_widths,
    mixture_rho,
    mixture_weight,
    widths_at,
)
from sparser_ros.solver.schur import SchurOperator

ONE_SIDED = RobustConfig(kernel='one_sided', gnc=True, threshold_probability=0.999999)
SYMMETRIC = RobustConfig(kernel='gm', gnc=True, threshold_probability=0.999999)
SHORT = 23.9
"""c^2 of too short ranges: the quantile of chi-square at the probability above."""


@pytest.fixture(scope='module')
def made():
    """Three robots, six beacons, 10 % of the ranges 0.3 to 3 m too long in bursts."""
    return radio_world(3, (0, 1, 2, 3, 4, 5), biased=False, sigma_factor=1.0)


@pytest.mark.parametrize('c2', [3.0, 8.7, 24.0])
@pytest.mark.parametrize('mu', [1.0, 16.0])
def test_weights_are_the_derivatives_of_the_cost_on_both_sides(c2, mu):
    error = np.linspace(-30.0, 30.0, 401)
    width = np.where(error > 0, c2, SHORT)
    h = 1e-5

    def cost(e):
        return mu * mixture_rho(e**2 / mu, width)

    slope = (cost(error + h) - cost(error - h)) / (2 * h)
    assert slope == pytest.approx(2 * error * mixture_weight(error**2 / mu, width), abs=1e-7)


def test_influence_has_mean_zero_where_ranges_are_as_assumed():
    """10 % blocked with an excess spread evenly over 3 m, sigma 0.1 m; by numeric integration."""
    share, length = 0.1, 30.0
    e = np.linspace(-12, length + 12, 400_001)
    clear = np.exp(-e**2 / 2) / np.sqrt(2 * np.pi)
    blocked = (ndtr(e) - ndtr(e - length)) / length
    density = (1 - share) * clear + share * blocked
    odds = 2 * np.log((1 - share) / share * length / np.sqrt(2 * np.pi))
    weights = {
        'one_sided': mixture_weight(e**2, np.where(e > 0, odds, SHORT)),
        'gm': KERNELS['gm'].weight(e**2, np.full(len(e), SHORT))}
    mean = {name: float(np.sum(w * e * density) * (e[1] - e[0])) for name, w in weights.items()}
    assert mean['gm'] > 0.03
    assert abs(mean['one_sided']) < 0.2 * mean['gm']


def test_long_ranges_are_doubted_sooner_the_more_are_expected(made):
    ranges = made.measured.ranges
    short = np.full(len(ranges), SHORT)
    few, many = (long_widths(ranges, replace(ONE_SIDED, blocked_share=share), short)
                 for share in (0.01, 0.2))
    assert np.all(many < few) and np.all(few < SHORT)
    residual = range_residuals(made.measured, made.truth)
    width = widths_at(ranges, ONE_SIDED, short, residual)
    assert np.array_equal(width == SHORT, residual >= 0)


def test_sides_of_an_estimate_are_those_of_its_settled_point(made):
    """Signs from residuals of the estimate, and from the lengths of the lifted point."""
    problem = QuadraticProblem(made.measured)
    schur = SchurOperator(problem)
    reweighting = Reweighting(schur, ONE_SIDED)
    y = problem.pack(made.truth)
    settled, _ = reweighting.settle(y)
    estimate = problem.unpack(y, schur.points(y))
    by_estimate = reweighting.squares_of(estimate)
    assert settled == pytest.approx(by_estimate, rel=1e-7, abs=1e-7)
    rows = reweighting.slices['ranges']
    residual = range_residuals(made.measured, estimate)
    assert np.array_equal(by_estimate[rows] < 0, residual < 0)
    assert reweighting.cost(by_estimate) < np.sum(np.abs(by_estimate))


def test_blocked_paths_bend_the_map_less_than_with_a_symmetric_kernel(made):
    error = {}
    for config in (ONE_SIDED, SYMMETRIC):
        result = solve(made.measured, SolverConfig(robust=config), initial=made.truth)
        error[config.kernel] = float(np.mean(aligned_errors(
            result.estimate.translation, made.truth.translation)))
    assert error['one_sided'] < error['gm']
