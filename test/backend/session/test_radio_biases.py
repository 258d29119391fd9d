"""Biases of radios in the graph that is solved: off every range of the radio, past and to come."""

import numpy as np
import pytest
from backend_world import World, graph_of

from sparser_ros.backend.session import radio_biases
from sparser_ros.backend.session.graph_store import GraphStore

BIASES = {'B': 0.3, 'L1': -0.1}


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
    np.testing.assert_allclose(radio_biases.pair_bias(BIASES, graph, graph.ranges), wanted)
    left = radio_biases.without(BIASES, graph, graph.ranges)
    np.testing.assert_allclose(left.distance_m, graph.ranges.distance_m - wanted)
    far = {'A': 1e3, 'B': 1e3}
    assert np.all(radio_biases.without(far, graph, graph.ranges).distance_m > 0)


def test_a_store_corrects_what_it_has_and_what_comes(parts):
    store = GraphStore(2)
    store.add(parts[0])
    store.calibrate(BIASES)
    for one in parts[1:]:
        store.add(one)
    whole = store.whole
    np.testing.assert_allclose(
        store.graph.ranges.distance_m, whole.ranges.distance_m - expected(whole))
    newest = store.newest(parts[-1])
    np.testing.assert_allclose(
        newest.ranges.distance_m, store.graph.ranges.distance_m[-len(newest.ranges):])
    store.calibrate({})
    assert store.graph is store.whole


def test_a_pair_counts_for_how_far_two_calibrations_differ():
    assert not radio_biases.differ({}, {}, 0.0)
    assert not radio_biases.differ(BIASES, dict(BIASES), 0.0)
    assert radio_biases.differ({'A': 0.015, 'B': 0.015}, {}, 0.02)
    assert not radio_biases.differ({'A': 0.015}, {}, 0.02)
