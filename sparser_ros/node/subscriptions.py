"""Inputs: one subscription per topic, converted at once and handed to the front-end."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rclpy.node import Node
from rclpy.qos_overriding_options import QoSOverridingOptions, QoSPolicyKind
from rclpy.subscription import Subscription
from rclpy.type_support import check_for_type_support

from ..config import ConfigError
from ..config.sparser import SparserConfig
from ..frontend.inputs import Inputs, Route
from .conversions import stamp_ns
from .message_types import message_type
from .pipeline import Pipeline
from .qos import input_profile
from .timing import CallbackTimes

try:
    from rclpy.event_handler import SubscriptionEventCallbacks
except ImportError:  # before Iron
    from rclpy.qos_event import SubscriptionEventCallbacks

RATE_MEMORY = 0.9
PAIR_TYPES = ('sensor_msgs/msg/Range', 'std_msgs/msg/Float64', 'std_msgs/msg/Float32')
PRECIOUS = ('closures', 'fixes')
"""Rare kinds of input: asked for reliably, and their silence is no fault."""


@dataclass
class Input:
    """One topic: what arrived, when, and how it is heard."""

    route: Route
    reliable: bool
    subscription: Subscription | None = None
    count: int = 0
    lost: int = 0
    """Messages that the middleware says it lost."""
    last_steady_s: float = 0.0
    period_s: float = 0.0
    offset_s: float | None = None
    """Node clock minus the stamp of the newest message."""
    downgrade: bool = False
    problem: str = ''

    @property
    def topic(self) -> str:
        """Name as configured."""
        return self.route.topic

    @property
    def optional(self) -> bool:
        """True when silence is no fault."""
        return self.route.kind in PRECIOUS

    def publishers(self, node: Node) -> int:
        """How many publishers the topic has."""
        return int(node.count_publishers(self.topic))

    def arrived(self, offset_s: float | None) -> None:
        """Note one more message."""
        now = time.monotonic()
        if self.count:
            self.period_s += (1 - RATE_MEMORY) * (now - self.last_steady_s - self.period_s)
        self.count += 1
        self.last_steady_s = now
        self.offset_s = offset_s


@dataclass
class Subscriptions:
    """All inputs of the configuration; topics that match a pattern join as they appear."""

    node: Node
    config: SparserConfig
    pipeline: Pipeline
    times: CallbackTimes
    inputs: dict[str, Input] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._routes = Inputs(self.config)
        self._refused: dict[str, str] = {}
        self._found: list[tuple[str, list[str]]] = []
        self._looked = -1e18
        if self._routes.has_patterns:
            for name in PAIR_TYPES:  # loading takes too long for a callback
                check_for_type_support(message_type(name))
        for route in self._routes.routes:
            self._subscribe(route)

    def discover(self) -> None:
        """Subscribe to new topics that match a pattern, and again where less must be asked for.

        One topic at a time: making a subscription takes some milliseconds.
        """
        for item in self.inputs.values():
            if item.downgrade:
                self._downgrade(item)
        if not self._routes.has_patterns:
            return
        now = time.monotonic()
        if not self._found and now - self._looked >= self.config.node.discovery_period_s:
            self._looked = now
            self._found = [
                found for found in self.node.get_topic_names_and_types()
                if found[0] not in self.inputs and found[0] not in self._refused]
        while self._found:
            topic, kinds = self._found.pop()
            route = self._routes.match(topic, kinds[0])
            if route is None or route.topic in self.inputs:
                continue
            try:
                self._subscribe(route)
                self.node.get_logger().info(f'found {topic}')
            except ConfigError as error:
                self._refused[topic] = f'{topic}: {error}'
            return

    def _subscribe(self, route: Route) -> None:
        if route.topic in self.inputs:  # one topic may give both keyframes and closures
            return
        wish = self.config.node.qos.reliability
        item = Input(route, reliable=route.kind in PRECIOUS or wish != 'best_effort')
        self._open(item)
        self.inputs[route.topic] = item

    def _open(self, item: Input) -> None:
        node = self.node
        resolved = node.resolve_topic_name(item.topic)
        chosen = f'qos_overrides.{resolved}.subscription.reliability' in node._parameter_overrides
        may_change = not chosen and not item.optional and (
            self.config.node.qos.reliability == 'auto')
        policies = [QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH]
        if not may_change:
            policies.append(QoSPolicyKind.RELIABILITY)
        kind = item.route.kind
        item.subscription = node.create_subscription(
            message_type(item.route.type), item.topic,
            self.times.timed(kind, self._callback(item)),
            input_profile(self._depth(kind), reliable=item.reliable),
            event_callbacks=SubscriptionEventCallbacks(
                incompatible_qos=self.times.timed(
                    'events', functools.partial(self._incompatible, item, may_change)),
                message_lost=self.times.timed('events', functools.partial(self._lost, item))),
            qos_overriding_options=QoSOverridingOptions(policies),
        )

    def _depth(self, kind: str) -> int:
        qos = self.config.node.qos
        return {'odometry': qos.odometry_depth, 'ranges': qos.range_depth,
                'closures': qos.closure_depth, 'fixes': qos.fix_depth}[kind]

    def _callback(self, item: Input) -> Callable[[Any], None]:
        clock, pipeline, route = self.node.get_clock(), self.pipeline, item.route

        def callback(message: Any) -> None:
            now = clock.now().nanoseconds
            pipeline.frontend.feed(route, message, now)
            header = getattr(message, 'header', None)
            stamp = 0 if header is None else stamp_ns(header.stamp)
            item.arrived((now - stamp) * 1e-9 if stamp and now else None)
            pipeline.touched()

        return callback

    def _incompatible(self, item: Input, may_change: bool, _event: Any) -> None:
        """A best-effort publisher cannot satisfy a reliable request: ask for less, if allowed."""
        if not (item.reliable and may_change):
            item.problem = (
                f'{item.topic}: a publisher offers less reliable delivery than is asked for; set '
                'node.qos.reliability or qos_overrides')
            return
        item.downgrade = True  # done by the timer: a subscription cannot go inside its own event

    def _downgrade(self, item: Input) -> None:
        item.downgrade, item.reliable = False, False
        if item.subscription is not None:
            self.node.destroy_subscription(item.subscription)
        self._open(item)
        self.node.get_logger().info(f'{item.topic}: heard as best effort, like its publisher')

    def _lost(self, item: Input, event: Any) -> None:
        item.lost = int(event.total_count)

    def warnings(self) -> dict[str, str]:
        """What is wrong with inputs, by kind."""
        found = {f'qos {i.topic}': i.problem for i in self.inputs.values() if i.problem}
        found |= {f'lost {i.topic}': f'{i.topic}: {i.lost} messages lost by the middleware'
                  for i in self.inputs.values() if i.lost}
        found |= {f'type {topic}': text for topic, text in self._refused.items()}
        return found

    def summary(self) -> dict[str, str]:
        """Per topic: count, rate and age, for diagnostics."""
        now = time.monotonic()
        return {
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
