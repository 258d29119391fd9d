"""Increments add up, and cross pipe and disk unchanged."""

import dataclasses
from dataclasses import asdict

import numpy as np
import pytest
from backend_world import World, carried, config

from sparser_ros.backend.process.wire import (
    config_from,
    config_text,
    decode,
    increment_message,
    increment_of,
    message,
)
from sparser_ros.backend.session.graph_store import GraphStore, merged
from sparser_ros.backend.session.session import Session
from sparser_ros.config import GraphError, SparserError


def same(a, b):
    """Deep equality of dataclasses with arrays."""
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(
            same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == 'f')
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


@pytest.fixture
def increments():
    return World(['curved', 'still'], [[0, 0], [4, 1]], beacons=[[2, 5]], steps=12).increments(4)


def test_a_repeated_increment_is_ignored_and_a_missing_one_refused(increments):
    store = GraphStore(2)
    store.add(increments[0])
    assert not store.add(increments[0])
    with pytest.raises(GraphError, match='increment 2 follows 0'):
        store.add(increments[2])
    assert store.graph.n_poses == len(increments[0].poses)


def test_merged_increments_stand_for_their_parts(increments):
    parts, whole = GraphStore(2), GraphStore(2)
    for one in increments:
        parts.add(one)
    whole.add(merged(increments), first=0)
    assert same(parts.graph, whole.graph)
    assert parts.sequence == whole.sequence
    with pytest.raises(GraphError):
        GraphStore(2).add(merged(increments[1:]), first=1)


def test_increments_survive_encoding(increments):
    for one in increments:
        packet = decode(increment_message(one))
        assert packet.values['first'] == one.sequence
        assert same(increment_of(packet), one)


def test_solutions_survive_encoding(increments):
    session = Session(config(robots=('A', 'B', 'Z')))
    session.add(merged(increments), first=0)
    solution = session.solve()
    stats = dataclasses.replace(solution.stats, weights={'ranges': np.array([0.5, 1.0])})
    solution = dataclasses.replace(solution, stats=stats)
    assert same(carried(solution), solution)


def test_every_cut_of_a_message_is_refused(increments):
    data = increment_message(increments[0])
    for length in (0, 3, 8, 20, len(data) // 2, len(data) - 1):
        with pytest.raises(SparserError):
            decode(data[:length])
    with pytest.raises(SparserError, match='starts with'):
        decode(b'zzzz' + data[4:])
    assert decode(message('beat')).kind == 'beat'


def test_the_configuration_survives_encoding():
    before = config(dimension=3, robots=('01', '/ns/B'), gauge_robot='01', map_change_m=0.5)
    # Sections come back as the kinds that a node has; every value is the same.
    assert asdict(config_from(config_text(before))) == asdict(before)
