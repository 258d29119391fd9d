"""The map of a run as a plotly figure: trajectories, beacons, ranges, closures, ellipses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph
from ..figure import FAINT, REJECTED, robot_colours
from .html_page import GRID, INK, PAPER

MOST_POINTS = 4000
"""Points of a trajectory; more are thinned evenly, since each is an element of the page."""
MOST_LINKS = 1500
"""Lines of ranges, and of each group of closures."""
PLACED = ('located', 'position_only')
"""Values of `location` in a report of robots that have a position in map."""
CONFIDENCE_95 = 5.991
"""95 % quantile of chi-square with two degrees of freedom."""
TRUSTED, REJECTED_BELOW = 0.5, 0.1
"""Robust weights that separate trusted, doubted and rejected measurements."""


def map_figure(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array],
    covariances: Mapping[str, Any], report: Mapping[str, Any],
) -> dict[str, Any]:
    """Figure of a map in metres; `weights` robust weights by table, `covariances` by name as in
    `io.report.covariance_fields`, `report` says which robots and beacons have a place."""
    untrusted = {
        robot: state['location'] for robot, state in (report.get('locations') or {}).items()
        if state['location'] not in PLACED}
    lost = {name for name, one in (report.get('beacons') or {}).items() if not one['located']}
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


def base_layout(height: int = 380) -> dict[str, Any]:
    """What all figures share: colours of the theme, a legend beside the plot."""
    axis = {'gridcolor': GRID, 'zerolinecolor': GRID, 'linecolor': GRID, 'automargin': True}
    return {
        'height': height, 'paper_bgcolor': PAPER, 'plot_bgcolor': PAPER, 'font': {'color': INK},
        'margin': {'l': 60, 'r': 20, 't': 40, 'b': 60}, 'xaxis': dict(axis), 'yaxis': dict(axis),
        'legend': {'orientation': 'h', 'y': -0.14}, 'hovermode': 'closest'}


def ordered(graph: Graph, robot: int) -> Index:
    """Rows of the poses of a robot, in their order."""
    rows = np.flatnonzero(graph.poses.robot == robot)
    return rows[np.argsort(graph.poses.index[rows], kind='stable')]


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
        rows = ordered(graph, number)
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
    shown = rows[::-(-len(rows) // MOST_LINKS)]
    points = estimate.points
    ends = [points[graph.points(end[shown])] for end in (source, target)]
    gap = np.full_like(ends[0], np.nan)
    path = np.stack([*ends, gap], axis=1).reshape(-1, graph.dimension)
    thinned = '' if len(shown) == len(rows) else f', {len(shown)} drawn'
    if graph.dimension == 3 and line.get('dash') == 'dot':
        line = {**line, 'width': 3}
    return [_trace(path, mode='lines', name=f'{name} ({len(rows)}{thinned})', line=line,
                   opacity=opacity, hoverinfo='skip')]


def _ellipses(
    graph: Graph, estimate: Estimate, covariances: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """95 % ellipses of newest poses and beacons in the plane; none in space."""
    if graph.dimension != 2 or not covariances:
        return []
    places = dict(zip(graph.landmarks.names, estimate.landmarks, strict=True))
    newest = {robot: estimate.translation[rows[-1]] for number, robot in enumerate(graph.robots)
              if len(rows := ordered(graph, number))}
    found = [
        (at[name], np.array(values)[:2, :2])
        for kind, at in (('landmarks', places), ('newest_poses', newest))
        for name, values in covariances.get(kind, {}).items() if values and name in at]
    if not found:
        return []
    angle = np.linspace(0, 2 * np.pi, 49)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    parts = []
    for centre, covariance in found:
        size, axes = np.linalg.eigh(covariance)
        radii = np.sqrt(CONFIDENCE_95 * np.maximum(size, 0))
        parts.append(np.concatenate([centre + (circle * radii) @ axes.T, np.full((1, 2), np.nan)]))
    return [_trace(np.concatenate(parts), mode='lines', name='95 % ellipses',
                   line={'color': INK, 'width': 1}, opacity=0.7, hoverinfo='skip')]
