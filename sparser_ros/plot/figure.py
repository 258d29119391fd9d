"""Figures without a display, written to their file in one step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..config import SparserError

# Okabe and Ito's palette: distinguishable with colour-vision deficiency and in grey print.
COLOURS = ('#0072B2', '#E69F00', '#009E73', '#CC79A7', '#56B4E9', '#D55E00', '#B8A800', '#444444')
REJECTED = '#D62728'
FAINT = '#8A8A8A'
FORMATS = ('.png', '.svg', '.pdf', '.jpg', '.jpeg', '.webp', '.tif', '.tiff', '.eps')
MISSING_MATPLOTLIB = 'pictures need matplotlib: pip install matplotlib'


def robot_colours(robots: Sequence[str]) -> dict[str, str]:
    """A colour per robot by the order of their names: the same in every picture of a team."""
    return {robot: COLOURS[number % len(COLOURS)] for number, robot in enumerate(sorted(robots))}


def check_picture(path: Path | str) -> None:
    """SparserError where matplotlib is missing, or the name does not say what format to draw."""
    if find_spec('matplotlib') is None:
        raise SparserError(MISSING_MATPLOTLIB)
    if Path(path).suffix.lower() not in FORMATS:
        raise SparserError(
            f'{path}: cannot be drawn: expected a name ending in {", ".join(FORMATS)}')


@contextmanager
def figure(path: Path | str, width_in: float, height_in: float) -> Iterator[Any]:
    """Give a matplotlib figure; saved to `path` (see FORMATS) when the block ends well.

    Raises SparserError where matplotlib is missing or the file cannot be written.
    """
    check_picture(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(width_in, height_in), dpi=150, layout='constrained')
    FigureCanvasAgg(drawing)
    yield drawing
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f'.{path.name}.', dir=path.parent) as scratch:
            temporary = Path(scratch) / path.name
            drawing.savefig(temporary)
            os.replace(temporary, path)
    except (OSError, ValueError) as error:
        text = getattr(error, 'strerror', None) or error
        raise SparserError(f'{path}: cannot be drawn: {text}') from None
