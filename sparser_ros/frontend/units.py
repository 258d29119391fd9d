"""Plausibility of range units: centimetres and millimetres are the classic trap."""

from __future__ import annotations

from collections import deque

WINDOW = 51
CENTIMETRES_FROM = 150.0
MILLIMETRES_FROM = 1000.0
"""Few UWB radios reach 150 m at all; a *median* beyond that is another unit."""


class UnitCheck:
    """Median of the last raw ranges against what UWB can reach."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=WINDOW)
        self._count = 0
        self.warning = ''
        """What is suspicious, in words; '' = nothing."""

    def add(self, distance_m: float) -> None:
        """Take note of a positive, finite range as received (after unit scaling)."""
        self._last.append(distance_m)
        self._count += 1
        if self._count % WINDOW:
            return
        median = sorted(self._last)[WINDOW // 2]
        self.warning = ''
        for limit, unit, scale in ((MILLIMETRES_FROM, 'millimetres', '0.001'),
                                   (CENTIMETRES_FROM, 'centimetres', '0.01')):
            if median >= limit:
                self.warning = (
                    f'the median range is {median:.0f} m, which looks like {unit}: set scale: '
                    f'{scale} for that input (ranges.inputs.<name>.scale)')
                return
