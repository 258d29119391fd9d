"""Share of a solve's time by function (own time, overhead of cProfile included).

Compiled kernels count for the function that calls them. `python -m benchmark.profiling`
"""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path
from typing import Any

from sparser_ros.config import SolverConfig, build
from sparser_ros.io import graph_file
from sparser_ros.solver import solve

from . import arguments, isolated
from .datasets import chosen, directory
from .table import Table, run_main

TOP = 12
SETS = ['outfinite', 'tiers', 'city10000', 'torus3D']


def main(argv: list[str] | None = None) -> int:
    """Measure, print, save."""
    made = arguments.parser('profiling', __doc__ or '', seeds=1, timeout_s=300)
    args = made.parse_args(argv)
    table = Table('profiling', 'Profile of a solve (init=auto), functions by their own time', {
        'set': 'set', 'total_s': 'CPU s', 'share': '% of time', 'calls': 'calls',
        'function': 'function', 'where': 'where',
    }, args.out)
    for dataset in chosen(args.sets or SETS):
        figures = isolated.run({
            'kind': 'profile', 'graph': str((directory(args.data) / dataset.file).resolve()),
        }, args.timeout)
        if 'error' in figures:
            table.add({'set': dataset.name, 'function': figures['error']})
        for row in figures.get('functions', ()):
            table.add({'set': dataset.name, 'total_s': figures['total_s'], **row})
    return 0


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """The job `profile`: the TOP functions of one solve after an unmeasured one."""
    import time

    graph = graph_file.read(Path(job['graph'])).validate()
    config = build(SolverConfig, job.get('options', {}))
    solve(graph, config)
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(solve, graph, config)
    stats = pstats.Stats(profiler)
    total = stats.total_tt  # type: ignore[attr-defined]
    ranked = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:TOP]  # type: ignore[attr-defined]
    return {'total_s': total, 'functions': [
        {'share': round(100 * own / total, 1), 'calls': calls, 'function': name,
         'where': place(path, line)}
        for (path, line, name), (_, calls, own, *_) in ranked]}


def place(path: str, line: int) -> str:
    """A short name of a source line."""
    if not line:
        return 'compiled'
    return f'{"/".join(Path(path).parts[-2:])}:{line}'


if __name__ == '__main__':
    run_main(main)
