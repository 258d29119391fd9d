"""Noise of ranges from residuals, and probabilities of blocked paths."""

import itertools

import numpy as np
import pytest

from sparser_ros.backend.calibrate import range_errors
from sparser_ros.backend.calibrate.range_errors import (
    blocked_density,
    clear_density,
    clear_paths,
    range_noise,
)
from sparser_ros.graph import Ranges
from sparser_ros.graph.ends import RangeEnds

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


SIGMA = 0.1


def ends_of(count, pairs=2, step_s=1.0):
    """Ranges of a robot to beacons in turns."""
    target = 1 + np.arange(count) % pairs
    return RangeEnds(
        ('A', *(f'L{k}' for k in range(pairs))), 1, np.zeros(count, dtype=np.int64), target,
        step_s * (np.arange(count) // pairs))


def test_densities_integrate_to_one():
    x = np.linspace(-300, 300, 600_001)
    for density in (clear_density, blocked_density):
        assert np.sum(np.exp(density(x, np.full(len(x), SIGMA)))) * (x[1] - x[0]) == pytest.approx(
            1.0, abs=1e-3)


def test_probabilities_are_those_of_all_sequences_of_states(monkeypatch):
    """Two pairs, five ranges each: 32 sequences of clear and blocked paths a pair."""
    monkeypatch.setattr(range_errors, '_SHARE_TURNS', 0)
    ends, rng = ends_of(10, step_s=2.0), np.random.default_rng(1)
    x, share = SIGMA * rng.normal(size=10) + 0.3 * (rng.random(10) < 0.4), 0.05
    sigma = np.full(10, SIGMA)
    density = np.exp([clear_density(x, sigma), blocked_density(x, sigma)])
    rest, stay = np.array([1 - share, share]), np.exp(-2.0 / range_errors.PERSISTENCE_S)
    move = stay * np.eye(2) + (1 - stay) * rest
    for pair in (0, 1):
        own = np.flatnonzero(ends.second == 1 + pair)
        total, clear = 0.0, np.zeros(5)
        for states in itertools.product((0, 1), repeat=5):
            chance = rest[states[0]] * np.prod(move[states[:-1], states[1:]]) * np.prod(
                density[states, own])
            total, clear = total + chance, clear + chance * (np.array(states) == 0)
        np.testing.assert_allclose(clear_paths(ends, x, sigma)[own], clear / total, rtol=1e-9)


def test_a_burst_is_seen_where_a_single_range_would_pass():
    rng = np.random.default_rng(2)
    ends = ends_of(200)
    x = SIGMA * rng.normal(size=200)
    burst = (ends.second == 1) & (ends.seconds >= 40) & (ends.seconds < 50)
    clear = clear_paths(ends, x + np.where(burst, 0.25, 0.0), np.full(200, SIGMA))
    assert np.mean(clear[burst]) < 0.2 and np.mean(clear[~burst]) > 0.95
    single = ends.seconds == 45
    alone = clear_paths(ends, x + np.where(single, 0.25, 0.0), np.full(200, SIGMA))
    assert np.all(alone[single] > 0.5)


def test_long_ranges_are_doubted_sooner_than_short_ones():
    ends, sigma = ends_of(60), np.full(60, SIGMA)
    alone = 0.45 * (np.arange(60) == 30)
    long, short = (clear_paths(ends, sign * alone, sigma)[30] for sign in (1, -1))
    assert long < 0.5 < short
    assert clear_paths(ends, -10 * alone, sigma)[30] < 0.01
    assert len(clear_paths(ends_of(0), np.zeros(0), np.zeros(0))) == 0
