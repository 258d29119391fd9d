"""Increments add up; what crosses pipe and disk comes back unchanged, and nothing else does."""

import dataclasses
import os
import pickle

import pytest
from backend_world import World, carried, filled, same
from backend_world import config as backend_config
from graphs import random_graph

from sparser_ros.backend.process.wire import decode, increment_message, message, pack, unpack
from sparser_ros.backend.session.graph_store import GraphStore, merged
from sparser_ros.backend.session.session import Session
from sparser_ros.config import GraphError, SparserError
from sparser_ros.graph import Increment


@pytest.fixture
def increments():
    return World(['curved', 'still'], [[0, 0], [4, 1]], beacons=[[2, 5]], steps=12).increments(4)


def test_merged_increments_stand_for_their_parts(increments):
    parts, whole = filled(GraphStore(2), increments), GraphStore(2)
    assert not parts.add(increments[-1])
    with pytest.raises(GraphError, match='increment 9 follows 3'):
        parts.add(dataclasses.replace(increments[0], sequence=9))
    whole.add(merged(increments), first=0)
    assert same(parts.graph, whole.graph)
    assert parts.sequence == whole.sequence
    with pytest.raises(GraphError):
        GraphStore(2).add(merged(increments[1:]), first=1)


def test_increments_and_solutions_survive(increments):
    graph = random_graph(5, 3)
    every = Increment(
        1, graph.robots, graph.poses, graph.landmarks, measurements=graph.measurements)
    packet = decode(increment_message(every))
    assert packet.values['first'] == 1 and same(packet.body, every)
    session = Session(backend_config(robots=('A', 'B', 'Z')))
    session.add(merged(increments), first=0)
    solution = session.solve()
    assert same(carried(solution), solution)
    assert decode(message('beat')).kind == 'beat'


class Forged:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize('data', [
    b'', b'nothing', *(pickle.dumps(value) for value in (
        Forged(os.system, ('true',)), Forged(message, ('beat',)), getattr, [].append))])
def test_forged_bytes_are_refused(data):
    with pytest.raises(SparserError, match='not bytes of this package'):
        unpack(data)
    with pytest.raises(SparserError):
        decode(data + pack(None))
