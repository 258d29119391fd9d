"""Inputs: one subscription per topic, converted at once and handed to the front-end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rclpy.node import Node
from rclpy.qos_overriding_options import QoSOverridingOptions, QoSPolicyKind
from rclpy.subscription import Subscription

from ..config import SparserError
from ..config.sparser import SparserConfig
from .pipeline import Pipeline
from .qos import input_profile
from .sources import Source, message_type, sources
from .timing import CallbackTimes

try:
    from rclpy.event_handler import SubscriptionEventCallbacks
except ImportError:  # before Iron
    from rclpy.qos_event import SubscriptionEventCallbacks

RATE_MEMORY = 0.9


@dataclass
class Input:
    """One topic: what arrived, when, and how it is heard."""

    topic: str
    source: Source
    reliable: bool
    subscription: Subscription | None = None
    count: int = 0
    failed: int = 0
    """Messages that could not be converted at all."""
    lost: int = 0
    """Messages that the middleware says it lost."""
    last_steady_s: float = 0.0
    period_s: float = 0.0
    offset_s: float | None = None
    """Node clock minus the stamp of the newest message."""
    downgrade: bool = False
    problem: str = ''
    last_error: str = ''

    @property
    def optional(self) -> bool:
        """True when silence is no fault."""
        return self.source.optional

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
        self._patterns: list[Source] = []
        self._refused: dict[str, str] = {}
        for source in sources(self.config):
            if source.pattern is None:
                self._subscribe(source.topic, source)
            else:
                self._patterns.append(source)
        self.discover()

    def discover(self) -> None:
        """Subscribe to new topics that match a pattern, and again where less must be asked for."""
        for item in self.inputs.values():
            if item.downgrade:
                self._downgrade(item)
        if not self._patterns:
            return
        for topic, kinds in self.node.get_topic_names_and_types():
            if topic in self.inputs or topic in self._refused:
                continue
            for source in self._patterns:
                assert source.pattern is not None
                if re.fullmatch(source.pattern, topic) is None:
                    continue
                if source.type not in kinds:
                    self._refused[topic] = f'{topic} matches, but is no {source.type}'
                    continue
                self._subscribe(topic, source)
                self.node.get_logger().info(f'found {topic}')
                break

    def _subscribe(self, topic: str, source: Source) -> None:
        wish = self.config.node.qos.reliability
        item = Input(topic, source, reliable=source.precious or wish != 'best_effort')
        self.inputs[topic] = item
        self._open(item)

    def _open(self, item: Input) -> None:
        node = self.node
        resolved = node.resolve_topic_name(item.topic)
        chosen = f'qos_overrides.{resolved}.subscription.reliability' in node._parameter_overrides
        may_change = not chosen and not item.source.precious and (
            self.config.node.qos.reliability == 'auto')
        policies = [QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH]
        if not may_change:
            policies.append(QoSPolicyKind.RELIABILITY)
        handle = item.source.handler(self.pipeline, item.topic)
        item.subscription = node.create_subscription(
            message_type(item.source.type), item.topic,
            self.times.timed(item.source.kind, self._callback(item, handle)),
            input_profile(item.source.depth, reliable=item.reliable),
            event_callbacks=SubscriptionEventCallbacks(
                incompatible_qos=lambda _: self._incompatible(item, may_change),
                message_lost=lambda event: self._lost(item, event.total_count)),
            qos_overriding_options=QoSOverridingOptions(policies),
        )

    def _callback(self, item: Input, handle: Callable[[Any, int], int | None]) -> Callable:
        clock, pipeline = self.node.get_clock(), self.pipeline

        def callback(message: Any) -> None:
            now = clock.now().nanoseconds
            try:
                stamp = handle(message, now)
            except (SparserError, ValueError, TypeError, AttributeError, IndexError) as error:
                item.failed += 1
                item.last_error = str(error)
                self.node.get_logger().error(
                    f'{item.topic}: a message cannot be read: {error}',
                    throttle_duration_sec=5.0)
                stamp = None
            item.arrived(None if not stamp else (now - stamp) * 1e-9)
            pipeline.touched()

        return callback

    def _incompatible(self, item: Input, may_change: bool) -> None:
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

    def _lost(self, item: Input, total: int) -> None:
        item.lost = total

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
                f'{item.count} received, {item.failed} unreadable, {item.lost} lost'
                + (f', {1 / item.period_s:.1f} Hz, last {now - item.last_steady_s:.1f} s ago'
                   if item.count > 1 and item.period_s > 0 else ''))
            for item in self.inputs.values()
        }

    def describe(self) -> Iterable[str]:
        """One line per input, for the log."""
        for item in self.inputs.values():
            yield (f'{item.source.kind}: {self.node.resolve_topic_name(item.topic)} '
                   f'[{item.source.type}]')
        for source in self._patterns:
            yield f'{source.kind}: topics like {source.pattern} [{source.type}]'
