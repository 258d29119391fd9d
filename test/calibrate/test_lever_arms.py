"""Antennas that stand elsewhere than configured, found from robots that turn."""

import numpy as np
import pytest
from radio_world import radio_world

from sparser_ros.calibrate.lever_arms import lever_arms
from sparser_ros.calibrate.self_calibration import self_calibrate
from sparser_ros.config import SolverConfig
from sparser_ros.config.calibration_config import CalibrationConfig
from sparser_ros.graph import is_landmark, range_vectors

KNOWN = (0, 1, 2, 3, 4, 5)


def with_antennas(world, places):
    """The measured ranges with the antennas of robots at these places, which nobody configured."""
    graph, truth = world.measured, world.truth
    ranges, vector = graph.ranges, range_vectors(graph, truth)
    moved = vector.copy()
    for sign, endpoint in ((1, ranges.target), (-1, ranges.source)):
        row = np.where(is_landmark(endpoint), 0, endpoint)
        place = np.array(places)[graph.poses.robot[row]] * ~is_landmark(endpoint)[:, None]
        moved += sign * np.einsum('kij,kj->ki', truth.rotation[row], place)
    change = np.linalg.norm(moved, axis=1) - np.linalg.norm(vector, axis=1)
    return graph.replaced(ranges=ranges.replaced(distance_m=ranges.distance_m + change))


@pytest.mark.parametrize(('known', 'seed'), [(KNOWN, 7), (KNOWN, 8), ((), 9)])
def test_an_antenna_that_stands_elsewhere_is_found(known, seed):
    world = radio_world(seed, known, sigma_factor=1.0, blocked=0.0)
    places = [[0.0, 0.0], [0.4, -0.25], [0.0, 0.0]]
    found = self_calibrate(
        with_antennas(world, places), world.truth, CalibrationConfig(sigma='estimate'),
        SolverConfig())
    rows = {row.robot: row for row in lever_arms(found)}
    assert set(rows) == {'A', 'B', 'C'}
    for name, place in zip('ABC', places, strict=True):
        row = rows[name]
        assert np.all(np.abs(np.array(row.error_m) - place) < 3.5 * np.array(row.sigma_m)), row
        assert max(row.sigma_m) < 0.08 and row.determined
    assert rows['B'].significant and not rows['A'].significant


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
    found = self_calibrate(
        graph.replaced(ranges=ranges.take(np.flatnonzero(straight))), world.truth,
        CalibrationConfig(sigma='estimate'), SolverConfig())
    rows = {row.robot: row for row in lever_arms(found)}
    assert rows['A'].determined and not rows['B'].determined
    assert max(rows['B'].sigma_m) > 0.3 and not rows['B'].significant
