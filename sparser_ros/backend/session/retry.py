"""When something costly that has failed may be tried again."""

from __future__ import annotations

_FIRST = 20
"""New measurements from which a second try may end otherwise than the first."""
_GROWTH = 1.25
"""Of that number from try to try."""
_SHARE = 0.02
"""And at least this share of all: a try takes as long as the graph is large."""


class Retry:
    """Tries while something is wrong, each after more new measurements than the last."""

    def __init__(self) -> None:
        self._wait, self._next = float(_FIRST), 0

    def due(self, wrong: bool, measurements: int) -> bool:
        """Whether to try now, with so many measurements; the next one is put off."""
        if not wrong:
            self.succeeded()
            return False
        if measurements < self._next:
            return False
        self._next = measurements + round(max(self._wait, _SHARE * measurements))
        self._wait *= _GROWTH
        return True

    def succeeded(self) -> None:
        """Nothing is wrong any more: the next try may come at once."""
        self._wait, self._next = float(_FIRST), 0
