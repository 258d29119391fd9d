"""Which `/clock` messages to believe: one that is wrong, or a second publisher, erases no map."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from ..graph.finding import Finding

if TYPE_CHECKING:
    from rclpy.node import Node

CALM = 200
"""After so many messages without a jump, earlier ones say nothing of the next."""
SHOWN_S = 60.0
"""Wall time for which a jump stays a finding."""
MANY_WRONG = 5
"""So many single wrong times of one clock are no accident."""


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
            f'{one.node_namespace.rstrip("/")}/{one.node_name}'
            for one in self._node.get_publishers_info_by_topic('/clock'))
        jumps, several = guard.jumps + guard.wrong, len(names) != 1
        return [Finding(
            'clock_alternates', '/clock',
            f'/clock goes back and forth ({jumps} times so far): it has {len(names)} '
            f'publisher{"s" * several} ({", ".join(names)}); the map stays'
            f'{", stop all but one" * several}', jumps, 'times')]
