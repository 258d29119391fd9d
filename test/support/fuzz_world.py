"""A real node that hears thousands of messages with absurd fields among good ones.

As a command it is a soak test, with figures:

    python test/support/fuzz_world.py --count 100000 --dimension 3
"""

import argparse
import copy
import json
import math
import random
import sys
import time
from collections import Counter
from dataclasses import replace

import numpy as np
from geometry_msgs.msg import PoseWithCovarianceStamped
from node_world import SCENE, START_S, Scene, World
from sparser_ros.msg import LoopClosure

from sparser_ros.node.messages import stamp_ns

NUMBERS = [0.0, -1.0, 1e-320, 1e-160, 1e-12, 1e6, 1e9, 1e160, -1e160, 1e308, math.inf, -math.inf,
           math.nan]
WORDS = ['', 'A', 'B', 'L0', 'L1', 'l0', 'A/B', '../A', 'Ä' * 200, ' ', 'nobody', 'map', '\n']
WHOLE = {'int32': [0, 1, -1, 2**31 - 1, -(2**31)], 'uint32': [0, 1, 10**9 - 1, 10**9, 2**32 - 1],
         'uint8': [0, 1, 255]}
BATCH = 50
"""Messages between looks of the node at its inputs."""
GOOD = 0.2
"""Shares of the scene before and after the corrupt messages, all good."""
BAD_PER_GOOD = 2.0
"""Corrupt messages to each good one in a long run."""


def leaves(message, path=()):
    """(path, type) of every plain field and array of a message."""
    found = []
    for name, kind in message.get_fields_and_field_types().items():
        value = getattr(message, name)
        if hasattr(value, 'get_fields_and_field_types'):
            found += leaves(value, (*path, name))
        else:
            found.append(((*path, name), kind))
    return found


def corrupt(message, rng):
    """A copy of a message with one to four absurd fields."""
    message = copy.deepcopy(message)
    for path, kind in rng.choices(leaves(message), k=rng.randint(1, 4)):
        owner = message
        for name in path[:-1]:
            owner = getattr(owner, name)
        if kind in ('double', 'float'):
            value = rng.choice(NUMBERS)
            setattr(owner, path[-1], value if kind == 'double' else float(np.clip(
                value, -3e38, 3e38)))
        elif kind.startswith('double['):
            array = np.array(getattr(owner, path[-1]))
            array[rng.randrange(len(array)) if rng.random() < 0.7 else slice(None)] = rng.choice(
                NUMBERS)
            setattr(owner, path[-1], array)
        elif kind in WHOLE:
            setattr(owner, path[-1], rng.choice(WHOLE[kind]))
        elif kind == 'string':
            setattr(owner, path[-1], rng.choice(WORDS))
    return message


def others(event):
    """Good messages of kinds that a simulation has not, at an event's time."""
    stamp = event[2].header.stamp
    closure = LoopClosure(from_robot='A', to_robot='B', confidence=1.0, detector='fuzz')
    closure.header.stamp = closure.from_stamp = closure.to_stamp = stamp
    closure.relative_pose.pose.orientation.w = 1.0
    closure.relative_pose.covariance = (np.eye(6) * 0.01).ravel()
    pose = PoseWithCovarianceStamped()
    pose.header.stamp, pose.header.frame_id = stamp, 'map'
    pose.pose.pose.orientation.w = 1.0
    pose.pose.covariance = (np.eye(6) * 0.25).ravel()
    return [('/loop_closures', closure), ('/initialpose', pose)]


class FuzzWorld(World):
    """A node with `count` corrupt messages in the middle of its scene."""

    def __init__(self, dimension, count, seed=0):
        minutes = max(1.5, count / (BAD_PER_GOOD * 60 * (2 * 20 + 40)))
        self.scene = Scene(replace(SCENE, dimension=dimension, beacons=6, minutes=minutes,
                                   odometry_rate=20.0, range_rate=40.0))
        self.random, self.count = random.Random(seed), count
        super().__init__({'dimension': dimension, 'keyframes.every_message': False})
        self.publishers['/initialpose'] = self.friend.create_publisher(
            PoseWithCovarianceStamped, '/initialpose', 5000)
        self.sent = dict.fromkeys(('odometry', 'ranges', 'closures', 'fixes'), 0)

    def received(self):
        counters = self.counters()
        return {kind: counters[kind]['received'] for kind in self.sent}

    @staticmethod
    def kind(topic):
        return {'/uwb/ranges': 'ranges', '/loop_closures': 'closures',
                '/initialpose': 'fixes'}.get(topic, 'odometry')

    def hear(self, topic, message):
        self.sent[self.kind(topic)] += 1
        self.send(topic, message)

    def taken(self):
        """Wait until the node has had every message."""
        assert self.until(lambda: self.received() == self.sent, START_S), (
            self.received(), self.sent)

    def run(self):
        """Good data, absurd ones among them, good ones again; the seconds it took."""
        begin, events = time.monotonic(), self.scene.events
        early, late = int(len(events) * GOOD), int(len(events) * (1 - GOOD))
        every = max(1, self.count // (late - early))
        number = 0
        for position, event in enumerate(events):
            if position == late:
                self.before = self.counters()
                self.good = Counter(self.kind(topic) for _, topic, _ in events[late:])
            self.hear(*event[1:])
            bad = 0
            if early <= position < late:
                bad = every if position < late - 1 else self.count - number
            for _ in range(bad):
                number += 1
                near = events[self.random.randrange(max(0, position - 50), position + 1)]
                topic, message = self.random.choice([near[1:], near[1:], *others(near)])
                self.hear(topic, corrupt(message, self.random))
                if number % BATCH == 0:
                    self.taken()
            if position % 20 == 0:
                self.taken()
        self.taken()
        return time.monotonic() - begin

    def check(self):
        """Nothing is lost or not finite, and good data are taken again."""
        frontend = self.node.pipeline.frontend
        assert frontend.counters.time_jumps == 0
        for kind, count in self.good.items():
            taken = self.counters()[kind]['accepted'] - self.before[kind]['accepted']
            # Some decide about a jump; the newest still wait for odometry.
            assert taken >= 0.9 * count - 10, (kind, taken, count, self.counters()[kind])
        for kind in self.sent:
            assert frontend.counters.kind(kind).balanced, self.counters()[kind]
        assert frontend.counters.internal_errors == 0
        assert not self.node.times.errors, self.node.times.errors
        for topic in ('/sparser/path/A', '/sparser/path/B'):
            for path in self.heard[topic]:
                for one in path.poses:
                    p, q = one.pose.position, one.pose.orientation
                    assert np.all(np.isfinite([p.x, p.y, p.z, q.x, q.y, q.z, q.w]))
        for _, _, transform in self.transforms():
            assert np.all(np.isfinite(transform.translation))
        for status in self.heard['/sparser/status']:
            # NaN = no solution yet.
            assert not math.isinf(status.cost)

    def error_m(self):
        """{robot: distance of its newest pose from the truth, aligned on the robots' paths}.

        Of robots that were located at some time; {} without any.
        """
        seen, true, last = [], [], {}
        for robot in (name for name in 'AB' if self.heard[f'/sparser/path/{name}']):
            truth = self.scene.truth(robot)
            poses = [p for p in self.heard[f'/sparser/path/{robot}'][-1].poses
                     if stamp_ns(p.header.stamp) in truth]
            d = self.scene.run.config.dimension
            seen += [[p.pose.position.x, p.pose.position.y, p.pose.position.z][:d] for p in poses]
            true += [truth[stamp_ns(p.header.stamp)] for p in poses]
            last[robot] = len(seen) - 1
        if not seen:
            return {}
        a, b = np.array(seen), np.array(true)
        u, _, v = np.linalg.svd((a - a.mean(0)).T @ (b - b.mean(0)))
        flip = np.ones(len(u))
        flip[-1] = np.sign(np.linalg.det(u @ v))
        error = np.linalg.norm((a - a.mean(0)) @ (u * flip) @ v - (b - b.mean(0)), axis=1)
        return {robot: float(error[row]) for robot, row in last.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--count', type=int, default=100_000)
    parser.add_argument('--dimension', type=int, default=2)
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args()
    with FuzzWorld(options.dimension, options.count, options.seed) as world:
        seconds = world.run()
        world.solved()
        world.spin(5.0)
        world.check()
        print(json.dumps({
            'seconds': round(seconds, 1), 'sent': world.sent, 'counters': world.counters(),
            'states': dict(zip(world.status.robot_names, world.status.robot_states, strict=True)),
            'text': world.status.text, 'error_m': world.error_m()}, indent=1))
    return 0


if __name__ == '__main__':
    sys.exit(main())
