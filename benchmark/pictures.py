"""Curves: cost over time, one panel per set, and figures over the number of poses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sparser_ros.plot.figure import COLOURS, FAINT, figure

Curve = list[tuple[float, float]]


def cost_over_time(
    path: Path, panels: dict[str, dict[str, list[Curve]]], best: dict[str, float],
    tolerance: float,
) -> None:
    """Excess over the best known cost (share of it) against seconds, logarithmic.

    `panels`: set, then solver, then one curve per run. The line is the tolerance of the protocol.
    """
    columns = min(4, max(1, len(panels)))
    rows = -(-len(panels) // columns)
    with figure(path, 3.2 * columns, 2.6 * max(rows, 1)) as drawing:
        for number, (name, solvers) in enumerate(panels.items()):
            axes = drawing.add_subplot(max(rows, 1), columns, number + 1)
            for colour, (solver, curves) in zip(COLOURS, solvers.items(), strict=False):
                for run, curve in enumerate(c for c in curves if c):
                    seconds, cost = np.asarray(curve, dtype=float).T
                    excess = np.maximum(cost / best[name] - 1, 1e-9)
                    axes.plot(np.maximum(seconds, 1e-4), excess, color=colour, lw=1, alpha=0.7,
                              label=solver if run == 0 else None)
            axes.axhline(tolerance, color=FAINT, lw=0.8, ls='--')
            axes.set_xscale('log')
            axes.set_yscale('log')
            axes.set_title(name, fontsize=9)
            axes.tick_params(labelsize=7)
            if number % columns == 0:
                axes.set_ylabel('cost above best', fontsize=8)
            if number >= len(panels) - columns:
                axes.set_xlabel('seconds', fontsize=8)
            if number == 0:
                axes.legend(fontsize=7, frameon=False)


def scaling(path: Path, lines: dict[str, Curve], ylabel: str) -> None:
    """One figure per solver against the number of poses, both axes logarithmic."""
    with figure(path, 5.5, 4.0) as drawing:
        axes = drawing.add_subplot()
        for colour, (name, points) in zip(COLOURS, lines.items(), strict=False):
            n, value = np.asarray(points, dtype=float).T
            axes.plot(n, value, 'o-', color=colour, label=name, lw=1.2, ms=4)
        axes.set_xscale('log')
        axes.set_yscale('log')
        axes.set_xlabel('poses')
        axes.set_ylabel(ylabel)
        axes.legend(fontsize=8, frameon=False)


def days(path: Path, rows: list[dict[str, Any]]) -> None:
    """Graph, memory, latency and errors over the hours of a run (`benchmark.days`)."""
    panels = {
        'keyframes': {'so far': 'handed_over', 'in the graph': 'keyframes'},
        'resident set, MB': {'node (growth)': 'node_mb', 'tracker': 'tracker_mb',
                             'auditor': 'auditor_mb'},
        'latency, s': {'median': 'latency_s', 'longest': 'latency_max_s'},
        'ATE, m': {'all poses in the graph': 'ate_m', 'newest 10 min': 'ate_recent_m'},
    }
    with figure(path, 9.0, 5.4) as drawing:
        for number, (title, lines) in enumerate(panels.items()):
            axes = drawing.add_subplot(2, 2, number + 1)
            for colour, (label, key) in zip(COLOURS, lines.items(), strict=False):
                axes.plot([row['hours'] for row in rows], [row.get(key, np.nan) for row in rows],
                          color=colour, lw=1.2, label=label)
            axes.set_title(title, fontsize=9)
            axes.set_ylim(bottom=0)
            axes.set_xlabel('hours of data', fontsize=8)
            axes.tick_params(labelsize=7)
            axes.legend(fontsize=7, frameon=False)
