"""The report of a run as JSON: what was solved, how, how well and how fast; and folders with a map
and its report."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array
from ..config import FormatError
from ..graph import (
    Estimate,
    Graph,
    chi_square_residuals,
    estimate_of,
    with_estimate,
)
from ..linalg.rotations import aligned_errors
from ..solver.result import SolveStats, SolveStatus
from . import atomic, pyfg

_OF_THE_SOLVE = (
    'rank', 'init', 'formulation', 'backend', 'backend_reason', 'kernel', 'plan', 'iterations',
    'cg_steps', 'cg_stops', 'cost_relaxed', 'cost_final', 'cost_robust', 'certified',
    'suboptimality', 'lambda_min', 'trace')
"""Fields of SolveStats that a report has under the same name."""
REJECTED_BELOW = 0.1
"""Robust weight under which a measurement counts as rejected."""
MAP, REPORT, COVARIANCES = 'map.pyfg', 'report.json', 'covariances.json'
"""Files of a run."""


def build(
    graph: Graph,
    stats: SolveStats,
    status: SolveStatus,
    *,
    estimate: Estimate | None,
    message: str = '',
    dataset: str = '',
    seconds: Mapping[str, float] | None = None,
    truth: Estimate | None = None,
    rejected: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """All fields of a report; None where something was not run or is not known.

    `seconds` adds load and total to the solver's stages. `truth` is in the order of the graph's
    poses. `rejected` replaces the list that is otherwise derived from the robust weights.
    """
    times: dict[str, float | None] = dict.fromkeys(
        ('load', 'setup', 'solve', 'refine', 'certify', 'total'))
    times.update(stats.seconds)
    times.update(seconds or {})
    if rejected is None:
        rejected = [] if estimate is None else rejected_of(graph, estimate, stats)
    return {
        'dataset': dataset or graph.name,
        'dimension': graph.dimension,
        'robots': list(graph.robots),
        'n_poses': graph.n_poses,
        'n_landmarks': graph.n_landmarks,
        'n_relative': len(graph.relative_poses),
        'n_closures': int(np.count_nonzero(~graph.relative_poses.odometry)),
        'n_sightings': len(graph.sightings),
        'n_ranges': len(graph.ranges),
        'n_priors': graph.n_absolute,
        'status': status.value,
        'message': message,
        'seconds': times,
        **{name: getattr(stats, name) for name in _OF_THE_SOLVE},
        'rejected': rejected,
        'ate_m': ate(estimate, truth),
        'ate_rmse_m': ate_rmse(estimate, truth),
    }


def covariance_fields(
    gauge: str, variance_factor: float, poses: Mapping[str, Array | None],
    landmarks: Mapping[str, Array | None],
) -> dict[str, Any]:
    """Marginal covariances in map by name; None, or null, where one is not known."""
    def listed(values: Array | None) -> list[list[float]] | None:
        return None if values is None or not np.all(np.isfinite(values)) else values.tolist()

    plane = any(values is not None and len(values) == 3 for values in poses.values())
    return {
        'gauge': gauge,
        'variance_factor': variance_factor,
        'order': 'x y rz' if plane else 'x y z rx ry rz',
        'units': 'm, rad; rotations about the axes of map',
        'newest_poses': {name: listed(values) for name, values in poses.items()},
        'landmarks': {name: listed(values) for name, values in landmarks.items()},
    }


def write(path: Path | str, report: Mapping[str, Any]) -> None:
    atomic.write_text(path, as_text(report))


def as_text(report: Mapping[str, Any]) -> str:
    """A report as JSON; numbers that are not finite become null."""
    return json.dumps(_plain(report), indent=1, allow_nan=False) + '\n'


def whitened(graph: Graph, estimate: Estimate) -> dict[str, Array]:
    """Residuals in sigmas by table; rotations of the plane with their true weight."""
    return {name: np.sqrt(values)
            for name, values in chi_square_residuals(graph, estimate).items()}


def rejected_of(graph: Graph, estimate: Estimate, stats: SolveStats) -> list[dict[str, Any]]:
    """Measurements with a robust weight below a tenth, the kind by the name of its table."""
    ends = {
        name: [getattr(table, column) for column in table.endpoints()]
        for name, table in graph.tables().items()}
    residuals = whitened(graph, estimate)
    return [
        {
            'index': row,
            'type': name,
            'from': graph.endpoint_name(int(ends[name][0][row])),
            'to': graph.endpoint_name(int(ends[name][1][row])) if len(ends[name]) > 1 else 'map',
            'weight': float(weights[row]),
            'whitened_residual': float(residuals[name][row]),
        }
        for name, weights in stats.weights.items() if name in ends
        for row in np.flatnonzero(weights < REJECTED_BELOW).tolist()
    ]


def ate(estimate: Estimate | None, truth: Estimate | None) -> float | None:
    """Mean position error in metres after alignment; None without a truth."""
    errors = position_errors(estimate, truth)
    return None if errors is None else float(np.mean(errors))


def ate_rmse(estimate: Estimate | None, truth: Estimate | None) -> float | None:
    """Root mean square of the same errors: what `evo_ape --align` calls rmse."""
    errors = position_errors(estimate, truth)
    return None if errors is None else float(np.sqrt(np.mean(errors**2)))


def position_errors(estimate: Estimate | None, truth: Estimate | None) -> Array | None:
    """(n,): position errors of all poses that have a truth, in metres after rigid alignment; None
    without a truth.

    Without poses those of the landmarks, whose mirror image fits ranges alone as well.
    """
    if estimate is None or truth is None or not len(truth.points):
        return None
    if len(truth.translation):
        known = np.isfinite(truth.translation[:, 0])
        return aligned_errors(estimate.translation[known], truth.translation[known])
    return aligned_errors(estimate.landmarks, truth.landmarks, mirror=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# -- folders of runs ---------------------------------------------------------------------------


@dataclass(frozen=True)
class RunFolder:
    """A finished run: `--run DIR` of `solve` and `replay`, or a folder of the node's `~/save`."""

    name: str
    graph: Graph
    estimate: Estimate
    report: Mapping[str, Any]
    """Fields of `report.json`; empty where there is none."""
    covariances: Mapping[str, Any]
    """Fields of `covariance_fields`; empty where they are not known."""


def write_run(
    folder: Path | str, graph: Graph, estimate: Estimate, fields: Mapping[str, Any]
) -> list[Path]:
    """Write map and report, each atomically; returns the files."""
    folder = Path(folder)
    pyfg.write(folder / MAP, with_estimate(graph, estimate))
    write(folder / REPORT, fields)
    return [folder / MAP, folder / REPORT]


def read_run(folder: Path | str) -> RunFolder:
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
