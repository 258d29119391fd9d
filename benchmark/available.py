"""How much of the time robots of recorded sets are placed, with default parameters, without ROS.

A set is a graph file with a reference in it; its increments go through the tracker and auditor of
the node, in turns. Shares are of robot-ticks after the first range. A robot is right where it is
`located` and its newest pose within the alert limit of the reference, wrong where it is `located`
and further off. Poses are compared after one rigid alignment of the paths that the node shows.
`inside` is the share of stated poses whose reference is in their own 95 % ellipse: 95 is honest.
`map right` does not ask what the node says.
`python -m benchmark.available [plaza2 tiers ...] [--ticks 150] [--set KEY=VALUE]`
"""

from __future__ import annotations

import collections
import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.stats import chi2

from sparser_ros.array_types import Array, Index
from sparser_ros.backend.session.solution import Fix, Location, Solution
from sparser_ros.config import ConfigError
from sparser_ros.config.solver_config import SolverConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import Graph
from sparser_ros.io import graph_file
from sparser_ros.io.graph_bag import pose_stamps
from sparser_ros.linalg.rotations import align
from sparser_ros.solver.solve import solve

from .datasets import directory
from .stream import played
from .table import Table, parser, run_main

SETS: dict[str, tuple[float, bool]] = {
    'plaza2': (1.0, False), 'single_drone': (1.0, False), 'tiers': (1.0, False),
    'outfinite': (3.0, True), 'goats_14': (10.0, False), 'mrclam5a': (1.0, False)}
"""Alert limit in metres; whether the reference is the best final map instead of the file's
positions (outfinite's contradict its own ranges by 11 m)."""


@dataclass
class Tally:
    """Counts of robot-ticks."""

    total: int = 0
    located: int = 0
    right: int = 0
    wrong: int = 0
    stated: int = 0
    inside: int = 0
    map_right: int = 0
    squares: float = 0.0
    """Sum of normalised squared errors over their degrees of freedom."""
    seen: set[str] = field(default_factory=set)
    """Robots that have been located."""
    reasons: collections.Counter[str] = field(default_factory=collections.Counter)
    """Why robots were withheld although the map was right, numbers taken out."""
    lines: list[str] = field(default_factory=list)
    """A line for each tick."""


def config_of(graph: Graph, limit_m: float, more: Sequence[str]) -> SparserConfig:
    """The default configuration with an alert limit and further KEY=VALUE parameters."""
    values: dict[str, Any] = {
        'dimension': graph.dimension, 'robots': list(graph.robots),
        'backend.observability.alert_limit_m': limit_m}
    values |= {key: yaml.safe_load(value) for key, _, value in (
        text.partition('=') for text in more)}
    return SparserConfig.from_mapping(values)


def play(graph: Graph, reference: Array, config: SparserConfig, ticks: int) -> Tally:
    """Play a graph through a session; `reference` (n, d) are the true positions of its poses."""
    order = np.lexsort((graph.poses.robot, pose_stamps(graph)))
    truth, robot = reference[order], graph.poses.robot[order]
    stamps = pose_stamps(graph)[order]
    tally, begun = Tally(), False
    limit, d = config.backend.observability.alert_limit_m, graph.dimension
    for increment, solution in played(graph, config, ticks):
        begun = begun or len(increment.ranges) > 0 or len(increment.sightings) > 0
        if begun:
            _count(tally, solution, graph, truth, robot, stamps, limit, d)
    return tally


def _count(
    tally: Tally, solution: Solution, graph: Graph, truth: Array, robot: Index, stamps: Index,
    limit: float, d: int,
) -> None:
    path = solution.estimate.translation
    count = len(path)
    if count <= d:
        return
    tally.seen.update(robot for robot, fix in solution.fixes.items() if fix is Fix.FIXED)
    laid = np.isin(robot[:count], [
        graph.robots.index(name) for name in solution.laid(tally.seen) or graph.robots])
    turn, shift = align(path[laid], truth[:count][laid])
    error = np.linalg.norm(path @ turn.T + shift - truth[:count], axis=1)
    words = []
    for state in solution.robots:
        own = np.flatnonzero(robot[:count] == graph.robots.index(state.robot))
        if not len(own):
            continue
        row = int(own[-1])
        near = bool(error[row] <= limit)
        located = state.location is Location.LOCATED
        tally.total += 1
        tally.located += located
        tally.right += located and near
        tally.wrong += located and not near
        tally.map_right += near
        if near and not located:
            tally.reasons[state.location.value + ': ' + re.sub(
                r'[-+]?\d+(\.\d+)?', '#', state.missing)] += 1
        covariance = (None if solution.covariances is None
                      else solution.covariances.of(state.robot))
        sigma = float('nan')
        if covariance is not None:
            tally.stated += 1
            square = turn @ covariance[:d, :d] @ turn.T
            sigma = float(np.sqrt(np.linalg.eigvalsh(square)[-1]))
            gap = turn @ path[row] + shift - truth[row]
            normalised = float(gap @ np.linalg.solve(square + 1e-12 * np.eye(d), gap))
            tally.inside += normalised <= chi2.ppf(0.95, d)
            tally.squares += normalised / d
        words.append(
            f'{state.robot} {state.location.value} {error[row]:.2f} m, sigma {sigma:.2f} m; '
            f'{state.missing}')
    second = (stamps[count - 1] - stamps[0]) * 1e-9
    tally.lines.append(f'{second:.0f} s: ' + ' | '.join(words) + ' || ' + '; '.join(
        finding.text for finding in solution.findings))


def graphs(args: Namespace) -> Iterator[tuple[str, Graph]]:
    """The sets that are asked for, by default all."""
    for name in args.names or list(SETS):
        if name not in SETS:
            raise ConfigError(f'unknown set {name!r}; known: {", ".join(SETS)}')
        yield name, graph_file.read(directory(args.data) / 'pyfg' / f'{name}.pyfg')


def reference_of(name: str, graph: Graph, solved: bool) -> Array:
    """(n, d) positions to compare with, metres."""
    if not solved:
        return graph.poses.translation
    result = solve(graph, SolverConfig())
    assert result.estimate is not None
    return result.estimate.translation


def main(argv: list[str] | None = None) -> int:
    made = parser('available', __doc__ or '', sets=False)
    made.add_argument('names', nargs='*', metavar='SET', help=' '.join(SETS))
    made.add_argument('--ticks', type=int, default=150, help='solves of a set')
    made.add_argument('--set', action='append', default=[], metavar='KEY=VALUE',
                      help='a further parameter of the node')
    made.add_argument('--reasons', action='store_true', help='print why robots were withheld')
    made.add_argument('--ticks-file', type=Path, metavar='FILE', help='a line for each tick')
    args = made.parse_args(argv)
    table = Table('available', 'Placed on recorded sets, default parameters', {
        'set': 'set', 'limit': 'limit, m', 'located': 'located %', 'right': 'right %',
        'wrong': 'wrong %', 'map_right': 'map right %', 'stated': 'pose %', 'inside': 'inside %',
        'nees': 'squared error over claimed',
    }, args.out)
    for name, graph in graphs(args):
        limit, solved = SETS[name]
        tally = play(graph, reference_of(name, graph, solved),
                     config_of(graph, limit, args.set), args.ticks)
        total = max(tally.total, 1)
        table.add({
            'set': name, 'limit': limit, 'located': 100 * tally.located / total,
            'right': 100 * tally.right / total, 'wrong': 100 * tally.wrong / total,
            'map_right': 100 * tally.map_right / total, 'stated': 100 * tally.stated / total,
            'inside': 100 * tally.inside / max(tally.stated, 1),
            'nees': tally.squares / max(tally.stated, 1)})
        if args.reasons:
            for reason, number in tally.reasons.most_common(12):
                print(f'    {100 * number / total:5.1f} %  {reason}')
        if args.ticks_file:
            with args.ticks_file.open('a') as file:
                file.write(''.join(f'{name} {line}\n' for line in tally.lines))
    return 0


if __name__ == '__main__':
    run_main(main)
