"""Which `/clock` messages to believe: one that is wrong must not erase the map."""

from __future__ import annotations


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
        if -self.back_ns < self._offset_ns < self.ahead_ns:
            self.wrong += doubted
            self._offset_ns = self._agreeing = 0
            return False
        onward = doubted and 0 <= step_ns < self.ahead_ns
        self._agreeing = self._agreeing + 1 if onward else 1
        if self._agreeing < self.messages:
            return False
        back = self._offset_ns < 0
        self._offset_ns = self._agreeing = 0
        return back
