"""What the commands share on a terminal: exit codes, warnings, progress, what was written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOLVED = 0
BAD_INPUT = 2
"""The message on stderr says which file, line or option, and what to change."""
NOT_CONVERGED = 3
"""Not converged, or parts of the map are undetermined, which stderr names; the best iterate is
written all the same."""
INTERRUPTED = 130
"""128 + SIGINT, as a shell reports it."""
TERMINATED = 143
"""128 + SIGTERM."""

MOST_SHOWN = 12
"""Warnings that are printed; the report has them all."""

NOISE_PARAMETERS = {
    'odometry': 'odometry_noise, odometry.sigma_*', 'ranges': 'range_sigma_m, ranges.sigma_m',
    'closures': 'closures.sigma_*, closures.min_sigma_*', 'sightings': 'sightings.sigma_m'}
"""What says how noisy a kind of source is."""


def noise_text(source: str, factor: float) -> str:
    """How large the noise of a source is, and the parameters that claim another one."""
    return (f'noise of {source}: {factor:.2g} times as large as claimed '
            f'({NOISE_PARAMETERS[source.partition(" ")[0]]})')


def show_warnings(texts: Sequence[str]) -> None:
    """Print `warning: …` for each of the texts on stderr, and how many more there are."""
    for text in texts[:MOST_SHOWN]:
        print(f'warning: {text}', file=sys.stderr)
    if len(texts) > MOST_SHOWN:
        print(f'warning: and {len(texts) - MOST_SHOWN} more (see `warnings` in the report)',
              file=sys.stderr)


def show_undetermined(texts: Sequence[str]) -> None:
    """Print on stderr what of a map has no determined place."""
    for text in texts:
        print(f'undetermined: {text}', file=sys.stderr)


def show_written(paths: Sequence[Path]) -> None:
    """Print the files and folders that a command has written, if any."""
    if paths:
        print(f'written: {", ".join(map(str, paths))}')


@contextmanager
def solve_progress() -> Iterator[Callable[[str, int, float], None] | None]:
    """Give a callback that shows stage, iteration and cost on stderr; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status('setting up') as status:
        yield lambda stage, iteration, cost: status.update(
            f'{stage}: iteration {iteration}, cost {cost:.6g}')


@contextmanager
def progress_bar(*, counted: bool = False) -> Iterator[Callable[[float, float, str], None] | None]:
    """Give a callback that draws what is done of how much on stderr, beside some words.

    None without a terminal. `counted`: also as numbers.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    words, bar, share, remaining = Progress.get_default_columns()
    middle = MofNCompleteColumn() if counted else share
    with Progress(words, bar, middle, remaining, console=Console(stderr=True)) as progress:
        task = progress.add_task('replaying', total=None)
        yield lambda done, total, text: progress.update(
            task, completed=done, total=total, description=text)


@contextmanager
def replay_progress() -> Iterator[Callable[[float, Any], None] | None]:
    """Give a callback for the share of a bag that is read and the newest solution or None."""
    with progress_bar() as draw:
        if draw is None:
            yield None
            return

        def show(share: float, solution: Any) -> None:
            cost = None if solution is None else solution.stats.cost_final
            draw(share, 1.0, 'replaying' if cost is None else f'replaying, cost {cost:.6g}')

        yield show
