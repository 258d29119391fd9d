"""Residuals and convergence of a run as plotly figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...array_types import Array
from ...graph import Estimate, Graph, range_residuals
from ...graph.range_ends import range_ends
from ..figure import COLOURS, FAINT
from .html_page import INK
from .map_figure import base_layout

BINS = 60
SHOWN = (0.5, 99.5)
"""Percentiles of residuals that set the axis; what lies beyond counts in the outermost bins."""
LEAST_AXIS = 1.5
"""Sigmas that are shown at least, so that the density of normal noise has its shape."""
MOST_PAIRS = 40
"""Pairs of radios that are drawn: those with the largest median residual."""


def histogram(name: str, values: Array, signed: bool) -> dict[str, Any]:
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


def by_pair(graph: Graph, estimate: Estimate) -> dict[str, Any] | None:
    """Boxes of measured minus predicted ranges in metres by pair of radios; None without ranges."""
    if not len(graph.ranges):
        return None
    residual = -range_residuals(graph, estimate)
    ends = range_ends(graph)
    names = [[ends.names[one] for one in end.tolist()] for end in (ends.first, ends.second)]
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


def convergence(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Cost over the time of the solve, and over that of the data where a bag was replayed."""
    figures = []
    if len(report.get('trace') or []) > 1:
        figures.append(_curve(report['trace'], 'cost of the relaxed solve',
                              'seconds since its start', 'cost'))
    solves = [one for one in report.get('solves') or [] if one.get('cost_final') is not None]
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
