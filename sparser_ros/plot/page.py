"""The self-contained HTML page of a run (`sparser report`), which needs no network.

The pictures are those of `plot.pictures`, as SVG inside the page.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..array_types import Array
from ..graph import Estimate, Graph, range_residuals
from ..graph.ends import range_ends
from ..io.report import RunFolder, whitened
from .pictures import COLOURS, draw_histograms, draw_map, named, new_figure, size_of

PLACED = ('located', 'position_only')
"""Values of `location` in a report of robots that have a position in map."""
MOST_PAIRS = 40
"""Pairs of radios that are drawn: those with the largest median residual."""
LETTER_IN = 0.065
"""Inches that a letter of their names takes below the picture."""
_STYLE = '''
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --line: #ddd; --warn: #9a4500; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #16181c; --line: #3a3d44; --warn: #f0a050; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  max-width: 1080px; margin: 1.5em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: .5em 0; }
td, th { border-bottom: 1px solid var(--line); padding: .2em .9em .2em 0; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.warn { color: var(--warn); } img { width: 100%; } .note { opacity: .8; font-size: .9em; }
'''


def run_page(run: RunFolder) -> str:
    """HTML of a solved graph."""
    graph, estimate, report, covariances = run.graph, run.estimate, run.report, run.covariances
    residuals = {
        kind: values for kind, values in whitened(graph, estimate).items() if len(values)}
    beacons = report.get('beacons') or {}
    located = np.array([beacons.get(mark, {'located': True})['located']
                        for mark in graph.landmarks.names], dtype=bool)
    drawn = partial(
        draw_map, graph=graph, estimate=estimate, located=located, covariances=covariances,
        weights=final_weights(residuals, report.get('rejected') or []),
        cost=report.get('cost_final'), untrusted={
            robot: state['location'] for robot, state in (report.get('locations') or {}).items()
            if state['location'] not in PLACED},
        fix_share=report.get('fix_share'))
    parts = [
        _heading('Summary'),
        *(_paragraph('warn', f'Warning: {text}')
          for text in (*report.get('warnings', []), *report.get('undetermined', []))),
        _table(_summary(graph, report)),
        _heading('Map'), _paragraph('note', 'A ring is the start of a robot, a dot its end.'),
        *([_paragraph('note', f'Ellipses of 95 % are relative to {covariances["gauge"]} and hold '
                      'for the claimed noise; found variance is '
                      f'{covariances["variance_factor"]:.2f} times that.')]
          if covariances and graph.dimension == 2 else []),
        _picture(drawn, *size_of(estimate)),
        _heading('Residuals'),
        _picture(partial(draw_histograms, residuals=residuals), 1.0 + 3.6 * len(residuals), 3.4),
        *([_picture(partial(_draw_pairs, graph=graph, estimate=estimate), 9.0, 4.2)]
          if len(graph.ranges) else [])]
    curves = _curves(report)
    if curves:
        parts += [_heading('Convergence'), *(
            _picture(partial(_draw_curve, points=points, title=title, axis=axis, log=log), 9.0, 3.0)
            for title, axis, points, log in curves)]
    if report.get('calibration'):
        parts += [_heading('Calibration'), *_calibration(report['calibration'])]
    return _page(f'sparser: {run.name}', parts)


def final_weights(
    residuals: Mapping[str, Array], rejected: Sequence[Mapping[str, Any]]
) -> dict[str, Array]:
    """Weights by table, 0 of what a report says is rejected.

    Told by whitened residuals: a file of a map has its rows and poses in another order.
    """
    weights = {name: np.ones(len(values)) for name, values in residuals.items()}
    for entry in rejected:
        name, residual = entry['type'], entry['whitened_residual']
        if residual is not None and name in weights:
            weights[name][np.isclose(residuals[name], residual, rtol=1e-6)] = 0.0
    return weights


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


def _curves(report: Mapping[str, Any]) -> list[tuple[str, str, list[Any], bool]]:
    """(title, x axis, points, whether y is logarithmic) of costs over time and over data time."""
    curves: list[tuple[str, str, list[Any], bool]] = [
        ('cost of the relaxed solve', 'seconds since its start', report.get('trace') or [], True)]
    solves = [solve for solve in report.get('solves') or [] if solve.get('cost_final') is not None]
    curves += [
        ('cost of each solve', 'seconds of data',
         [[solve['data_s'], solve['cost_final']] for solve in solves], True),
        ('robots with a place in map', 'seconds of data',
         [[solve['data_s'], len(solve['located'])] for solve in solves], False)]
    return [curve for curve in curves if len(curve[2]) > 1]


def _draw_curve(
    drawing: Any, points: Sequence[Sequence[float]], title: str, axis: str, log: bool
) -> None:
    axes = drawing.add_subplot()
    axes.plot(*np.array(points).T, '.-', color=COLOURS[0], linewidth=1.2,
              drawstyle='default' if log else 'steps-post')
    if log:
        axes.set_yscale('log')
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(axis)


def _draw_pairs(drawing: Any, graph: Graph, estimate: Estimate) -> None:
    """Boxes of measured minus predicted ranges by pair of radios."""
    residual = -range_residuals(graph, estimate)
    ends = range_ends(graph)
    low, high, number = ends.pairs
    boxes = []
    for pair, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        values = residual[number == pair]
        if len(values):
            parts = np.percentile(values, [5, 25, 50, 75, 95])
            names = ' – '.join(sorted((ends.names[a], ends.names[b])))
            boxes.append({
                'label': named(f'{names} ({len(values)})'),
                **dict(zip(('whislo', 'q1', 'med', 'q3', 'whishi'), parts, strict=True))})
    shown = sorted(boxes, key=lambda box: -abs(box['med']))[:MOST_PAIRS]
    drawing.set_figheight(3.5 + LETTER_IN * max(len(box['label']) for box in shown))
    axes = drawing.add_subplot()
    axes.bxp(shown, showfliers=False)
    axes.axhline(0.0, color='#DDDDDD', linewidth=0.8, zorder=0)
    axes.tick_params(axis='x', labelrotation=90, labelsize=7)
    axes.set_ylabel('too long by [m]')
    left = len(boxes) - len(shown)
    axes.set_title('ranges by pair: median, quartiles, 5 and 95 %' + (
        f'; the {left} pairs with smaller medians are left out' if left else ''), fontsize=10)


def _calibration(fields: Mapping[str, Any]) -> list[str]:
    """Tables of all lists of rows in the fields of a calibration, and one of the rest."""
    tables, rest = [], []
    for name, value in fields.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            columns = list(value[0])
            tables += [_paragraph('note', name), _table(
                [columns, *([row.get(column) for column in columns] for row in value)], head=True)]
        elif value not in ([], None):
            rest.append([name, value])
    return [_table(rest), *tables]


# -- HTML --------------------------------------------------------------------------------------


def _page(title: str, parts: Sequence[str]) -> str:
    return '\n'.join((
        '<!DOCTYPE html>', '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>',
        f'<h1>{html.escape(title)}</h1>', *parts, '</body></html>', ''))


def _heading(text: str) -> str:
    return f'<h2>{html.escape(text)}</h2>'


def _paragraph(kind: str, text: str) -> str:
    return f'<p class="{kind}">{html.escape(text)}</p>'


def _picture(draw: Callable[[Any], None], width_in: float, height_in: float) -> str:
    drawing, text = new_figure(width_in, height_in), io.BytesIO()
    draw(drawing)
    drawing.savefig(text, format='svg')
    return ('<img alt="" src="data:image/svg+xml;base64,'
            f'{base64.b64encode(text.getvalue()).decode()}">')


def _table(rows: Sequence[Sequence[Any]], *, head: bool = False) -> str:
    """The first row is the head where `head` is true; numbers then stand in columns."""
    lines = []
    for number, row in enumerate(rows):
        cells = []
        for value in row:
            tag = 'th' if head and number == 0 else 'td'
            kind = ' class="number"' if head and isinstance(value, (int, float)) else ''
            text = '–' if value is None else (
                f'{value:.4g}' if isinstance(value, float) else str(value))
            cells.append(f'<{tag}{kind}>{html.escape(text)}</{tag}>')
        lines.append(f'<tr>{"".join(cells)}</tr>')
    return f'<table>{"".join(lines)}</table>'
