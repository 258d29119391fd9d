"""Messages between the node, the tracker process and the auditor process, as bytes.

To both: increment, thin, reset, rulings, configure, close. To the tracker also: solve, verdict. To
the auditor also: solution (the tracker's newest), audit, pause. From both: ready, beat, failed.
From the tracker: solution. From the auditor: verdict, bound. Every answer names the generation
(number of resets and thinnings) it belongs to and the newest request it answers.

Layout: magic `SPR1`, length of the head (u32), head, arrays one after the other; nothing is
pickled. The head is JSON: kind, values, and dtype and shape of every array. Dataclasses are laid
out by their declared types (`_layout`), so a field is declared once. Used on the pipe and in the
journal.
"""

from __future__ import annotations

import functools
import json
import operator
import struct
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...config import SparserError
from ...graph import MEASUREMENT_TYPES, Increment, Table
from ..session.solution import Verdict

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

T = TypeVar('T')
Arrays = dict[str, NDArray[Any]]

INCREMENT, SOLVE, AUDIT, RESET = 'increment', 'solve', 'audit', 'reset'
RULINGS, CONFIGURE, THIN, CLOSE = 'rulings', 'configure', 'thin', 'close'
PAUSE = 'pause'
READY, BEAT, SOLUTION, VERDICT, FAILED = 'ready', 'beat', 'solution', 'verdict', 'failed'
BOUND = 'bound'
MAGIC = b'SPR1'
_HEAD = struct.Struct('<4sI')


@dataclass(frozen=True)
class Answer:
    """What a solution, verdict, bound or failure answers."""

    generation: int
    request: int
    """Newest solve request; of a verdict: the audit request, -1 = it came by itself."""
    audit: int = -1
    """Newest audit request that a solution has taken over."""


@dataclass(frozen=True)
class Packet:
    """One message whose head is read."""

    kind: str
    values: dict[str, Any]
    arrays: Arrays
    data: bytes
    """The message itself, to be passed on as it is."""

    def part(self, name: str, kind: type[T]) -> T:
        """The dataclass under a name; SparserError where it is not there, or another one."""
        declared: Any = kind
        try:
            result: T = _layout(declared).unpack(self.values[name], name, self.arrays)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SparserError(f'no {kind.__name__} in a message: {error!r}') from error
        return result

    @property
    def answer(self) -> Answer:
        """Of a message of kind solution, verdict, bound or failed."""
        return self.part('answer', Answer)


def message(kind: str, **parts: Any) -> bytes:
    """The bytes of dataclasses and plain values under names."""
    arrays: Arrays = {}
    values = {name: _packed(part, name, arrays) for name, part in parts.items()}
    return encode(kind, values, arrays)


def _packed(part: Any, name: str, arrays: Arrays) -> Any:
    kind: Any = type(part)
    return _layout(kind).pack(part, name, arrays)


def encode(kind: str, values: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Bytes of a message with JSON-able values and numeric or boolean arrays."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    head = json.dumps({
        'kind': kind,
        'values': values,
        'arrays': [[name, a.dtype.str, list(a.shape)] for name, a in plain.items()],
    }, default=lambda number: number.item()).encode()
    return b''.join([
        _HEAD.pack(MAGIC, len(head)), head, *(array.tobytes() for array in plain.values())])


def decode(data: bytes) -> Packet:
    """The message in `data`; raises SparserError when it is not one, or cut short."""
    try:
        magic, length = _HEAD.unpack_from(data)
        if magic != MAGIC:
            raise ValueError(f'starts with {magic!r}, not {MAGIC!r}')
        head = json.loads(data[_HEAD.size:_HEAD.size + length])
        offset = _HEAD.size + length
        arrays: Arrays = {}
        for name, dtype, shape in head['arrays']:
            kind = np.dtype(dtype)
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(data, kind, count, offset).reshape(shape)
            offset += count * kind.itemsize
        return Packet(head['kind'], head['values'], arrays, data)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise SparserError(f'not a message of the back-end: {error}') from error


class _Layout(NamedTuple):
    """How values of one type become JSON, and come back; arrays go beside it under their path."""

    pack: Callable[[Any, str, Arrays], Any]
    unpack: Callable[[Any, str, Arrays], Any]


@functools.cache
def _layout(kind: Any) -> _Layout:
    """The layout of a dataclass, or of the type of one of its fields."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        return _of_fields(kind)
    if origin is np.ndarray:
        return _ARRAY
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _Layout(lambda value, path, arrays: value.value,
                       lambda value, path, arrays: kind(value))
    if origin in (typing.Union, types.UnionType):
        inner = _layout(next(k for k in arguments if k is not type(None)))
        return _Layout(
            lambda value, path, arrays: None if value is None else inner.pack(value, path, arrays),
            lambda value, path, arrays: None if value is None else inner.unpack(
                value, path, arrays))
    if origin is tuple:
        return _of_rows(arguments[0]) if is_dataclass(arguments[0]) else _Layout(
            lambda value, path, arrays: list(value), lambda value, path, arrays: _tuples(value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _of_tables() if arguments[1] is Table else _of_mapping(*arguments)
    return _PLAIN


_PLAIN = _Layout(lambda value, path, arrays: value, lambda value, path, arrays: value)
_ARRAY = _Layout(lambda value, path, arrays: arrays.update({path: value}),
                 lambda value, path, arrays: arrays[path])


def _tuples(value: Any) -> Any:
    """Lists as tuples, however deep."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


@functools.cache
def _fields(kind: Any) -> dict[str, _Layout]:
    hints = typing.get_type_hints(kind)
    return {field.name: _layout(hints[field.name]) for field in fields(kind) if field.init}


def _of_fields(kind: Any) -> _Layout:
    """A dataclass as a mapping; a field that is not there has its default."""
    parts = _fields(kind)
    if all(part is _ARRAY for part in parts.values()):
        # Tables of measurements are: there are many in every increment.
        return _Layout(
            lambda value, path, arrays: arrays.update(
                {f'{path}.{name}': getattr(value, name) for name in parts}),
            lambda value, path, arrays: kind(
                **{name: arrays[f'{path}.{name}'] for name in parts}))

    def pack(value: Any, path: str, arrays: Arrays) -> dict[str, Any]:
        return {name: part.pack(getattr(value, name), f'{path}.{name}', arrays)
                for name, part in parts.items()}

    def unpack(value: dict[str, Any], path: str, arrays: Arrays) -> Any:
        return kind(**{
            name: part.unpack(value[name], f'{path}.{name}', arrays)
            for name, part in parts.items() if name in value})

    return _Layout(pack, unpack)


def _of_rows(kind: Any) -> _Layout:
    """Many of one dataclass without arrays: lists of its values, in the order of its fields."""
    parts = _fields(kind)
    if all(part is _PLAIN for part in parts.values()):
        # Thousands of rejected measurements are.
        values_of = operator.attrgetter(*parts)
        return _Layout(lambda rows, path, arrays: [list(values_of(row)) for row in rows],
                       lambda rows, path, arrays: tuple(kind(*row) for row in rows))

    def pack(rows: tuple[Any, ...], path: str, arrays: Arrays) -> list[list[Any]]:
        return [[part.pack(getattr(row, name), path, arrays) for name, part in parts.items()]
                for row in rows]

    def unpack(rows: list[list[Any]], path: str, arrays: Arrays) -> tuple[Any, ...]:
        return tuple(
            kind(*(part.unpack(value, path, arrays)
                   for value, part in zip(row, parts.values(), strict=False)))
            for row in rows)

    return _Layout(pack, unpack)


def _of_mapping(key: Any, inner: Any) -> _Layout:
    """A mapping as pairs: JSON has no keys but texts."""
    part = _layout(inner)
    return _Layout(
        lambda value, path, arrays: [
            [name, part.pack(item, f'{path}.{name}', arrays)] for name, item in value.items()],
        lambda value, path, arrays: {
            _tuples(name): part.unpack(item, f'{path}.{name}', arrays) for name, item in value})


def _of_tables() -> _Layout:
    """Measurement tables by name."""
    def layout(name: str) -> _Layout:
        kind: Any = MEASUREMENT_TYPES[name].table
        return _layout(kind)

    return _Layout(
        lambda value, path, arrays: {
            name: layout(name).pack(table, f'{path}.{name}', arrays)
            for name, table in value.items()},
        lambda value, path, arrays: {
            name: layout(name).unpack(item, f'{path}.{name}', arrays)
            for name, item in value.items()})


def increment_message(
    increment: Increment, first: int | None = None, kind: str = INCREMENT, **parts: Any
) -> bytes:
    """An increment; `first` is the first sequence it stands for when it is a merged one."""
    return message(kind, increment=increment,
                   first=increment.sequence if first is None else first, **parts)


def increment_of(packet: Packet) -> Increment:
    """The increment of a packet of kind increment or thin."""
    return packet.part('increment', Increment)


def verdict_message(verdict: Verdict, answer: Answer) -> bytes:
    """A verdict, and what the node has to know of it without reading it."""
    return message(VERDICT, answer=answer, tells=verdict.tells, sequence=verdict.sequence,
                   verdict=verdict)


def config_text(config: SparserConfig) -> str:
    """The configuration as JSON."""
    return json.dumps(asdict(config))


def config_from(text: str) -> SparserConfig:
    """The configuration kept by `config_text`."""
    from ...config.option import build
    from ...config.sparser import SparserConfig

    return build(SparserConfig, json.loads(text))
