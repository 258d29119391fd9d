"""Objects of this package as bytes: messages between the node, the tracker process and the auditor
process, and what the journal keeps.

To both processes: increment, thin, reset, rulings, configure, close. To the tracker also: solve,
verdict. To the auditor also: solution (the tracker's newest), audit, pause. From both: ready, beat,
failed. From the tracker: solution. From the auditor: verdict, bound. Every answer names the
generation (number of resets and thinnings) it belongs to and the newest request it answers.

A message is its kind, small values, and the bytes of one large object, which who passes it on need
not read. Reading admits data of this package, and what a front-end is made of:
a forged file cannot call anything else.
"""

from __future__ import annotations

import functools
import hashlib
import io
import pickle
from dataclasses import dataclass, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from ...config import SparserError
from ...graph import MEASUREMENT_TYPES, Increment
from ..session.solution import Verdict

INCREMENT, SOLVE, AUDIT, RESET = 'increment', 'solve', 'audit', 'reset'
RULINGS, CONFIGURE, THIN, CLOSE = 'rulings', 'configure', 'thin', 'close'
PAUSE = 'pause'
READY, BEAT, SOLUTION, VERDICT, FAILED = 'ready', 'beat', 'solution', 'verdict', 'failed'
BOUND = 'bound'
_OURS = 'sparser_ros.'
_FRONT_END = ('sparser_ros.frontend.', 'sparser_ros.config.', 'sparser_ros.graph.')
"""Rooms of what a front-end is made of, functions that read messages included."""
_PLAIN = {
    ('array', 'array'), ('array', '_array_reconstructor'),
    ('builtins', 'set'), ('builtins', 'frozenset'), ('collections', 'OrderedDict'),
    ('collections', 'deque'), ('collections', 'Counter'), ('collections', 'defaultdict'),
    ('functools', 'partial'), ('re', '_compile'), ('numpy', 'ndarray'), ('numpy', 'dtype'),
    *((f'numpy.{core}.multiarray', name) for core in ('core', '_core')
      for name in ('_reconstruct', 'scalar')),
    *((f'numpy.{core}.numeric', '_frombuffer') for core in ('core', '_core')),
}


def pack(value: Any) -> bytes:
    """The bytes of an object."""
    return pickle.dumps(value, protocol=5)


def unpack(data: bytes) -> Any:
    """The object of these bytes; SparserError where there is none."""
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except Exception as error:
        raise SparserError(f'not bytes of this package: {error!r}') from error


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        tables = {(kind.table.__module__, kind.table.__name__): kind.table
                  for kind in MEASUREMENT_TYPES.values()}
        if (module, name) in tables:
            return tables[module, name]
        if module.startswith(_OURS) and '.' not in name:
            value = super().find_class(module, name)
            data = isinstance(value, type) and (is_dataclass(value) or issubclass(value, Enum))
            own = str(getattr(value, '__module__', '')).startswith(_OURS)
            if own and (data or f'{module}.'.startswith(_FRONT_END)):
                return value
        raise pickle.UnpicklingError(f'{module}.{name} does not belong here')


@functools.cache
def fingerprint(*rooms: str) -> str:
    """Differs between versions of rooms of this package, which do not read each other's objects."""
    digest = hashlib.sha256()
    for room in rooms:
        for path in sorted((Path(__file__).parents[2] / room).rglob('*.py')):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


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
    """One message whose kind and values are read."""

    kind: str
    values: dict[str, Any]
    content: bytes
    """Of the body."""
    data: bytes
    """The message itself, to be passed on as it is."""

    @functools.cached_property
    def body(self) -> Any:
        """The large object: the increment, solution, verdict, bound, rulings or configuration."""
        return unpack(self.content)

    @property
    def answer(self) -> Answer:
        """Of a message of kind solution, verdict, bound or failed."""
        answer: Answer = self.values['answer']
        return answer


def message(kind: str, body: Any = None, **values: Any) -> bytes:
    """The bytes of a message."""
    return pack((kind, values, pack(body)))


def decode(data: bytes) -> Packet:
    """The message in `data`; SparserError when it is none."""
    parts = unpack(data)
    if not isinstance(parts, tuple) or len(parts) != 3:
        raise SparserError('not a message of the back-end')
    return Packet(*parts, data)


def increment_message(increment: Increment, first: int | None = None) -> bytes:
    """An increment; `first` is the first sequence it stands for when it is a merged one."""
    return message(INCREMENT, increment, first=increment.sequence if first is None else first)


def verdict_message(verdict: Verdict, answer: Answer) -> bytes:
    """A verdict, and what the node has to know of it without reading it."""
    return message(VERDICT, verdict, answer=answer, tells=verdict.tells, sequence=verdict.sequence)
