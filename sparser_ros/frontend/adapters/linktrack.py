"""Nooploop LinkTrack node frames 2, 3 and 5, and tag frame 0.

Identifiers are unique only within a role, so a radio is called after both: `tag0`, `anchor0`.
The driver exists with a header, with a stamp and with neither; some ports publish the last frame
again and again, and zeros before the first one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...config.inputs_config import RangeInput, radio_name
from ..decode import RangeSample, Refused, Sample, stamp

ROLES = ('node', 'anchor', 'tag', 'console', 'master', 'slave', 'monitor')
NAN = float('nan')


class LinkTrack:
    """The adapter `linktrack`."""

    def __init__(self, options: RangeInput) -> None:
        self._format = options.radio_format or '{role}{id}'
        self._scale = options.scale
        self._last: dict[str, int] = {}

    def _name(self, role: int, number: int) -> str:
        role_name = ROLES[role] if 0 <= role < len(ROLES) else f'role{role}'
        return radio_name(self._format, number, role_name)

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """The ranges of one frame; a frame that was seen already gives none."""
        source = self._name(int(msg.role), int(msg.id))
        ranges = list(self._ranges(msg))
        system_ms = int(msg.system_time)
        if system_ms == 0 and int(msg.local_time) == 0:
            yield from (Refused('ranges', 'no_frame_yet') for _ in ranges)
            return
        if self._last.get(source) == system_ms:
            yield from (Refused('ranges', 'repeated_frame') for _ in ranges)
            return
        self._last[source] = system_ms
        stamp_ns = self._stamp(msg)
        for target, distance, first_path, total in ranges:
            yield RangeSample(source, target, stamp_ns, received_ns, distance * self._scale, NAN,
                              '', first_path, total)

    def _ranges(self, msg: Any) -> Iterator[tuple[str, float, float, float]]:
        for node in getattr(msg, 'nodes', ()):
            yield (self._name(int(node.role), int(node.id)), float(node.dis),
                   _power(node.fp_rssi), _power(node.rx_rssi))
        for anchor, distance in enumerate(getattr(msg, 'dis_arr', ())):
            # A tag frame has a fixed array; 0 marks anchors that were not heard.
            if float(distance) > 0:
                yield self._name(1, anchor), float(distance), NAN, NAN

    def _stamp(self, msg: Any) -> int:
        header = getattr(msg, 'header', None)
        if header is not None:
            return stamp(header.stamp)
        time = getattr(msg, 'stamp', None)
        return stamp(time) if time is not None else 0


def _power(value: float) -> float:
    """dBm; 0 means not measured."""
    value = float(value)
    return value if value < 0 else math.nan
