"""Errors of radios in the graph that is solved: off every range of the radio, past and to come."""

import numpy as np
import pytest
from backend_world import World, graph_of
from radio_world import radio_world, with_antennas

from sparser_ros.backend.integrity.radio_errors import RadioErrors
from sparser_ros.graph import range_residuals

BIASES = {'B': 0.3, 'L1': -0.1}
ERRORS = RadioErrors(BIASES)


@pytest.fixture(scope='module')
def parts():
    world = World(['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 7], [-4, 1]], steps=30)
    return list(world.increments(3))


def expected(graph):
    """What each range is too long by, end by end."""
    names = (*graph.robots, *graph.landmarks.names)
    robots = len(graph.robots)

    def bias(end):
        owner = graph.poses.robot[end] if end >= 0 else robots + ~end
        return BIASES.get(names[owner], 0.0)
    return np.array([bias(a) + bias(b) for a, b in zip(
        graph.ranges.source, graph.ranges.target, strict=True)])


def test_each_range_loses_the_biases_of_its_two_radios(parts):
    graph = graph_of(parts)
    wanted = expected(graph)
    assert {0.0, 0.3, -0.1, 0.2} == set(np.round(wanted, 6))
    left = ERRORS.off(graph, graph.ranges)
    np.testing.assert_allclose(left.distance_m, graph.ranges.distance_m - wanted)
    np.testing.assert_array_equal(left.lever_source, graph.ranges.lever_source)
    far = RadioErrors({'A': 1e3, 'B': 1e3})
    assert np.all(far.off(graph, graph.ranges).distance_m > 0)


@pytest.mark.parametrize('dimension', [2, 3])
def test_antennas_that_stand_elsewhere_fit_once_they_are_moved(dimension):
    world = radio_world(3, (0, 1, 2), dimension=dimension, steps=30, blocked=0.0)
    places = [[0.0] * 3, [0.4, -0.25, 0.1], [-0.1, 0.2, 0.3]]
    places = [place[:dimension] for place in places]
    elsewhere = with_antennas(world, places)
    errors = RadioErrors(antenna_m={'B': tuple(places[1]), 'C': tuple(places[2])})
    before = range_residuals(world.measured, world.truth)
    assert np.max(np.abs(range_residuals(elsewhere, world.truth) - before)) > 0.3
    moved = errors.off_all(elsewhere)
    np.testing.assert_allclose(range_residuals(moved, world.truth), before, atol=1e-9)
    back = errors.put_back(moved).ranges
    np.testing.assert_allclose(back.lever_source, elsewhere.ranges.lever_source, atol=1e-12)
    np.testing.assert_allclose(back.distance_m, elsewhere.ranges.distance_m, atol=1e-12)
    assert RadioErrors.from_values(errors.values()) == errors
