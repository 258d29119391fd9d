"""The page of a study: the table of its runs, and how the sets compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..figure import COLOURS
from .html_page import PageTable, Section, render
from .map_figure import base_layout

COMPARED = {
    'ate_rmse_m': 'error against the reference [m]', 'range_rms_m': 'range residuals, rms [m]',
    'seconds': 'seconds of a replay'}
"""Columns that are drawn, where a run has them."""


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
