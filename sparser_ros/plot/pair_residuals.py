"""Residuals of the ranges of one pair of radios, over distance and time, before and after."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..array_types import Array, Mask
from .figure import COLOURS, FAINT, REJECTED, figure


def save(
    path: Path | str, title: str, distance_m: Array, seconds: Array,
    before_m: Array, after_m: Array, blocked: Mask,
) -> None:
    """Four panels: residual (measured minus predicted, m) over distance and time.

    Columns are before and after the calibration; blocked ranges are marked. The axis holds the
    middle 98 % of all residuals, and zero.
    """
    with figure(path, 8.0, 5.0) as drawing:
        panels = drawing.subplots(2, 2, sharey=True)
        both = np.concatenate([before_m, after_m, [0.0]])
        low, high = np.percentile(both, [1, 99])
        margin = 0.1 * max(high - low, 0.01)
        for column, (values, words) in enumerate(((before_m, 'before'), (after_m, 'after'))):
            for row, (over, label) in enumerate(
                    ((distance_m, 'distance [m]'), (seconds, 'time [s]'))):
                axes = panels[row][column]
                axes.axhline(0.0, color=FAINT, linewidth=0.8)
                axes.plot(over[~blocked], values[~blocked], '.', markersize=3,
                          color=COLOURS[0], label='ranges')
                if np.any(blocked):
                    axes.plot(over[blocked], values[blocked], 'x', markersize=4,
                              color=REJECTED, label='blocked')
                axes.set_xlabel(label)
                if column == 0:
                    axes.set_ylabel('too long by [m]')
            kept = values[~blocked] if not np.all(blocked) else values
            panels[0][column].set_title(
                f'{words}: median {np.median(kept):+.3f} m, '
                f'spread {np.std(kept):.3f} m', fontsize=9)
        panels[0][0].set_ylim(low - margin, high + margin)
        panels[0][0].legend(fontsize=7, frameon=False)
        drawing.suptitle(title, fontsize=11)
