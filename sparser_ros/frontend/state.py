"""The state of a front-end as bytes, to go on with after a crash.

Pickle writes whatever objects the front-end is made of. Reading admits only classes and functions
of this package's front-end, configuration and graph, and the containers that they use: a forged
file cannot call anything else.
"""

from __future__ import annotations

import functools
import hashlib
import io
import pickle
import types
from pathlib import Path
from typing import Any

from ..config import SparserError
from .frontend import Frontend
from .inputs import Inputs

_ROOMS = ('sparser_ros.frontend.', 'sparser_ros.config.', 'sparser_ros.graph.')
_PLAIN = {
    ('array', 'array'), ('array', '_array_reconstructor'),
    ('builtins', 'set'), ('builtins', 'frozenset'), ('collections', 'OrderedDict'),
    ('collections', 'deque'), ('collections', 'Counter'), ('collections', 'defaultdict'),
    ('functools', 'partial'), ('re', '_compile'), ('numpy', 'ndarray'), ('numpy', 'dtype'),
    *((f'numpy.{core}.multiarray', name) for core in ('core', '_core')
      for name in ('_reconstruct', 'scalar')),
    *((f'numpy.{core}.numeric', '_frombuffer') for core in ('core', '_core')),
}


def pack(frontend: Frontend, inputs: Inputs) -> bytes:
    """The bytes of a front-end and of the adapters of its inputs."""
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump((frontend, inputs))
    return stream.getvalue()


def unpack(data: bytes) -> tuple[Frontend, Inputs]:
    """The front-end of `pack`; SparserError for anything else."""
    try:
        frontend, inputs = _Unpickler(io.BytesIO(data)).load()
    except Exception as error:
        raise SparserError(f'no state of a front-end: {error!r}') from error
    if not isinstance(frontend, Frontend) or not isinstance(inputs, Inputs):
        raise SparserError('no state of a front-end')
    return frontend, inputs


@functools.cache
def fingerprint() -> str:
    """Differs between versions of the front-end, which do not read each other's state."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob('*.py')):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class _Pickler(pickle.Pickler):
    """Bound methods go as object and name: pickle itself would need `getattr` on reading."""

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, types.MethodType):
            return _method, (item.__self__, item.__name__)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        ours = f'{module}.'.startswith(_ROOMS) and '.' not in name
        if (module, name) not in _PLAIN and not ours:
            raise pickle.UnpicklingError(f'{module}.{name} does not belong here')
        found = super().find_class(module, name)
        if ours and not str(getattr(found, '__module__', '')).startswith('sparser_ros.'):
            raise pickle.UnpicklingError(f'{module}.{name} does not belong here')
        return found


def _method(owner: Any, name: str) -> Any:
    """A method of an object of this package."""
    kind = type(owner)
    if not kind.__module__.startswith(_ROOMS) or not isinstance(
            getattr(kind, name, None), types.FunctionType):
        raise pickle.UnpicklingError(f'{kind.__name__}.{name} does not belong here')
    return getattr(owner, name)
