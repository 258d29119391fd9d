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
    return pickle.dumps((frontend, inputs), protocol=5)


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


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        ours = f'{module}.'.startswith(_ROOMS) and '.' not in name
        if (module, name) not in _PLAIN and not ours:
            raise pickle.UnpicklingError(f'{module}.{name} does not belong here')
        value = super().find_class(module, name)
        if ours and not str(getattr(value, '__module__', '')).startswith('sparser_ros.'):
            raise pickle.UnpicklingError(f'{module}.{name} does not belong here')
        return value
