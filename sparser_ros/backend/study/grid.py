"""The runs of a study: bags x parameter sets x seeds, from a YAML file.

    config: c.yaml                      # of every run; {bag} is the name of the bag
    sets:                               # named sets of parameters, and
      plain: {}
      robust: {solver.robust.kernel: gm}
    parameters:                         # the product of values, each with each set
      ranges.sigma_m: [0.1, 0.2]
    seeds: [0, 1]                       # of solver.seed
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ...config import ConfigError, FormatError, SparserConfig
from ...config.yaml_file import YamlFile

KEYS = ('config', 'sets', 'parameters', 'seeds')


@dataclass(frozen=True)
class StudyRun:
    """One replay."""

    bag: str
    config: str
    """Parameter file, '' = all defaults."""
    set: str
    seed: int
    parameters: Mapping[str, Any]
    """Dotted names and values that differ from the file."""

    @property
    def key(self) -> str:
        """Name of the result: changes with the parameters, their file and the bag."""
        files = [path for path in (Path(self.config or '.'), *_bag_files(Path(self.bag)))
                 if path.is_file()]
        stamp = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        text = json.dumps([asdict(self), stamp], sort_keys=True, default=str)
        return f'{Path(self.bag).stem}-{hashlib.sha256(text.encode()).hexdigest()[:16]}'

    def configuration(self) -> SparserConfig:
        """The parameters of the run; ConfigError names what is unknown or out of bounds."""
        values = {**self.parameters, 'solver.seed': self.seed}
        if self.config:
            return SparserConfig.from_yaml(self.config, **values)
        return SparserConfig.from_mapping(values)


def runs_of(bags: Sequence[Path], path: Path) -> list[StudyRun]:
    """All runs, bag by bag; ConfigError for a file that does not say what to run."""
    grid = _read(path)
    sets = grid.get('sets') or {'': {}}
    varied = {name: value if isinstance(value, list) else [value]
              for name, value in (grid.get('parameters') or {}).items()}
    found = []
    for bag in bags:
        if not bag.exists():
            raise ConfigError(f'{bag}: no such bag')
        config = str(grid.get('config') or '').replace('{bag}', bag.stem)
        # A file named in the grid lies beside it.
        config = str((path.parent / config).resolve()) if config else ''
        for (name, own), values, seed in product(
                sets.items(), product(*varied.values()), grid.get('seeds') or [0]):
            parameters = {**(own or {}), **dict(zip(varied, values, strict=True))}
            found.append(StudyRun(str(bag.resolve()), config, str(name), int(seed), parameters))
    for one in {(r.config, json.dumps(r.parameters, default=str)): r for r in found}.values():
        one.configuration()
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        grid = YamlFile(path).value
    except FormatError as error:
        raise ConfigError(str(error)) from None
    kinds = {'config': str, 'sets': dict, 'parameters': dict, 'seeds': list}
    if not isinstance(grid, dict) or set(grid) - set(KEYS):
        raise ConfigError(f'{path}: expected a mapping with some of {", ".join(KEYS)}')
    for key, value in grid.items():
        if value is not None and not isinstance(value, kinds[key]):
            raise ConfigError(f'{path}: {key}: expected a {kinds[key].__name__}, got {value!r}')
    return grid


def _bag_files(bag: Path) -> list[Path]:
    return sorted(bag.iterdir()) if bag.is_dir() else [bag]
