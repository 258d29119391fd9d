"""Why nothing happens: silent inputs, a silent clock, mismatched time, units or services."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .subscriptions import Subscriptions

if TYPE_CHECKING:
    from .node import SparserNode

TIME_MISMATCH_S = 10.0
NAMED = 5
"""So many silent topics are named; asking for their publishers takes time."""


class Watch:
    """Looks once per diagnostics period; each kind of warning is logged when it begins."""

    def __init__(self, node: SparserNode, inputs: Subscriptions) -> None:
        self._node = node
        self._inputs = inputs
        self._begin = time.monotonic()
        self._last_clock_ns = 0
        self._clock_moved = self._begin
        self._logged: set[str] = set()
        self.warnings: list[str] = []

    def look(self) -> None:
        """Bring `warnings` up to date."""
        found = {**self._silence(), **self._clock(), **self._time_mismatch(),
                 **self._inputs.warnings(), **self._data()}
        for kind, text in found.items():
            if kind not in self._logged:
                self._node.get_logger().warning(text)
        self._logged = set(found)
        self.warnings = list(found.values())

    def _data(self) -> dict[str, str]:
        texts = self._node.pipeline.frontend.warnings
        return {f'data {number}': text for number, text in enumerate(texts)}

    def _silence(self) -> dict[str, str]:
        limit, now = self._node.pipeline.config.node.no_data_warning_s, time.monotonic()
        silent = [
            item for item in self._inputs.inputs.values()
            if (item.count or not item.optional)
            and now - (item.last_steady_s or self._begin) > limit]
        if not silent:
            return {}
        texts = []
        for item in silent[:NAMED]:
            state = 'has been silent' if item.count else 'has said nothing'
            since = now - (item.last_steady_s or self._begin)
            heard = '' if item.publishers(self._node) else ' and nobody publishes it'
            texts.append(f'{item.topic} {state} for {since:.0f} s{heard}')
        if len(silent) > NAMED:
            texts.append(f'{len(silent) - NAMED} other topics are silent as well')
        return {f'silent {len(silent)}': '; '.join(texts)}

    def _clock(self) -> dict[str, str]:
        if not self._node.get_parameter('use_sim_time').value:
            return {}
        stamp, now = self._node.get_clock().now().nanoseconds, time.monotonic()
        if stamp != self._last_clock_ns:
            self._last_clock_ns, self._clock_moved = stamp, now
        since = now - self._clock_moved
        if since <= self._node.pipeline.config.node.no_clock_warning_s:
            return {}
        return {'clock': f'use_sim_time is set, but /clock has stood still for {since:.0f} s'}

    def _time_mismatch(self) -> dict[str, str]:
        offsets = [item.offset_s for item in self._inputs.inputs.values()
                   if item.offset_s is not None and abs(item.offset_s) > TIME_MISMATCH_S]
        if not offsets:
            return {}
        worst = max(offsets, key=abs)
        hint = '' if self._node.get_parameter('use_sim_time').value else \
            ': is this a bag, and use_sim_time not set?'
        return {'time': f'data stamps are {worst:.1f} s behind the clock{hint}'}
