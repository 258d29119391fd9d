"""A replay whose radios are calibrated against its own map."""

from dataclasses import replace

import numpy as np
import pytest

from sparser_ros.backend.integrity.radio_errors import RadioErrors
from sparser_ros.backend.replay.replay import run_calibrated
from sparser_ros.cli.main import main
from sparser_ros.config import SparserConfig

LONG_M = 0.3
"""Seen within a minute, although the 214 ranges have a noise of 0.8 m (median): the mean of all
pairs has a standard deviation of 0.09 m."""


@pytest.fixture(scope='module')
def recording(tmp_path_factory):
    """(bag, configuration in which every range of robot A is made LONG_M too long)."""
    folder = tmp_path_factory.mktemp('biased')
    assert main([
        'simulate', '-o', str(folder / 's.mcap'), '--minutes', '1', '--robots', '1',
        '--beacons', '4', '--known-beacons', '4', '--seed', '3', '--outliers', '0.05',
        '--config', str(folder / 's.yaml')]) == 0
    config = SparserConfig.from_yaml(folder / 's.yaml')
    radios = {**config.radios, 'A': {'robot': 'A', 'bias_m': -LONG_M}}
    return folder / 's.mcap', replace(config, radios=radios)


def test_a_calibration_begins_with_ranges_as_they_were_measured(recording):
    bag, config = recording
    state = run_calibrated(bag, config)[0]
    store = state.session.tracker._store
    store.treat(replace(store.treatment, calibrated=RadioErrors({'A': 0.3})))
    ranges = state.measured.ranges.distance_m
    np.testing.assert_allclose(ranges - state.graph.ranges.distance_m, 0.3, atol=1e-9)


def test_the_second_run_has_the_biases_of_the_first(recording):
    bag, config = recording
    mode = replace(config.calibration, mode='apply')
    state, found, _ = run_calibrated(bag, replace(config, calibration=mode))
    assert found is not None and found.applied
    specs = state.config.radio_specs()
    # One robot: only sums of its bias and a beacon's are determined.
    left = [specs['A'].bias_m + specs[name].bias_m for name in found.ends.names[1:]]
    assert left == pytest.approx([0.0] * 4, abs=0.2)
    assert sum(left) / 4 == pytest.approx(0.0, abs=0.15)
    before, none, _ = run_calibrated(bag, config)
    assert none is None
    assert state.solution.stats.cost_final < before.solution.stats.cost_final


def test_the_second_run_has_lever_arms_that_fit(tmp_path):
    assert main([
        'simulate', '-o', str(tmp_path / 's.mcap'), '--minutes', '1.5', '--robots', '1',
        '--beacons', '4', '--known-beacons', '4', '--seed', '4', '--outliers', '0', '--radius',
        '12', '--config', str(tmp_path / 's.yaml')]) == 0
    config = SparserConfig.from_yaml(tmp_path / 's.yaml')
    wrong = {**config.radios, 'A': {'robot': 'A', 'lever_arm': [0.5, -0.4, 0.0]}}
    state, found, (moved,) = run_calibrated(tmp_path / 's.mcap', replace(
        config, radios=wrong, calibration=replace(config.calibration, mode='apply')))
    assert found is not None and not found.applied, 'antennas do not wait for biases'
    assert moved.robot == 'A' and moved.error_m == pytest.approx((-0.5, 0.4), abs=0.1)
    assert state.config.radio_specs()['A'].lever_arm == pytest.approx([0.0] * 3, abs=0.1)
    assert not state.solution.findings
    assert all(one.location.placed for one in state.solution.robots)
