"""All findings of the node in one list: newest and worst first, and short enough to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..graph.finding import Finding

MOST_TEXT = 600
"""Characters of the text of `~/status`: what a terminal shows in a few lines."""
NEW_S = 5.0
"""So long a finding counts as new and is named first."""
_WORST_FIRST = (
    'solve_failed', 'journal_failed', 'audit_failed', 'auditor_lost', 'monitor_failed',
    'callback_error', 'journal_lost', 'quarantined', 'solution_stale', 'data_stale',
    'odometry_stale', 'map_changed',
    'radios_swapped', 'beacons_swapped', 'odometry_jump', 'odometry_failed', 'odometry_outlier',
    'beacon_misplaced', 'beacon_moved', 'height_missing', 'odometry_scale', 'odometry_turn',
    'ranges_rejected', 'range_burst', 'antenna_misplaced', 'range_bias', 'radio_bias',
    'odometry_noise', 'closures_rejected')
"""Faults of the node itself, what is old, what bends the map, then what costs accuracy."""
_STOPS_ALL = ('solution_stale', 'data_stale')
"""Kinds that stay before newer findings: nothing is published while they last."""
_RANK = {kind: number for number, kind in enumerate(_WORST_FIRST)}


class FindingBoard:
    """Findings that last, and since when each of them does."""

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, str], float] = {}

    def ordered(self, found: Iterable[Finding], now_s: float) -> tuple[Finding, ...]:
        """The findings without doubles: new ones first, then by how bad their kind is.

        Kinds that this list does not rank come after those that it does, as they came.
        """
        unique: dict[tuple[str, str], Finding] = {}
        for one in found:
            unique.setdefault((one.kind, one.subject), one)
        self._since_s = {key: self._since_s.get(key, now_s) for key in unique}

        def place(key: tuple[str, str]) -> tuple[bool, int]:
            old = now_s - self._since_s[key] > NEW_S and key[0] not in _STOPS_ALL
            return old, _RANK.get(key[0], len(_RANK))

        return tuple(unique[key] for key in sorted(unique, key=place))


def joined(texts: Sequence[str], most: int = MOST_TEXT) -> str:
    """The texts in one line, the last ones left out (and counted) where it would be too long."""
    line = ''
    for number, text in enumerate(texts):
        longer = f'{line}; {text}' if line else text
        if len(longer) > most:
            rest = len(texts) - number
            cut = line or text[:most]
            return f'{cut}; and {rest} more' if line else cut
        line = longer
    return line
