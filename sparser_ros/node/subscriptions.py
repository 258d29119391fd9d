"""Inputs: one subscription per topic, converted at once and handed to the front-end."""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions, QoSPolicyKind
from rclpy.subscription import Subscription
from rclpy.type_support import check_for_type_support

from ..config import ConfigError
from ..frontend.counters import KINDS
from ..frontend.inputs import Route
from ..frontend.samples import first_stamp
from ..graph.finding import Finding
from .callbacks import CallbackTimes, OnDemandTimer
from .messages import event_handler, message_type
from .pipeline import Pipeline

RATE_MEMORY = 0.9
PATTERN_TYPES = {
    'ranges': ('sensor_msgs/msg/Range', 'std_msgs/msg/Float64', 'std_msgs/msg/Float32'),
    'sightings': ('geometry_msgs/msg/PoseStamped', 'geometry_msgs/msg/PoseWithCovarianceStamped',
                  'geometry_msgs/msg/PointStamped'),
}
"""What topics that are found by a regular expression usually are."""
LATCHED = 'frames'
"""Kind of input that is published once, and kept for late subscribers."""
DEPTH = 10_000
"""Messages in the queue of a topic: bursts come while a solve is published."""
STATIC_DEPTH = 100
"""Every node that knows constant transforms publishes them in one message."""
PRECIOUS = ('closures', 'fixes', LATCHED)
"""Rare kinds of input: always asked for reliably."""
OPTIONAL = (*PRECIOUS, 'sightings')
"""Kinds whose silence is no fault."""


FEW = 20
"""Messages of an optional kind whose silence is no news."""
MOST_FETCHED = 1000
"""Messages of one topic that are fetched at once: 10 ms."""
MOST_BACKLOG = 100_000
"""Messages that wait at most, 70 MB of odometry; beyond it they stay in the middleware's queues."""
BEHIND = 5000
"""Messages that wait and are worth a word: about a second of work."""
ARRIVAL_SLICE_S, TIMER_SLICE_S = 0.003, 0.006
"""Longest work on messages that wait in one callback: those of TF come in between."""
BACKLOG_STEP_S = 0.01
"""Between two slices of work on messages that wait."""
TOPIC_STEP_S = 0.05
"""Between two topics that are subscribed to."""


@dataclass
class Input:
    """One topic: what arrived, when, and how it is heard."""

    route: Route
    reliable: bool
    subscription: Subscription = field(init=False)
    count: int = 0
    lost: int = 0
    """Messages that the middleware says it lost."""
    last_steady_s: float = 0.0
    period_s: float = 0.0
    offset_s: float | None = None
    """Node clock minus the stamp of the newest message."""
    headed: bool = True
    """Whether its messages begin with a stamp."""
    downgrade: bool = False
    problem: str = ''

    @property
    def topic(self) -> str:
        """Name as configured."""
        return self.route.topic

    @property
    def optional(self) -> bool:
        """True when silence is no fault."""
        return self.route.kind in OPTIONAL

    @property
    def regular(self) -> bool:
        """True when so many messages have come that their end is worth a word: an initial pose or
        a loop closure comes once, or now and then."""
        return self.count >= FEW or (self.count > 0 and not self.optional)

    @property
    def latched(self) -> bool:
        """True when it is published once."""
        return self.route.kind == LATCHED

    def arrived(self, offset_s: float | None) -> None:
        """Note one more message."""
        now = time.monotonic()
        if self.count:
            self.period_s += (1 - RATE_MEMORY) * (now - self.last_steady_s - self.period_s)
        self.count += 1
        self.last_steady_s = now
        self.offset_s = offset_s


def _fetched(item: Input) -> list[tuple[int, Input, bytes]]:
    """What waits in the queue of a topic, with the times of publication."""
    subscription = item.subscription
    fetched: list[tuple[int, Input, bytes]] = []
    with subscription.handle:
        while len(fetched) < MOST_FETCHED:
            taken = subscription.handle.take_message(subscription.msg_type, True)
            if taken is None:
                break
            fetched.append((taken[1]['source_timestamp'], item, taken[0]))
    return fetched


class Subscriptions:
    """All inputs of the configuration; topics that match a pattern join as they appear."""

    def __init__(self, node: Node, pipeline: Pipeline, times: CallbackTimes) -> None:
        self.node, self.config, self.times = node, pipeline.config, times
        self.inputs: dict[str, Input] = {}
        self._routes = pipeline.recording.inputs
        self._backlog: deque[tuple[Input, bytes, int]] = deque()
        self._receive = {kind: times.timed(kind, pipeline.receive) for kind in KINDS}
        self._refused: dict[str, str] = {}
        self._new_topics: list[tuple[str, list[str]]] = []
        self._backlog_timer = OnDemandTimer(
            self.node, BACKLOG_STEP_S, self.times.timed('backlog', self._work_on))
        self._topic_timer = OnDemandTimer(
            self.node, TOPIC_STEP_S, self.times.timed('discovery', self._next_topic))
        for kind in self._routes.pattern_kinds:
            for name in PATTERN_TYPES[kind]:  # loading takes too long for a callback
                check_for_type_support(message_type(name))
        for route in self._routes.routes:
            self._subscribe(route)

    def discover(self) -> None:
        """Look for new topics that match a pattern."""
        if self._routes.pattern_kinds and not self._new_topics:
            self._new_topics = [
                (topic, kinds) for topic, kinds in self.node.get_topic_names_and_types()
                if topic not in self.inputs and topic not in self._refused]
            if self._new_topics:
                self._topic_timer.wake()

    def _next_topic(self) -> bool:
        """Subscribe to a new topic, or again where less must be asked for; True = look again.

        One topic at a time: making a subscription takes some milliseconds.
        """
        for item in self.inputs.values():
            if item.downgrade:
                self._downgrade(item)
        while self._new_topics:
            topic, kinds = self._new_topics.pop()
            route = self._routes.match(topic, kinds[0])
            if route is None or route.topic in self.inputs:
                continue
            try:
                self._subscribe(route)
                self.node.get_logger().info(f'found {topic}')
            except ConfigError as error:
                self._refused[topic] = f'{topic}: {error}'
            return True
        return False

    def _subscribe(self, route: Route) -> None:
        wish = self.config.node.qos.reliability
        item = Input(route, reliable=route.kind in PRECIOUS or wish != 'best_effort')
        self._open(item)
        fields = message_type(route.type).get_fields_and_field_types()
        item.headed = next(iter(fields.values()), '') == 'std_msgs/Header'
        self.inputs[route.topic] = item

    def _open(self, item: Input) -> None:
        node = self.node
        resolved = node.resolve_topic_name(item.topic)
        chosen = f'qos_overrides.{resolved}.subscription.reliability' in node._parameter_overrides
        may_change = not chosen and item.route.kind not in PRECIOUS and (
            self.config.node.qos.reliability == 'auto')
        policies = [QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH]
        if not may_change:
            policies.append(QoSPolicyKind.RELIABILITY)
        profile = QoSProfile(
            depth=STATIC_DEPTH if item.latched else DEPTH,
            reliability=ReliabilityPolicy.RELIABLE if item.reliable
            else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if item.latched
            else DurabilityPolicy.VOLATILE)
        item.subscription = node.create_subscription(
            message_type(item.route.type), item.topic,
            self.times.timed('data', functools.partial(self._arrived, item)),
            profile,
            raw=True,
            event_callbacks=event_handler.SubscriptionEventCallbacks(
                incompatible_qos=self.times.timed(
                    'events', functools.partial(self._incompatible, item, may_change)),
                message_lost=self.times.timed('events', functools.partial(self._lost, item))),
            qos_overriding_options=QoSOverridingOptions(policies),
        )

    def _arrived(self, item: Input, data: bytes) -> None:
        """A message that the executor has fetched; all that wait are fetched with it.

        The executor needs 150 us for each message that it fetches itself, this 10 us.
        """
        arrived = [(0, item, data)]
        if len(self._backlog) < MOST_BACKLOG:
            for other in self.inputs.values():
                arrived += _fetched(other)
        if len(arrived) > 1:
            # Each topic has a queue of its own: put them back into the order of publication.
            arrived.sort(key=itemgetter(0))
        now = self.node.get_clock().now().nanoseconds
        for _, source, message in arrived:
            stamp = first_stamp(message) if source.headed else 0
            source.arrived((now - stamp) * 1e-9 if stamp and now else None)
            self._backlog.append((source, message, now))
        if self._work(ARRIVAL_SLICE_S):
            self._backlog_timer.wake()

    def _work_on(self) -> bool:
        return self._work(TIMER_SLICE_S)

    def _work(self, slice_s: float) -> bool:
        """Hand messages that wait to the front-end, for so long at most; True = some still wait."""
        end = time.perf_counter() + slice_s
        while self._backlog:
            item, data, now = self._backlog.popleft()
            self._receive[item.route.kind](item.route, data, now)
            if time.perf_counter() > end:
                break
        return bool(self._backlog)

    def drain(self) -> None:
        """Hand all messages that wait to the front-end."""
        while self._work(TIMER_SLICE_S):
            pass

    def _incompatible(self, item: Input, may_change: bool, _event: Any) -> None:
        """A best-effort publisher cannot satisfy a reliable request: ask for less, if allowed."""
        if not (item.reliable and may_change):
            item.problem = (
                f'{item.topic}: a publisher offers less reliable delivery than is asked for; set '
                'node.qos.reliability or qos_overrides')
            return
        item.downgrade = True  # done by the timer: a subscription cannot go inside its own event
        self._topic_timer.wake()

    def _downgrade(self, item: Input) -> None:
        item.downgrade, item.reliable = False, False
        self.node.destroy_subscription(item.subscription)
        self._open(item)
        self.node.get_logger().info(f'{item.topic}: heard as best effort, like its publisher')

    def _lost(self, item: Input, event: Any) -> None:
        item.lost = int(event.total_count)

    def findings(self) -> list[Finding]:
        """What is wrong with inputs."""
        items, behind = self.inputs.values(), len(self._backlog)
        found = [Finding('input_qos', item.topic, item.problem) for item in items if item.problem]
        found += [Finding('input_lost', item.topic, (
            f'{item.topic}: {item.lost} messages lost by the middleware'))
            for item in items if item.lost]
        if behind > BEHIND:
            found.append(Finding('input_backlog', 'messages', (
                f'{behind} messages have arrived that are not taken in yet')))
        return found + [
            Finding('input_type', topic, text) for topic, text in self._refused.items()]

    def summary(self) -> dict[str, str]:
        """Per topic: count, rate and age, for diagnostics."""
        now = time.monotonic()
        return {'backlog': str(len(self._backlog))} | {
            item.topic: (
                f'{item.count} received, {item.lost} lost'
                + (f', {1 / item.period_s:.1f} Hz, last {now - item.last_steady_s:.1f} s ago'
                   if item.count > 1 and item.period_s > 0 else ''))
            for item in self.inputs.values()
        }

    def describe(self) -> Iterable[str]:
        """One line per input, for the log."""
        for item in self.inputs.values():
            yield (f'{item.route.kind}: {self.node.resolve_topic_name(item.topic)} '
                   f'[{item.route.type}]')
        for name, source in self.config.range_inputs().items():
            if source.adapter == 'pair_topic':
                yield f'ranges: topics like {source.topic} (ranges.inputs.{name})'
        for name, sighting in self.config.sighting_inputs().items():
            if sighting.adapter == 'pose_topic':
                yield f'sightings: topics like {sighting.topic} (sightings.inputs.{name})'
