"""Publishes a bag at its recorded times, with `/clock`: serialised messages as recorded."""

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
from ..node.message_types import message_type
from ..node.translate import same_definition, translated

LATCHED_SUFFIX = 'tf_static'
TF_SUFFIXES = ('/tf', '/tf_static')
QUEUE_DEPTH = 5000
"""Messages a publisher keeps for a slow subscriber; with reliable delivery none is lost."""
NO_MORE_S = 2.0
"""Time without a new subscriber after which the player starts, where some topics have one."""
DISCOVERY_S = 0.5
"""Time that a discovered subscriber needs to discover the publisher as well."""
ACKNOWLEDGED_S = 5
"""Longest wait for the acknowledgement of the last messages."""


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
            depth=QUEUE_DEPTH,
            history=HistoryPolicy.KEEP_LAST,
            reliability=ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        ))

    def unheard(self) -> tuple[str, ...]:
        """Topics without a subscriber."""
        return tuple(topic for topic, publisher in self._publishers_by_topic.items()
                     if publisher.get_subscription_count() == 0)

    def wait_for_listeners(self, timeout_s: float, settle_s: float = DISCOVERY_S) -> bool:
        """Wait until every topic has a subscriber, or some have and none was added for NO_MORE_S.

        False when a topic has none. A subscriber of `/tf` alone does not end the wait: RViz
        subscribes long before the node does. Discovery is mutual, and a subscriber misses messages
        until it has discovered the publisher: `settle_s` is waited in addition.
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
        self._wait_acknowledged()
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

    def _wait_acknowledged(self) -> None:
        for publisher in self._publishers_by_topic.values():
            publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGED_S))


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
