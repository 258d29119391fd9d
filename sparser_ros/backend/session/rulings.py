"""What the operator thinks of measurements: left out of every solve, or trusted less.

Rulings name robots, beacons and stretches of time, not rows: they also hold for what is still to
come. A measurement that several rulings name is left out where one of them says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...array_types import Array, Mask
from ...graph import Graph, Table
from ...graph.ends import owners_of, stamps_of

IGNORE, DOUBT = 'ignore', 'doubt'
RULED_KINDS = ('radio', 'pair', 'closure', 'robot', 'beacon', 'odometry')
DOUBTED_SIGMAS = 10.0
"""Factor on the standard deviation of what is doubted: it then has a hundredth of its weight, so
it decides nothing where other data speak, and still ties what nothing else ties."""
_UNORDERED = ('pair', 'closure')


@dataclass(frozen=True)
class Ruling:
    """One thing that the operator has said."""

    action: str
    """ignore or doubt."""
    kind: str
    """One of RULED_KINDS."""
    names: tuple[str, ...]
    """Of robots and beacons: one; a pair of two; closures of one robot, or between two."""
    begin_ns: int = 0
    """First stamp meant; 0 = from the beginning."""
    end_ns: int = 0
    """Last stamp meant; 0 = without end."""

    @property
    def limited(self) -> bool:
        """Whether a stretch of time is meant, and not the source as such."""
        return bool(self.begin_ns or self.end_ns)

    @property
    def what(self) -> str:
        """The measurements in words."""
        name, both = self.names[0], ' and '.join(self.names)
        text = {
            'radio': f'ranges of {name}', 'pair': f'ranges between {both}',
            'closure': f'closures between {both}' if len(self.names) > 1 else f'closures of {name}',
            'robot': f'all of {name} but its odometry', 'beacon': f'all of beacon {name}',
            'odometry': f'odometry of {name}'}[self.kind]
        begin = f' from {_seconds(self.begin_ns)}' if self.begin_ns else ''
        end = f' until {_seconds(self.end_ns)}' if self.end_ns else ''
        return text + begin + end

    @property
    def words(self) -> str:
        """For `~/status`."""
        said = 'ignored' if self.action == IGNORE else 'doubted'
        return f'{said} by the operator: {self.what}'

    def rows(self, graph: Graph, name: str, table: Table) -> Mask:
        """(k,): rows of a measurement table, or of a part of it, that are meant.

        `graph` holds the poses and landmarks that the table's endpoints number.
        """
        chosen = np.zeros(len(table), dtype=bool)
        if not len(table) or not self._names_table(name):
            return chosen
        ends = owners_of(graph, table)
        wanted = [_owner(graph, source) for source in self.names]
        masks = [np.any(ends == owner, axis=0) for owner in wanted]
        chosen = np.all(masks, axis=0)
        if len(wanted) == 2 and wanted[0] == wanted[1]:
            chosen &= ends[0] == ends[-1]
        if name == 'relative_poses':
            odometry = table.odometry  # type: ignore[attr-defined]
            chosen &= odometry if self.kind == 'odometry' else ~odometry
        if self.limited:
            stamps = stamps_of(graph, table)
            chosen &= (stamps >= self.begin_ns) & (not self.end_ns or stamps <= self.end_ns)
        return np.asarray(chosen, dtype=bool)

    def _names_table(self, name: str) -> bool:
        return self.kind in ('robot', 'beacon') or name == {
            'radio': 'ranges', 'pair': 'ranges'}.get(self.kind, 'relative_poses')

    def names_same(self, other: Ruling) -> bool:
        """Whether both are about the same sources."""
        order = sorted if self.kind in _UNORDERED else list
        return self.kind == other.kind and order(self.names) == order(other.names)

    def within(self, other: Ruling) -> bool:
        """Whether the stretch of time is part of another one's."""
        return self.begin_ns >= other.begin_ns and (
            not other.end_ns or 0 < self.end_ns <= other.end_ns)


@dataclass(frozen=True)
class Rulings:
    """Everything that the operator has said, and how often that has changed."""

    entries: tuple[Ruling, ...] = ()
    revision: int = 0

    def with_ruling(self, ruling: Ruling) -> Rulings:
        """With one more, in place of older ones on the same sources and no more time."""
        return self._changed((*self._without(ruling), ruling))

    def revived(self, ruling: Ruling) -> Rulings:
        """Without those on the same sources and within the same time; the action is not read."""
        return self._changed(self._without(ruling))

    def cleared(self) -> Rulings:
        """Without any."""
        return self._changed(())

    def lasting(self) -> Rulings:
        """Without those that are about a stretch of time, whose data are forgotten."""
        return self._changed(tuple(entry for entry in self.entries if not entry.limited))

    def _without(self, ruling: Ruling) -> tuple[Ruling, ...]:
        return tuple(entry for entry in self.entries
                     if not (entry.names_same(ruling) and entry.within(ruling)))

    def _changed(self, entries: tuple[Ruling, ...]) -> Rulings:
        return self if entries == self.entries else Rulings(entries, self.revision + 1)

    def ignored(self, graph: Graph, name: str, table: Table) -> Mask:
        """(k,): rows of a table that are left out."""
        return self._any(IGNORE, graph, name, table)

    def factors(self, graph: Graph, name: str, table: Table) -> Array:
        """(k,): factor on the variance of each row of a table."""
        return np.where(self._any(DOUBT, graph, name, table), DOUBTED_SIGMAS**2, 1.0)

    def _any(self, action: str, graph: Graph, name: str, table: Table) -> Mask:
        chosen = np.zeros(len(table), dtype=bool)
        for entry in self.entries:
            if entry.action == action:
                chosen |= entry.rows(graph, name, table)
        return chosen

    def values(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {'revision': self.revision, 'entries': [asdict(entry) for entry in self.entries]}

    @classmethod
    def from_values(cls, values: Mapping[str, Any] | None) -> Rulings:
        """From `values`; None = nothing was ever said."""
        if not values:
            return cls()
        return cls(tuple(
            Ruling(**{**entry, 'names': tuple(entry['names'])}) for entry in values['entries']),
            values['revision'])


def count(ruling: Ruling, graph: Graph) -> int:
    """How many measurements of a graph a ruling is about."""
    return sum(int(np.count_nonzero(ruling.rows(graph, name, table)))
               for name, table in graph.tables().items())


def _owner(graph: Graph, name: str) -> int:
    """The number of a robot or landmark; -1 = not there yet."""
    names = (*graph.robots, *graph.landmarks.names)
    return names.index(name) if name in names else -1


def _seconds(stamp_ns: int) -> str:
    return f'{stamp_ns // 10**9}.{stamp_ns % 10**9 // 10**6:03d}'
