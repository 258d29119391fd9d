"""Noise of ranges from residuals: claims times a factor, radios that differ, blocked pairs."""

import numpy as np
import pytest

from sparser_ros.backend.calibrate.range_errors import range_noise, robust_variance
from sparser_ros.graph import Ranges
from sparser_ros.graph.range_ends import RangeEnds

ROBOTS, BEACONS, EACH = 3, 6, 60


def measured(sigma_m, seed=0):
    """(ends, ranges that claim `sigma_m`, a number or by distance, standard normal numbers)."""
    rng = np.random.default_rng(seed)
    first, second, _ = (part.ravel() for part in np.meshgrid(
        np.arange(ROBOTS), ROBOTS + np.arange(BEACONS), np.arange(EACH), indexing='ij'))
    count = len(first)
    names = tuple('ABC') + tuple(f'L{k}' for k in range(BEACONS))
    ends = RangeEnds(names, ROBOTS, first, second, np.arange(count, dtype=float))
    distance = rng.uniform(5, 60, count)
    sigma = sigma_m(distance) if callable(sigma_m) else np.full(count, sigma_m)
    none = np.zeros((count, 2))
    return ends, Ranges(
        first, ~(second - ROBOTS), none, none, distance, sigma**-2.0,
        np.zeros(count, dtype=np.int64)), rng.normal(size=count)


def found(ends, ranges, residual):
    """Of residuals predicted minus measured."""
    count = len(residual)
    return range_noise(
        ends, ranges, residual, np.zeros(count), None, np.ones(count, dtype=bool))


@pytest.mark.parametrize('factor', [0.2, 5.0])
def test_claims_that_are_right_but_for_a_factor_keep_their_shape(factor):
    ends, ranges, x = measured(lambda distance: np.hypot(0.1, 0.01 * distance))
    claimed = 1 / np.sqrt(ranges.precision)
    noise = found(ends, ranges, factor * claimed * x)
    sigma = np.sqrt(noise.variance(ends, ranges))
    assert noise.claimed_factor == pytest.approx(factor**2, rel=0.1)
    assert sigma == pytest.approx(factor * claimed, rel=0.05)


def test_radios_that_differ_have_their_own_variances():
    ends, ranges, x = measured(0.1)
    own = np.full(ROBOTS + BEACONS, 0.07)
    own[[1, 5]] = 0.25
    sigma = np.hypot(own[ends.first], own[ends.second])
    noise = found(ends, ranges, sigma * x)
    assert noise.claimed_factor == 0.0
    assert np.sqrt(noise.radio_variance) == pytest.approx(own, rel=0.25)
    assert np.sqrt(noise.variance(ends, ranges)) == pytest.approx(sigma, rel=0.15)


def test_noise_that_grows_with_the_range_against_its_claim_is_found():
    ends, ranges, x = measured(0.1)
    sigma = np.hypot(0.1, 0.01 * ranges.distance_m)
    noise = found(ends, ranges, sigma * x)
    assert noise.sigma_per_m == pytest.approx(0.01, rel=0.1)
    # What is constant shows in the shortest ranges alone.
    far = ranges.distance_m > 20
    assert np.sqrt(noise.variance(ends, ranges))[far] == pytest.approx(sigma[far], rel=0.15)


@pytest.mark.parametrize('share', [0.6, 1.0])
def test_a_pair_that_is_blocked_for_long_is_no_noise_of_its_radios(share):
    ends, ranges, x = measured(0.1)
    rng = np.random.default_rng(1)
    blocked = (ends.first == 2) & (ends.second == 8) & (rng.random(len(x)) < share)
    noise = found(ends, ranges, 0.1 * x - np.where(blocked, 1.5, 0.0))
    assert np.sqrt(noise.variance(ends, ranges)) == pytest.approx(0.1, rel=0.1)


def test_trimming_takes_no_noise_off():
    assert robust_variance(np.random.default_rng(0).normal(size=20_000)) == pytest.approx(
        1.0, rel=0.02)
