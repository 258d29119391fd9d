"""Publishes a bag in time: recorded bytes as they are, `/clock`, and nothing lost on the way."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rclpy
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock

from ..config import ConfigError
from ..io.bag import BagReader
from ..node.translate import message_type, same_definition, translated

LATCHED_SUFFIX = 'tf_static'
TF_SUFFIXES = ('/tf', '/tf_static')
DEPTH = 5000
NO_MORE_S = 2.0


@dataclass
class PlayReport:
    """What was sent."""

    sent: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    bag_seconds: float = 0.0
    worst_lag_s: float = 0.0
    """How late the latest message was sent, wall time."""
    unheard: tuple[str, ...] = ()
    """Topics without a subscriber when the bag began."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Topics that cannot be published, and why."""


class Player(Node):
    """A node that publishes the topics of a bag, and the time that goes with them."""

    def __init__(
        self, bag: Path | str, *, rate: float = 1.0, clock_hz: float = 100.0,
        exclude: tuple[str, ...] = (), **node_options: Any,
    ) -> None:
        if not rate > 0:
            raise ConfigError(f'--rate must be above zero, not {rate}')
        if not clock_hz > 0:
            raise ConfigError(f'--clock must be above zero, not {clock_hz}')
        super().__init__(
            'sparser_player',
            parameter_overrides=[Parameter('use_sim_time', Parameter.Type.BOOL, False)],
            **node_options)
        self.reader = BagReader(bag)
        self.rate = rate
        self._clock_period = 1.0 / clock_hz
        self._exclude = {'/clock', *exclude}
        self._publishers_by_topic: dict[str, Publisher] = {}
        self._sent: dict[str, int] = {}
        self.skipped: dict[str, str] = {}
        self._foreign: set[str] = set()
        self._clock_publisher = self.create_publisher(
            Clock, '/clock', QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE))
        for topic, kind in sorted(self.reader.topics.items()):
            if topic in self._exclude:
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
            raise ConfigError(f'{bag}: nothing to publish: ' + '; '.join(self.skipped.values()))

    def _publisher(self, topic: str, kind: str) -> Publisher:
        latched = topic.endswith(LATCHED_SUFFIX)
        return self.create_publisher(message_type(kind), topic, QoSProfile(
            depth=DEPTH,
            history=HistoryPolicy.KEEP_LAST,
            reliability=ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        ))

    def unheard(self) -> tuple[str, ...]:
        """Topics that nobody subscribes to."""
        return tuple(topic for topic, publisher in self._publishers_by_topic.items()
                     if publisher.get_subscription_count() == 0)

    def wait_for_listeners(self, timeout_s: float, settle_s: float = 0.5) -> bool:
        """Wait until every topic has a subscriber, or some have and no more come.

        False when some topics have none. `/tf` does not count as heard: RViz listens long before
        the node does. A discovered reader has to discover the writer as well
        before it hears everything, hence `settle_s` more.
        """
        begin = changed = time.monotonic()
        before = unheard = self.unheard()
        while unheard and rclpy.ok(context=self.context):
            time.sleep(0.05)
            now, unheard = time.monotonic(), self.unheard()
            if unheard != before:
                before, changed = unheard, now
            some = any(topic not in unheard and not topic.endswith(TF_SUFFIXES)
                       for topic in self._publishers_by_topic)
            if now - begin > timeout_s or (some and now - changed > NO_MORE_S):
                break
        time.sleep(settle_s if self._publishers_by_topic else 0.0)
        return not self.unheard()

    def play(self) -> PlayReport:
        """Publish everything at its time; returns when the last message is acknowledged."""
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
        self._wait_acknowledged()
        report.seconds = time.monotonic() - begin
        return report

    def _messages(self) -> Iterator[tuple[str, int, Any]]:
        """Topic, bag time and bytes, or a message where the bytes are of another definition."""
        for message in self.reader:
            if message.topic in self._foreign:
                yield message.topic, message.bag_time_ns, translated(message)
            elif message.topic in self._publishers_by_topic:
                yield message.topic, message.bag_time_ns, bytes(message.raw)

    def _keep_time(self, begin: float, first_ns: int, next_clock: float, due: float) -> float:
        """Sleep until `due`, publishing `/clock` on the way; returns when the next tick is due."""
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

    def _wait_acknowledged(self) -> None:
        for publisher in self._publishers_by_topic.values():
            publisher.wait_for_all_acked(Duration(seconds=5))


@contextlib.contextmanager
def playing(bag: Path | str, **options: Any) -> Iterator[Player]:
    """A player and the ROS context that it lives in, both gone afterwards."""
    rclpy.init()
    player = None
    try:
        player = Player(bag, **options)
        yield player
    finally:
        if player is not None:
            player.destroy_node()
        rclpy.try_shutdown()
