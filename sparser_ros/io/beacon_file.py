"""Beacons of a map as files: parameters of a node (YAML), and a table with full covariances."""

from __future__ import annotations

import csv
import hashlib
import io
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
from . import atomic

NAME = 'beacons.yaml'
SIGMA_FLOOR_M = 1e-3
"""Least standard deviation written, m: zero would mean that a position is exact."""
MOST_BYTES = 1_000_000
"""10 000 beacons."""
LONGEST_NAME = 200
"""Characters."""
FURTHEST_M = 1e9
"""No coordinate of any map is larger."""
_CHECKSUM = 'checksum of these radios: '
_CHECKSUM_LINE = re.compile(rf'^# {_CHECKSUM}([0-9a-f]+)$', re.MULTILINE)


@dataclass(frozen=True)
class SavedBeacon:
    """Position of a beacon in a map, with its covariance."""

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
    radios = {beacon.name: {
        'beacon': beacon.name, 'position': [round(float(x), 6) for x in beacon.position],
        'sigma_m': round(beacon.sigma_m, 6)} for beacon in beacons}
    atomic.write_parameters(folder / NAME, {'radios': radios} if radios else {}, (
        'A checksum guards these positions: without the next line the file can be edited.',
        _CHECKSUM + _checksum(radios)))
    text = io.StringIO()
    table = csv.writer(text, lineterminator='\n')
    table.writerow(['name', 'position_m...', 'covariance_m2 (row-major)...'])
    table.writerows([beacon.name, *(
        f'{x:.9g}' for x in (*beacon.position, *beacon.covariance.ravel()))] for beacon in beacons)
    atomic.write_text(folder / 'beacons.csv', text.getvalue())


def read(path: Path | str, dimension: int) -> dict[str, dict[str, Any]]:
    """Radios of a saved map by name; `path` is its folder, or the YAML file in it.

    Raises FormatError for a file that is missing, holds something else or no beacon at all, or is
    not as it was saved. A file without a checksum, written by hand, is read as it is.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        file = file / NAME
    source = YamlFile(file, most_bytes=MOST_BYTES)
    text = source.text
    saved_as = [block.values for block in source.blocks() if block.name == '/**']
    radios = saved_as[0].get('radios', {}) if saved_as else None
    if not isinstance(radios, dict):
        raise FormatError(file, None, 'no map: expected /**: ros__parameters: radios: …')
    for name, radio in radios.items():
        fault = _name_fault(name) or _radio_fault(name, radio, dimension)
        if fault:
            raise FormatError(file, None, fault)
    saved = _CHECKSUM_LINE.search(text)
    if saved is not None and saved[1] != _checksum(radios):
        raise FormatError(
            file, text.count('\n', 0, saved.start()) + 1,
            'the checksum does not fit the radios: the file is damaged, copy it again or save the '
            'map again; if it was edited on purpose, delete this line')
    if not radios:
        raise FormatError(file, None, 'the map has no beacon: none was located when it was saved')
    return {name: {**radio, 'beacon': _written(radio.get('beacon', name))}
            for name, radio in radios.items()}


def _written(value: Any) -> Any:
    """A number as it is written: the name of a beacon may look like one."""
    return getattr(value, 'text', value)


def _name_fault(name: Any) -> str:
    """Why a name is none, or ''."""
    if not isinstance(name, str):
        return f'{str(name)[:60]} is no name: expected text'
    if not name or not name.isprintable() or len(name) > LONGEST_NAME:
        return (f'{name[:LONGEST_NAME]!r} is no name: 1 to {LONGEST_NAME} characters that can be '
                'printed')
    return ''


def _radio_fault(name: str, radio: Any, dimension: int) -> str:
    """Why an entry is no beacon at a known position, or ''."""
    if not isinstance(radio, Mapping):
        return f'{name}: expected beacon, position and sigma_m'
    position, sigma_m = radio.get('position'), radio.get('sigma_m', 0.0)
    if not isinstance(position, list) or not dimension <= len(position) <= 3 or not all(
            _is_length(x) for x in position):
        return (f'{name}: expected {dimension} coordinates of at most {FURTHEST_M:g} m, not '
                f'{str(position)[:60]}')
    if not _is_length(sigma_m) or sigma_m < 0:
        return f'{name}.sigma_m: expected metres, not {str(sigma_m)[:60]}'
    if 'robot' in radio:
        return f'{name}: a radio of robot {str(radio["robot"])[:60]!r}, no beacon'
    fault = _name_fault(_written(radio.get('beacon', name)))
    return f'{name}.beacon: {fault}' if fault else ''


def _is_length(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and (
        abs(value) <= FURTHEST_M)


def _checksum(radios: Mapping[Any, Any]) -> str:
    """Of what the radios mean, whatever their layout."""
    text = json.dumps(radios, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
