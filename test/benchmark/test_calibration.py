"""Worlds of radios are what their family says; a row counts what it should."""

import numpy as np
import pytest

from benchmark.calibration import Outcome, outcome, summary
from benchmark.calibration_world import BLOCKED, FAMILIES, radio_world
from sparser_ros.graph import range_residuals
from sparser_ros.graph.ends import range_ends

FAMILY = {family.name: family for family in FAMILIES}


def test_ranges_have_the_biases_and_blocked_paths_of_their_family():
    world = radio_world(FAMILY['6 known beacons'], 1)
    ends = range_ends(world.measured)
    added = world.measured.ranges.distance_m - world.calibrated.ranges.distance_m
    assert added == pytest.approx(world.bias_m[ends.first] + world.bias_m[ends.second])
    late = -range_residuals(world.calibrated, world.truth)
    assert 0.5 * BLOCKED < np.mean(late > 0.35) < 1.5 * BLOCKED
    assert np.std(late[np.abs(late) < 0.25]) == pytest.approx(0.1, rel=0.1)
    assert np.all(world.measured.landmarks.fixed)


def test_few_ranges_of_unknown_noise_change_nothing():
    found = outcome(FAMILY['few ranges of unknown noise, no bias'], 3)
    assert not found.applied
    assert found.found_m == pytest.approx(found.raw_m, rel=0.02), 'the same map, solved again'


def test_a_row_says_whether_errors_fit_their_covariances():
    one = Outcome(9.0, 9, 1.0, True, 1.0, 0.1, 0.11, 1.1, 1.2, 2, 2.0, 0.5)
    row = summary(FAMILY['6 known beacons'], [one, one])
    assert row['sources'] == 4 and row['log_nees'] == pytest.approx(1.0)
    assert row['log_low'] < 1 < row['log_high']
    assert row['nees'] == pytest.approx(1.0) and row['near'] == '100 %'
    assert row['aligned'] == '100 %' and row['shape'] == '0 %'
    assert row['low'] < 1 < row['high']
