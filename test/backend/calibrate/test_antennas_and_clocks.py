"""Antennas that stand elsewhere, and clocks that are late."""

import numpy as np
import pytest
from radio_world import (
    at_changing_speed,
    places_told,
    radio_world,
    with_antennas,
    with_late_stamps,
)

from sparser_ros.backend.calibrate.antennas_and_clocks import SIGNIFICANT
from sparser_ros.graph import is_landmark

KNOWN = (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(('known', 'seed'), [(KNOWN, 7), (KNOWN, 8), ((), 9)])
def test_an_antenna_that_stands_elsewhere_is_found(known, seed):
    world = radio_world(seed, known, sigma_factor=1.0, blocked=0.0)
    places = [[0.0, 0.0], [0.4, -0.25], [0.0, 0.0]]
    told = places_told(
        with_antennas(world, places, at_changing_speed(world.measured)), world.truth)
    rows = {row.robot: row for row in told.antennas}
    assert set(rows) == {'A', 'B', 'C'}
    for name, place in zip('ABC', places, strict=True):
        row = rows[name]
        assert np.all(np.abs(np.array(row.error_m) - place) < 3.5 * np.array(row.sigma_m)), row
        assert max(row.sigma_m) < 0.08 and row.determined
    assert rows['B'].significant(SIGNIFICANT) and not rows['A'].significant(SIGNIFICANT)


def test_a_robot_that_never_turns_tells_nothing_along_its_way():
    world = radio_world(7, (), sigma_factor=1.0, blocked=0.0)
    graph = world.measured
    # Its ranges while it heads one way only.
    heading = np.arctan2(world.truth.rotation[:, 1, 0], world.truth.rotation[:, 0, 0])
    ranges = graph.ranges
    row = np.where(is_landmark(ranges.source), 0, ranges.source)
    straight = ~((graph.poses.robot[row] == 1) & (np.abs(
        np.angle(np.exp(1j * (heading[row] - np.median(heading))))) > 0.1))
    straight &= ~(~is_landmark(ranges.target) & (
        graph.poses.robot[np.where(is_landmark(ranges.target), 0, ranges.target)] == 1))
    told = places_told(at_changing_speed(
        graph.replaced(ranges=ranges.take(np.flatnonzero(straight)))), world.truth)
    rows = {row.robot: row for row in told.antennas}
    assert rows['A'].determined and not rows['B'].determined
    assert max(rows['B'].sigma_m) > 0.3 and not rows['B'].significant(SIGNIFICANT)


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
