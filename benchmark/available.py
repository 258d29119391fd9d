"""How much of the time robots of recorded sets are placed, with default parameters, without ROS.

A set is a graph file with a reference in it; its increments go through the tracker and auditor of
the node, in turns. Shares are of robot-ticks after the first range. A robot is right where it is
`located` and its newest pose within the alert limit of the reference, wrong where it is `located`
and further off. Poses are compared after one rigid alignment of the paths that the node shows.
`inside` is the share of stated poses whose reference is in their own 95 % ellipse: 95 is honest.
`map right` does not ask what the node says.
`python -m benchmark.available [plaza2 tiers:backwards,0.3-1 ...] [--ticks 150] [--set KEY=VALUE]`
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
from sparser_ros.backend.session.solution import Covariances, Fix, Location, RobotLocation
from sparser_ros.config import ConfigError
from sparser_ros.config.solver_config import SolverConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import Graph
from sparser_ros.io import graph_file
from sparser_ros.io.graph_bag import pose_stamps
from sparser_ros.linalg.rotations import align
from sparser_ros.solver.solve import solve

from .datasets import directory
from .derived import CHANGES, derived
from .stream import played
from .table import Table, parser, run_main

FILE, SOLVED, LAST = 'file', 'solved', 'last'
SETS: dict[str, tuple[float, str]] = {
    'plaza2': (1.0, FILE), 'single_drone': (1.0, FILE), 'tiers': (1.0, FILE),
    'outfinite': (3.0, SOLVED), 'goats_14': (10.0, FILE), 'mrclam5a': (1.0, FILE)}
"""Alert limit in metres, and the reference: positions in the file, a map of all data without faults
(the file's positions of outfinite contradict its ranges by 11 m), or the last map of the run."""


@dataclass(frozen=True)
class Tick:
    """What the node says at a solve of the first n poses, in the order of their stamps."""

    path: Array
    """(n, d)."""
    landmarks: dict[str, Array]
    """Positions (d,)."""
    laid: tuple[str, ...]
    """Robots whose paths the node shows."""
    robots: tuple[RobotLocation, ...]
    covariances: Covariances | None
    findings: str


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


def play(graph: Graph, config: SparserConfig, ticks: int) -> list[Tick]:
    """Play a graph through a session: what is said at every solve from the first range on."""
    said: list[Tick] = []
    seen, names, begun = set[str](), list[str](), False
    for increment, solution in played(graph, config, ticks):
        begun = begun or len(increment.ranges) > 0 or len(increment.sightings) > 0
        names += increment.landmarks.names
        seen.update(robot for robot, fix in solution.fixes.items() if fix is Fix.FIXED)
        estimate = solution.estimate
        if begun and len(estimate.translation) > graph.dimension:
            said.append(Tick(
                estimate.translation, dict(zip(names, estimate.landmarks, strict=True)),
                solution.laid(seen) or graph.robots, solution.robots, solution.covariances,
                '; '.join(finding.text for finding in solution.findings)))
    return said


def judged(said: Sequence[Tick], graph: Graph, reference: Array, limit: float) -> Tally:
    """Compare with the true positions (n, d) of the poses of a graph."""
    stamps = pose_stamps(graph)
    order = np.lexsort((graph.poses.robot, stamps))
    tally = Tally()
    for tick in said:
        _count(tally, tick, graph.robots, reference[order], graph.poses.robot[order], stamps[order],
               limit)
    return tally


def _count(
    tally: Tally, tick: Tick, robots: Sequence[str], truth: Array, robot: Index, stamps: Index,
    limit: float,
) -> None:
    path = tick.path
    count, d = path.shape
    laid = np.isin(robot[:count], [robots.index(name) for name in tick.laid])
    turn, shift = align(path[laid], truth[:count][laid])
    error = np.linalg.norm(path @ turn.T + shift - truth[:count], axis=1)
    words = []
    for state in tick.robots:
        own = np.flatnonzero(robot[:count] == robots.index(state.robot))
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
        covariance = None if tick.covariances is None else tick.covariances.of(state.robot)
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
    tally.lines.append(f'{second:.0f} s: {" | ".join(words)} || {tick.findings}')


def graphs(args: Namespace) -> Iterator[tuple[str, Graph]]:
    """The recordings that are asked for, by default all sets."""
    for text in args.names or list(SETS):
        name, _, changes = text.partition(':')
        if name not in SETS:
            raise ConfigError(f'unknown set {name!r}; known: {", ".join(SETS)}')
        graph = graph_file.read(directory(args.data) / 'pyfg' / f'{name}.pyfg')
        yield text, derived(graph, changes) if changes else graph


def reference_of(kind: str, graph: Graph, said: Sequence[Tick]) -> tuple[Array, Array]:
    """(n, d), (m, d): positions of poses and landmarks to compare with, metres."""
    if kind == FILE:
        return graph.poses.translation, graph.landmarks.position
    if kind == SOLVED:
        result = solve(graph, SolverConfig())
        assert result.estimate is not None
        return result.estimate.translation, result.estimate.landmarks
    path = np.empty_like(graph.poses.translation)
    path[np.lexsort((graph.poses.robot, pose_stamps(graph)))] = said[-1].path
    return path, np.array([said[-1].landmarks[name] for name in graph.landmarks.names])


def beacons_off(positions: Array, graph: Graph) -> float:
    """RMS distance (m) of beacons (m, d) from unused positions in a file, laid on these rigidly."""
    known = np.all(np.isfinite(graph.landmarks.position), axis=1) & ~graph.landmarks.fixed
    own, true = positions[known], graph.landmarks.position[known]
    if len(own) <= graph.dimension:
        return float('nan')
    turn, shift = align(own, true)
    return float(np.sqrt(np.mean(np.sum((own @ turn.T + shift - true)**2, axis=1))))


def main(argv: list[str] | None = None) -> int:
    made = parser('available', __doc__ or '', sets=False)
    made.add_argument('names', nargs='*', metavar='SET[:CHANGES]',
                      help=f'{" ".join(SETS)}; changes: {CHANGES}')
    made.add_argument('--ticks', type=int, default=150, help='solves of a set')
    made.add_argument('--set', action='append', default=[], metavar='KEY=VALUE',
                      help='a further parameter of the node')
    made.add_argument('--reference', choices=(FILE, SOLVED, LAST), help='what to compare with')
    made.add_argument('--reasons', action='store_true', help='print why robots were withheld')
    made.add_argument('--ticks-file', type=Path, metavar='FILE', help='a line for each tick')
    args = made.parse_args(argv)
    table = Table('available', 'Placed on recorded sets, default parameters', {
        'set': 'set', 'limit': 'limit, m', 'located': 'located %', 'right': 'right %',
        'wrong': 'wrong %', 'map_right': 'map right %', 'stated': 'pose %', 'inside': 'inside %',
        'nees': 'squared error over claimed', 'beacons': 'beacons of reference off file, m',
    }, args.out)
    for name, graph in graphs(args):
        limit, usual = SETS[name.partition(':')[0]]
        said = play(graph, config_of(graph, limit, args.set), args.ticks)
        path, landmarks = reference_of(args.reference or usual, graph, said)
        tally = judged(said, graph, path, limit)
        total = max(tally.total, 1)
        table.add({
            'set': name, 'limit': limit, 'located': 100 * tally.located / total,
            'right': 100 * tally.right / total, 'wrong': 100 * tally.wrong / total,
            'map_right': 100 * tally.map_right / total, 'stated': 100 * tally.stated / total,
            'inside': 100 * tally.inside / max(tally.stated, 1),
            'nees': tally.squares / max(tally.stated, 1),
            'beacons': beacons_off(landmarks, graph)})
        if args.reasons:
            for reason, number in tally.reasons.most_common(12):
                print(f'    {100 * number / total:5.1f} %  {reason}')
        if args.ticks_file:
            with args.ticks_file.open('a') as file:
                file.write(''.join(f'{name} {line}\n' for line in tally.lines))
    return 0


if __name__ == '__main__':
    run_main(main)
