"""The HTML page of a run: summary, map, residuals, convergence, calibration."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import RobustConfig
from ..graph import Estimate, Graph, range_residuals, squared_residuals
from ..graph.range_ends import range_ends
from ..solver.robust import KERNELS, thresholds, widths_at
from .figure import (
    COLOURS,
    FAINT,
    MOST_LINKS,
    REJECTED,
    REJECTED_BELOW,
    link_path,
    robot_colours,
)
from .html_page import GRID, INK, PAPER, PageTable, Section, base_layout, render

MOST_POINTS = 4000
"""Points of a trajectory; more are thinned evenly, since each is an element of the page."""
PLACED = ('located', 'position_only')
"""Values of `location` in a report of robots that have a position in map."""
CONFIDENCE_95 = 5.991
"""95 % quantile of chi-square with two degrees of freedom."""
TRUSTED = 0.5
"""Robust weight below which a closure is drawn as doubted."""
BINS = 60
SHOWN = (0.5, 99.5)
"""Percentiles of residuals that set the axis; what lies beyond counts in the outermost bins."""
LEAST_AXIS = 1.5
"""Sigmas that are shown at least, so that the density of normal noise has its shape."""
MOST_PAIRS = 40
"""Pairs of radios that are drawn: those with the largest median residual."""


def run_page(
    name: str, graph: Graph, estimate: Estimate, report: Mapping[str, Any],
    covariances: Mapping[str, Any],
) -> str:
    """HTML of a solved graph; `report` and `covariances` may be empty."""
    weights = final_weights(graph, estimate, str(report.get('kernel') or 'none'))
    figures = [_histogram_of(graph, estimate, table) for table in graph.tables()
               if len(graph.tables()[table])]
    pairs = _by_pair(graph, estimate)
    sections = [
        Section('Summary', warnings=[*report.get('warnings', []), *report.get('undetermined', [])],
                tables=[PageTable(_summary(graph, report), head=False)]),
        Section('Map', notes=_map_notes(graph, covariances),
                figures=[_map_figure(graph, estimate, weights, covariances, report)]),
        Section('Residuals', notes=[
            'Ranges: measured minus predicted, so a blocked range lies on the right. Others: the '
            'length of the whitened residual.'],
            figures=[*figures, *([] if pairs is None else [pairs])])]
    curves = _convergence(report)
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


def _map_figure(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array],
    covariances: Mapping[str, Any], report: Mapping[str, Any],
) -> dict[str, Any]:
    """Figure of a map in metres; `weights` robust weights by table, `covariances` by name as in
    `io.report.covariance_fields`, `report` says which robots and beacons have a place."""
    untrusted = {
        robot: state['location'] for robot, state in (report.get('locations') or {}).items()
        if state['location'] not in PLACED}
    lost = {name for name, beacon in (report.get('beacons') or {}).items()
            if not beacon['located']}
    data = [
        *_links(graph, estimate, weights), *_trajectories(graph, estimate, untrusted),
        *_beacons(graph, estimate, lost), *_ellipses(graph, estimate, covariances)]
    layout = base_layout(height=640)
    if graph.dimension == 2:
        layout['xaxis'] |= {'title': {'text': 'x [m]'}}
        layout['yaxis'] |= {'title': {'text': 'y [m]'}, 'scaleanchor': 'x'}
    else:
        axis = {'gridcolor': GRID, 'color': INK, 'backgroundcolor': PAPER}
        layout['scene'] = {'aspectmode': 'data', **{
            f'{name}axis': {**axis, 'title': {'text': f'{name} [m]'}} for name in 'xyz'}}
    return {'data': data, 'layout': layout}


def _trace(points: Array, **more: Any) -> dict[str, Any]:
    """A scatter of (n, d) points; rows of NaN are gaps."""
    rounded = [[None if np.isnan(v) else round(float(v), 3) for v in column] for column in points.T]
    kind = 'scatter' if len(rounded) == 2 else 'scatter3d'
    return {'type': kind, **dict(zip('xyz', rounded, strict=False)), **more}


def _trajectories(
    graph: Graph, estimate: Estimate, untrusted: Mapping[str, str]
) -> list[dict[str, Any]]:
    traces, colours = [], robot_colours(graph.robots)
    for number, robot in enumerate(graph.robots):
        rows = graph.pose_rows(number)
        if not len(rows):
            continue
        kept = rows[np.unique(np.linspace(0, len(rows) - 1, MOST_POINTS).astype(int))]
        colour, why = colours[robot], untrusted.get(robot, '')
        faint: dict[str, Any] = {'opacity': 0.4} if why else {}
        traces.append(_trace(
            estimate.translation[kept], mode='lines', legendgroup=robot, **faint,
            name=f'robot {robot} ({why}, not to be trusted)' if why else f'robot {robot}',
            line={'color': colour, 'width': 2, **({'dash': 'dash'} if why else {})},
            hovertemplate=f'{robot}<br>%{{x}} m, %{{y}} m<extra></extra>'))
        traces.append(_trace(
            estimate.translation[rows[[0, -1]]], mode='markers', legendgroup=robot,
            showlegend=False, **faint, text=[f'{robot}: start', f'{robot}: end'],
            hovertemplate='%{text}<extra></extra>', marker={
                'color': [PAPER, colour], 'size': 9, 'line': {'color': colour, 'width': 2}}))
    return traces


def _beacons(graph: Graph, estimate: Estimate, lost: Collection[str]) -> list[dict[str, Any]]:
    names = graph.landmarks.names
    if not names:
        return []
    named = len(names) <= 40
    return [_trace(
        estimate.landmarks, mode='markers+text' if named else 'markers', name='beacons',
        text=[f'{name} (no place)' if name in lost else name for name in names],
        textposition='top right',
        hovertemplate='beacon %{text}<br>%{x} m, %{y} m<extra></extra>',
        marker={'symbol': 'triangle-up' if graph.dimension == 2 else 'diamond', 'color': INK,
                'size': 11 if named else 6})]


def _links(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array]
) -> list[dict[str, Any]]:
    table, traces = graph.relative_poses, []
    weight = weights.get('ranges', np.ones(len(graph.ranges)))
    for keep, name, line in (
            (weight >= REJECTED_BELOW, 'ranges', {'color': FAINT, 'width': 0.5}),
            (weight < REJECTED_BELOW, 'rejected ranges',
             {'color': REJECTED, 'width': 1, 'dash': 'dot'})):
        traces += _lines(graph, estimate, graph.ranges.source, graph.ranges.target, keep, name,
                         line, 0.35 if name == 'ranges' else 0.8)
    weight = weights.get('relative_poses', np.ones(len(table)))
    closure = ~table.odometry
    for keep, name, line in (
            (closure & (weight >= TRUSTED), 'closures, trusted', {'color': INK, 'width': 1.5}),
            (closure & (weight < TRUSTED) & (weight >= REJECTED_BELOW), 'closures, doubted',
             {'color': '#D55E00', 'width': 1.5, 'dash': 'dash'}),
            (closure & (weight < REJECTED_BELOW), 'closures, rejected',
             {'color': REJECTED, 'width': 1.5, 'dash': 'dot'})):
        traces += _lines(graph, estimate, table.i, table.j, keep, name, line, 0.9)
    return traces


def _lines(
    graph: Graph, estimate: Estimate, source: Index, target: Index, keep: Mask, name: str,
    line: dict[str, Any], opacity: float,
) -> list[dict[str, Any]]:
    """One trace of separate lines, thinned; its name says how many there are."""
    rows = np.flatnonzero(keep)
    if not len(rows):
        return []
    path = link_path(graph, estimate, source[rows], target[rows])
    drawn = f', {len(path) // 3} drawn' if len(rows) > MOST_LINKS else ''
    if graph.dimension == 3 and line.get('dash') == 'dot':
        line = {**line, 'width': 3}
    return [_trace(path, mode='lines', name=f'{name} ({len(rows)}{drawn})', line=line,
                   opacity=opacity, hoverinfo='skip')]


def _ellipses(
    graph: Graph, estimate: Estimate, covariances: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """95 % ellipses of newest poses and beacons in the plane; none in space."""
    if graph.dimension != 2 or not covariances:
        return []
    places = dict(zip(graph.landmarks.names, estimate.landmarks, strict=True))
    newest = {robot: estimate.translation[rows[-1]] for number, robot in enumerate(graph.robots)
              if len(rows := graph.pose_rows(number))}
    centred = [
        (at[name], np.array(values)[:2, :2])
        for kind, at in (('landmarks', places), ('newest_poses', newest))
        for name, values in covariances.get(kind, {}).items() if values and name in at]
    if not centred:
        return []
    angle = np.linspace(0, 2 * np.pi, 49)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    parts = []
    for centre, covariance in centred:
        size, axes = np.linalg.eigh(covariance)
        radii = np.sqrt(CONFIDENCE_95 * np.maximum(size, 0))
        parts.append(np.concatenate([centre + (circle * radii) @ axes.T, np.full((1, 2), np.nan)]))
    return [_trace(np.concatenate(parts), mode='lines', name='95 % ellipses',
                   line={'color': INK, 'width': 1}, opacity=0.7, hoverinfo='skip')]


def _histogram_of(graph: Graph, estimate: Estimate, table: str) -> dict[str, Any]:
    if table == 'ranges':
        whitened = -range_residuals(graph, estimate) * np.sqrt(graph.ranges.precision)
        return _histogram(table, whitened, signed=True)
    return _histogram(table, np.sqrt(squared_residuals(graph, estimate)[table]), signed=False)


def _histogram(name: str, values: Array, signed: bool) -> dict[str, Any]:
    """Density of whitened residuals with that of normal noise; the axis follows the data."""
    low, high = np.percentile(values, SHOWN)
    low, high = (min(low, -LEAST_AXIS), max(high, LEAST_AXIS)) if signed else (
        0.0, max(high, LEAST_AXIS))
    edges = np.linspace(low, high, BINS + 1)
    density, _ = np.histogram(np.clip(values, low, high), bins=edges, density=True)
    centres = (edges[1:] + edges[:-1]) / 2
    beyond = float(np.mean((values < low) | (values > high)))
    layout = base_layout(340)
    layout['legend'] = {'x': 1, 'xanchor': 'right', 'y': 1}
    layout['title'] = {'text': f'{name.replace("_", " ")}: {len(values)}, median '
                       f'{np.median(values):+.2f} σ, {beyond:.1%} beyond the axis'}
    layout['xaxis'] |= {'title': {'text': 'residual [σ]'}}
    layout['yaxis'] |= {'title': {'text': 'density'}}
    data: list[dict[str, Any]] = [{
        'type': 'bar', 'x': centres.round(3).tolist(), 'y': density.round(5).tolist(),
        'width': float(edges[1] - edges[0]), 'name': 'residuals', 'showlegend': False,
        'marker': {'color': COLOURS[0]}}]
    if signed:
        grid = np.linspace(low, high, 200)
        data.append({
            'type': 'scatter', 'x': grid.round(3).tolist(), 'name': 'normal noise',
            'y': (np.exp(-grid**2 / 2) / np.sqrt(2 * np.pi)).round(5).tolist(), 'mode': 'lines',
            'line': {'color': INK, 'width': 1.5, 'dash': 'dash'}})
    return {'data': data, 'layout': layout}


def _by_pair(graph: Graph, estimate: Estimate) -> dict[str, Any] | None:
    """Boxes of measured minus predicted ranges in metres by pair of radios; None without ranges."""
    if not len(graph.ranges):
        return None
    residual = -range_residuals(graph, estimate)
    ends = range_ends(graph)
    names = [[ends.names[number] for number in end.tolist()] for end in (ends.first, ends.second)]
    groups: dict[str, list[int]] = {}
    for row, pair in enumerate(zip(*names, strict=True)):
        groups.setdefault(' – '.join(sorted(pair)), []).append(row)
    boxes = {pair: np.percentile(residual[rows], [5, 25, 50, 75, 95])
             for pair, rows in groups.items()}
    chosen = sorted(boxes, key=lambda pair: -abs(boxes[pair][2]))[:MOST_PAIRS]
    values = np.array([boxes[pair] for pair in chosen]).round(4)
    columns = dict(zip(('lowerfence', 'q1', 'median', 'q3', 'upperfence'), values.T.tolist(),
                       strict=True))
    layout = base_layout(420)
    left = f'; the {len(boxes) - len(chosen)} pairs with smaller medians are left out' \
        if len(boxes) > len(chosen) else ''
    layout['title'] = {'text': f'ranges by pair: median, quartiles, 5 and 95 %{left}'}
    layout['yaxis'] |= {'title': {'text': 'too long by [m]'}}
    layout['xaxis'] |= {'type': 'category'}
    return {'data': [{
        'type': 'box', 'x': [f'{pair} ({len(groups[pair])})' for pair in chosen], **columns,
        'name': 'pairs', 'showlegend': False, 'line': {'color': COLOURS[0]},
        'fillcolor': COLOURS[4]}], 'layout': layout}


def _convergence(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Cost over the time of the solve, and over that of the data where a bag was replayed."""
    figures = []
    if len(report.get('trace') or []) > 1:
        figures.append(_curve(report['trace'], 'cost of the relaxed solve',
                              'seconds since its start', 'cost'))
    solves = [solve for solve in report.get('solves') or [] if solve.get('cost_final') is not None]
    if len(solves) > 1:
        figures.append(_curve([[s['data_s'], s['cost_final']] for s in solves],
                              'cost of each solve', 'seconds of data', 'cost'))
        figures.append(_curve([[s['data_s'], len(s['located'])] for s in solves],
                              'robots with a place in map', 'seconds of data', 'robots', log=False))
    return figures


def _curve(
    points: Sequence[Sequence[float]], title: str, x: str, y: str, log: bool = True
) -> dict[str, Any]:
    layout = base_layout(300)
    layout['title'] = {'text': title}
    layout['xaxis'] |= {'title': {'text': x}}
    layout['yaxis'] |= {'title': {'text': y}, 'type': 'log' if log else 'linear'}
    return {'data': [{
        'type': 'scatter', 'mode': 'lines+markers', 'x': [p[0] for p in points],
        'y': [p[1] for p in points], 'name': y, 'showlegend': False,
        'line': {'color': COLOURS[0], 'shape': 'linear' if log else 'hv'},
        'marker': {'size': 4, 'color': FAINT if len(points) > 50 else COLOURS[0]}}],
        'layout': layout}


def _calibration(fields: Mapping[str, Any]) -> Section:
    """Tables of all lists and mappings of plain values in the fields of a calibration."""
    tables, rows = [], []
    for name, value in fields.items():
        if isinstance(value, Mapping) and value and all(
                isinstance(row, Mapping) for row in value.values()):
            columns = list(dict.fromkeys(key for row in value.values() for key in row))
            tables.append(PageTable([[name, *columns], *(
                [key, *(_plain(row.get(column)) for column in columns)]
                for key, row in value.items())]))
        else:
            rows.append([name, _plain(value)])
    if rows:
        tables.append(PageTable(rows, head=False))
    return Section('Calibration', tables=tables)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
