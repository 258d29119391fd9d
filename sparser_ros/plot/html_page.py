"""Self-contained HTML pages with interactive plots, which need no network; the page of a study.

Plotly's script is inline, figures are data, light and dark go by the reader's setting.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..config import SparserError
from .figure import COLOURS

INK, PAPER, GRID = 'INK', 'PAPER', 'GRID'
"""Placeholders in figures, which the page replaces by the colours of its theme."""
COMPARED = {
    'ate_rmse_m': 'error against the reference [m]', 'range_rms_m': 'range residuals, rms [m]',
    'seconds': 'seconds of a replay'}
"""Columns that are drawn, where a run has them."""
THEMES = {
    'light': {INK: '#222222', PAPER: '#ffffff', GRID: '#dddddd'},
    'dark': {INK: '#e6e6e6', PAPER: '#16181c', GRID: '#3a3d44'},
}

_STYLE = '''
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --line: #ddd; --warn: #9a4500; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #16181c; --line: #3a3d44; --warn: #f0a050; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  max-width: 1080px; margin: 1.5em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: .5em 0; }
td, th { border-bottom: 1px solid var(--line); padding: .2em .9em .2em 0; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.warn { color: var(--warn); } .plot { width: 100%; } .note { opacity: .8; font-size: .9em; }
'''
_SCRIPT = '''
const figures = JSON.parse(document.getElementById('figures').textContent);
const themes = JSON.parse(document.getElementById('themes').textContent);
const query = window.matchMedia('(prefers-color-scheme: dark)');
function themed(value, theme) {
  if (typeof value === 'string') return theme[value] || value;
  if (Array.isArray(value)) return value.map(item => themed(item, theme));
  if (value && typeof value === 'object') return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, themed(item, theme)]));
  return value;
}
function draw() {
  const theme = themes[query.matches ? 'dark' : 'light'];
  for (const [id, figure] of Object.entries(figures)) {
    const shown = themed(figure, theme);
    Plotly.react(id, shown.data, shown.layout, {responsive: true, displaylogo: false});
  }
}
query.addEventListener('change', draw);
draw();
'''


@dataclass(frozen=True)
class PageTable:
    """Rows of text and numbers; the first row is the head where `head` is true."""

    rows: Sequence[Sequence[Any]]
    head: bool = True


@dataclass(frozen=True)
class Section:
    """A heading, sentences, tables and figures (plotly's `data` and `layout`)."""

    title: str
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    tables: Sequence[PageTable] = ()
    figures: Sequence[dict[str, Any]] = field(default_factory=list)


def render(title: str, sections: Sequence[Section]) -> str:
    """The page; SparserError where plotly is missing."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise SparserError(
            'the HTML page needs plotly: pip install plotly, or the extra [report]') from None
    figures: dict[str, dict[str, Any]] = {}
    body = [f'<h1>{html.escape(title)}</h1>']
    for section in sections:
        body.append(f'<h2>{html.escape(section.title)}</h2>')
        body += [f'<p class="warn">Warning: {html.escape(text)}</p>' for text in section.warnings]
        body += [f'<p class="note">{html.escape(text)}</p>' for text in section.notes]
        body += [_table(table) for table in section.tables]
        for figure in section.figures:
            name = f'figure{len(figures)}'
            figures[name] = figure
            body.append(f'<div class="plot" id="{name}"></div>')
    return '\n'.join((
        '<!DOCTYPE html>', '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>', *body,
        _data('figures', figures), _data('themes', THEMES),
        f'<script>{get_plotlyjs()}</script>', f'<script>{_SCRIPT}</script>', '</body></html>', ''))


def _data(name: str, value: Any) -> str:
    # `<` could end the script element early.
    text = json.dumps(value, allow_nan=False).replace('<', '\\u003c')
    return f'<script type="application/json" id="{name}">{text}</script>'


def _table(table: PageTable) -> str:
    rows = []
    for number, row in enumerate(table.rows):
        tag = 'th' if table.head and number == 0 else 'td'
        cells = (
            f'<{tag}{_class(value) if table.head else ""}>{html.escape(_text(value))}</{tag}>'
            for value in row)
        rows.append(f'<tr>{"".join(cells)}</tr>')
    return f'<table>{"".join(rows)}</table>'


def _class(value: Any) -> str:
    return ' class="number"' if isinstance(value, (int, float)) else ''


def _text(value: Any) -> str:
    if value is None:
        return '–'
    return f'{value:.4g}' if isinstance(value, float) else str(value)


def base_layout(height: int = 380) -> dict[str, Any]:
    """What all figures share: colours of the theme, a legend beside the plot."""
    axis = {'gridcolor': GRID, 'zerolinecolor': GRID, 'linecolor': GRID, 'automargin': True}
    return {
        'height': height, 'paper_bgcolor': PAPER, 'plot_bgcolor': PAPER, 'font': {'color': INK},
        'margin': {'l': 60, 'r': 20, 't': 40, 'b': 60}, 'xaxis': dict(axis), 'yaxis': dict(axis),
        'legend': {'orientation': 'h', 'y': -0.14}, 'hovermode': 'closest'}


def study_page(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], label: str) -> str:
    """HTML of a study; `label` is the column that names the parameters of a row."""
    failed = [f'{row["bag"]}, {row.get(label)}: {row["message"]}' for row in rows
              if row['status'] == 'failed']
    figures = [_compared(rows, label, column, title) for column, title in COMPARED.items()
               if any(row.get(column) is not None for row in rows)]
    return render('sparser: study', [
        Section('Comparison', warnings=failed, figures=figures,
                notes=['One dot is one run: a bag with a set of parameters and a seed.']),
        Section('Runs', tables=[PageTable([
            list(columns), *([row.get(column) for column in columns] for row in rows)])])])


def _compared(
    rows: Sequence[Mapping[str, Any]], label: str, column: str, title: str
) -> dict[str, Any]:
    layout = base_layout(340)
    layout['title'] = {'text': title}
    layout['xaxis'] |= {'type': 'category'}
    layout['yaxis'] |= {'rangemode': 'tozero'}
    bags = list(dict.fromkeys(row['bag'] for row in rows))
    data = []
    for number, bag in enumerate(bags):
        shown = [row for row in rows if row['bag'] == bag and row.get(column) is not None]
        data.append({
            'type': 'scatter', 'mode': 'markers', 'name': bag,
            'x': [str(row.get(label)) for row in shown], 'y': [row[column] for row in shown],
            'marker': {'color': COLOURS[number % len(COLOURS)], 'size': 10,
                       'symbol': number // len(COLOURS)}})
    return {'data': data, 'layout': layout}
