"""A calibration as parameters: what the node makes of a range with them."""

import numpy as np
import pytest
import yaml
from radio_world import radio_world

from sparser_ros.backend.calibrate.antennas_and_clocks import LeverRow
from sparser_ros.backend.calibrate.results import calibrated_config, radio_settings
from sparser_ros.backend.calibrate.self_calibration import self_calibrate
from sparser_ros.cli.calibrate_command import show_levers
from sparser_ros.config import SolverConfig, SparserConfig
from sparser_ros.config.calibration_config import CalibrationConfig
from sparser_ros.frontend import Frontend, OdometrySample, RangeSample


@pytest.fixture(scope='module')
def found():
    world = radio_world(1, scaled=True)
    return self_calibrate(
        world.measured, world.truth, CalibrationConfig(scale_sigma=0.02), SolverConfig())


def config():
    return SparserConfig.from_mapping({
        'robots': ['A', 'B', 'C'],
        'radios': {'7': {'robot': 'A', 'bias_m': 0.1}, 'x': {'beacon': 'L0', 'height_m': 2.0}},
        'ranges': {'scale': 0.999, 'bias_m': 0.02, 'new_beacon_ranges': 1}})


def test_the_front_end_corrects_ranges_as_the_calibration_did(found):
    before = config()
    after = calibrated_config(before, found, noise=False)
    raw = 12.0
    once = _ranges_of(before, raw)
    twice = _ranges_of(after, raw)
    bias = found.parameters.bias_m
    names = list(found.ends.names)
    for radio, number in (('x', names.index('L0')), ('L1', names.index('L1'))):
        expected = found.parameters.scale * once[radio] - bias[0] - bias[number]
        assert twice[radio] == pytest.approx(expected, abs=3e-4)


def test_sigmas_of_radios_replace_what_messages_claim(found):
    after = calibrated_config(config(), found, noise=True)
    names = list(found.ends.names)
    variance = found.noise.radio_variance
    expected = np.sqrt(variance[0] + variance[names.index('L0')])
    assert _ranges_of(after, 12.0, sigma=True)['x'] == pytest.approx(expected, rel=0.01)


def test_settings_are_yaml_that_the_node_reads(found):
    text = yaml.safe_dump(radio_settings(config(), found, noise=True))
    again = SparserConfig.from_mapping({'robots': ['A', 'B', 'C'], **yaml.safe_load(text)})
    assert again.radio_specs()['x'].height_m == 2.0
    assert again.radio_specs()['7'].bias_m != 0.1


def test_a_lever_arm_that_is_wrong_is_moved_and_the_others_stay(found):
    wrong = LeverRow('A', (0.3, -0.1), (0.02, 0.02))
    vague = LeverRow('B', (0.05, 0.05), (0.04, 0.04))
    before = config()
    settings = radio_settings(before, found, noise=True, levers=[wrong, vague])['radios']
    again = SparserConfig.from_mapping({'robots': ['A', 'B', 'C'], 'radios': settings})
    old, new = before.radio_specs(), again.radio_specs()
    for radio, spec in new.items():
        place, move = np.zeros(3), np.array([0.3, -0.1, 0.0]) * (spec.robot == 'A')
        known = old[radio].lever_arm if radio in old else []
        place[: len(known)] = known
        after = np.zeros(3)
        after[: len(spec.lever_arm)] = spec.lever_arm
        np.testing.assert_allclose(after, place + move)
    assert any(spec.robot == 'A' for spec in new.values())


def test_a_lever_arm_that_is_absurd_is_doubted_and_stays(found, capsys):
    far = LeverRow('A', (2.6, -0.92), (0.02, 0.02))
    assert far.significant(3.0) and not far.to_move(3.0)
    settings = radio_settings(config(), found, noise=True, levers=[far])['radios']
    assert not any('lever_arm' in entry for entry in settings.values())
    show_levers([far, LeverRow('B', (0.3, 0.0), (0.02, 0.02))])
    shown = capsys.readouterr().out.splitlines()
    assert 'left as it is: more than 1.5 m off is doubtful' in shown[0]
    assert 'late stamps' in shown[0] and shown[1].endswith('move it by that much')


def _ranges_of(config, metres, sigma=False):
    """Corrected ranges, or their sigmas, of radio 7 to two beacons, by radio."""
    front = Frontend(config)
    for k in range(60):
        stamp = 1_000_000_000 + k * 100_000_000
        front.add(OdometrySample(
            'A', stamp, stamp, np.array([0.1 * k, 0, 0]), np.array([0, 0, 0, 1.0]),
            np.zeros((6, 6)), np.zeros((6, 6))))
    for radio in ('x', 'L1'):
        for k in range(3):
            stamp = 3_000_000_000 + k * 100_000_000
            front.add(RangeSample('7', radio, stamp, stamp, metres, 0.04))
    made = front.take(flush=True)
    values = 1 / np.sqrt(made.ranges.precision) if sigma else made.ranges.distance_m
    names = {'L0': 'x', 'L1': 'L1'}
    return {
        names[made.landmarks.names[~target]]: value
        for target, value in zip(made.ranges.target, values, strict=True)}
