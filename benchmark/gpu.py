"""Seconds of GPU and CPU stage by stage.

Needs the solver's dependencies and cupy, neither ROS nor plots. Without a device only the CPU is
measured; with one the tests compare its results with the CPU's.
`python -m benchmark.gpu [--sets outfinite] [--spheres 1000 5000] [--lattices 50000]`
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sparser_ros.config import ConfigError, SolverError
from sparser_ros.graph import Graph
from sparser_ros.io import graph_file
from sparser_ros.linalg.arrays import HOST, Arrays
from sparser_ros.linalg.gpu.device import open_device
from sparser_ros.linalg.gpu.device_arrays import DeviceArrays
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.solver.compute_backend import ComputeBackend
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.start import start_point
from sparser_ros.solver.trust_region import StoppingRule, TruncatedCG

from . import generators, isolated, synthetic
from .datasets import chosen, directory
from .table import Table, parser, run_main

SETS = ['outfinite', 'tiers', 'city10000']
NOT_MEASURED = 'not yet measured'
STAGES = {
    'assembly': 'assembly, products, factor of M', 'factor': 'factor of Q + shift',
    'place': 'ordering, partitioned inverses, upload', 'product': 'product with Q_s, p = 5',
    'precondition': 'preconditioner, p = 5', 'project': 'Hessian and projection, p = 5',
    'cg_step': 'CG step but for its updates, p = 5', 'solve_m': 'solve with M, p = 5',
    'relaxation': 'relaxation, set-up apart', 'whole': 'set-up and relaxation',
}
"""Key of the job's figures: name of the stage in the table."""
RANK = 5
MANY_POSES = 20_000
"""Number of poses from which on the relaxation starts at the odometry (a random start would take
minutes)."""
COST_TOLERANCE = 1e-4
"""Relative change of the cost that ends the relaxation."""
CALLS_QUEUED = 50
"""Calls timed together, so that the wait for the device is a small share."""

Figures = dict[str, Any]


def main(argv: list[str] | None = None) -> int:
    made = parser('gpu', __doc__ or '', timeout_s=600)
    made.set_defaults(sets=SETS)
    made.add_argument('--graphs', nargs='*', type=Path, metavar='FILE', default=[],
                      help='graph files of your own')
    made.add_argument('--spheres', nargs='*', type=int, metavar='POSES',
                      default=[1000, 2500, 5000, 10_000])
    made.add_argument('--lattices', nargs='*', type=int, metavar='POSES',
                      default=[50_000, 200_000], help='generated pose graphs')
    made.add_argument('--repeats', type=int, default=5, help='runs of a stage, the median counts')
    args = made.parse_args(argv)
    table = Table('gpu', 'GPU and CPU, seconds by stage', {
        'set': 'set', 'poses': 'poses', 'stage': 'stage', 'cpu_s': 'CPU s', 'gpu_s': 'GPU s',
        'ratio': 'times faster', 'detail': 'detail',
    }, args.out)
    for job in jobs(args):
        figures = isolated.run(
            {'kind': 'gpu', 'repeats': args.repeats, 'limit_s': args.timeout / 4, **job},
            args.timeout)
        report(job['name'], figures, table)
    return 0


def jobs(args: argparse.Namespace) -> list[dict[str, Any]]:
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


def report(name: str, figures: dict[str, Any], table: Table) -> None:
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


def measure(job: Figures) -> Figures:
    """The job `gpu`: seconds of both backends by stage."""
    graph = graph_of(job)
    arrays, device = gpu()
    with single_threaded_blas():
        rule = StoppingRule(
            target_cost=job.get('target', -math.inf), cost_tolerance=COST_TOLERANCE,
            deadline=math.inf)
        here = Side(graph, HOST, job, rule)
        there = None if arrays is None else Side(graph, arrays, job, rule)
        figures: Figures = {
            'poses': graph.n_poses, 'device': device, 'cpu': here.stages(), 'gpu': {},
            'detail': {'relaxation': here.detail},
        }
        if there is not None:
            figures['gpu'] = there.stages()
            figures['detail']['relaxation'] += f'; GPU {there.detail}'
    return figures


def graph_of(job: Figures) -> Graph:
    """The graph of a job: from its file, or a generated sphere or lattice."""
    if 'graph' in job:
        return graph_file.read(Path(job['graph'])).validate()
    if 'sphere' in job:
        return generators.sphere(laps=max(2, job['sphere'] // 50)).validate()
    return synthetic.pose_graph(job['lattice']).validate()


def gpu() -> tuple[DeviceArrays | None, str | None]:
    """(arrays of the CUDA device, its name); (None, None) without one."""
    try:
        runtime = open_device()
        return DeviceArrays(runtime), runtime.description
    except SolverError:
        return None, None


class Side:
    """The problem on one array backend, and its figures."""

    def __init__(self, graph: Graph, arrays: Arrays, job: Figures, rule: StoppingRule) -> None:
        self.graph, self.arrays, self.rule = graph, arrays, rule
        self.repeats, self.limit = job['repeats'], job['limit_s']
        self.seconds: Figures = {}
        begin = time.perf_counter()
        self.problem = QuadraticProblem(graph)
        self.schur = SchurOperator(self.problem)
        self.seconds['assembly'] = time.perf_counter() - begin
        self.preconditioner = RegularisedQ(self.schur)
        init = 'odometry' if graph.n_poses >= MANY_POSES else 'random'
        self.y = start_point(self.problem, init, RANK, 0)
        self.detail = ''

    def stages(self) -> Figures:
        """Seconds of every stage, the relaxation last."""
        arrays = self.arrays
        with arrays.active():
            # The first factorisation loads compiled code; the second is timed.
            RegularisedQ(self.schur).factor(arrays)
            begin = time.perf_counter()
            self.preconditioner.factor(arrays)
            y = arrays.put(self.y)
            out = arrays.empty(self.y.shape)
            self.schur(y, out)
            arrays.dot(y, out)
            key = 'factor' if arrays is HOST else 'place'
            self.seconds[key] = time.perf_counter() - begin
            manifold = self.problem.manifold
            blocks, scalars = manifold.multipliers(y, out)
            qv = out.copy()
            self.time('product', lambda: self.schur(y, out))
            free = arrays.put(np.ones((self.schur.M.shape[0], RANK)))
            factor = self.schur._at(arrays).factor
            self.time('solve_m', lambda: factor.solve(free, free))
            self.time('precondition', lambda: self.preconditioner.apply(y, out))
            self.time('project', lambda: manifold.hessian(y, qv, y, blocks, scalars, out))
            cg = TruncatedCG(self.schur, manifold, self.preconditioner, arrays, y)
            cg.stand_at(y, (blocks, scalars))
            cg.step(manifold.project(y, qv), math.inf, StoppingRule(max_cg_steps=4), 0.0)

            def step() -> None:
                cg.reach()
                cg.turn()

            self.time('cg_step', step)
        self.relaxed()
        return self.seconds

    def time(self, key: str, call: Callable[[], Any]) -> None:
        """Seconds of one call: median over rounds of CALLS_QUEUED calls after the first."""
        taken = []
        for _ in range(self.repeats + 1):
            begin = time.perf_counter()
            for _ in range(CALLS_QUEUED):
                call()
            self.arrays.get(self.arrays.put(np.zeros(1)))
            taken.append((time.perf_counter() - begin) / CALLS_QUEUED)
        self.seconds[key] = statistics.median(taken[1:])

    def relaxed(self) -> None:
        """The relaxation from a fixed start to a fixed cost or tolerance."""
        begin = time.perf_counter()
        rule = replace(self.rule, deadline=begin + self.limit)
        machine = ComputeBackend(self.arrays)
        run = machine.minimise(
            self.schur, self.problem.manifold, self.y, self.preconditioner, rule, long=True)
        self.seconds['relaxation'] = time.perf_counter() - begin
        self.seconds['whole'] = self.seconds['relaxation'] + sum(
            self.seconds.get(key, 0.0) for key in ('assembly', 'factor', 'place'))
        self.detail = f'{run.status.value}, {run.iterations} iterations, {run.cg_steps} CG steps'


if __name__ == '__main__':
    run_main(main)
