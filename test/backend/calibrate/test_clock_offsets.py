"""Clocks that are late, found in ranges that change."""

import pytest
from radio_world import at_changing_speed, places_told, radio_world, with_late_stamps

from sparser_ros.backend.calibrate.antennas_and_clocks import SIGNIFICANT

KNOWN = (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize('seed', [7, 8, 9])
@pytest.mark.parametrize('late_s', [0.0, 0.12])
def test_stamps_of_one_robots_ranges_are_late(seed, late_s):
    world = radio_world(seed, KNOWN, sigma_factor=1.0, blocked=0.0)
    told = places_told(
        with_late_stamps(at_changing_speed(world.measured), world.truth, 1, late_s), world.truth)
    rows = {row.source: row for row in told.clocks}
    assert set(rows) == {'A', 'B', 'C'}
    assert rows['B'].sigma_s < 0.02
    assert abs(rows['B'].late_s - late_s) < 3.5 * rows['B'].sigma_s
    assert abs(rows['A'].late_s) < 3.5 * rows['A'].sigma_s
    assert rows['B'].significant(SIGNIFICANT) == (late_s > 0)
    assert not any(row.significant(4.0) for row in told.antennas)


@pytest.mark.parametrize('seed', range(8, 13))
def test_late_stamps_of_a_robot_at_constant_speed_may_be_an_antenna_further_back(seed):
    world = radio_world(seed, KNOWN, sigma_factor=1.0, blocked=0.0)
    told = places_told(with_late_stamps(world.measured, world.truth, 1, 0.12), world.truth)
    assert not any(row.significant(4.0) for row in (*told.antennas, *told.clocks))
    either, = told.either(4.0)
    assert either.robot == 'B' and either.axis == 0
    assert either.error_m == pytest.approx(-0.1, abs=0.03)
    assert either.late_s == pytest.approx(0.12, abs=0.03)
