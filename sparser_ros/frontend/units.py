"""Plausibility of range units: centimetres and millimetres are the classic trap.

A range between two radios changes by no more than they move. So the median change per metre that
odometry says they moved is below 1 in metres, near 70 in centimetres and near 700 in millimetres,
however far the radios reach. Where nothing has moved yet, the size of the ranges must do.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from ..graph.finding import Finding

REMEMBERED = 51
"""Newest ranges, and newest ratios, whose medians are judged."""
CENTIMETRES_FROM = 150.0
EITHER_FROM = 500.0
"""Few UWB radios reach 150 m at all; a *median* beyond that is another unit: centimetres, or from
500 on (half a metre) millimetres as well."""
MILLIMETRES_FROM = 15000.0
"""150 m in centimetres: what is more must be millimetres."""
COMPARED_TRAVEL_M = 3.0
"""Odometry between two ranges that are compared: noise of 1 m then changes the ratio by 0.5."""
LEAST_RATIOS = 11
"""Ratios of a range to the way travelled from which their median decides."""
CENTIMETRES_RATIO = 10.0
MILLIMETRES_RATIO = 200.0
"""Bounds on the median ratio from where it means centimetres, and millimetres: |cos| x 100 and
|cos| x 1000 have the medians 64 and 637 for motion in all directions; the bounds lie halfway to
them on a logarithmic scale."""
MOST_PAIRS = 100
"""Pairs of radios that are watched; the oldest goes first."""


class UnitCheck:
    """The last raw ranges against the motion of the radios, and against what UWB can reach."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=REMEMBERED)
        self._ratios: deque[float] = deque(maxlen=REMEMBERED)
        self._pairs: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        self._count = 0
        self._finding: Finding | None = None
        self.scale = 1.0
        """Factor that makes metres of the values, as far as it is known."""

    def add(self, distance_m: float, pair: tuple[str, str] = ('', ''),
            travelled_m: float = 0.0) -> None:
        """Take note of a positive, finite range as received (after unit scaling).

        `travelled_m`: odometry of both ends together since the start.
        """
        self._last.append(distance_m)
        self._count += 1
        before = self._pairs.get(pair)
        if before is None or travelled_m - before[1] >= COMPARED_TRAVEL_M:
            if before is not None:
                self._ratios.append(abs(distance_m - before[0]) / (travelled_m - before[1]))
            self._pairs[pair] = (distance_m, travelled_m)
            self._pairs.move_to_end(pair)
            if len(self._pairs) > MOST_PAIRS:
                self._pairs.popitem(last=False)
        if self._count % REMEMBERED == 0:
            self._judge()

    def _judge(self) -> None:
        median = sorted(self._last)[len(self._last) // 2]
        what = f'the median range is {median:.0f} m'
        moved = len(self._ratios) >= LEAST_RATIOS
        size, cut = median, (CENTIMETRES_FROM, MILLIMETRES_FROM)
        if moved:
            size = sorted(self._ratios)[len(self._ratios) // 2]
            cut = CENTIMETRES_RATIO, MILLIMETRES_RATIO
            what += f' and changes by {size:.0f} m per metre of odometry'
        self._finding, self.scale = None, 1.0
        if size < cut[0]:
            return
        unit, scale = ('millimetres', '0.001') if size >= cut[1] else ('centimetres', '0.01')
        if not moved and EITHER_FROM <= size < cut[1]:
            unit, scale = 'centimetres or millimetres (driving will tell)', '0.01 or 0.001'
        else:
            self.scale = float(scale)
        self._finding = Finding(
            'range_unit', 'ranges', f'{what}, which looks like {unit}: set scale: {scale} for that '
            'input (ranges.inputs.<name>.scale)', median, 'm')

    def findings(self) -> tuple[Finding, ...]:
        """Findings on suspicious units."""
        return (self._finding,) if self._finding is not None else ()
