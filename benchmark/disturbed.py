"""What lost, late, doubled and false messages do to the map of a recording.

The messages of a graph file go through front-end and back-end without ROS: once as they are, then
with a share lost, late in reception, received twice, ranges far too long, and a clock that is set
ahead in the middle. Each final map is put on the poses of the file (a pose that was lost follows
from its predecessor by odometry), and a solve of the file that starts there gives the cost of the
valley in which the map lies.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from sparser_ros.backend.replay.replay import Replay
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.config import SolverConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.frontend import Frontend, Inputs
from sparser_ros.graph import Estimate, Graph, range_residuals
from sparser_ros.io import graph_bag, pyfg
from sparser_ros.io.bag import BagReader
from sparser_ros.io.graph_bag import node_config, pose_stamps
from sparser_ros.io.stamp_text import SECOND
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.solver import solve

from .stream import odometry_poses
from .table import Table, parser, run_main

TICK_S = 20.0
"""Time between two solves, in data time: one wall second at twenty times the rate."""


LOST, LATE, DOUBLED, GROSS = 0.05, 0.05, 0.01, 0.02
"""Shares of all messages; gross: of the ranges, 5 to 50 m too long."""
LATEST_S = 2.0
"""Late messages are received up to so much later."""
CLOCK_STEP_S = 1.0
"""By which all stamps from the middle on are ahead."""


class Message(NamedTuple):
    """A message with the time of its reception."""

    received_ns: int
    topic: str
    kind: str
    body: Any


def disturbed(messages: Sequence[Message], seed: int) -> tuple[list[Message], int]:
    """The messages that arrive, and the stamp (ns) from which the clock is ahead."""
    random = np.random.default_rng(seed)
    step, middle = int(CLOCK_STEP_S * SECOND), messages[len(messages) // 2].received_ns
    arriving: list[Message] = []
    for one in messages:
        body, received = one.body, one.received_ns
        if random.random() < LOST:
            continue
        if hasattr(body, 'range') and random.random() < GROSS:
            body = replace(body, range=body.range + random.uniform(5, 50))
        if received >= middle:
            stamp = body.header.stamp
            ahead = stamp.sec * SECOND + stamp.nanosec + step
            body = replace(body, header=replace(body.header, stamp=replace(
                stamp, sec=ahead // SECOND, nanosec=ahead % SECOND)))
            received += step
        if random.random() < LATE:
            received += int(random.uniform(0, LATEST_S) * SECOND)
        copies = 1 + (random.random() < DOUBLED)
        arriving += [Message(received, one.topic, one.kind, body)] * copies
    return sorted(arriving, key=lambda one: one.received_ns), middle


def played(messages: Sequence[Message], config: SparserConfig) -> Replay:
    """The messages through front-end and back-end, and a solve from scratch at the end."""
    state = Replay(config, Frontend(config), Session(config))
    inputs, begin = Inputs(config), messages[0].received_ns
    due, period = begin, int(TICK_S * SECOND)
    for one in messages:
        while one.received_ns >= due:
            state.solve((due - begin) / SECOND)
            due += period
        route = inputs.match(one.topic, one.kind)
        if route is not None:
            state.frontend.feed(route, one.body, one.received_ns)
    end = (messages[-1].received_ns - begin) / SECOND
    state.solve(end, flush=True)
    state.solve(end, flush=True, full=True)
    return state


def on_file(graph: Graph, state: Replay, middle_ns: int) -> tuple[Estimate, int]:
    """The map of a run on the poses of the file, and how many of these had been lost."""
    assert state.solution is not None
    solved, found, step = state.graph, state.solution.estimate, int(CLOCK_STEP_S * SECOND)
    names = {name: k for k, name in enumerate(graph.robots)}
    count = len(found.translation)
    stamps = solved.poses.stamp_ns[:count].copy()
    stamps[stamps >= middle_ns + step] -= step
    row = {(names[solved.robots[robot]], stamp): k for k, (robot, stamp) in enumerate(
        zip(solved.poses.robot[:count].tolist(), stamps.tolist(), strict=True))}
    own, robots = pose_stamps(graph), graph.poses.robot
    rotation, translation = (part.copy() for part in odometry_poses(graph))
    turn, shift = np.eye(graph.dimension), np.zeros(graph.dimension)
    lost, last = 0, -1
    for k in np.lexsort((own, robots)).tolist():
        at = row.get((int(robots[k]), int(own[k])))
        if at is not None:
            turn = found.rotation[at] @ rotation[k].T
            shift = found.translation[at] - turn @ translation[k]
        elif robots[k] != last:
            turn, shift = np.eye(graph.dimension), np.zeros(graph.dimension)
        lost, last = lost + (at is None), robots[k]
        rotation[k], translation[k] = turn @ rotation[k], turn @ translation[k] + shift
    places = dict(zip(solved.landmarks.names, found.landmarks, strict=False))
    marks = np.array([places.get(name, np.zeros(graph.dimension))
                      for name in graph.landmarks.names]).reshape(-1, graph.dimension)
    return Estimate(rotation, translation, marks), lost


def configuration(graph: Graph, path: Path | None) -> SparserConfig:
    """Parameters of a file, or those that a demo chooses, and a kernel that doubts."""
    if path is None:
        values = node_config(graph)
    else:
        values = yaml.safe_load(path.read_text())['/**']['ros__parameters']
    values.setdefault('solver', {})['robust'] = {'kernel': 'gm', 'gnc': True}
    return SparserConfig.from_mapping(values)


def main(argv: list[str] | None = None) -> int:
    made = parser('disturbed', __doc__.partition('\n')[0], data=False, seeds=3)
    made.add_argument('graph', type=Path, help='.pyfg with stamps')
    made.add_argument('--config', type=Path, metavar='C.yaml', help='parameters of the node')
    args = made.parse_args(argv)
    graph = pyfg.read(args.graph).validate()
    config = configuration(graph, args.config)
    table = Table('disturbed', 'Maps of disturbed recordings', {
        'data': 'data', 'messages': 'messages', 'keyframes': 'keyframes', 'lost': 'poses lost',
        'rejected': 'rejected', 'located': 'robots located', 'residual_m': 'median residual, m',
        'cost': 'cost on the file from there', 'ratio': 'over that of the clean run',
    }, args.out)
    with tempfile.TemporaryDirectory() as folder, single_threaded_blas():
        bag = Path(folder, 'bag')
        graph_bag.write(bag, graph)
        clean = [Message(one.bag_time_ns, one.topic, one.msgtype, one.msg)
                 for one in BagReader(bag)]
        reference = float('nan')
        for seed in range(-1, args.seeds):
            arriving, middle = disturbed(clean, seed) if seed >= 0 else (clean, 2**62)
            state = played(arriving, config)
            estimate, lost = on_file(graph, state, middle)
            # Where a solve without a kernel ends from there.
            result = solve(graph, SolverConfig(init='file'), initial=estimate)
            cost = float(result.stats.cost_final or np.nan)
            reference = cost if seed < 0 else reference
            solution = state.solution
            assert solution is not None
            table.add({
                'data': 'clean' if seed < 0 else f'disturbed, seed {seed}',
                'messages': len(arriving), 'keyframes': len(solution.estimate.translation),
                'lost': lost, 'rejected': len(solution.rejected),
                'located': sum(one.location is Location.LOCATED for one in solution.robots),
                'residual_m': float(np.median(np.abs(range_residuals(graph, estimate)))),
                'cost': cost, 'ratio': cost / reference})
    return 0


if __name__ == '__main__':
    run_main(main)
