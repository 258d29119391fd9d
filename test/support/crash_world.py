"""A real node that is killed again and again while it hears a recording."""

import contextlib
import os
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from journal_world import Run, kept, simulated
from node_world import friend
from rclpy.qos import QoSProfile
from sparser_ros.msg import SolverStatus

from sparser_ros.backend.process import journal
from sparser_ros.config import SolverConfig
from sparser_ros.demo.processes import Child, isolated_environment
from sparser_ros.io import atomic
from sparser_ros.node.messages import message_type
from sparser_ros.solver.solve import solve

SPEED = 4.0
"""Seconds of the recording a second."""
SETTINGS = {
    'node.flush_after_s': 8.0, 'node.solve_period_s': 0.3, 'node.status_period_s': 0.2,
    'node.qos.reliability': 'reliable', 'node.journal.resume': True,
    'backend.audit.period_s': 1.0, 'backend.audit.niceness': 0, 'node.stale_after_s': 0.0}


class CrashWorld:
    """A node process, and a publisher of what its journal does not hold yet."""

    def __init__(self, folder, minutes=0.3, settings=None, **scene):
        self.folder = Path(folder)
        self.parameters, self.messages = simulated(self.folder / 'bag', minutes, **scene)
        self.journal = self.folder / 'journal' / 'sparser'
        self.environment = isolated_environment()
        self.domain = int(self.environment['ROS_DOMAIN_ID'])
        self.file = self.folder / 'params.yaml'
        atomic.write_parameters(self.file, {
            **self.parameters, **SETTINGS,
            'node.journal.directory': str(self.folder / 'journal'), **(settings or {})})
        self.kills = 0

    @contextlib.contextmanager
    def node(self):
        """The process of the node, with its subscriptions; `ask` calls its services."""
        # The publisher has never met the nodes before: the dead ones count as subscribers.
        log = self.folder / f'node{self.kills}.log'
        command = [sys.executable, '-m', 'sparser_ros.node.main', '--ros-args', '--params-file',
                   str(self.file)]
        # The tests after this one are in another domain.
        with mock.patch.dict(os.environ, self.environment), friend(
                'friend', self.domain) as (node, self.until), Child(
                command, log, self.environment) as process:
            self.publishers = {
                topic: node.create_publisher(message_type(kind), topic, QoSProfile(depth=5000))
                for topic, kind in {one.topic: one.type for one in self.messages}.items()}
            self.ask, self.statuses = partial(asked, node, self.until), []
            node.create_subscription(SolverStatus, '/sparser/status', self.statuses.append, 10)
            self.until(lambda: process.poll() is not None or all(
                one.get_subscription_count() for one in self.publishers.values()))
            assert process.poll() is None, process.tail()
            yield process

    def missing(self):
        """Messages that the journal does not hold, in order: every topic goes on by itself."""
        session = kept(self.journal)
        have = Counter(message[0] for record in (session.records if session else ())
                       for message in record.body)
        rest, seen = [], Counter()
        for one in self.messages:
            seen[one.topic] += 1
            if seen[one.topic] > have[one.topic]:
                rest.append(one)
        return rest

    def play(self, rest, seconds):
        """Publish in time for so long; whether all are sent."""
        begin, first = time.monotonic(), rest[0].received_ns if rest else 0
        for one in rest:
            due = (one.received_ns - first) * 1e-9 / SPEED
            self.until(lambda due=due: time.monotonic() - begin >= due)
            if time.monotonic() - begin > seconds:
                return False
            self.publishers[one.topic].publish(one.data)
        return True

    def kill(self, process):
        """SIGKILL, and wait until the process has gone."""
        os.kill(process.pid, signal.SIGKILL)
        while process.poll() is None:
            time.sleep(0.01)
        self.kills += 1

    def finish(self, rest):
        """Play the rest, and wait until all of it is taken in and nothing waits."""
        assert self.play(rest, 1e9)
        self.until(lambda: self.statuses and self.statuses[-1].received == len(self.messages))
        self.until(lambda: self.settled)

    @property
    def graph(self):
        """Of all that the journal holds."""
        run = Run(self.parameters, self.journal, resume=True)
        run.close()
        return run.graph

    @property
    def settled(self):
        """Whether everything that waited for odometry is decided."""
        session = kept(self.journal)
        return bool(session.records) and session.records[-1].take == journal.FLUSH


def asked(node, until, service_type, service, **fields):
    """The answer of a service."""
    client = node.create_client(service_type, f'/sparser/{service}')
    until(client.service_is_ready)
    future = client.call_async(service_type.Request(**fields))
    until(future.done)
    return future.result()


def canonical(graph):
    """Poses and measurements by robot and stamp: increments may come in any order."""
    names = np.array(graph.robots)
    pose = [f'{names[r]}@{s}' for r, s in zip(
        graph.poses.robot, graph.poses.stamp_ns, strict=True)]

    def end(number):
        return pose[number] if number >= 0 else graph.landmarks.names[~number]

    rows = []
    for name, table in graph.tables().items():
        columns = vars(table)
        for k in range(len(table)):
            rows.append((name, tuple(
                end(int(column[k])) if key in ('source', 'target', 'point', 'i', 'j')
                else np.asarray(column[k]).tobytes() for key, column in columns.items())))
    return sorted(pose), sorted(rows)


def cost(graph):
    """Of a solve from scratch."""
    return solve(graph, SolverConfig()).stats.cost_final
