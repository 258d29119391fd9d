"""What the commands share on a terminal: exit codes, words on a solution, warnings, progress."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..graph import Graph

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
NOUNS = {
    'ranges': 'range', 'relative_poses': 'loop closure', 'sightings': 'sighting',
    'pose_priors': 'pose fix', 'point_priors': 'position fix', 'heights': 'height'}
"""By table of measurements that the kernel may doubt."""


def noise_text(source: str, factor: float) -> str:
    """How large the noise of a source is, and the parameters that claim another one."""
    return (f'noise of {source}: {factor:.2g} times as large as claimed '
            f'({NOISE_PARAMETERS[source.partition(" ")[0]]})')


def certificate_text(cost: float, suboptimality: float, certified: bool) -> str:
    """What a certificate says, in words; costs as in the report."""
    lowest = max(cost - suboptimality, 0.0)
    share = f' ({100 * suboptimality / cost:.2g} %)' if cost > 0 else ''
    if certified:
        return (f'certified: this is the best possible map; no solution costs less than '
                f'{lowest:.8g}')
    if not math.isfinite(suboptimality):
        return 'not certified: no bound on better maps was found'
    return (f'not certified: no solution costs less than {lowest:.6g}; the best possible map is at '
            f'most {suboptimality:.4g}{share} better')


def status_text(status: str, partial: bool) -> str:
    """The status of a solve; not a plain `converged` where parts have no determined place."""
    return f'{status} in parts, the rest is undetermined' if partial else status


def rejected_text(rejected: Mapping[str, int], graph: Graph) -> str:
    """`10 of 258 ranges (3.9 %) and 0 of 6 loop closures rejected`.

    `rejected`: how many measurements are, by table.
    """
    from ..graph.graph import counted

    counts = {name: len(table) for name, table in graph.tables().items()}
    # Odometry and surveyed beacons are no closures and no fixes.
    counts['relative_poses'] -= int(graph.relative_poses.odometry.sum())
    counts['point_priors'] -= int((graph.point_priors.point < 0).sum())
    parts = []
    for name, noun in NOUNS.items():
        number, count = rejected.get(name, 0), counts[name]
        share = f' ({100 * number / count:.3g} %)' if number and count else ''
        if count:
            parts.append(f'{number} of {counted(count, noun)}{share}')
    return f'{" and ".join(parts)} rejected' if parts else 'nothing to reject'


def residual_text(median: float, p95: float) -> str:
    """How far measured distances are from those of the map; false ones hardly count in it."""
    return (f'ranges differ from the map by {median:.3f} m in the median, 95 % by less than '
            f'{p95:.3f} m')


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
