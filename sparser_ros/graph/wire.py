"""Tables as named arrays, `table.column`: what crosses pipes and fills journals and .npz files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from .graph import Poses
from .measurements import MEASUREMENT_TYPES, Table


def to_arrays(tables: Mapping[str, Table]) -> dict[str, NDArray[Any]]:
    """All columns of some tables under the names `table.column`."""
    return {
        f'{name}.{column}': getattr(table, column)
        for name, table in tables.items() for column in table.columns()}


def tables_from(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Table]:
    """Measurement tables of named arrays; a type without columns among them is left out."""
    return {
        name: _table(name, kind.table, arrays) for name, kind in MEASUREMENT_TYPES.items()
        if f'{name}.{next(iter(kind.table.columns()))}' in arrays}


def poses_from(arrays: Mapping[str, NDArray[Any]]) -> Poses:
    """The table of poses of named arrays."""
    poses = _table('poses', Poses, arrays)
    assert isinstance(poses, Poses)
    return poses


def _table(name: str, kind: type[Table], arrays: Mapping[str, NDArray[Any]]) -> Table:
    """KeyError where a column is missing."""
    return kind(**{column: arrays[f'{name}.{column}'] for column in kind.columns()})
