"""Folders of finished runs: the solved graph, the report and the covariances.

`--run DIR` of `solve` and `replay` writes one; the folders of the node's `~/save` are read as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import FormatError
from ..graph import Estimate, Graph, estimate_of, with_estimate
from . import pyfg, report

MAP, REPORT, COVARIANCES = 'map.pyfg', 'report.json', 'covariances.json'


@dataclass(frozen=True)
class RunFolder:
    name: str
    graph: Graph
    estimate: Estimate
    report: Mapping[str, Any]
    """Fields of `report.json`; empty where there is none."""
    covariances: Mapping[str, Any]
    """Fields of `io.report.covariance_fields`; empty where they are not known."""


def write(
    folder: Path | str, graph: Graph, estimate: Estimate, fields: Mapping[str, Any]
) -> list[Path]:
    """Write map and report, each atomically; returns the files."""
    folder = Path(folder)
    pyfg.write(folder / MAP, with_estimate(graph, estimate))
    report.write(folder / REPORT, fields)
    return [folder / MAP, folder / REPORT]


def read(folder: Path | str) -> RunFolder:
    """Read a run; FormatError where it holds no map."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FormatError(folder, None, 'no such folder; `sparser solve GRAPH --run DIR` makes one')
    maps = sorted(folder.rglob(MAP), key=lambda path: (-len(path.parts), path.stat().st_mtime))
    if not maps:
        raise FormatError(
            folder, None, f'expected a folder with {MAP}, as `sparser solve --run DIR`, '
            '`sparser replay --run DIR` and the service ~/save write it')
    graph = pyfg.read(maps[-1]).validate()
    fields = _json(folder / REPORT)
    covariances = _json(maps[-1].parent / COVARIANCES) or fields.get('covariance') or {}
    return RunFolder(
        str(fields.get('dataset') or folder.resolve().name), graph, estimate_of(graph), fields,
        {} if 'error' in covariances else covariances)


def _json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding='utf-8'))
    except (ValueError, RecursionError) as error:
        raise FormatError(path, None, f'expected JSON: {error}') from None
    if not isinstance(value, dict):
        raise FormatError(path, None, 'expected a JSON object')
    return value
