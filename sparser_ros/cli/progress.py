"""Progress on a terminal; silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, float], None]


@contextmanager
def solve_progress() -> Iterator[Progress | None]:
    """Give a callback for the solver that shows stage, iteration and cost on stderr."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status('setting up') as status:
        yield lambda stage, iteration, cost: status.update(
            f'{stage}: iteration {iteration}, cost {cost:.6g}')
