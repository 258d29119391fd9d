"""Days in hours: simulated robots drive without end, through the node's own pipeline.

Front-end, tracker and auditor process are those of the node; data go in as fast as a solution of
everything so far comes back. Memory, latency and time to publish are sampled against the size of
the graph. `python -m benchmark.days [--hours 8] [--robots 6] [--max-count 20000] …`
"""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sparser_ros.backend.session.solution import Location
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.io.simulation import Simulation, node_config
from sparser_ros.linalg.rotations import aligned_errors
from sparser_ros.node.messages import deserialise, path_bytes
from sparser_ros.node.picture import map_to_odom, rows_of, trajectory
from sparser_ros.node.pipeline import Pipeline
from sparser_ros.node.publishers import MOST_POSES

from .scenarios import RECENT_S, SECOND, samples_of, seconds_of
from .table import Row, Table, median, parser, rmse, run_main

PATIENCE_S = 600.0
"""Without a solution for so long the run ends: on a busy machine solves wait for each other."""
FIRST_AUDIT_S = 120.0
"""Data after which the run waits for an audit that locates all robots, and again until it has."""
DISTANCE_M = 2.0
"""Between keyframes."""
COLUMNS = {
    'hours': 'h of data', 'handed_over': 'keyframes so far', 'keyframes': 'in the graph',
    'ranges': 'ranges', 'node_mb': 'node MB', 'tracker_mb': 'tracker MB',
    'auditor_mb': 'auditor MB', 'latency_s': 'latency s', 'latency_max_s': 'longest s',
    'intake_cpu_ms': 'longest intake ms', 'publish_ms': 'publish ms', 'ate_m': 'ATE m',
    'ate_recent_m': 'ATE of 10 min m', 'located': 'located', 'wall_min': 'after min',
}


def main(argv: list[str] | None = None) -> int:
    made = parser('days', __doc__ or '', data=False)
    made.add_argument('--hours', type=float, default=8.0)
    made.add_argument('--robots', type=int, default=6)
    made.add_argument('--max-count', type=int, default=20_000, help='keyframes.max_count')
    made.add_argument('--tick', type=float, default=5.0, metavar='S', help='data between solves')
    made.add_argument('--sample', type=float, default=600.0, metavar='S', help='data per row')
    made.add_argument('--seed', type=int, default=0)
    args = made.parse_args(argv)
    table = Table('days', f'Days: {args.hours:g} h of {args.robots} robots, '
                  f'keyframes.max_count {args.max_count}', COLUMNS, args.out)
    run = Simulation(SimulationConfig(
        robots=args.robots, minutes=60 * args.hours, seed=args.seed, odometry_rate=4.0,
        range_rate=1.0, truth_rate=0.0))
    for found in measured(run, config_of(run, args), args.tick, args.sample):
        table.add(found)
    table.note('Memory of the node: growth of the resident set since the start, which holds the '
               'simulated data; of tracker and auditor: resident set. Latency: from data to a '
               'solution with all of them, median and longest since the row before. Intake: '
               'processor time of the executor\'s longest one, thinnings included. Publish: '
               'transforms and the paths of all robots as bytes. ATE: rmse of the poses in the '
               'graph after alignment.')
    return 0


def config_of(run: Simulation, args: argparse.Namespace) -> SparserConfig:
    """Parameters of the node for a run, with patience for a busy machine."""
    values = node_config(run)
    return SparserConfig.from_mapping({
        **values,
        'keyframes': {'max_count': args.max_count, 'distance_m': DISTANCE_M},
        # Hours pass in minutes here, audits take their time.
        'backend': {**values.get('backend', {}), 'audit': {'stale_s': 36_000.0}, 'watchdog': {
            'hang_timeout_s': PATIENCE_S, 'start_timeout_s': PATIENCE_S}}})


def measured(
    run: Simulation, config: SparserConfig, tick_s: float, sample_s: float
) -> Iterator[Row]:
    """One row for every `sample_s` of data."""
    begin, base = time.monotonic(), resident_mb('self')
    with contextlib.closing(Pipeline(config, deserialise)) as pipeline:
        latency: list[float] = []
        intake, due, shown = [0.0], tick_s, sample_s
        unlocated, audits = True, 0

        def row(seconds: float) -> Row:
            return {
                'hours': seconds / 3600, **sizes(pipeline, base), 'latency_s': median(latency),
                'latency_max_s': max(latency), 'intake_cpu_ms': 1e3 * max(intake),
                **accuracy(run, pipeline), 'wall_min': (time.monotonic() - begin) / 60}

        for sample in samples_of(run):
            seconds = seconds_of(sample)
            if seconds >= due:
                due += tick_s
                before = pipeline.newest_sequence
                start = time.thread_time()
                pipeline.intake()
                intake.append(time.thread_time() - start)
                if pipeline.newest_sequence != before:
                    latency.append(waited(pipeline))
                if unlocated and seconds > FIRST_AUDIT_S * (1 + audits):
                    audits += 1
                    unlocated = not audited(pipeline)
            if seconds >= shown and latency:
                shown += sample_s
                yield row(seconds)
                latency, intake = [], [0.0]
            pipeline.frontend.add(sample)
            pipeline.touched()
        if latency:
            yield row(run.duration_s)


def waited(pipeline: Pipeline) -> float:
    """Seconds until there is a solution of everything taken in."""
    begin = time.monotonic()
    while True:
        pipeline.request_solve()
        pipeline.poll()
        solution, elapsed = pipeline.solution, time.monotonic() - begin
        if solution is not None and solution.sequence >= pipeline.newest_sequence:
            return elapsed
        if elapsed > PATIENCE_S:
            raise TimeoutError(f'no solution for {elapsed:.0f} s: {pipeline.worker.state.text}')
        time.sleep(0.002)


def audited(pipeline: Pipeline) -> bool:
    """Wait for an audit from scratch, which data that come faster than in time would outrun.

    Returns whether all robots are located.
    """
    request, begin = pipeline.request_audit(), time.monotonic()
    while request is not None and time.monotonic() - begin < PATIENCE_S:
        pipeline.poll()
        if pipeline.answered(request):
            break
        time.sleep(0.01)
    solution = pipeline.solution
    return solution is not None and all(
        one.location is Location.LOCATED for one in solution.robots)


def sizes(pipeline: Pipeline, base_mb: float) -> Row:
    state, solution = pipeline.worker.state, pipeline.solution
    begin = time.perf_counter()
    if solution is not None:
        # What the node publishes after a solution, without sending it.
        for robot in map_to_odom(solution, pipeline.graph):
            path_bytes(0, 'map', *trajectory(solution, pipeline.graph, robot, MOST_POSES))
    return {
        'publish_ms': 1e3 * (time.perf_counter() - begin),
        'handed_over': pipeline.graph.n_poses + pipeline.frontend.keyframes_thinned,
        'keyframes': pipeline.graph.n_poses, 'ranges': len(pipeline.graph.ranges),
        'node_mb': resident_mb('self') - base_mb, 'tracker_mb': resident_mb(state.pid),
        'auditor_mb': resident_mb(state.auditor_pid)}


def accuracy(run: Simulation, pipeline: Pipeline) -> dict[str, Any]:
    """Position errors of the poses of located robots, all together and the newest ones."""
    solution = pipeline.solution
    if solution is None:
        return {}
    located = [one.robot for one in solution.robots if one.location is Location.LOCATED]
    estimate, true, stamps = [], [], []
    for robot in located:
        rows = rows_of(pipeline.graph, robot, len(solution.estimate.translation))
        stamp = pipeline.graph.poses.stamp_ns[rows]
        estimate.append(solution.estimate.translation[rows])
        true.append(run.positions(robot, stamp))
        stamps.append(stamp)
    if not located:
        return {'located': 0}
    error = aligned_errors(np.concatenate(estimate), np.concatenate(true))
    stamp = np.concatenate(stamps)
    recent = error[stamp > stamp.max() - RECENT_S * SECOND]
    return {'located': len(located), 'ate_m': rmse(error), 'ate_recent_m': rmse(recent)}


def resident_mb(process: int | str | None) -> float:
    """Resident set of a process in MB; nan where there is none."""
    try:
        status = Path(f'/proc/{process}/status').read_text()
    except OSError:
        return math.nan
    size = re.search(r'VmRSS:\s+(\d+)', status)
    return int(size[1]) / 1e3 if size else math.nan


if __name__ == '__main__':
    run_main(main)
