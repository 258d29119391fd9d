"""The job `stages`: seconds and peak memory of each stage of a large solve, and fill-in."""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparser_ros.config import SolverConfig
from sparser_ros.graph import Graph, estimate_of
from sparser_ros.graph import cost as graph_cost
from sparser_ros.io import graph_file
from sparser_ros.linalg.cholesky import SymbolicCholesky, cholmod_available
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.solver import solve
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.start import chordal_rotations, odometry_estimate

from . import synthetic

ORDERINGS = ('amd', 'metis', 'nesdis')
GIB = 2**30


class Stages:
    """Seconds of each stage, and peak memory of the process at its end."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.rows.append({
            'stage': name, 'wall_s': time.perf_counter() - wall,
            'cpu_s': time.process_time() - cpu, 'peak_gib': peak_bytes() / GIB})


def peak_bytes() -> int:
    """Highest resident memory of this process so far (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Stages of one synthetic graph: `graph` pose or range, `poses`, `dimension`, `seed`."""
    make = synthetic.pose_graph if job['graph'] == 'pose' else synthetic.range_graph
    warm(make, job)
    stages = Stages()
    with stages.stage('generate'):
        graph = make(job['poses'], dimension=job['dimension'], seed=job['seed'])
    if job.get('files', True):
        graph = through_file(graph, stages)
    with stages.stage('first solve'):
        result = solve(graph, SolverConfig(seed=job['seed']))
    stages.rows.append(again(graph, job) or {**stages.rows[-1], 'stage': 'whole solve'})
    figures = {
        'stages': stages.rows, 'solve_seconds': result.stats.seconds,
        'status': result.status.value, 'cost': result.stats.cost_final,
        'cost_truth': graph_cost(graph, estimate_of(graph)),
        'iterations': result.stats.iterations, 'cg_steps': result.stats.cg_steps,
        'poses': graph.n_poses, 'edges': len(graph.relative_poses), 'ranges': len(graph.ranges),
    }
    del result
    with single_threaded_blas():
        figures['fill'] = parts(graph, stages, job.get('orderings', ORDERINGS))
    return figures


def again(graph: Graph, job: dict[str, Any]) -> dict[str, Any]:
    """Median of `runs` more solves, {} for none: the first solve waits for memory from the system.

    Each run has another seed, so graphs with ranges start from another point.
    """
    taken = []
    for run in range(job.get('runs', 0)):
        wall, cpu = time.perf_counter(), time.process_time()
        solve(graph, SolverConfig(seed=job['seed'] + run))
        taken.append((time.process_time() - cpu, time.perf_counter() - wall))
    if not taken:
        return {}
    cpu, wall = (statistics.median(each) for each in zip(*taken, strict=True))
    return {
        'stage': 'whole solve', 'wall_s': wall, 'cpu_s': cpu, 'peak_gib': peak_bytes() / GIB}


def warm(make: Any, job: dict[str, Any]) -> None:
    """Load the compiled kernels on a small graph of the same kind."""
    solve(make(200, dimension=job['dimension'], seed=0), SolverConfig())


def through_file(graph: Graph, stages: Stages) -> Graph:
    """The graph written to a file and read again, as a user has it."""
    suffix = '.pyfg' if len(graph.ranges) else '.g2o'
    with tempfile.TemporaryDirectory(prefix='sparser_bench_') as scratch:
        path = Path(scratch) / f'graph{suffix}'
        with stages.stage('write'):
            graph_file.write(path, graph)
        with stages.stage('load'):
            return graph_file.read(path)


def parts(graph: Graph, stages: Stages, orderings: tuple[str, ...]) -> list[dict[str, Any]]:
    """Time the parts of a solve one by one; returns the fill-in of the factors of M and Q."""
    with stages.stage('odometry'):
        odometry_estimate(graph)
    if not len(graph.ranges):
        with stages.stage('chordal'):
            chordal_rotations(graph)
    with stages.stage('assembly'):
        problem = QuadraticProblem(graph)
    with stages.stage('products, factor of M'):
        schur = SchurOperator(problem)
    with stages.stage('preconditioner'):
        regularised = RegularisedQ(schur)
        regularised.factor()
    full = regularised.matrix
    y = problem.manifold.random_point(5, np.random.default_rng(0))
    schur(y)
    with stages.stage('product with Q_s, p = 5'):
        schur(y)
    regularised.apply(y, y.copy())
    with stages.stage('preconditioner applied, p = 5'):
        regularised.apply(y, y.copy())
    del regularised
    return [
        row for name, matrix in (('M', schur.M.tocsc()), ('Q', full.tocsc()))
        for row in fill(name, matrix, orderings)]


def fill(name: str, matrix: sp.csc_matrix, orderings: tuple[str, ...]) -> list[dict[str, Any]]:
    """Entries of the factor over those of the matrix's lower half, and seconds, per ordering."""
    if not cholmod_available():
        return []
    lower = (matrix.nnz + matrix.shape[0]) / 2
    rows = []
    for ordering in orderings:
        start = time.process_time()
        symbolic = SymbolicCholesky(matrix, ordering)
        analysed = time.process_time()
        factor = symbolic.factorize(matrix)
        rows.append({
            'matrix': name, 'ordering': ordering, 'rows': matrix.shape[0], 'nnz': factor.nnz,
            'fill': factor.nnz / lower, 'analyse_s': analysed - start,
            'factorise_s': time.process_time() - analysed})
        del symbolic, factor
    return rows
