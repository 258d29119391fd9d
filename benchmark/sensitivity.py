"""Sensitivity of every number of solver and linalg: halved, doubled, and switched off.

Solves a seeded family of synthetic graphs, of sizes, dimensions, robots, beacons, noise, outliers
and closures that no number was chosen on, and compares costs, CG steps and CPU seconds with those
of the default. CG steps are counts and do not depend on what else the machine does; of live
updates cliques are counted instead.
`python -m benchmark.sensitivity [--groups ranges robust] [--numbers NAME …]`
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sparser_ros.array_types import Array
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.graph import Graph
from sparser_ros.io.generators import sensor_network, with_false_closures, with_long_ranges
from sparser_ros.linalg.rotations import angle_to_matrix, rotvec_to_matrix
from sparser_ros.number_registry import NumberInfo
from sparser_ros.solver import solve
from sparser_ros.solver.incremental import IncrementalSolver, Terms, terms_of
from sparser_ros.solver.thresholds import numbers, override

from .synthetic import pose_graph, range_graph
from .table import Table, geometric_mean, run_main

SEED = 7100
"""First seed of the family; no test, benchmark or tuning uses it."""
GNC = SolverConfig(robust=RobustConfig(kernel='gm', gnc=True))
NOT_SWEPT = {
    'gpu': 'needs a CUDA device',
    'memory': 'bounds memory, not results or work',
}
"""Groups of numbers without cases, and why."""
TICKS = 20
"""Parts in which a live graph comes."""


@dataclass(frozen=True)
class Case:
    """One way to make graphs and solve them."""

    make: Callable[[int], Graph]
    """From a seed."""
    config: SolverConfig = SolverConfig()
    live: bool = False
    """Whether the graph comes in parts, each of which is followed by an update."""


def noisier(graph: Graph, radians: float, seed: int) -> Graph:
    """More noise on relative rotations than their weights tell."""
    table, random = graph.relative_poses, np.random.default_rng(seed)
    if graph.dimension == 2:
        turn = angle_to_matrix(random.normal(0, radians, len(table)))
    else:
        turn = rotvec_to_matrix(random.normal(0, radians, (len(table), 3)))
    return graph.replaced(relative_poses=table.replaced(rotation=table.rotation @ turn))


def poses(n: int, dimension: int, closures: float, noise: float, seed: int) -> Graph:
    """A pose graph with extra rotation noise."""
    graph = pose_graph(n, dimension=dimension, closures=closures, seed=seed)
    return noisier(graph, noise, seed)


def ranging(
    n: int, robots: int, dimension: int, share: float, noise: float, seed: int
) -> Graph:
    """Robots that range beacons and each other, with extra rotation noise."""
    graph = range_graph(n, robots=robots, dimension=dimension, ranging=share, seed=seed)
    return noisier(graph, noise, seed)


def vaguer(graph: Graph, factor: float) -> Graph:
    """Weights of relative poses that state `factor` times the sigmas there are."""
    table = graph.relative_poses
    return graph.replaced(relative_poses=table.replaced(
        kappa=table.kappa / factor**2, tau=table.tau / factor**2))


def family(scale: float) -> dict[str, list[Case]]:
    """Cases by the group of the numbers that they exercise; `scale` multiplies sizes."""

    def size(n: int) -> int:
        return max(60, int(scale * n))

    pose_cases = [
        partial(poses, size(900), 2, 0.4, 0.0), partial(poses, size(900), 2, 0.1, 0.1),
        partial(poses, size(400), 3, 0.4, 0.02), partial(poses, size(400), 3, 0.8, 0.1)]
    range_cases = [
        partial(ranging, size(700), 1, 2, 0.4, 0.0), partial(ranging, size(1300), 3, 2, 0.2, 0.03),
        partial(ranging, size(450), 2, 3, 0.6, 0.0),
        partial(sensor_network, size(60), 3, radius_m=3.5)]
    ranges = [Case(lambda seed, make=make: make(seed=seed)) for make in range_cases]
    false = [
        Case(lambda seed, make=make: with_false_closures(make(seed=seed), 0.15, seed)[0], GNC)
        for make in (partial(poses, size(300), 2, 0.5, 0.0), partial(poses, size(150), 3, 0.6, 0))]
    blocked = [Case(
        lambda seed: with_long_ranges(ranging(size(350), 2, 2, 0.5, 0.0, seed), 0.15, seed)[0],
        GNC)]
    # As many false closures as true ones, and few true ones, which they outvote more easily.
    many = [
        Case(lambda seed, make=make, share=share: with_false_closures(make(seed=seed), share, seed)[
            0], GNC)
        for make, share in ((partial(poses, size(600), 2, 0.4, 0.0), 0.5),
                            (partial(poses, size(600), 2, 0.1, 0.03), 0.3),
                            (partial(poses, size(250), 3, 0.3, 0.0), 0.4))]
    live = [Case(lambda seed, make=make: make(seed=seed), live=True) for make in (
        partial(ranging, size(1500), 3, 2, 0.3, 0.0), partial(ranging, size(600), 2, 3, 0.5, 0.0),
        partial(poses, size(1500), 2, 0.3, 0.0))]
    # Sigmas five times too large: nearly no residual, which the robust start has to notice.
    vague = [Case(
        lambda seed: vaguer(
            with_false_closures(poses(size(300), 2, 0.5, 0.0, seed), 0.3, seed)[0], 5.0), GNC)]
    return {
        'poses': [Case(lambda seed, make=make: make(seed=seed)) for make in pose_cases],
        'ranges': ranges, 'relaxation': ranges, 'robots': ranges[1:3],
        'large': [Case(partial(ranging, size(24_000), 3, 2, 0.4, 0.0))],
        'descent': [*(Case(lambda seed, make=make: make(seed=seed)) for make in pose_cases[1:3]),
                    *ranges[:3]],
        'factors': [
            Case(partial(poses, size(6000), 2, 0.4, 0.0)), Case(partial(poses, size(2500), 3, 0.8,
                                                                        0.0)), ranges[1]],
        'incremental': live,
        'robust': [*false, *many, *blocked, *vague],
        'certify': [
            Case(partial(ranging, size(150), 2, 2, 0.5, 0.0), SolverConfig(certify=True)),
            Case(partial(ranging, size(600), 3, 2, 0.3, 0.03), SolverConfig(certify=True)),
            Case(partial(poses, size(150), 3, 0.4, 0.05), SolverConfig(certify=True))],
    }


def variants(value: Any, info: NumberInfo) -> Iterator[tuple[str, Any]]:
    """Name and value of what a number is compared with."""
    if isinstance(value, tuple):
        for name, factor in (('x 0.5', 0.5), ('x 2', 2.0)):
            yield name, tuple(type(each)(factor * each) for each in value)
    elif isinstance(value, int):
        yield 'x 0.5', max(1, value // 2)
        yield 'x 2', 2 * value
    else:
        yield 'x 0.5', 0.5 * value
        yield 'x 2', 2.0 * value
    if info.off is not None:
        yield 'off', info.off


@dataclass(frozen=True)
class Figures:
    """What one solve of one case ended with."""

    cost: float
    """The robust one where there is a kernel; with a certificate, what it does not exclude is
    added."""
    cg_steps: int
    seconds: float


def measured(case: Case, graph: Graph, seed: int, runs: int) -> Figures:
    """The solve's figures, CPU seconds the least of `runs`."""
    taken = []
    for _ in range(runs):
        begin = time.process_time()
        if case.live:
            cost, steps = followed(graph, case.config, seed)
            taken.append(time.process_time() - begin)
            continue
        stats = solve(graph, replace(case.config, seed=seed, backend='cpu')).stats
        taken.append(time.process_time() - begin)
        found = stats.cost_final if stats.cost_robust is None else stats.cost_robust
        cost, steps = math.nan if found is None else found, stats.cg_steps
        if stats.suboptimality is not None:
            # A looser bound counts as much as a dearer trajectory.
            cost += stats.suboptimality
    return Figures(cost, steps, min(taken))


def followed(graph: Graph, config: SolverConfig, seed: int) -> tuple[float, int]:
    """Cost after the last of TICKS updates, and cliques that all of them entered or formed.

    The first update takes half of each trajectory. New poses begin off their vertices by the noise
    of some odometry edges. The first pose of each robot is held, and so are beacons that few ranges
    determine at first.
    """
    d, n, random = graph.dimension, graph.n_poses, np.random.default_rng(seed)
    first = np.searchsorted(graph.poses.robot, graph.poses.robot)
    length = np.bincount(graph.poses.robot)[graph.poses.robot]
    half = 2 * TICKS * (np.arange(n) - first) // length - TICKS
    tick = np.concatenate([np.maximum(half, 0), np.zeros(graph.n_landmarks, dtype=np.int64)])
    order = np.argsort(tick[:n], kind='stable')
    number = np.concatenate([np.empty(n, dtype=np.int64), np.arange(graph.n_landmarks)])
    number[order] = graph.n_landmarks + np.arange(n)
    terms = terms_of(graph, d, lambda ends: number[graph.points(ends)], config.robust)
    body_tick = np.empty_like(tick)
    body_tick[number] = tick
    due = np.max(np.where(terms.ends >= 0, body_tick[terms.ends], 0), axis=1)
    solver, cliques = IncrementalSolver(d, config.robust), 0
    m = graph.n_landmarks
    seen = np.bincount(terms.ends[due == 0].ravel() + 1, minlength=m + 1)[1 : m + 1]
    solver.add_bodies(
        np.tile(np.eye(d), (m, 1, 1)), graph.landmarks.position + random.normal(0, 0.3, (m, d)),
        True, ~graph.landmarks.fixed & (seen > 2 * d))
    start = noisier_poses(graph, random)
    for k in range(TICKS):
        new = order[tick[order] == k]
        added = solver.add_bodies(*(part[new] for part in start), False, first[new] < new)
        solver.add_terms(Terms(*(
            getattr(terms, field.name)[due == k] for field in fields(Terms))))
        cliques += solver.update(added[-3:], config.cost_tolerance).cliques
    return solver.cost, cliques


def noisier_poses(graph: Graph, random: np.random.Generator) -> tuple[Array, Array]:
    """Vertices of a graph, off by 0.02 rad and 0.1 m."""
    n, d = graph.n_poses, graph.dimension
    turn = (angle_to_matrix(random.normal(0, 0.02, n)) if d == 2
            else rotvec_to_matrix(random.normal(0, 0.02, (n, 3))))
    return (graph.poses.rotation @ turn,
            graph.poses.translation + random.normal(0, 0.1, (n, d)))


def main(argv: list[str] | None = None) -> int:
    """Measure, print, save."""
    args = _parsed(argv)
    table = Table('sensitivity', 'Numbers of the solver: ratios to the default', {
        'number': 'number', 'value': 'value', 'variant': 'variant', 'cost': 'excess cost',
        'worst': 'worst excess', 'cg_steps': 'CG steps', 'seconds': 'CPU seconds',
    }, args.out)
    cases = family(args.scale)
    defaults: dict[tuple[str, int, int], tuple[Graph, Figures]] = {}
    for name, (value, info) in numbers().items():
        if info.group not in args.groups or (args.numbers and name not in args.numbers):
            continue
        for at, case in enumerate(cases[info.group]):
            for seed in range(SEED, SEED + args.seeds):
                if (info.group, at, seed) not in defaults:
                    graph = case.make(seed)
                    measured(case, graph, seed, 1)  # compiles
                    defaults[info.group, at, seed] = graph, measured(case, graph, seed, args.runs)
        known = {key: one for key, one in defaults.items() if key[0] == info.group}
        for variant, other in variants(value, info):
            table.add({'number': name, 'value': str(other), 'variant': variant}
                      | compared(name, other, cases, known, args.runs))
    table.note(
        f'{args.seeds} seeds from {SEED} of every case, sizes x {args.scale:g}; geometric means of '
        f'the ratios to the default, costs less 1, CPU seconds the least of {args.runs}. Excess 0 '
        'and 1 CG step in 1: no effect on these graphs.')
    return 0


def compared(
    name: str, value: Any, cases: dict[str, list[Case]],
    defaults: dict[tuple[str, int, int], tuple[Graph, Figures]], runs: int,
) -> dict[str, float]:
    """Ratios of the figures with another value to the default ones."""
    ratios: list[tuple[float, float, float]] = []
    for (group, at, seed), (graph, default) in defaults.items():
        with override(**{name: value}):
            if name == 'relaxation_rank':
                measured(cases[group][at], graph, seed, 1)  # compiles
            found = measured(cases[group][at], graph, seed, runs)
        ratios.append((
            found.cost / default.cost, max(found.cg_steps, 1) / max(default.cg_steps, 1),
            found.seconds / default.seconds))
    cost, cg_steps, seconds = (list(column) for column in zip(*ratios, strict=True))
    return {
        'cost': geometric_mean(cost) - 1, 'worst': max(cost) - 1,
        'cg_steps': geometric_mean(cg_steps), 'seconds': geometric_mean(seconds)}


def _parsed(argv: list[str] | None) -> argparse.Namespace:
    groups = list(family(1.0))
    parser = argparse.ArgumentParser(
        prog='python -m benchmark.sensitivity', description=__doc__)
    parser.add_argument('--groups', nargs='+', choices=groups, default=groups)
    parser.add_argument('--numbers', nargs='+', choices=list(numbers()), metavar='NAME')
    parser.add_argument('--seeds', type=int, default=3, metavar='N', help='default 3')
    parser.add_argument('--runs', type=int, default=3, metavar='N',
                        help='solves per time (default 3)')
    parser.add_argument('--scale', type=float, default=1.0, metavar='F',
                        help='multiplies the sizes of the graphs (default 1)')
    parser.add_argument('--out', type=Path, default=Path('out/bench'), metavar='DIR')
    return parser.parse_args(argv)


if __name__ == '__main__':
    run_main(main)
