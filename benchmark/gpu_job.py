"""The job `gpu`: one graph on both array backends, stage by stage."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sparser_ros.config import SolverError
from sparser_ros.graph import Graph
from sparser_ros.linalg.arrays import HOST, Arrays
from sparser_ros.linalg.cholesky import SymbolicCholesky, cholmod_available
from sparser_ros.linalg.gpu.device import open_device
from sparser_ros.linalg.gpu.device_arrays import DeviceArrays
from sparser_ros.linalg.gpu.partitioned_inverse import InversePlan, PartitionedInverse, levels
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.solver.compute_backend import ComputeBackend
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.start import start_point
from sparser_ros.solver.trust_region import StoppingRule, TruncatedCG

from .gpu_peers import PEERS

RANK = 5
MANY_POSES = 20_000
"""Number of poses from which on the relaxation starts at the odometry (a random start would take
minutes) and orderings are not compared."""
COST_TOLERANCE = 1e-4
"""Relative change of the cost that ends the relaxation."""
CALLS_QUEUED = 50
"""Calls timed together, so that the wait for the device is a small share."""

Figures = dict[str, Any]


def measure(job: Figures) -> Figures:
    """Figures of both backends: seconds by stage, differences, factors by ordering."""
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
            'detail': {}, 'checks': {}, 'checked_on': '',
            'factors': [],
        }
        if graph.n_poses < MANY_POSES:
            figures['factors'] = factors(here.schur, here.preconditioner)
        figures['detail']['relaxation'] = here.detail
        if there is not None:
            figures['gpu'] = there.stages()
            peers(there, figures)
            figures['checks'] = differences(here, there)
            figures['checked_on'] = there.arrays.description  # type: ignore[attr-defined]
            if there.cost is not None:
                figures['detail']['relaxation'] += f'; GPU {there.detail}'
    return figures


def graph_of(job: Figures) -> Graph:
    """The graph of a job: from its file, or a generated sphere or lattice."""
    if 'graph' in job:
        from sparser_ros.io import graph_file

        return graph_file.read(Path(job['graph'])).validate()
    if 'sphere' in job:
        from sparser_ros.io import generators

        return generators.sphere(laps=max(2, job['sphere'] // 50)).validate()
    from . import synthetic

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
        self.cost: float | None = None
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
        self.cost = run.cost
        self.detail = f'{run.status.value}, {run.iterations} iterations, {run.cg_steps} CG steps'


def differences(here: Side, there: Side) -> Figures:
    """Relative differences of the backends' results at one random point, and of relaxed costs."""
    random = np.random.default_rng(1)
    manifold = here.problem.manifold
    y = manifold.random_point(RANK, random)
    v = manifold.project(y, random.normal(size=y.shape))

    def at(side: Side) -> tuple[Any, ...]:
        arrays = side.arrays
        with arrays.active():
            point, along = arrays.put(y), arrays.put(v)
            qy = side.schur(point)
            product = arrays.empty(y.shape)
            manifold.hessian(
                point, side.schur(along), along, *manifold.multipliers(point, qy), product)
            return arrays.dot(point, qy), *(arrays.get(x) for x in (
                manifold.project(point, qy), product,
                side.preconditioner.apply(along, arrays.empty(y.shape))))

    one, other = at(here), at(there)
    found: Figures = {'cost': abs(one[0] - other[0]) / abs(one[0])}
    for name, a, b in zip(('gradient', 'hessian', 'precondition'), one[1:], other[1:],
                          strict=True):
        found[name] = float(np.abs(a - b).max() / np.abs(a).max())
    if here.cost is not None and there.cost is not None:
        found['final_cost'] = abs(here.cost - there.cost) / abs(here.cost)
    return found


def peers(side: Side, figures: Figures) -> None:
    """Solves with M by the vendor's libraries, where they are installed."""
    for name, prepare in PEERS.items():
        # Missing or failing libraries must not cost the figures of the others: the error is shown.
        try:
            with side.arrays.active():
                side.time(name, prepare(side.schur, RANK))
            figures['gpu'][name] = side.seconds[name]
        except Exception as error:
            figures['detail'][name] = f'{type(error).__name__}: {error}'


def factors(schur: SchurOperator, preconditioner: RegularisedQ) -> list[Figures]:
    """Levels, and grouped products, of the factors of M and Q by ordering."""
    if not cholmod_available():
        return []
    rows = []
    for name, matrix in (('M', schur.M.tocsc()), ('Q', preconditioner.matrix)):
        for ordering in ('amd', 'nesdis', 'metis'):
            factor = SymbolicCholesky(matrix, ordering).factorize(matrix)
            InversePlan(factor, 1.0)
            begin = time.perf_counter()
            plan = InversePlan(factor)
            planned = time.perf_counter()
            PartitionedInverse(factor, plan)
            rows.append({
                'matrix': name, 'ordering': ordering, 'nnz': factor.nnz,
                'levels': levels(factor), 'groups': plan.grouping.groups,
                'growth': plan.grouping.entries / factor.nnz, 'plan_s': planned - begin,
                'values_s': time.perf_counter() - planned})
    return rows
