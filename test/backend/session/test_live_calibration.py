"""Radios calibrated beside the audits: step by step, off by default, nothing applied."""

from dataclasses import replace

import numpy as np
import pytest
from backend_world import config
from radio_world import radio_world

from sparser_ros.backend.session.live_calibration import KIND, LiveCalibration, findings_of
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


def test_steps_end_with_the_findings_of_a_calibration(world):
    calibration, options = LiveCalibration(), live_config(live=True)
    solved, steps = (world.measured, world.truth), 0
    while not calibration.findings:
        assert calibration.step(solved, options)
        steps += 1
    assert 3 < steps <= options.calibration.rounds + 2
    at_once = self_calibrate(*solved, options.calibration, options.solver)
    assert calibration.findings == findings_of(at_once)
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
    assert not calibration.step((world.measured, world.truth), live_config())
    assert calibration.findings == ()


def test_nothing_to_calibrate_is_no_step():
    assert not LiveCalibration().step(None, live_config(live=True))
