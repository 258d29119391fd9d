"""Probabilities of blocked paths: gradient of the likelihood, bursts, sign."""

import numpy as np
import pytest

from sparser_ros.backend.calibrate.range_errors import (
    blocked_density,
    blocked_paths,
    clear_density,
)
from sparser_ros.graph.range_ends import RangeEnds

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


def test_weights_are_those_of_the_gradient_of_the_likelihood():
    """Fisher's identity: d log p / dx = sum over states of P(state) d log p(x | state) / dx."""
    rng = np.random.default_rng(1)
    ends, sigma = ends_of(40), np.full(40, SIGMA)
    x = SIGMA * rng.normal(size=40) + np.where(rng.random(40) < 0.2, 0.4, 0.0)
    found = blocked_paths(ends, x, sigma, 0.1, turns=0)
    h = 1e-5
    slope = (blocked_density(x + h, sigma) - blocked_density(x - h, sigma)) / (2 * h)
    expected = -found.clear * x / SIGMA**2 + (1 - found.clear) * slope
    for k in range(40):
        step = h * (np.arange(40) == k)
        up, down = (blocked_paths(ends, x + s * step, sigma, 0.1, turns=0) for s in (1, -1))
        difference = (up.log_likelihood - down.log_likelihood) / (2 * h)
        assert difference == pytest.approx(expected[k], rel=1e-4, abs=1e-4)


def test_a_burst_is_seen_where_a_single_range_would_pass():
    rng = np.random.default_rng(2)
    ends = ends_of(200)
    x = SIGMA * rng.normal(size=200)
    burst = (ends.second == 1) & (ends.seconds >= 40) & (ends.seconds < 50)
    found = blocked_paths(ends, x + np.where(burst, 0.25, 0.0), np.full(200, SIGMA))
    assert np.mean(found.clear[burst]) < 0.2
    assert np.mean(found.clear[~burst]) > 0.95
    single = ends.seconds == 45
    alone = blocked_paths(ends, x + np.where(single, 0.25, 0.0), np.full(200, SIGMA))
    assert np.all(alone.clear[single] > 0.5)


def test_long_ranges_are_doubted_sooner_than_short_ones():
    ends, sigma = ends_of(60), np.full(60, SIGMA)
    alone = 0.45 * (np.arange(60) == 30)
    long, short = (blocked_paths(ends, sign * alone, sigma).clear[30] for sign in (1, -1))
    assert long < 0.5 < short
    assert blocked_paths(ends, -10 * alone, sigma).clear[30] < 0.01


def test_no_ranges():
    assert len(blocked_paths(ends_of(0), np.zeros(0), np.zeros(0)).clear) == 0
