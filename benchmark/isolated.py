"""Measurements in a process of their own: a job goes in as JSON, figures come back as JSON.

`python -m benchmark.isolated JOB.json OUT.json` is the child. A job names one of JOBS.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sparser_ros.config import SolverConfig, build
from sparser_ros.io import graph_file
from sparser_ros.linalg.process import keep_freed_memory
from sparser_ros.solver import SolveResult, solve

from .table import one_thread, timed

ROOT = Path(__file__).resolve().parent.parent
JOBS = {
    'solve': 'benchmark.isolated',
    'stages': 'benchmark.scale',
    'robust': 'benchmark.robust',
    'ticks': 'benchmark.incremental',
}
Figures = dict[str, Any]


def run(job: Figures, timeout_s: float) -> Figures:
    """Figures of a job, or {'error': …} when it failed or took too long."""
    return run_command(
        [sys.executable, '-m', 'benchmark.isolated'], job, timeout_s)


def run_command(command: list[str], job: Figures, timeout_s: float) -> Figures:
    """Run `command JOB.json OUT.json` with one thread; its process group ends at the timeout."""
    with tempfile.TemporaryDirectory(prefix='sparser_bench_') as scratch:
        job_path, out_path = Path(scratch) / 'job.json', Path(scratch) / 'out.json'
        job_path.write_text(json.dumps(job))
        environment = one_thread()
        environment['PYTHONPATH'] = os.pathsep.join(
            filter(None, [str(ROOT), environment.get('PYTHONPATH')]))
        child = subprocess.Popen(
            [*command, str(job_path), str(out_path)], env=environment, cwd=ROOT,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            _, errors = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return {'error': f'no result within {timeout_s:g} s'}
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
        if child.returncode or not out_path.exists():
            last = errors.strip().splitlines()[-1:] or ['']
            return {'error': f'exit code {child.returncode}: {last[0]}'}
        figures: Figures = json.loads(out_path.read_text())
        return figures


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """The job `solve`: `graph` with `options` for every seed in `seeds`, in this process.

    One more solve with the first seed runs before: it loads compiled kernels, and its seconds are
    `first_s`. Seconds run from measurements in memory.
    """
    graph, load, _ = timed(lambda: graph_file.read(Path(job['graph'])).validate())
    runs = []
    for seed in [job['seeds'][0], *job['seeds']]:
        config = build(SolverConfig, {**job.get('options', {}), 'seed': seed})
        result, wall, cpu = timed(solve, graph, config)
        runs.append(figures(result, seed, wall, cpu))
    return {'load_s': load, 'first_s': runs[0]['wall_s'], 'runs': runs[1:]}


def figures(result: SolveResult, seed: int, wall_s: float, cpu_s: float) -> dict[str, Any]:
    stats = result.stats
    cost = stats.cost_relaxed if stats.cost_final is None else stats.cost_final
    setup = stats.seconds.get('setup', 0.0)
    return {
        'seed': seed, 'wall_s': wall_s, 'cpu_s': cpu_s, 'status': result.status.value,
        'cost': math.nan if cost is None else cost, 'iterations': stats.iterations,
        'cg_steps': stats.cg_steps, 'seconds': stats.seconds, 'init': stats.init,
        'trace': [(setup + s, c) for s, c in stats.trace],
    }


def main(arguments: list[str]) -> int:
    """The child: do one job."""
    # The command line and the solver process do the same: benchmarks measure with it.
    keep_freed_memory()
    job = json.loads(Path(arguments[0]).read_text())
    figures = importlib.import_module(JOBS[job['kind']]).measure(job)
    Path(arguments[1]).write_text(json.dumps(figures))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
