"""Why nothing happens: silent inputs, a clock that stands still or jumps, wrong time, rivals."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from rclpy.node import Node

from ..graph.finding import Finding
from .messages import full_name, topic_token
from .pipeline import Pipeline
from .subscriptions import Subscriptions

LEASE_S = 20.0
"""So long a node that was killed is still seen by the others."""
NO_CLOCK_S = 5.0
"""Silence of /clock (wall time) that is told where the node runs on it."""
TIME_MISMATCH_S = 10.0
"""Offset of a topic's stamps from the node's clock that is reported; networks delay by less."""
MOST_NAMED_TOPICS = 5
"""Silent topics that are named at once; asking for their publishers takes time."""
CALM = 200
"""After so many messages without a jump, earlier ones say nothing of the next."""
SHOWN_S = 60.0
"""Wall time for which a jump stays a finding."""
MANY_WRONG = 5
"""So many single wrong times of one clock are no accident."""


class Watch:
    """Looks once per diagnostics period; each finding is logged when it begins."""

    def __init__(
        self, node: Node, pipeline: Pipeline, inputs: Subscriptions, hints: Sequence[str] = ()
    ) -> None:
        """`hints`: what else does not go together in the configuration."""
        self._node = node
        self._pipeline = pipeline
        self._inputs = inputs
        self._begin = time.monotonic()
        self._hints = hints
        self._last_clock_ns = 0
        self._clock_moved = self._begin
        self.clock: Callable[[], list[Finding]] = list
        """What is wrong with how `/clock` goes on."""
        self._rival_since: dict[str, float] = {}
        self._logged: set[tuple[str, str]] = set()
        self.findings: tuple[Finding, ...] = ()

    def look(self) -> None:
        """Bring `findings` up to date."""
        self.findings = (
            *self._silence(), *self._clock(), *self.clock(), *self._time_mismatch(),
            *self._rivals(),
            *(Finding(f'input_{kind.partition(" ")[0]}', kind.partition(' ')[2], text)
              for kind, text in self._inputs.warnings().items()),
            *(Finding('configuration', f'hint {number}', text)
              for number, text in enumerate((
                  *self._hints, *self._pipeline.frontend.warnings))))
        # What is refused is a finding of the front-end; the log tells when it begins.
        told = (*self.findings, *(finding for finding in self._pipeline.frontend.findings
                                  if finding.kind.startswith('refused_')))
        now = {(finding.kind, finding.subject) for finding in told}
        for finding in told:
            if (finding.kind, finding.subject) not in self._logged:
                self._node.get_logger().warning(finding.text)
        self._logged = now

    def _silence(self) -> list[Finding]:
        limit, now = self._pipeline.config.node.no_data_warning_s, time.monotonic()
        inputs = [item for item in self._inputs.inputs.values() if not item.latched]
        silent = [
            item for item in inputs
            if (item.regular or not item.optional)
            and now - (item.last_steady_s or self._begin) > limit]
        findings = []
        stopped = [item for item in silent if item.count]
        if len(stopped) > 1 and len(stopped) == sum(
                item.regular for item in inputs):
            since = now - max(item.last_steady_s for item in stopped)
            findings.append(Finding(
                'input_silent', 'all inputs',
                f'all inputs have been silent for {since:.0f} s', since, 's'))
            silent = [item for item in silent if not item.count]
        for item in silent[:MOST_NAMED_TOPICS]:
            kind, state = ('input_silent', 'has been silent') if item.count else (
                'input_unheard', 'has said nothing')
            since = now - (item.last_steady_s or self._begin)
            heard = '' if item.publishers(self._node) else ' and nobody publishes it'
            if not heard and not item.count:
                # sensor_msgs/Range, for one, is another type since Jazzy: DDS connects nobody.
                heard = (', though somebody publishes it: the type may be that of another ROS '
                         'distribution (`sparser play` translates recordings)')
            findings.append(Finding(
                kind, item.topic, f'{item.topic} {state} for {since:.0f} s{heard}', since, 's'))
        if len(silent) > MOST_NAMED_TOPICS:
            rest = len(silent) - MOST_NAMED_TOPICS
            findings.append(Finding(
                'input_silent', 'other inputs', f'{rest} other topics are silent as well'))
        return findings

    def _rivals(self) -> list[Finding]:
        """Other nodes of ours that publish the same transforms; consumers see robots jump."""
        node, robots = self._node, self._pipeline.config.robots
        own, texts = node.get_fully_qualified_name(), {}
        if node.count_publishers('~/status') > 1:
            texts[own] = f'another node of the name {own} publishes the same topics and transforms'
        for endpoint in node.get_publishers_info_by_topic(node.resolve_topic_name('/tf')):
            name = full_name(endpoint)
            shared = [robot for robot in robots if name != own
                      and node.count_publishers(f'{name}/path/{topic_token(robot)}')]
            if shared:
                texts[name] = f'{name} publishes map -> odom of {", ".join(shared)} as well'
        now = time.monotonic()
        self._rival_since = {name: self._rival_since.get(name, now) for name in texts}
        return [Finding('rival', name, f'{text}: end one of the two')
                for name, text in texts.items() if now - self._rival_since[name] > LEASE_S + 1]

    def _clock(self) -> list[Finding]:
        if not self._node.get_parameter('use_sim_time').value:
            return []
        stamp, now = self._node.get_clock().now().nanoseconds, time.monotonic()
        if stamp != self._last_clock_ns:
            self._last_clock_ns, self._clock_moved = stamp, now
        since = now - self._clock_moved
        if since <= NO_CLOCK_S:
            return []
        return [Finding(
            'clock', '/clock', f'use_sim_time is set, but /clock has stood still for {since:.0f} s',
            since, 's')]

    def _time_mismatch(self) -> list[Finding]:
        offsets = {
            item.topic: item.offset_s for item in self._inputs.inputs.values()
            if item.offset_s is not None and abs(item.offset_s) > TIME_MISMATCH_S}
        if not offsets:
            return []
        topic, worst = max(offsets.items(), key=lambda pair: abs(pair[1]))
        side = 'behind' if worst > 0 else 'ahead of'
        hint = '' if self._node.get_parameter('use_sim_time').value else \
            ': is this a bag, and use_sim_time not set?'
        return [Finding(
            'time_mismatch', 'stamps',
            f'data stamps of {topic} are {abs(worst):.1f} s {side} the clock{hint}', worst, 's')]


class ClockGuard:
    """Follows the node's clock by its steps; a jump counts once several messages agree on it.

    A step back by `back_ns`, or ahead by `ahead_ns`, is doubted. If the clock returns, it was one
    wrong message. If `messages` in a row go on from the new time, the clock has jumped.
    """

    def __init__(self, back_ns: int, ahead_ns: int, messages: int) -> None:
        self.back_ns, self.ahead_ns, self.messages = back_ns, ahead_ns, messages
        self._offset_ns = 0
        self._agreeing = 0
        self._started = False
        self.wrong = 0
        """Doubted times from which the clock returned."""
        self.jumps = 0
        """How often it has gone back, and stayed there."""
        self.size_ns = 0
        """By how much at last."""
        self.behind = False
        """True since it went back, until it comes again to where it would have been."""
        self.returns = 0
        """How often it has come again: so do two publishers that alternate."""
        self._calm = 0

    @property
    def trusted(self) -> bool:
        """False while the clock shows a time that no further message has confirmed."""
        return self._offset_ns == 0

    def moved(self, step_ns: int) -> bool:
        """Note a step of the clock; true when it has jumped back, and stayed there."""
        if not self._started:
            # From no time at all to the first message.
            self._started = True
            return False
        doubted = not self.trusted
        self._offset_ns += step_ns
        self._calm += 1
        if self._calm > CALM:
            self.behind, self.returns = False, 0
        elif self.behind and 2 * self._offset_ns > self.size_ns:
            self.behind = False
            self.returns += 1
        if -self.back_ns < self._offset_ns < self.ahead_ns:
            self.wrong += doubted
            self._offset_ns = self._agreeing = 0
            return False
        onward = doubted and 0 <= step_ns < self.ahead_ns
        self._agreeing = self._agreeing + 1 if onward else 1
        if self._agreeing < self.messages:
            return False
        size_ns, self._offset_ns, self._agreeing = -self._offset_ns, 0, 0
        if size_ns < 0:
            return False
        self.jumps += 1
        self.size_ns, self.behind, self._calm = size_ns, True, 0
        return True


class ClockWatch:
    """Tells one clock that jumped, as that of a bag that starts again, from two that alternate."""

    def __init__(self, node: Node, guard: ClockGuard) -> None:
        self._node = node
        self._guard = guard
        self._jumps = self._wrong = 0
        self._many_wrong = False
        self._told_s = -math.inf

    @property
    def alternates(self) -> bool:
        """True where a jump back must not erase the map: another clock goes on beside this one."""
        return self._guard.returns > 0 or self._node.count_publishers('/clock') > 1

    @property
    def words(self) -> str:
        """The newest jump."""
        guard, now_s = self._guard, self._node.get_clock().now().nanoseconds * 1e-9
        size_s = guard.size_ns * 1e-9
        times = '' if guard.jumps == 1 else f' ({guard.jumps} times so far)'
        return (f'the clock jumped back by {size_s:.1f} s, from about {now_s + size_s:.1f} s to '
                f'{now_s:.1f} s{times}')

    def findings(self) -> list[Finding]:
        """Jumps of the last minute, and clocks that alternate."""
        guard, now = self._guard, time.monotonic()
        many_wrong = guard.wrong >= self._wrong + MANY_WRONG
        if guard.jumps > self._jumps or many_wrong:
            self._told_s, self._many_wrong = now, many_wrong
        self._jumps, self._wrong = guard.jumps, guard.wrong
        if now - self._told_s >= SHOWN_S:
            return []
        if not self.alternates and not self._many_wrong:
            return [Finding('clock_jumped', '/clock', self.words, guard.size_ns * 1e-9, 's')]
        names = sorted(
            full_name(endpoint)
            for endpoint in self._node.get_publishers_info_by_topic('/clock'))
        jumps, several = guard.jumps + guard.wrong, len(names) != 1
        return [Finding(
            'clock_alternates', '/clock',
            f'/clock goes back and forth ({jumps} times so far): it has {len(names)} '
            f'publisher{"s" * several} ({", ".join(names)}); the map stays'
            f'{", stop all but one" * several}', jumps, 'times')]
