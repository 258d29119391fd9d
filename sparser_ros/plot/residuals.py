"""Histograms of whitened residuals beside the density of normal noise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..array_types import Array
from .figure import COLOURS, FAINT, figure

CLIP_SIGMA = 8.0
"""Upper end of the last bin."""


def save(path: Path | str, residuals: Mapping[str, Array], title: str = '') -> None:
    """One histogram per table of whitened residuals (>= 0, in sigmas); empty tables are left out.

    Residuals beyond 8 sigma count in the last bin; the legend gives the median and that share.
    """
    kinds = {name: values for name, values in residuals.items() if len(values)}
    columns = max(len(kinds), 1)
    with figure(path, 1.0 + 3.6 * columns, 3.4) as drawing:
        panels = drawing.subplots(1, columns, squeeze=False)[0]
        for number, (name, values) in enumerate(kinds.items()):
            axes = panels[number]
            beyond = np.mean(values > CLIP_SIGMA)
            axes.hist(
                np.minimum(values, CLIP_SIGMA), bins=np.linspace(0, CLIP_SIGMA, 41),
                density=True, color=COLOURS[number], alpha=0.85,
                label=f'median {np.median(values):.2f} σ, beyond {CLIP_SIGMA:g} σ: {beyond:.1%}')
            if name == 'ranges':
                grid = np.linspace(0, CLIP_SIGMA, 200)
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
