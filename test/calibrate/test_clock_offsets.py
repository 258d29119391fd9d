"""Clocks that are late, found in ranges that change."""

import numpy as np
import pytest
from radio_world import radio_world

from sparser_ros.calibrate.clock_offsets import clock_offsets, range_rates
from sparser_ros.calibrate.self_calibration import self_calibrate
from sparser_ros.config import SolverConfig
from sparser_ros.config.calibration_config import CalibrationConfig


@pytest.mark.parametrize('late_s', [0.0, 0.12])
def test_stamps_of_one_robots_ranges_are_late(late_s):
    world = radio_world(7, (0, 1, 2, 3, 4, 5), sigma_factor=1.0, blocked=0.0)
    rate, _ = range_rates(world.measured, world.truth)
    ranges = world.measured.ranges
    robot_b = world.measured.poses.robot[ranges.source] == 1
    graph = world.measured.replaced(ranges=ranges.replaced(
        distance_m=ranges.distance_m - np.where(robot_b, late_s * rate, 0.0)))
    found = self_calibrate(
        graph, world.truth, CalibrationConfig(sigma='estimate'), SolverConfig())
    rows = {row.source: row for row in clock_offsets(found)}
    assert set(rows) == {'A', 'B', 'C'}
    assert rows['B'].sigma_s < 0.02
    assert abs(rows['B'].late_s - late_s) < 3.5 * rows['B'].sigma_s
    assert abs(rows['A'].late_s) < 3.5 * rows['A'].sigma_s
