"""The job `solve`: one graph, several seeds, wall and processor time of each solve."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from sparser_ros.config import SolverConfig, build
from sparser_ros.io import graph_file
from sparser_ros.solver import SolveResult, solve


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Solve `graph` with `options` for every seed in `seeds`, in this process.

    One more solve with the first seed runs before: it loads compiled kernels, and its seconds are
    `first_s`. Seconds run from measurements in memory.
    """
    start = time.perf_counter()
    graph = graph_file.read(Path(job['graph'])).validate()
    load = time.perf_counter() - start
    runs = []
    for seed in [job['seeds'][0], *job['seeds']]:
        config = build(SolverConfig, {**job.get('options', {}), 'seed': seed})
        wall, cpu = time.perf_counter(), time.process_time()
        result = solve(graph, config)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        runs.append(figures(result, seed, wall, cpu))
    return {'load_s': load, 'first_s': runs[0]['wall_s'], 'runs': runs[1:]}


def figures(result: SolveResult, seed: int, wall_s: float, cpu_s: float) -> dict[str, Any]:
    """Figures of one solve for a table."""
    stats = result.stats
    cost = stats.cost_relaxed if stats.cost_final is None else stats.cost_final
    setup = stats.seconds.get('setup', 0.0)
    return {
        'seed': seed, 'wall_s': wall_s, 'cpu_s': cpu_s, 'status': result.status.value,
        'cost': math.nan if cost is None else cost, 'iterations': stats.iterations,
        'cg_steps': stats.cg_steps, 'seconds': stats.seconds, 'init': stats.init,
        'trace': [(setup + s, c) for s, c in stats.trace],
    }
