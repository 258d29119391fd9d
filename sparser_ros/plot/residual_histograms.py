"""Histograms of whitened residuals, in sigmas, with the density of the noise model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..array_types import Array
from .figure import COLOURS, FAINT, figure

SHOWN_PERCENTILE = 99.0
"""Residuals beyond it count in the last bin, so that outliers do not set the axis."""
LEAST_AXIS_SIGMA = 3.0
"""The axis reaches as far at least, so that the density of normal noise has its shape."""


def save(path: Path | str, residuals: Mapping[str, Array], title: str = '') -> None:
    """One histogram per table of whitened residuals (>= 0, in sigmas); empty tables are left out.

    The legend gives the median and the share beyond the axis.
    """
    kinds = {name: values for name, values in residuals.items() if len(values)}
    columns = max(len(kinds), 1)
    with figure(path, 1.0 + 3.6 * columns, 3.4) as drawing:
        panels = drawing.subplots(1, columns, squeeze=False)[0]
        for number, (name, values) in enumerate(kinds.items()):
            axes = panels[number]
            end = max(float(np.percentile(values, SHOWN_PERCENTILE)), LEAST_AXIS_SIGMA)
            beyond = np.mean(values > end)
            axes.hist(
                np.minimum(values, end), bins=np.linspace(0, end, 41),
                density=True, color=COLOURS[number], alpha=0.85,
                label=f'median {np.median(values):.2f} σ, beyond {end:.1f} σ: {beyond:.1%}')
            if name == 'ranges':
                grid = np.linspace(0, end, 200)
                axes.plot(grid, np.sqrt(2 / np.pi) * np.exp(-grid**2 / 2), color=FAINT,
                          linewidth=1.2, label='normal noise')
            axes.set_title(f'{name.replace("_", " ")} ({len(values)})', fontsize=10)
            axes.set_xlabel('residual [σ]')
            axes.set_yticks([])
            axes.legend(fontsize=7, frameon=False)
            for side in ('top', 'right', 'left'):
                axes.spines[side].set_visible(False)
        if title:
            drawing.suptitle(title, fontsize=11)
