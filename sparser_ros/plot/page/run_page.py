"""The page of a run: summary, map, residuals, convergence, calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...array_types import Array
from ...config import RobustConfig
from ...graph import Estimate, Graph, range_residuals, squared_residuals
from ...solver.robust import KERNELS, thresholds, widths_at
from .html_page import PageTable, Section, render
from .map_figure import map_figure
from .residual_figures import by_pair, convergence, histogram


def run_page(
    name: str, graph: Graph, estimate: Estimate, report: Mapping[str, Any],
    covariances: Mapping[str, Any],
) -> str:
    """HTML of a solved graph; `report` and `covariances` may be empty."""
    weights = final_weights(graph, estimate, str(report.get('kernel') or 'none'))
    figures = [_histogram_of(graph, estimate, table) for table in graph.tables()
               if len(graph.tables()[table])]
    pairs = by_pair(graph, estimate)
    sections = [
        Section('Summary', warnings=[*report.get('warnings', []), *report.get('undetermined', [])],
                tables=[PageTable(_summary(graph, report), head=False)]),
        Section('Map', notes=_map_notes(graph, covariances),
                figures=[map_figure(graph, estimate, weights, covariances, report)]),
        Section('Residuals', notes=[
            'Ranges: measured minus predicted, so a blocked range lies on the right. Others: the '
            'length of the whitened residual.'],
            figures=[*figures, *([] if pairs is None else [pairs])])]
    curves = convergence(report)
    if curves:
        sections.append(Section('Convergence', figures=curves))
    if report.get('calibration'):
        sections.append(_calibration(report['calibration']))
    return render(f'sparser: {name}', sections)


def final_weights(graph: Graph, estimate: Estimate, kernel: str) -> dict[str, Array]:
    """Robust weights at the final residuals, with the kernel's default thresholds."""
    if kernel not in KERNELS or kernel == 'none':
        return {}
    widths = thresholds(graph, RobustConfig(kernel=kernel), graph.dimension)
    if kernel == 'one_sided':
        widths['ranges'] = widths_at(
            graph.ranges, RobustConfig(), widths['ranges'],
            range_residuals(graph, estimate))
    squares = squared_residuals(graph, estimate)
    return {name: np.where(np.isfinite(c2), KERNELS[kernel].weight(
        squares[name], np.where(np.isfinite(c2), c2, 1.0)), 1.0) for name, c2 in widths.items()}


def _histogram_of(graph: Graph, estimate: Estimate, table: str) -> dict[str, Any]:
    if table == 'ranges':
        whitened = -range_residuals(graph, estimate) * np.sqrt(graph.ranges.precision)
        return histogram(table, whitened, signed=True)
    return histogram(table, np.sqrt(squared_residuals(graph, estimate)[table]), signed=False)


def _summary(graph: Graph, report: Mapping[str, Any]) -> list[list[Any]]:
    rows: list[list[Any]] = [['graph', str(graph)]]
    seconds = report.get('seconds') or {}
    for title, value in (
            ('status', report.get('status')), ('cost', report.get('cost_final')),
            ('robust cost', report.get('cost_robust')), ('kernel', report.get('kernel')),
            ('rejected measurements', len(report['rejected']) if 'rejected' in report else None),
            ('certified', report.get('certified')),
            ('RMSE against the reference [m]', report.get('ate_rmse_m')),
            ('seconds', seconds.get('total')), ('iterations', report.get('iterations'))):
        if value is not None:
            rows.append([title, value])
    for robot, state in (report.get('locations') or {}).items():
        rows.append([f'robot {robot}', state['location']
                     + (f' ({state["missing"]})' if state.get('missing') else '')])
    return rows


def _map_notes(graph: Graph, covariances: Mapping[str, Any]) -> list[str]:
    notes = ['A ring is the start of a robot, a dot its end. Click a name in the legend to hide '
             'it; drag to zoom.']
    if covariances and graph.dimension == 2:
        notes.append(f'Ellipses are relative to {covariances["gauge"]} and hold for the claimed '
                     f'noise; found variance is {covariances["variance_factor"]:.2f} times that.')
    return notes


def _calibration(found: Mapping[str, Any]) -> Section:
    """Tables of all lists and mappings of plain values in the fields of a calibration."""
    tables, rows = [], []
    for name, value in found.items():
        if isinstance(value, Mapping) and value and all(
                isinstance(one, Mapping) for one in value.values()):
            columns = list(dict.fromkeys(key for one in value.values() for key in one))
            tables.append(PageTable([[name, *columns], *(
                [key, *(_plain(one.get(column)) for column in columns)]
                for key, one in value.items())]))
        else:
            rows.append([name, _plain(value)])
    if rows:
        tables.append(PageTable(rows, head=False))
    return Section('Calibration', tables=tables)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
