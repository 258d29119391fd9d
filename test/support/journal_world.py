"""A simulated recording as the bytes of its messages, and a front-end that keeps a journal."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

from rosbags.highlevel import AnyReader

from sparser_ros.backend.process.recording import Recording, newest
from sparser_ros.backend.session.graph_store import GraphStore, merged, thinned
from sparser_ros.config import SparserConfig
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.frontend import Inputs
from sparser_ros.io import simulation
from sparser_ros.io.bag import typestore
from sparser_ros.io.simulation import Simulation

PER_TAKE = 25
"""Messages between two takes of keyframes."""


class Message(NamedTuple):
    """A serialized sensor message as it came."""

    topic: str
    type: str
    received_ns: int
    data: bytes


def simulated(folder, minutes=0.3, seed=5, **scene):
    """(parameters, messages) of two robots among four beacons, false ranges included."""
    values = {'robots': 2, 'beacons': 4, 'odometry_rate': 10.0, 'range_rate': 10.0, **scene}
    run = Simulation(SimulationConfig(
        minutes=minutes, outliers=0.1, truth_rate=0.0, radius=10.0, seed=seed, **values))
    simulation.write_bag(Path(folder), run)
    parameters = simulation.node_config(run)
    return parameters, messages_of(folder, parameters)


def messages_of(folder, parameters):
    """The messages of a bag that are inputs of a configuration."""
    routes = Inputs(SparserConfig.from_mapping(parameters))
    with AnyReader([Path(folder)], default_typestore=typestore()) as reader:
        return [
            Message(one.topic, one.msgtype, stamp, bytes(data))
            for one, stamp, data in reader.messages() if routes.match(one.topic, one.msgtype)]


def no_objects(kind, data):
    """All of these messages are read from their bytes."""
    raise AssertionError(kind)


def kept(folder):
    """What a session that goes on would find; None = nothing."""
    return newest(Path(folder)) if Path(folder).exists() else None


class Run:
    """A front-end with a journal, as the node has it."""

    def __init__(self, parameters, folder=None, **journal):
        values = {**parameters, 'node': {'journal': journal}}
        self.config = config = SparserConfig.from_mapping(values)
        self.recording = Recording(config, None if folder is None else Path(folder), no_objects)
        self.start = dataclasses.replace(self.recording.session)
        self.frontend, self.inputs = self.recording.frontend, self.recording.inputs
        self.increments = list(self.start.increments)

    def play(self, messages, first=0, flush=False):
        """Take in messages; `first` is the number of the first in the whole recording."""
        for number, one in enumerate(messages, first):
            route = self.inputs.match(one.topic, one.type)
            self.recording.message(route, one.data, one.received_ns)
            self.frontend.feed(route, one.data, one.received_ns, no_objects)
            if number % PER_TAKE == PER_TAKE - 1:
                self.take()
        if flush:
            self.take(True)
        return self

    def take(self, flush=False, full=False, alone=()):
        """Make keyframes, and a checkpoint where the file is full; number of the record."""
        number = self.recording.take(flush)
        increment = self.frontend.take(flush)
        if increment is not None:
            self.increments.append(increment)
            drop = self.frontend.thin()
            if drop is not None:
                per_pair = self.config.keyframes.thinned_per_pair
                self.increments = [thinned(self.increments, drop, per_pair).increment]
        if full:
            self.recording._bytes = 1e9
        self.recording.checkpoint(self.increments, alone)
        return number

    def close(self):
        """End as a node does."""
        self.recording.close()
        return self

    @property
    def graph(self):
        """The sum of all increments."""
        store = GraphStore(self.config.dimension)
        if self.increments:
            store.add(merged(self.increments), first=0)
        return store.graph
