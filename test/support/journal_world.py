"""A simulated recording as the bytes of its messages, and a front-end that keeps a journal."""

from pathlib import Path

import numpy as np
from rosbags.highlevel import AnyReader

from sparser_ros.backend.process import recording
from sparser_ros.backend.process.journal import Files
from sparser_ros.backend.process.journal_records import Message
from sparser_ros.backend.session.graph_store import GraphStore
from sparser_ros.backend.session.thinning import thinned
from sparser_ros.config import SparserConfig
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.io import simulation
from sparser_ros.io.messages import typestore
from sparser_ros.io.simulation import Simulation

PER_TAKE = 25
"""Messages between two takes of keyframes."""


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
    routes = recording.fresh(SparserConfig.from_mapping(parameters)).inputs
    with AnyReader([Path(folder)], default_typestore=typestore()) as reader:
        return [
            Message(one.topic, one.msgtype, stamp, bytes(data))
            for one, stamp, data in reader.messages() if routes.match(one.topic, one.msgtype)]


def no_objects(kind, data):
    """All of these messages are read from their bytes."""
    raise AssertionError(kind)


class Run:
    """A front-end with a journal, as the node has it."""

    def __init__(self, parameters, folder=None, **journal):
        values = {**parameters, 'node': {'journal': journal}}
        self.config = config = SparserConfig.from_mapping(values)
        self.files = self.journal = None
        self.start = recording.fresh(config)
        if folder is not None:
            self.files = Files(Path(folder), config.node.journal.max_mb)
            self.files.open()
            if journal.get('resume'):
                self.start = recording.resume(self.files, config, no_objects)
            self.journal = recording.open_journal(self.files, config, self.start)
        self.frontend, self.inputs = self.start.frontend, self.start.inputs
        self.increments = list(self.start.increments)
        self.archived = self.increments[-1].sequence if self.increments else -1
        self.thinnings = self.frontend.thinnings

    def play(self, messages, first=0, flush=False):
        """Take in messages; `first` is the number of the first in the whole recording."""
        for number, one in enumerate(messages, first):
            if self.journal is not None:
                self.journal.message(one)
            route = self.inputs.match(one.topic, one.type)
            self.frontend.feed_bytes(route, one.data, one.received_ns, no_objects)
            if number % PER_TAKE == PER_TAKE - 1:
                self.take()
        if flush:
            self.take(True)
        return self

    def take(self, flush=False):
        """Make keyframes, and a checkpoint where it is time."""
        if self.journal is not None:
            self.journal.take(flush)
        increment = self.frontend.take(flush)
        if increment is not None:
            self.increments.append(increment)
            drop = self.frontend.thin()
            if drop is not None:
                per_pair = self.config.keyframes.thinned_per_pair
                self.increments = [thinned(self.increments, drop, per_pair).increment]
        if self.journal is not None and self.journal.due:
            self.checkpoint()

    def checkpoint(self):
        """Begin a new file with the state of the front-end; right after `take`."""
        newest = self.increments[-1].sequence
        anew = self.frontend.thinnings != self.thinnings
        self.journal.checkpoint(
            recording.state_record(self.frontend, self.inputs, newest, self.journal.topics),
            [one for one in self.increments if anew or one.sequence > self.archived],
            anew=anew)
        self.archived, self.thinnings = newest, self.frontend.thinnings

    def close(self):
        """End as a node does."""
        self.journal.close()
        self.files.close()

    @property
    def graph(self):
        """The sum of all increments."""
        store, begin = GraphStore(self.config.dimension), 0
        for one in self.increments:
            store.add(one, first=begin)
            begin = one.sequence + 1
        return store.graph


def same_graph(one, other):
    """Whether two graphs are equal, measurement for measurement, bit for bit."""
    tables = [(one.poses, other.poses), *zip(
        one.tables().values(), other.tables().values(), strict=True)]
    return one.landmarks.names == other.landmarks.names and all(
        np.array_equal(vars(a)[name], vars(b)[name], equal_nan=vars(a)[name].dtype.kind == 'f')
        for a, b in tables for name in vars(a))
