"""Seconds of GPU and CPU stage by stage, and the differences of their results.

Needs the solver's dependencies and cupy, neither ROS nor plots. Without a device only the CPU is
measured. `python -m benchmark.gpu [--sets outfinite] [--spheres 1000 5000]
[--lattices 50000]`
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sparser_ros.config import ConfigError

from . import isolated
from .datasets import chosen, directory
from .table import Table, run_main

SETS = ['outfinite', 'tiers', 'city10000']
NOT_MEASURED = 'not yet measured'
STAGES = {
    'assembly': 'assembly, products, factor of M', 'factor': 'factor of Q + shift',
    'place': 'ordering, partitioned inverses, upload', 'product': 'product with Q_s, p = 5',
    'precondition': 'preconditioner, p = 5', 'project': 'Hessian and projection, p = 5',
    'cg_step': 'CG step but for its updates, p = 5', 'solve_m': 'solve with M, p = 5: ours',
    'spsm': 'solve with M, p = 5: cuSPARSE SpSM', 'cudss': 'solve with M, p = 5: cuDSS',
    'relaxation': 'relaxation, set-up apart', 'whole': 'set-up and relaxation',
}
"""Key of the job's figures: name of the stage in the table."""


def main(argv: list[str] | None = None) -> int:
    """Measure, print, save."""
    made = argparse.ArgumentParser(prog='python -m benchmark.gpu', description=__doc__)
    made.add_argument('--data', type=Path, metavar='DIR',
                      help='folder with g2o/ and pyfg/ (default: SPARSER_DATA)')
    made.add_argument('--sets', nargs='*', metavar='NAME', default=SETS)
    made.add_argument('--graphs', nargs='*', type=Path, metavar='FILE', default=[],
                      help='graph files of your own')
    made.add_argument('--spheres', nargs='*', type=int, metavar='POSES',
                      default=[1000, 2500, 5000, 10_000])
    made.add_argument('--lattices', nargs='*', type=int, metavar='POSES',
                      default=[50_000, 200_000], help='generated pose graphs')
    made.add_argument('--repeats', type=int, default=5, help='runs of a stage, the median counts')
    made.add_argument('--timeout', type=float, default=600, metavar='S', help='for one graph')
    made.add_argument('--out', type=Path, default=Path('out/bench'), metavar='DIR')
    args = made.parse_args(argv)
    table = Table('gpu', 'GPU and CPU, seconds by stage', {
        'set': 'set', 'poses': 'poses', 'stage': 'stage', 'cpu_s': 'CPU s', 'gpu_s': 'GPU s',
        'ratio': 'times faster', 'detail': 'detail',
    }, args.out)
    checks = Table('gpu_checks', 'GPU against CPU: relative differences', {
        'set': 'set', 'where': 'kernels ran on', 'cost': 'cost', 'gradient': 'gradient',
        'hessian': 'Hessian product', 'precondition': 'preconditioner',
        'final_cost': 'cost after the relaxation',
    }, args.out)
    factors = Table('gpu_factors', 'Triangular solves by ordering: launches on a GPU', {
        'set': 'set', 'matrix': 'matrix', 'ordering': 'ordering', 'nnz': 'entries of L',
        'levels': 'levels of the elimination tree', 'groups': 'products each way',
        'growth': 'entries over those of L', 'plan_s': 'grouping s', 'values_s': 'inverses s',
    }, args.out)
    checks.command = factors.command = table.command
    for job in jobs(args):
        figures = isolated.run(
            {'kind': 'gpu', 'repeats': args.repeats, 'limit_s': args.timeout / 4, **job},
            args.timeout)
        report(job['name'], figures, table, checks, factors)
    return 0


def jobs(args: argparse.Namespace) -> list[dict[str, Any]]:
    """One for each graph."""
    made: list[dict[str, Any]] = []
    for dataset in chosen(args.sets) if args.sets else []:
        made.append({
            'name': dataset.name, 'target': 1.01 * dataset.relaxed_cost,
            'graph': str((directory(args.data) / dataset.file).resolve())})
    for path in args.graphs:
        if not path.is_file():
            raise ConfigError(f'--graphs: {path} is not a file')
        made.append({'name': path.stem, 'graph': str(path.resolve())})
    made += [{'name': f'sphere{n}', 'sphere': n} for n in args.spheres]
    made += [{'name': f'lattice{n}', 'lattice': n} for n in args.lattices]
    return made


def report(
    name: str, figures: dict[str, Any], table: Table, checks: Table, factors: Table
) -> None:
    """Rows of one graph."""
    if 'error' in figures:
        table.add({'set': name, 'stage': figures['error']})
        return
    cpu, gpu = figures['cpu'], figures['gpu']
    for key, stage in STAGES.items():
        detail = figures['detail'].get(key, '')
        if key not in cpu and key not in gpu and not detail:
            continue
        here, there = cpu.get(key), gpu.get(key)
        table.add({
            'set': name, 'poses': figures['poses'], 'stage': stage, 'cpu_s': here,
            'gpu_s': NOT_MEASURED if figures['device'] is None else there,
            'ratio': here / there if here and there else None,
            'detail': detail})
    if figures['checks']:
        checks.add({'set': name, 'where': figures['checked_on'], **figures['checks']})
    for row in figures['factors']:
        factors.add({'set': name, **row})


if __name__ == '__main__':
    run_main(main)
