"""Radios calibrated beside the audits: step by step, off by default, from what was measured."""

import re
from dataclasses import replace

import numpy as np
import pytest
from backend_world import config
from faulty_world import antenna_elsewhere, radio_world

from sparser_ros.backend.calibrate.antennas_and_clocks import (
    SIGNIFICANT,
    AntennasAndClocks,
    calibration_with_places,
    range_rates,
)
from sparser_ros.backend.calibrate.self_calibration import self_calibrate
from sparser_ros.backend.integrity.radio_errors import BIAS, RadioErrors
from sparser_ros.backend.session import audited_map
from sparser_ros.config import SolverConfig
from sparser_ros.config.calibration_config import CalibrationConfig
from sparser_ros.config.solver_config import LIVE_SOLVER
from sparser_ros.graph import range_residuals
from sparser_ros.graph.ends import range_ends

KNOWN = (0, 1, 2, 3, 4, 5)
ELSEWHERE = (0.4, -0.25)


def live_config(**options):
    return replace(
        config(robots=('A', 'B', 'C'), solver=LIVE_SOLVER),
        calibration=CalibrationConfig(**options))


def solved_map(world, errors=RadioErrors()):  # noqa: B008 - it is frozen
    """The true map of the measured ranges without some errors."""
    graph = world.measured
    return audited_map.SolvedMap(
        0, 0, errors.off_all(graph), world.truth, {}, errors)


def run(solved, options):
    calibration = audited_map.LiveCalibration()
    while calibration.step(solved, options):
        pass
    return calibration


def test_steps_end_with_the_findings_of_a_calibration():
    world = radio_world(2, KNOWN, sigma_factor=1.0, steps=120)
    calibration, options = audited_map.LiveCalibration(), live_config(live=True)
    solved, steps = solved_map(world), 0
    while not calibration.findings:
        assert calibration.step(solved, options)
        steps += 1
    assert 3 < steps <= options.calibration.rounds + 3
    at_once = self_calibrate(
        world.measured, world.truth, options.calibration, options.solver)
    assert calibration.findings == audited_map.bias_findings(at_once, applied=False)
    assert calibration.errors == RadioErrors(audited_map.biases_of(at_once))
    found = {one.subject: one.value for one in calibration.findings}
    large = np.flatnonzero(world.bias_m > 0.1)
    names = at_once.ends.names
    assert {names[k] for k in large} <= set(found)
    for name, value in found.items():
        assert value == pytest.approx(world.bias_m[names.index(name)], abs=0.06)
    first = calibration.findings[0]
    assert first.kind == BIAS and first.unit == 'm'
    assert f'ranges of {first.subject} are' in first.text and 'too long' in first.text
    assert not calibration.step(solved, options)
    assert not audited_map.LiveCalibration().step(solved, live_config()), 'off by default'


def at_changing_speed(graph):
    """The same ways in the same time, at 0.4 to 1.6 times the speed that they are driven at."""
    def warped(stamp_ns):
        turns = 2 * np.pi * (stamp_ns - graph.poses.stamp_ns.min()) / 20e9
        return (stamp_ns + 0.6 * 20e9 / (2 * np.pi) * np.sin(turns)).astype(np.int64)

    return graph.replaced(
        poses=graph.poses.replaced(stamp_ns=warped(graph.poses.stamp_ns)),
        ranges=graph.ranges.replaced(stamp_ns=warped(graph.ranges.stamp_ns)))


def with_late_stamps(graph, truth, robot, late_s):
    """The ranges as they are when stamps of those that a robot asks for are late."""
    rate, _ = range_rates(graph, truth)
    own = graph.poses.robot[graph.ranges.source] == robot
    return graph.replaced(ranges=graph.ranges.replaced(
        distance_m=graph.ranges.distance_m - np.where(own, late_s * rate, 0.0)))


def places_told(graph, truth):
    """What a whole calibration says of antennas and clocks."""
    *_, (_, told) = calibration_with_places(
        graph, truth, CalibrationConfig(sigma='estimate'), SolverConfig())
    return told


def elsewhere(place, seed=8, known=KNOWN, **options):
    """A world, and its ranges with the antenna of B at a place, at changing speed."""
    world = radio_world(seed, known, sigma_factor=1.0, blocked=0.0, **options)
    return world, antenna_elsewhere(at_changing_speed(world.measured), 'B', place)


def test_antennas_and_clocks_that_are_off_are_told_with_what_to_do():
    world, measured = elsewhere(ELSEWHERE, biased=False)
    measured = with_late_stamps(measured, world.truth, 2, 0.12)
    found = run(solved_map(replace(world, measured=measured)), live_config(live=True)).findings
    by_kind = {(one.kind, one.subject): one for one in found}
    assert set(by_kind) == {
        ('antenna_x', 'B'), ('antenna_y', 'B'), ('range_stamps_late', 'C')}, found
    assert by_kind['antenna_x', 'B'].value == pytest.approx(0.4, abs=0.1)
    assert by_kind['antenna_y', 'B'].value == pytest.approx(-0.25, abs=0.1)
    late = by_kind['range_stamps_late', 'C']
    assert late.value == pytest.approx(0.12, abs=0.04) and late.unit == 's'
    assert re.match(
        r'the antenna of B is 0\.\d\d m further right than its lever_arm says \(sigma 0',
        by_kind['antenna_y', 'B'].text)
    assert re.match(
        r'stamps of ranges of C are 0\.\d\d s late .* lower its ranges.time_offsets', late.text)


def test_an_antenna_that_stands_elsewhere_is_moved_where_that_is_asked_for():
    world, measured = elsewhere(ELSEWHERE, biased=False)
    moved = replace(world, measured=measured)
    told = run(solved_map(moved), live_config(live=True))
    first = run(solved_map(moved), live_config(live=True, mode='apply'))
    for found in (told, first):
        assert found.errors.antenna_m == {'B': pytest.approx(ELSEWHERE, abs=0.05)}
    assert all(('that is allowed for' in one.text) == (found is first)
               for found in (told, first) for one in found.findings)
    # Each calibration begins with the configured lever arms: it finds the same once they are moved.
    back = solved_map(moved, first.errors)
    again = run(back, live_config(live=True, mode='apply'))
    assert again.errors.antenna_m == {
        'B': pytest.approx(first.errors.antenna_m['B'], abs=1e-6)}
    # The ranges then fit the true map as they did with that antenna where it is configured.
    def misfit(graph):
        return np.std(range_residuals(graph, world.truth))
    assert misfit(measured) > 1.2 * misfit(world.measured)
    assert misfit(back.graph) < 1.01 * misfit(world.measured)


@pytest.mark.parametrize(('far', 'doubted'), [(2.76, True), (0.76, False)])
def test_an_antenna_that_is_absurdly_far_off_is_doubted_and_not_moved(far, doubted):
    told = AntennasAndClocks(
        ('A',), (), np.array([0.1, -far]), 4e-4 * np.eye(2), np.zeros(0))
    found = audited_map.place_findings(told, 3.0, 0.05, applied=True)
    assert bool(audited_map.antennas_of(found, 2)) != doubted
    for one in found:
        assert ('late stamps' in one.text) == doubted
        assert ('that is allowed for' in one.text) != doubted
    either = AntennasAndClocks(
        ('A',), ('A',), np.array([far / 2, 0.0, far / 4]),
        np.array([[1.0, 0.0, -1.9999], [0.0, 1e-4, 0.0], [-1.9999, 0.0, 4.0]]), np.ones(1))
    found, = audited_map.place_findings(either, 3.0, 0.05, applied=True)
    assert found.kind == 'antenna_or_clock'
    assert ('is doubtful' in found.text) == doubted


@pytest.mark.parametrize('seed', range(20, 26))
def test_radios_without_a_fault_are_not_told_of(seed):
    world = radio_world(seed, (0, 1) if seed % 2 else (), steps=120, biased=False)
    assert run(solved_map(world), live_config(live=True)).findings == ()


@pytest.mark.parametrize(('known', 'seed', 'place', 'late_s'), [
    *((KNOWN, seed, ELSEWHERE, 0.12) for seed in (7, 8)), ((), 9, ELSEWHERE, 0.0),
    (KNOWN, 9, (0.0, 0.0), 0.12), *((KNOWN, seed, (0.0, 0.0), 0.0) for seed in (7, 8, 9))])
def test_an_antenna_that_stands_elsewhere_and_stamps_that_are_late_are_found(
        known, seed, place, late_s):
    """The antenna of B, and the stamps of C."""
    world, measured = elsewhere(place, seed, known)
    told = places_told(with_late_stamps(measured, world.truth, 2, late_s), world.truth)
    antennas = {row.robot: row for row in told.antennas}
    clocks = {row.source: row for row in told.clocks}
    assert set(antennas) == set(clocks) == {'A', 'B', 'C'}
    for name, row in antennas.items():
        error = np.array(row.error_m) - np.array(place) * (name == 'B')
        assert np.all(np.abs(error) < 3.5 * np.array(row.sigma_m)), row
        assert max(row.sigma_m) < 0.08 and row.determined
        assert row.significant(SIGNIFICANT) == (name == 'B' and any(place))
    for name, row in clocks.items():
        assert abs(row.late_s - late_s * (name == 'C')) < 3.5 * row.sigma_s
    assert clocks['C'].sigma_s < 0.02
    assert clocks['C'].significant(SIGNIFICANT) == (late_s > 0)


def test_a_robot_that_never_turns_tells_nothing_along_its_way():
    world = radio_world(7, (), sigma_factor=1.0, blocked=0.0)
    graph = world.measured
    # Its ranges while it heads one way only.
    heading = np.arctan2(world.truth.rotation[:, 1, 0], world.truth.rotation[:, 0, 0])
    ranges = graph.ranges
    turned = np.abs(np.angle(np.exp(1j * (heading[ranges.source] - np.median(heading))))) > 0.1
    straight = np.where(graph.poses.robot[ranges.source] == 1, ~turned, ~range_ends(graph).at(1))
    told = places_told(at_changing_speed(
        graph.replaced(ranges=ranges.take(straight))), world.truth)
    rows = {row.robot: row for row in told.antennas}
    assert rows['A'].determined and not rows['B'].determined
    assert max(rows['B'].sigma_m) > 0.3 and not rows['B'].significant(SIGNIFICANT)


@pytest.mark.parametrize('seed', range(8, 13))
def test_late_stamps_of_a_robot_at_constant_speed_may_be_an_antenna_further_back(seed):
    world = radio_world(seed, KNOWN, sigma_factor=1.0, blocked=0.0)
    told = places_told(with_late_stamps(world.measured, world.truth, 1, 0.12), world.truth)
    assert not any(row.significant(4.0) for row in (*told.antennas, *told.clocks))
    either, = told.either(4.0)
    assert either.robot == 'B' and either.axis == 0
    assert either.error_m == pytest.approx(-0.1, abs=0.03)
    assert either.late_s == pytest.approx(0.12, abs=0.03)
