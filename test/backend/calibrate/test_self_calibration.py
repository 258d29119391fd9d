"""Radios that calibrate themselves against the map, and what the node makes of it."""

from dataclasses import replace

import numpy as np
import pytest
from backend_world import World, longer
from faulty_world import graph as graph_in
from faulty_world import odometry_claiming, odometry_scaled, radio_world
from faulty_world import world as world_of
from frontend_world import Robot, drive, range_sample

from sparser_ros.backend.calibrate import results
from sparser_ros.backend.calibrate.antennas_and_clocks import LeverRow, range_rates
from sparser_ros.backend.calibrate.self_calibration import held_to, robust_solver, self_calibrate
from sparser_ros.cli.calibrate_command import show_levers
from sparser_ros.config import SolverConfig, SparserConfig
from sparser_ros.config.calibration_config import CalibrationConfig
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.frontend import Frontend
from sparser_ros.graph import Graph, Landmarks, Poses, Ranges, estimate_of
from sparser_ros.graph.parts import extract
from sparser_ros.io.simulation import Simulation
from sparser_ros.io.simulation import graph_of as simulated
from sparser_ros.linalg.rotations import aligned_errors, angle_to_matrix

ESTIMATE = CalibrationConfig(sigma='estimate')
SOLVER = SolverConfig()


def calibrated(world, config=ESTIMATE):
    return self_calibrate(world.measured, world.truth, config, SOLVER)


def error(estimate, world):
    return float(np.mean(aligned_errors(estimate.translation, world.truth.translation)))


@pytest.mark.parametrize(('seed', 'known'), [(1, ()), (2, (0, 1, 2, 3, 4, 5))])
def test_biases_are_found_within_their_sigmas(seed, known):
    world = radio_world(seed, known)
    found = calibrated(world)
    miss = world.bias_m - found.parameters.bias_m
    covariance = found.posterior.covariance[:9, :9]
    assert found.applied
    assert np.all(np.abs(miss) <= 3 * np.sqrt(np.diagonal(covariance)))
    # 9 degrees of freedom: 0.1 % and 99.9 % quantiles of chi-square.
    assert 1.15 < miss @ np.linalg.solve(covariance, miss) < 27.9
    best, _ = robust_solver(SOLVER)(world.calibrated, world.truth)
    assert error(found.estimate, world) <= 1.3 * error(best, world)


def test_the_first_map_is_checked():
    graph = simulated(Simulation(SimulationConfig(
        robots=2, beacons=6, known_beacons=2, minutes=0.5, radius=20, seed=2, outliers=0.0)))
    estimate, _ = robust_solver(SOLVER)(graph, None)
    assert np.linalg.norm(estimate.translation - graph.poses.translation, axis=1).max() < 1.0


@pytest.mark.parametrize('factor', [0.2, 5.0])
def test_sigmas_are_found_whatever_is_claimed(factor):
    found = calibrated(radio_world(4, sigma_factor=factor))
    claimed = 1 / np.sqrt(found.measured.ranges.precision[0])
    sigma = [row.sigma_m for row in results.pair_rows(found)]
    assert claimed == pytest.approx(0.1 * factor)
    assert np.median(sigma) == pytest.approx(0.1, rel=0.1)
    assert np.all(np.abs(np.array(sigma) - 0.1) < 0.05)
    said = [words for words in results.advice(found) if 'claimed sigmas' in words]
    assert ('too small' if factor < 1 else 'too large') in said[0]


def test_a_scale_is_found_beside_the_biases():
    world = radio_world(5, (0, 1, 2, 3, 4, 5), scaled=True)
    found = calibrated(world, CalibrationConfig(sigma='estimate', scale_sigma=0.02))
    spread = np.sqrt(found.posterior.covariance[9, 9])
    assert spread < 0.002
    assert abs(found.parameters.scale - world.scale) < 3 * spread


def test_what_cannot_be_observed_is_said_and_changes_nothing():
    """A robot on a straight line, one beacon: a bias and the beacon's place look alike."""
    place = World(['still', 'still'], [(0, 0), (6, 1)], [(3, 8)], steps=60, range_sigma=0.05)
    graph = place.graph()
    found = self_calibrate(longer(graph, 0.4), place.truth, ESTIMATE, SOLVER)
    assert not found.applied
    assert found.parameters.bias_m == pytest.approx(0.0)
    assert not any(row.determined for row in results.radio_rows(found))
    assert 'drive' in results.advice(found)[0]
    assert results.as_dict(found)['undetermined']


def test_a_radio_that_is_known_keeps_its_bias():
    world = radio_world(1)
    known = dict.fromkeys(world.measured.robots, 0.0)
    found = calibrated(world, CalibrationConfig(radio_bias_sigma_m=known))
    assert found.posterior.values[:3] == pytest.approx(0.0, abs=1e-4)


def test_a_graph_without_ranges_has_nothing_to_calibrate():
    world = radio_world(1, steps=20)
    graph = world.measured
    part = extract(graph, graph.poses.robot == 0, np.zeros(graph.n_landmarks, dtype=bool))
    found = self_calibrate(part.graph, part.of(world.truth), ESTIMATE, SOLVER)
    assert not found.applied and 'no ranges' in found.reason


def stretched(made, factor):
    for robot in range(len(made.robots)):
        made = odometry_scaled(made, robot, factor)
    return made


def pair_error(found, bias_m):
    """Error of the mean bias of all pairs, and its standard deviation."""
    low, high, _ = found.ends.pairs
    size = len(found.ends)
    mean = np.bincount(np.concatenate([low, high]), minlength=size) / len(low)
    variance = mean @ found.posterior.covariance[:size, :size] @ mean
    return mean @ (found.posterior.values[:size] - bias_m), np.sqrt(variance)


@pytest.mark.parametrize('known', [(), (0, 1, 2, 3, 4, 5)])
def test_odometry_that_is_too_long_is_no_bias(known):
    place = world_of(3, known=known)
    made = stretched(graph_in(place, 3, share=0.0), 1.015)
    free = self_calibrate(made, place.truth, CalibrationConfig(), SOLVER)
    error, sigma = pair_error(free, np.zeros(len(free.ends)))
    assert abs(error) < 3 * sigma
    assert not free.applied or sigma < 0.05
    if known:
        assert not free.applied
        rows = results.odometry_rows(free)
        assert all(row.determined for row in rows)
        assert [row.scale for row in rows] == pytest.approx([1 / 1.015] * 3, abs=0.003)
        assert any('odometry of A: scale 0.98' in line for line in results.lines(free))


def test_a_common_bias_is_found_beside_the_odometrys_scale_where_beacons_are_known():
    made = radio_world(4, (0, 1, 2, 3, 4, 5), sigma_factor=1.0)
    found = self_calibrate(
        stretched(made.measured, 0.985), made.truth, CalibrationConfig(), SOLVER)
    error, sigma = pair_error(found, made.bias_m)
    assert found.applied
    assert sigma < 0.01
    assert abs(error) < 3.5 * sigma


def test_a_scale_of_ranges_without_known_beacons_is_the_maps_size_and_is_left_alone():
    made = radio_world(4, scaled=True)
    found = calibrated(made, CalibrationConfig(sigma='estimate', scale_sigma=0.006))
    assert results.scale_determined(found) is False
    assert any('the scale of ranges is not determined' in words for words in results.advice(found))
    assert abs(found.parameters.scale - 1) < 0.25 * 0.006, 'next to nothing of it is applied'
    assert found.applied, 'biases are'


def test_ranges_that_the_map_follows_calibrate_nothing():
    """Few ranges, odometry that claims too much noise: any bias can be had for a little of it."""
    place = world_of(5)
    made = graph_in(place, 5, share=0.0)
    rel, ranges = made.relative_poses, made.ranges
    few = np.arange(len(ranges)) % 24 == 0
    loose = made.replaced(
        relative_poses=rel.replaced(tau=rel.tau / 100, kappa=rel.kappa / 100),
        ranges=ranges.take(few).replaced(distance_m=ranges.distance_m[few] + 0.4))
    found = self_calibrate(loose, place.truth, CalibrationConfig(), SOLVER)
    assert not found.applied and found.graph is loose
    assert 'is not determined' in found.reason


@pytest.mark.parametrize('factor', [0.2, 1.0, 5.0])
def test_claims_of_one_robot_that_are_wrong_are_found(factor):
    world = radio_world(
        4, tuple(range(6)), steps=240 if factor == 1.0 else 480, sigma_factor=1.0, blocked=0.0,
        biased=False)
    measured = odometry_claiming(world.measured, 1, factor)
    found = self_calibrate(measured, world.truth, ESTIMATE, SOLVER)
    if factor == 1.0:
        assert not found.odometry_noise.noise
        assert found.graph.relative_poses.tau == pytest.approx(
            measured.relative_poses.tau, rel=0.1)
        return
    noise, sigma = found.odometry_noise.noise.log_factor, found.odometry_noise.log_sigma
    assert noise and {robot for _, robot in noise} == {'B'}
    assert all(abs(log + 2 * np.log(factor)) < 3.3 * sigma[name] for name, log in noise.items())
    said = [words for words in results.advice(found) if 'odometry of B' in words]
    assert ('too small' if factor < 1 else 'too large') in said[0]
    row = results.odometry_rows(found)[1]
    factors = np.array([row.translation_sigma_factor, row.rotation_sigma_factor])
    assert np.all((factors == 1) | ((factors > 1) == (factor < 1)))


def test_held_to_a_reference_radios_settle_and_odometry_stays():
    world = radio_world(8, sigma_factor=1.0, steps=120)
    held = held_to(
        world.measured, world.truth.translation, np.ones(world.measured.n_poses, dtype=bool), 0.02)
    found = self_calibrate(held, None, CalibrationConfig(), SOLVER)
    assert found.applied and not found.doubted
    assert not found.odometry_noise.noise


@pytest.fixture(scope='module')
def found():
    return calibrated(radio_world(1, scaled=True), CalibrationConfig(scale_sigma=0.02))


def config():
    return SparserConfig.from_mapping({
        'robots': ['A', 'B', 'C'],
        'radios': {'7': {'robot': 'A', 'bias_m': 0.1}, 'x': {'beacon': 'L0', 'height_m': 2.0}},
        'ranges': {'scale': 0.999, 'bias_m': 0.02, 'new_beacon_ranges': 1}})


def test_the_front_end_corrects_ranges_as_the_calibration_did(found):
    before = config()
    after = results.calibrated_config(before, found, noise=False)
    raw = 12.0
    once = _ranges_of(before, raw)
    twice = _ranges_of(after, raw)
    bias = found.parameters.bias_m
    names = list(found.ends.names)
    for radio, number in (('x', names.index('L0')), ('L1', names.index('L1'))):
        expected = found.parameters.scale * once[radio] - bias[0] - bias[number]
        assert twice[radio] == pytest.approx(expected, abs=3e-4)


def test_sigmas_of_radios_replace_what_messages_claim(found):
    after = results.calibrated_config(config(), found, noise=True)
    names = list(found.ends.names)
    variance = found.noise.radio_variance
    expected = np.sqrt(variance[0] + variance[names.index('L0')])
    assert _ranges_of(after, 12.0, sigma=True)['x'] == pytest.approx(expected, rel=0.01)


def test_no_radio_is_without_noise(found):
    none = replace(found, noise=replace(
        found.noise, radio_variance=np.zeros_like(found.noise.radio_variance)))
    none.noise.radio_variance[0] = 0.01
    radios = results.radio_settings(config(), none, noise=True)['radios']
    sigmas = sorted(radio['range_sigma_m'] for radio in radios.values() if 'range_sigma_m' in radio)
    assert sigmas[-1] == pytest.approx(0.1) and 0.005 < sigmas[0] < 0.05


def test_a_lever_arm_that_is_absurd_is_doubted_and_stays(found, capsys):
    far = LeverRow('A', (2.6, -0.92), (0.02, 0.02))
    assert far.significant(3.0) and not far.to_move(3.0)
    settings = results.radio_settings(config(), found, noise=True, levers=[far])['radios']
    assert not any('lever_arm' in entry for entry in settings.values())
    show_levers([far, LeverRow('B', (0.3, 0.0), (0.02, 0.02))])
    shown = capsys.readouterr().out.splitlines()
    assert 'left as it is: more than 1.5 m off is doubtful' in shown[0]
    assert 'late stamps' in shown[0] and shown[1].endswith('move it by that much')


def _ranges_of(config, metres, sigma=False):
    """Corrected ranges, or their sigmas, of radio 7 to two beacons, by radio."""
    front = Frontend(config)
    drive(front, [Robot('A', 2, 1)], 6.0)
    for k in range(3):
        for radio in ('x', 'L1'):
            front.add(range_sample('7', radio, 2.0 + 0.1 * k, metres, variance=0.04))
    made = front.take(flush=True)
    values = 1 / np.sqrt(made.ranges.precision) if sigma else made.ranges.distance_m
    names = {'L0': 'x', 'L1': 'L1'}
    return {
        names[made.landmarks.names[~target]]: value
        for target, value in zip(made.ranges.target, values, strict=True)}


def test_distances_change_as_antennas_are_driven_and_turned():
    """Whatever the order of poses; a stamp that is there twice changes nothing."""
    lever, beacon, n = np.array([0.5, -0.3]), np.array([10.0, 4.0]), 200
    at = np.append(0.05 * np.arange(n - 1), 3.0)

    def place(seconds):
        return 3 * np.column_stack([np.cos(0.2 * seconds), np.sin(0.2 * seconds)])

    def distance(seconds):
        antenna = place(seconds) + angle_to_matrix(0.7 * seconds) @ lever
        return np.linalg.norm(beacon - antenna, axis=1)

    at = at[np.random.default_rng(1).permutation(n)]
    graph = Graph(
        2, ('A',), Poses(np.zeros(n, dtype=int), np.arange(n), (1e9 * at).astype(int),
                         angle_to_matrix(0.7 * at), place(at)),
        Landmarks(('L',), beacon[None], np.ones(1, dtype=bool)),
        ranges=Ranges(np.arange(n), np.full(n, -1), np.tile(lever, (n, 1)), np.zeros((n, 2)),
                      distance(at), np.ones(n), (1e9 * at).astype(int)))
    rate, timed = range_rates(graph, estimate_of(graph))
    assert np.sum(timed) == n - 1
    inside = timed & (at > 0.05) & (at < at.max())
    true = (distance(at + 1e-4) - distance(at - 1e-4)) / 2e-4
    np.testing.assert_allclose(rate[inside], true[inside], atol=1e-3)
