"""Numbers that decide something, declared with unit, reason and source, and overridable.

A room declares its numbers as fields of a frozen dataclass (`number`) and makes one
`NumberRegistry` of it. Code reads them by `current()`. `override` changes some for the length of a
`with` block, in this thread only, which is how `sparser bench sensitivity` sweeps them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, TypeVar

Numbers = TypeVar('Numbers')


@dataclass(frozen=True)
class NumberInfo:
    """What is known of one number beside its name and value."""

    reason: str
    unit: str
    """Empty for a plain ratio."""
    source: str
    group: str
    """The part of the method that reads it; a sweep takes graphs on which that part runs."""
    off: float | int | tuple[float, ...] | None
    """The value without the special case; None where the number is no switch."""


def number(
    value: Any, group: str, reason: str, *, unit: str = '', source: str = 'measured',
    off: float | int | tuple[float, ...] | None = None,
) -> Any:
    """A field of a dataclass of numbers."""
    return field(
        default=value, metadata={'number': NumberInfo(reason, unit, source, group, off)})


class NumberRegistry(Generic[Numbers]):
    """The numbers in force, and their descriptions."""

    def __init__(self, kind: type[Numbers]) -> None:
        self._kind: Any = kind
        self._declared = kind()
        self._current: ContextVar[Numbers] = ContextVar(kind.__name__)

    def current(self) -> Numbers:
        """The numbers in force."""
        return self._current.get(self._declared)

    @contextmanager
    def override(self, **values: Any) -> Iterator[Numbers]:
        """Other values for some numbers inside the block; TypeError for a name that is none."""
        changed: Any = self.current()
        token = self._current.set(replace(changed, **values))
        try:
            yield self.current()
        finally:
            self._current.reset(token)

    def numbers(self) -> dict[str, tuple[Any, NumberInfo]]:
        """Default and description of every number by name, in the order of the method."""
        return {
            item.name: (item.default, item.metadata['number']) for item in fields(self._kind)}
