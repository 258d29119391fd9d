"""Derivatives of the cost by radio parameters; noise and blocked paths from residuals."""

import itertools

import numpy as np
import pytest
from faulty_world import radio_world
from scipy.linalg import block_diag

from benchmark.synthetic import plain_ranges
from sparser_ros.backend.calibrate import range_errors
from sparser_ros.backend.calibrate.radio_model import (
    RadioParameters,
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
from sparser_ros.graph import cost
from sparser_ros.graph.ends import RangeEnds, range_ends
from sparser_ros.solver import solve
from sparser_ros.solver.covariance import Linearised

SHARP = SolverConfig(gradient_tolerance=1e-16, cost_tolerance=1e-13)
ROBOTS, BEACONS, EACH = 3, 6, 60
SIGMA = 0.1


@pytest.mark.parametrize(('part', 'share'), [
    (slice(0, 13), 0.0), (slice(0, 9), 1.0), (slice(9, 10), 1.0), (slice(10, 13), 1.0)], ids=str)
def test_gradient_and_information_are_those_of_the_cost_after_the_map_has_followed(part, share):
    """Of biases, the scale of ranges, and scales of odometry."""
    # In space the cost counts rotations as their noise says, as the model does.
    world = radio_world(3, dimension=3, steps=40, sigma_factor=1.0, blocked=0.0)
    ends = range_ends(world.measured)
    drawn = np.random.default_rng(11).normal(size=13) * np.repeat([0.5, 0.03], [9, 4])
    at, direction = share * drawn, np.zeros(13)
    direction[part] = drawn[part]

    def best(values):
        graph = RadioParameters(ends, values).corrected(world.measured)
        return graph, solve(graph, SHARP, initial=world.truth).estimate

    corrected, estimate = best(at)
    model, columns = radio_model(RadioParameters(ends, at), corrected, estimate, {})
    scores = model.scores(columns)

    def least(step):
        return cost(*best(at + step * direction))

    h = 0.01
    slope = (least(h) - least(-h)) / (2 * h)
    bend = (least(h) - 2 * least(0.0) + least(-h)) / h**2
    assert slope == pytest.approx(2 * direction @ scores.score, rel=1e-3)
    # Gauss-Newton: the curvature of residuals is left out, which are small at zero.
    assert share or bend == pytest.approx(2 * direction @ scores.information @ direction, rel=0.08)
    assert 0 < np.sum(range_leverages(model)) < len(world.measured.ranges) / 2


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


def test_components_are_those_of_dense_projections(dimension, monkeypatch):
    monkeypatch.setattr(noise, 'PROBES', 400)
    world = radio_world(
        3, tuple(range(6)), dimension=dimension, steps=30, sigma_factor=1.0, blocked=0.0)
    graph = world.measured
    estimate = solve(graph, SolverConfig(), initial=world.truth).estimate
    model = linear_model(graph, estimate, {})
    system = Linearised(graph, estimate, {}, with_residuals=True)
    J = system.jacobian[:, system.free()].toarray()
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
        ((MOVES, 'A'), (TURNS, 'A'), (RANGES, '')), np.eye(3),
        expected + np.array([*excess, 0.0]), np.column_stack([
            share, expected - np.sum(share, axis=1)]))
    log = OdometryNoise().after(parts, shared).noise.log_factor
    assert [part for part, _ in log] == blamed
    assert all(np.sign(value) == np.sign(excess[part == TURNS]) for (part, _), value in log.items())


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
    ranges = plain_ranges(2, first, ~(second - ROBOTS), distance, sigma**-2.0)
    return ends, ranges, rng.normal(size=count)


def found(ends, ranges, residual):
    """Of residuals predicted minus measured."""
    count = len(residual)
    return range_errors.range_noise(
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


def ends_of(count, pairs=2, step_s=1.0):
    target = 1 + np.arange(count) % pairs
    return RangeEnds(
        ('A', *(f'L{k}' for k in range(pairs))), 1, np.zeros(count, dtype=np.int64), target,
        step_s * (np.arange(count) // pairs))


def test_densities_integrate_to_one():
    x = np.linspace(-300, 300, 600_001)
    for density in (range_errors.clear_density, range_errors.blocked_density):
        assert np.sum(np.exp(density(x, np.full(len(x), SIGMA)))) * (x[1] - x[0]) == pytest.approx(
            1.0, abs=1e-3)


def test_probabilities_are_those_of_all_sequences_of_states(monkeypatch):
    """Two pairs, five ranges each: 32 sequences of clear and blocked paths a pair."""
    monkeypatch.setattr(range_errors, '_SHARE_TURNS', 0)
    ends, rng = ends_of(10, step_s=2.0), np.random.default_rng(1)
    x, share = SIGMA * rng.normal(size=10) + 0.3 * (rng.random(10) < 0.4), 0.05
    sigma = np.full(10, SIGMA)
    density = np.exp([range_errors.clear_density(x, sigma), range_errors.blocked_density(x, sigma)])
    rest, stay = np.array([1 - share, share]), np.exp(-2.0 / range_errors.PERSISTENCE_S)
    move = stay * np.eye(2) + (1 - stay) * rest
    for pair in (0, 1):
        own = np.flatnonzero(ends.second == 1 + pair)
        total, clear = 0.0, np.zeros(5)
        for states in itertools.product((0, 1), repeat=5):
            chance = rest[states[0]] * np.prod(move[states[:-1], states[1:]]) * np.prod(
                density[states, own])
            total, clear = total + chance, clear + chance * (np.array(states) == 0)
        found = range_errors.clear_paths(ends, x, sigma)[own]
        np.testing.assert_allclose(found, clear / total, rtol=1e-9)


def test_a_burst_is_seen_where_a_single_range_would_pass():
    rng = np.random.default_rng(2)
    ends = ends_of(200)
    x = SIGMA * rng.normal(size=200)
    burst = (ends.second == 1) & (ends.seconds >= 40) & (ends.seconds < 50)
    clear = range_errors.clear_paths(ends, x + np.where(burst, 0.25, 0.0), np.full(200, SIGMA))
    assert np.mean(clear[burst]) < 0.2 and np.mean(clear[~burst]) > 0.95
    single = ends.seconds == 45
    alone = range_errors.clear_paths(ends, x + np.where(single, 0.25, 0.0), np.full(200, SIGMA))
    assert np.all(alone[single] > 0.5)


def test_long_ranges_are_doubted_sooner_than_short_ones():
    ends, sigma = ends_of(60), np.full(60, SIGMA)
    alone = 0.45 * (np.arange(60) == 30)
    long, short = (range_errors.clear_paths(ends, sign * alone, sigma)[30] for sign in (1, -1))
    assert long < 0.5 < short
    assert range_errors.clear_paths(ends, -10 * alone, sigma)[30] < 0.01
    assert len(range_errors.clear_paths(ends_of(0), np.zeros(0), np.zeros(0))) == 0
