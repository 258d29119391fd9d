"""Radios calibrated beside the audits: step by step, off by default, from what was measured."""

from dataclasses import replace

import numpy as np
import pytest
from backend_world import config
from radio_world import radio_world

from sparser_ros.backend.session import radio_biases
from sparser_ros.backend.session.live_calibration import (
    KIND,
    LiveCalibration,
    biases_of,
    findings_of,
)
from sparser_ros.backend.session.solved_map import SolvedMap
from sparser_ros.calibrate.self_calibration import self_calibrate
from sparser_ros.config.calibration_config import CalibrationConfig
from sparser_ros.config.solver_config import LiveSolverConfig


@pytest.fixture(scope='module')
def world():
    return radio_world(2, (0, 1, 2, 3, 4, 5), sigma_factor=1.0, steps=120)


def live_config(**options):
    return replace(
        config(robots=('A', 'B', 'C'), solver=LiveSolverConfig()),
        calibration=CalibrationConfig(**options))


def solved_map(world, biases=None):
    """The true map of the measured ranges without some biases."""
    graph, biases = world.measured, biases or {}
    ranges = radio_biases.without(biases, graph, graph.ranges)
    return SolvedMap(
        0, 0, graph.replaced(ranges=ranges), world.truth, {}, np.arange(graph.n_poses),
        np.arange(len(graph.ranges)), biases)


def run(solved, options):
    calibration = LiveCalibration()
    while calibration.step(solved, options):
        pass
    return calibration


def test_steps_end_with_the_findings_of_a_calibration(world):
    calibration, options = LiveCalibration(), live_config(live=True)
    solved, steps = solved_map(world), 0
    while not calibration.findings:
        assert calibration.step(solved, options)
        steps += 1
    assert 3 < steps <= options.calibration.rounds + 2
    at_once = self_calibrate(
        world.measured, world.truth, options.calibration, options.solver)
    assert calibration.findings == findings_of(at_once, False)
    assert calibration.biases == biases_of(at_once)
    found = {one.subject: one.value for one in calibration.findings}
    large = np.flatnonzero(world.bias_m > 0.1)
    names = at_once.ends.names
    assert {names[k] for k in large} <= set(found)
    for name, value in found.items():
        assert value == pytest.approx(world.bias_m[names.index(name)], abs=0.06)
    first = calibration.findings[0]
    assert first.kind == KIND and first.unit == 'm'
    assert f'ranges of {first.subject} are' in first.text and 'too long' in first.text
    assert not calibration.step(solved, options)


def test_it_is_off_by_default(world):
    calibration = LiveCalibration()
    assert not calibration.step(solved_map(world), live_config())
    assert calibration.findings == ()


def test_nothing_to_calibrate_is_no_step():
    assert not LiveCalibration().step(None, live_config(live=True))


def test_what_is_applied_already_changes_nothing(world):
    """Each calibration begins with the ranges as measured: applied biases are not found again."""
    options = live_config(live=True, mode='apply')
    first = run(solved_map(world), options)
    again = run(solved_map(world, first.biases), options)
    assert first.biases and set(again.biases) == set(first.biases)
    for name, bias in first.biases.items():
        assert again.biases[name] == pytest.approx(bias, abs=1e-6)
    assert all('that is taken off' in one.text for one in first.findings)
    assert not radio_biases.differ(first.biases, again.biases, 1e-5)
    assert radio_biases.differ(first.biases, {}, 0.02)
