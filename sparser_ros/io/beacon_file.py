"""Beacons of a map as files: parameters of a node (YAML), and a table with full covariances."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array
from ..config import FormatError
from ..config.yaml_file import YamlFile
from . import atomic, ros_yaml

NAME = 'beacons.yaml'
SIGMA_FLOOR_M = 1e-3
"""Least standard deviation written, m: zero would mean that a position is exact."""
_CHECKSUM = 'checksum of these radios: '
_CHECKSUM_LINE = re.compile(rf'^# {_CHECKSUM}([0-9a-f]+)$', re.MULTILINE)


@dataclass(frozen=True)
class SavedBeacon:
    """Where a beacon stands in a map, and how well that is known."""

    name: str
    position: tuple[float, ...]
    """(d,), m."""
    covariance: Array
    """(d, d), m^2."""

    @property
    def sigma_m(self) -> float:
        """Standard deviation in the worst direction."""
        return max(math.sqrt(max(np.linalg.eigvalsh(self.covariance)[-1], 0.0)), SIGMA_FLOOR_M)


def write(folder: Path, beacons: Sequence[SavedBeacon]) -> None:
    """Write `beacons.yaml`, which a node takes as parameters, and `beacons.csv`."""
    radios = {one.name: {
        'beacon': one.name, 'position': [round(float(x), 6) for x in one.position],
        'sigma_m': round(one.sigma_m, 6)} for one in beacons}
    ros_yaml.write(folder / NAME, {'radios': radios} if radios else {}, (
        'A checksum guards these positions: without the next line the file can be edited.',
        _CHECKSUM + _checksum(radios)))
    lines = ['name,position_m...,covariance_m2 (row-major)...']
    lines += [','.join((one.name, *(f'{x:.9g}' for x in (*one.position, *one.covariance.ravel()))))
              for one in beacons]
    atomic.write_text(folder / 'beacons.csv', '\n'.join(lines) + '\n')


def read(path: Path | str, dimension: int) -> dict[str, dict[str, Any]]:
    """Radios of a saved map by name; `path` is its folder, or the YAML file in it.

    Raises FormatError for a file that is missing, holds something else, or is not as it was saved.
    A file without a checksum, written by hand, is read as it is.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        file = file / NAME
    source = YamlFile(file)
    text = source.text
    radios = _radios(source.value)
    if radios is None:
        raise FormatError(file, None, 'no map: expected /**: ros__parameters: radios: …')
    saved = _CHECKSUM_LINE.search(text)
    if saved is not None and saved[1] != _checksum(radios):
        raise FormatError(
            file, text.count('\n', 0, saved.start()) + 1,
            'the checksum does not fit the radios: the file is damaged, copy it again or save the '
            'map again; if it was edited on purpose, delete this line')
    for name, radio in radios.items():
        position = radio.get('position') if isinstance(radio, Mapping) else None
        if not isinstance(position, list) or len(position) < dimension or not all(
                isinstance(x, (int, float)) and math.isfinite(x) for x in position):
            raise FormatError(file, None, f'{name}: expected {dimension} coordinates')
    return {str(name): dict(radio) for name, radio in radios.items()}


def _checksum(radios: Mapping[Any, Any]) -> str:
    """Of what the radios mean, whatever their layout."""
    text = json.dumps(radios, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _radios(document: Any) -> Mapping[str, Any] | None:
    for key in ('/**', 'ros__parameters'):
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    if not isinstance(document, Mapping):
        return None
    radios = document.get('radios', {})
    return radios if isinstance(radios, Mapping) else None
