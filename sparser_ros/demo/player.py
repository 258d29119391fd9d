"""Publishes a bag at its recorded times, with `/clock`: serialised messages as recorded."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from rosgraph_msgs.msg import Clock

from ..config import ConfigError
from ..io.bag import BagMessage, BagReader
from ..node.alarms import LEASE_S
from ..node.messages import full_name, message_type

TF_SUFFIXES = ('/tf', '/tf_static')
LATCHED_SUFFIX = 'tf_static'
STATUS_TYPE = 'sparser_ros/msg/SolverStatus'
"""Only our node publishes it, once it has subscribed."""
QUEUE_DEPTH = 5000
"""Messages a publisher keeps for a slow subscriber; with reliable delivery none is lost."""
NO_MORE_S = 2.0
"""Time without a new subscription of the node after which the player starts: topics that match a
pattern are found within one (`node.node.DISCOVERY_PERIOD_S`)."""
POLL_S, ASK_S = 0.05, 1.0
"""Between two looks for the node, and between two questions to it."""
DISCOVERY_S = 0.5
"""Time that a discovered subscriber needs to discover the publisher as well."""
ACKNOWLEDGED_S = 5
"""Longest wait for the acknowledgement of the last messages."""


Asked = dict[str, tuple[Client, list[tuple[float, Future]]]]
"""By node: who asks it, and (seconds of waiting, answer) of every question."""


@dataclass
class PlayReport:
    """Counts and times of one playback."""

    sent: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    bag_seconds: float = 0.0
    worst_lag_s: float = 0.0
    """Largest delay of a message against its time, wall time."""
    unheard: tuple[str, ...] = ()
    """Topics without a subscriber at the start."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Topics that cannot be published, with the reason."""


class Player(Node):
    """A node that publishes the topics of a bag and `/clock`."""

    def __init__(
        self, bag: Path | str, *, rate: float = 1.0, clock_hz: float = 100.0,
        exclude: tuple[str, ...] = (), **node_options: Any,
    ) -> None:
        for flag, value in ('--rate', rate), ('--clock', clock_hz):
            if not 0 < value < math.inf:
                raise ConfigError(f'{flag} must be above zero and finite, not {value}')
        super().__init__(
            'sparser_player',
            parameter_overrides=[Parameter('use_sim_time', Parameter.Type.BOOL, False)],
            **node_options)
        self.reader = BagReader(bag)
        self.rate = rate
        self._clock_period = 1.0 / clock_hz
        self._publishers_by_topic: dict[str, Publisher] = {}
        self._sent: dict[str, int] = {}
        self.skipped: dict[str, str] = {}
        self._foreign: set[str] = set()
        self.found_node = False
        """Whether our node was there when the wait for it ended."""
        self.heard: frozenset[str] = frozenset()
        """What it listened to."""
        self._clock_publisher = self.create_publisher(
            Clock, '/clock', QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE))
        for topic, kind in sorted(self.reader.topics.items()):
            if topic in ('/clock', *exclude):
                continue
            try:
                self._publishers_by_topic[topic] = self._publisher(topic, kind)
            except ConfigError as error:
                self.skipped[topic] = str(error)
                continue
            self._sent[topic] = 0
            if not same_definition(kind, self.reader.store.fielddefs):
                self._foreign.add(topic)
        if not self._publishers_by_topic:
            raise ConfigError(f'{bag}: nothing to publish: ' + (
                '; '.join(self.skipped.values()) or 'no topic is left'))

    def _publisher(self, topic: str, kind: str) -> Publisher:
        latched = topic.endswith(LATCHED_SUFFIX)
        return self.create_publisher(message_type(kind), topic, QoSProfile(
            depth=QUEUE_DEPTH,
            history=HistoryPolicy.KEEP_LAST,
            reliability=ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        ))

    def unheard(self) -> tuple[str, ...]:
        return tuple(topic for topic, publisher in self._publishers_by_topic.items()
                     if publisher.get_subscription_count() == 0)

    def wait_for_listeners(self, timeout_s: float, node: str = '') -> None:
        """Wait until our node listens to every topic, or has added none for NO_MORE_S.

        `node` is its full name; empty = any. Other subscribers do not end the wait: recorders and
        RViz subscribe long before the node does. A subscriber misses messages until it has
        discovered the publisher as well: `DISCOVERY_S` is added.
        """
        self.found_node = self._await_node(timeout_s, node)
        time.sleep(DISCOVERY_S)

    def _await_node(self, timeout_s: float, node: str) -> bool:
        begin = changed = time.monotonic()
        before: frozenset[str] = frozenset()
        asked: Asked = {}
        executor = SingleThreadedExecutor(context=self.context)
        executor.add_node(self)
        try:
            while rclpy.ok(context=self.context):
                nodes = [name for name in self._nodes_of_ours() if name == (node or name)]
                seen_s = time.monotonic() - begin
                alive = [name for name in nodes
                         if self._answers(name, asked, seen_s) or seen_s > LEASE_S]
                heard = self.heard = self._heard_by(alive)
                if heard != before or not alive:
                    before, changed = heard, time.monotonic()
                if alive and (len(heard) == len(self._publishers_by_topic)
                              or time.monotonic() - changed > NO_MORE_S):
                    return True
                if seen_s > timeout_s:
                    break
                executor.spin_once(timeout_sec=POLL_S)
        finally:
            executor.remove_node(self)
            for client, _ in asked.values():
                self.destroy_client(client)
        return False

    def _nodes_of_ours(self) -> list[str]:
        """Full names of the nodes that publish a status like ours."""
        return [full_name(publisher) for topic, kinds in self.get_topic_names_and_types()
                if STATUS_TYPE in kinds for publisher in self.get_publishers_info_by_topic(topic)]

    def _answers(self, node: str, asked: Asked, seen_s: float) -> bool:
        """Whether a node has answered a question: one that was killed is seen for LEASE_S yet.

        An answer is lost where the node has not discovered who asks: it is asked again.
        """
        if node not in asked:
            asked[node] = self.create_client(GetParameters, f'{node}/get_parameters'), []
        client, answers = asked[node]
        if client.service_is_ready() and (not answers or seen_s - answers[-1][0] > ASK_S):
            answers.append((seen_s, client.call_async(GetParameters.Request())))
        return any(answer.done() for _, answer in answers)

    def misfit(self) -> str:
        """What to say of a node that listens to nothing in the bag, or ''."""
        if not self.found_node or any(not topic.endswith(TF_SUFFIXES) for topic in self.heard):
            return ''
        kinds = self.reader.topics
        there = ', '.join(f'{topic} [{kinds[topic]}]' for topic in self._publishers_by_topic)
        return (f'the node listens to no topic of this bag, which has {there}. '
                '`sparser info BAG --config my.yaml` drafts its parameters (params_file:=my.yaml)')

    def _heard_by(self, nodes: Collection[str]) -> frozenset[str]:
        return frozenset(
            topic for topic in self._publishers_by_topic
            if any(full_name(subscription) in nodes
                   for subscription in self.get_subscriptions_info_by_topic(topic)))

    def play(self) -> PlayReport:
        """Publish all messages at their times; returns when the last one is acknowledged."""
        report = PlayReport(sent=self._sent, unheard=self.unheard(), skipped=self.skipped)
        begin = time.monotonic()
        first_ns, last_ns = -1, -1
        next_clock = begin
        for topic, bag_ns, raw in self._messages():
            if first_ns < 0:
                first_ns = bag_ns
            due = begin + (bag_ns - first_ns) * 1e-9 / self.rate
            next_clock = self._keep_time(begin, first_ns, next_clock, due)
            self._publishers_by_topic[topic].publish(raw)
            self._sent[topic] += 1
            last_ns = bag_ns
            report.worst_lag_s = max(report.worst_lag_s, time.monotonic() - due)
            if not rclpy.ok(context=self.context):
                break
        if last_ns >= 0:
            self._publish_clock(last_ns)
            report.bag_seconds = (last_ns - first_ns) * 1e-9
        for publisher in self._publishers_by_topic.values():
            publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGED_S))
        report.seconds = time.monotonic() - begin
        return report

    def _messages(self) -> Iterator[tuple[str, int, Any]]:
        """(topic, bag time in ns, bytes); a message where the recorded definition is another."""
        for message in self.reader:
            if message.topic in self._foreign:
                yield message.topic, message.bag_time_ns, translated(message)
            elif message.topic in self._publishers_by_topic:
                yield message.topic, message.bag_time_ns, bytes(message.raw)

    def _keep_time(self, begin: float, first_ns: int, next_clock: float, due: float) -> float:
        """Sleep until `due` and publish `/clock` meanwhile; returns the time of the next tick."""
        while True:
            now = time.monotonic()
            if now >= next_clock:
                self._publish_clock(first_ns + int((min(now, due) - begin) * 1e9 * self.rate))
                next_clock = max(next_clock + self._clock_period, now)
            pause = min(due, next_clock) - now
            if due <= now:
                return next_clock
            if pause > 0:
                time.sleep(pause)

    def _publish_clock(self, stamp_ns: int) -> None:
        message = Clock()
        message.clock.sec, message.clock.nanosec = divmod(stamp_ns, 10**9)
        self._clock_publisher.publish(message)


@contextlib.contextmanager
def playing(bag: Path | str, **options: Any) -> Iterator[Player]:
    """A player in a ROS context of its own; both are shut down at the end of the block.

    KeyboardInterrupt where a signal has ended the context meanwhile.
    """
    rclpy.init()
    player = None
    try:
        player = Player(bag, **options)
        yield player
    except RuntimeError as error:
        if rclpy.ok():
            raise
        # Ctrl-C ends the context at once: what is under way fails before Python says so.
        raise KeyboardInterrupt from error
    finally:
        if player is not None:
            player.destroy_node()
        rclpy.try_shutdown()


def same_definition(name: str, definitions: dict[str, Any]) -> bool:
    """Whether a recorded type, and every type in it, has the fields of the installed one.

    `sensor_msgs/Range`, for example, gained a field in Jazzy. Subscribers silently drop messages
    that were serialised with the old definition.
    `definitions` are those of rosbags: {type: (constants, [(field, description)])}.
    """
    if name not in definitions:
        return True
    fields = definitions[name][1]
    if [field for field, _ in fields] != list(message_type(name).get_fields_and_field_types()):
        return False
    return all(
        same_definition(inner, definitions)
        for _, description in fields if (inner := _inner_type(description)))


def _inner_type(description: Any) -> str:
    """The message type in a field's description, through arrays; '' for primitives."""
    _, value = description
    if isinstance(value, str):
        return value
    inner = value[0]
    return _inner_type(inner) if isinstance(inner, tuple) else ''


def translated(recorded: BagMessage) -> Any:
    """The installed message with the fields of both definitions; new fields keep their defaults."""
    return _filled(message_type(recorded.msgtype)(), recorded.msg)


def _filled(target: Any, source: Any) -> Any:
    for name in target.get_fields_and_field_types():
        if hasattr(source, name):
            setattr(target, name, _value(getattr(source, name)))
    return target


def _value(value: Any) -> Any:
    if hasattr(value, '__msgtype__'):
        return _filled(message_type(value.__msgtype__)(), value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value
