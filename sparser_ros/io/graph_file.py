"""Graph files by suffix: `.pyfg` and `.g2o`."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from ..config import FormatError
from ..graph import Graph
from . import g2o, pyfg

FORMATS: dict[str, ModuleType] = {'.pyfg': pyfg, '.g2o': g2o}


def read(path: Path | str) -> Graph:
    """Read a graph file; FormatError names file, line and what was expected."""
    graph: Graph = _format(path).read(path)
    return graph


def write(path: Path | str, graph: Graph) -> None:
    """Write a graph in the format of the path's suffix."""
    _format(path).write(path, graph)


def rewrite_vertices(source: Path | str, target: Path | str, graph: Graph) -> None:
    """Copy a graph file with the values of `graph`, read from it, in its vertex lines."""
    _format(source).rewrite_vertices(source, target, graph)


def _format(path: Path | str) -> ModuleType:
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise FormatError(
            path, None, f'expected a file name ending in {" or ".join(FORMATS)}, got {suffix!r}')
    return FORMATS[suffix]
