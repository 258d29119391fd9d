"""Progress on a terminal; no output where stderr is a pipe or a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SolveProgress = Callable[[str, int, float], None]
"""Called with stage, iteration and cost."""
ReplayProgress = Callable[[float, Any], None]
"""Called with the share of the bag that is done (0 to 1) and the newest solution or None."""


@contextmanager
def solve_progress() -> Iterator[SolveProgress | None]:
    """Give a callback that shows stage, iteration and cost on stderr; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status('setting up') as status:
        yield lambda stage, iteration, cost: status.update(
            f'{stage}: iteration {iteration}, cost {cost:.6g}')


@contextmanager
def replay_progress() -> Iterator[ReplayProgress | None]:
    """Give a callback that draws a bar on stderr; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task('replaying', total=1.0)

        def show(share: float, solution: Any) -> None:
            cost = None if solution is None else solution.stats.cost_final
            text = 'replaying' if cost is None else f'replaying, cost {cost:.6g}'
            bar.update(task, completed=share, description=text)

        yield show
