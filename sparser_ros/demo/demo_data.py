"""What goes into a demonstration and what comes out: bag, parameters, report, picture, summary."""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..backend.replay.truth import read_truth
from ..backend.session.solution import Fix
from ..cli.info_command import bag_parameters
from ..config import FormatError, SolverConfig, SparserError, build
from ..config.option import merged, nested
from ..config.simulation_config import SimulationConfig
from ..config.sparser import SparserConfig, load_yaml
from ..frontend.counters import KINDS
from ..graph import Estimate, Graph, cost, estimate_of, range_residuals
from ..io import graph_bag, graph_file, pyfg, report, simulation
from ..io.atomic import is_bag
from ..io.availability import (
    TruePositions,
    accuracy_lines,
    laid_on,
    positions_of,
    share_text,
    true_poses,
)
from ..io.bag import BagReader
from ..plot.pictures import save_map
from ..solver import solve
from ..solver.result import SolveStats, SolveStatus
from .observers import Observation

SIMULATION: dict[str, Any] = {'minutes': 3.0, 'outliers': 0.05}
"""Options of the bundled simulation: length, and share of ranges without line of sight."""
_SAMPLES_PER_SECOND = 32
"""Data stamps per second of wall time at which the wait is taken."""


@dataclass(frozen=True)
class DemoInput:
    """A bag, the parameters that fit it, and the graph it was made of."""

    name: str
    bag: Path
    parameters: dict[str, Any]
    config: SparserConfig
    """Of these parameters."""
    graph: Graph | None
    """None for a recording."""
    truth: TruePositions | None
    """None where the truth is unknown."""

    @property
    def bag_seconds(self) -> float:
        reader = BagReader(self.bag)
        return (reader.end_ns - reader.start_ns) * 1e-9


def prepare(source: Path | None, config: Path | None, scratch: Path, seed: int = 0) -> DemoInput:
    """The bag, made for a graph or for None; FormatError or ConfigError for bad input."""
    given = load_yaml(config) if config is not None else {}
    graph = truth = None
    if source is None:
        # 3 robots, 6 beacons of unknown position, 5 % false ranges.
        run = simulation.Simulation(build(SimulationConfig, {'seed': seed, **SIMULATION}))
        name, bag, parameters = 'simulation', scratch / 'bag', simulation.node_config(run)
        truth = positions_of(simulation.graph_of(run))
        simulation.write_bag(bag, run)
    elif source.suffix in graph_file.FORMATS:
        graph = graph_file.read(source)
        name, bag, parameters = source.stem, scratch / 'bag', graph_bag.node_config(graph)
        graph_bag.write(bag, graph)
        if source.suffix == '.pyfg':
            # Positions in such a file are the truth; in .g2o they are a start.
            truth = positions_of(graph.replaced(
                poses=graph.poses.replaced(stamp_ns=graph_bag.pose_stamps(graph))))
    elif is_bag(source):
        name, bag = source.stem, source
        parameters = {} if config is not None else bag_parameters(source, None)[1]
    else:
        raise FormatError(source, None, 'expected a graph (.pyfg, .g2o) or a ROS 2 bag')
    parameters = merged(parameters, given)
    applied = SparserConfig.from_mapping(parameters)
    if bag == source:
        truth = read_truth(BagReader(bag), applied)
    return DemoInput(name, bag, parameters, applied, graph, truth)


def report_of(
    data: DemoInput, saved: Path | None, seen: Observation, played: dict[str, Any],
    settled_after_s: float | None, total_s: float, rate: float, cpu_cores: float,
) -> dict[str, Any]:
    """The fields of every report, and those of a live run: messages, latency, gaps, callbacks."""
    graph, estimate = None, None
    if saved is not None:
        graph = pyfg.read(saved / 'map.pyfg')
        estimate = estimate_of(graph)
    result = _solve_fields(data, graph, estimate, seen, total_s)
    messages = _messages(seen, played)
    states = seen.located()
    gaps = {frame: round(record.greatest_gap_s, 4) for frame, record in seen.transforms.items()}
    callbacks = seen.diagnostics.get('callbacks', {})
    result |= {
        'rate': rate,
        'messages': messages,
        'robots': states,
        'missing': dict(zip(seen.status.robot_names, seen.status.robot_missing, strict=True))
        if seen.status is not None else {},
        'fix_share': seen.availability.shares,
        'stated': {},
        'settled_after_s': settled_after_s,
        'solutions': seen.solutions,
        'latency_s': latencies(seen.published, rate),
        'cpu_cores': round(cpu_cores, 3),
        'worker_restarts': int(seen.status.worker_restarts) if seen.status is not None else 0,
        'tf_gap_max_s': gaps,
        'tf_count': {frame: record.count for frame, record in seen.transforms.items()},
        'tf_stamps_not_increasing': sum(r.not_increasing for r in seen.transforms.values()),
        **{f'callback_{figure}': max(
            (float(value) for key, value in callbacks.items() if key.endswith(f'.{figure}')),
            default=None) for figure in ('max_ms', 'max_cpu_ms')},
        'cost_on_file': None,
        'cost_on_file_solved': None,
        'range_residual_median_m': None,
    }
    if estimate is not None and graph is not None:
        if len(graph.ranges):
            result['range_residual_median_m'] = float(
                np.median(np.abs(range_residuals(graph, estimate))))
        if data.truth is not None:
            result['stated'] = seen.availability.accuracy(data.truth)
        if data.graph is not None:
            own, result['cost_on_file_note'] = on_file(data.graph, graph, estimate)
            if own is not None:
                result['cost_on_file'] = cost(data.graph, own)
                with contextlib.suppress(SparserError):
                    result['cost_on_file_solved'] = solve(
                        data.graph, SolverConfig(), initial=own).stats.cost_final
    result['passed'] = bool(
        settled_after_s is not None and messages['unaccounted'] == 0
        and seen.status is not None and states and min(seen.status.robot_fix) > Fix.NONE)
    return result


def log_lines(log: Path) -> dict[str, int]:
    """How many lines the node has logged, by level."""
    levels = re.findall(
        r'^\[(DEBUG|INFO|WARN|ERROR|FATAL)\]', log.read_text(encoding='utf-8'), re.MULTILINE)
    return dict(sorted(Counter(level.lower() for level in levels).items()))


def on_file(
    original: Graph, saved: Graph, estimate: Estimate
) -> tuple[Estimate | None, str]:
    """(estimate, note): the saved estimate in the numbering of the file.

    Poses correspond by their order along each robot. None, and the note says why, where the node
    did not make a keyframe of every pose.
    """
    rows = np.zeros(original.n_poses, dtype=np.int64)
    for number, robot in enumerate(original.robots):
        mine = original.pose_rows(number)
        theirs = saved.pose_rows(saved.robots.index(robot)) if robot in saved.robots else mine[:0]
        if len(mine) != len(theirs):
            return None, f'{robot}: {len(mine)} poses in the file, {len(theirs)} keyframes'
        rows[mine] = theirs
    missing = set(original.landmarks.names) - set(saved.landmarks.names)
    if missing:
        return None, f'no estimate of {", ".join(sorted(missing))}'
    marks = [saved.landmarks.names.index(name) for name in original.landmarks.names]
    return Estimate(
        estimate.rotation[rows], estimate.translation[rows],
        estimate.landmarks[marks].reshape(len(marks), original.dimension)), ''


def _solve_fields(
    data: DemoInput, graph: Graph | None, estimate: Estimate | None, seen: Observation,
    total_s: float,
) -> dict[str, Any]:
    """The fields of a report, from the node's status and diagnostics of the last solve."""
    if graph is None or seen.status is None:
        return {'dataset': data.name, 'status': 'nothing_saved', 'seconds': {'total': total_s}}
    solver, status = seen.diagnostics.get('solver', {}), seen.status
    relaxed, above = float(status.cost_relaxed), float(status.suboptimality)
    stats = SolveStats(
        rank=0, init='', formulation='', backend=solver.get('backend', ''),
        backend_reason=solver.get('backend_reason', ''), kernel=solver.get('kernel', ''),
        iterations=int(status.iterations),
        cost_relaxed=None if math.isnan(relaxed) else relaxed,
        cost_final=float(status.cost),
        certified=None if math.isnan(above) else bool(status.certified),
        suboptimality=None if math.isnan(above) else above)
    return report.build(
        graph, stats, SolveStatus(solver.get('status', 'failed')), estimate=estimate,
        dataset=data.name, truth=truth_of(data, graph),
        seconds={'solve': float(status.solve_seconds), 'total': total_s},
        message=str(status.text), rejected=[])


def _messages(seen: Observation, played: dict[str, Any]) -> dict[str, Any]:
    """Counts of messages sent, received, dropped by reason, and unaccounted for.

    Topics without a subscriber (ground truth, recorded TF) do not count as sent to the node.
    """
    unheard = set(played['unheard'])
    sent = {t: n for t, n in played['sent'].items() if t not in unheard}
    values = seen.diagnostics.get('inputs', {})
    counts = nested(values)
    kinds: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        row = counts.get(kind, {})
        kinds[kind] = {
            **{name: int(row.get(name, 0))
               for name in ('received', 'accepted', 'merged', 'waiting')},
            'dropped': {reason: int(count) for reason, count in row.get('dropped', {}).items()}}
    arrived = {
        topic: int(values[topic].split(' ', 1)[0]) for topic in sent if topic in values}
    lost = {t: sent[t] - arrived[t] for t in arrived if sent[t] != arrived[t]}
    unaccounted = sum(
        kind['received'] - kind['accepted'] - kind['merged'] - kind['waiting']
        - sum(kind['dropped'].values()) for kind in kinds.values())
    return {
        'sent': played['sent'], 'unheard': sorted(unheard), 'arrived': arrived, 'lost': lost,
        'kinds': kinds, 'unaccounted': abs(unaccounted) + sum(map(abs, lost.values())),
    }


def truth_of(data: DemoInput, saved: Graph) -> Estimate | None:
    """The saved keyframes at their true positions, in their order."""
    return None if data.truth is None else true_poses(saved, data.truth)


def draw(saved: Path, target: Path, data: DemoInput, result: Mapping[str, Any]) -> None:
    """Draw the map, in the frame of the truth where that is known, with what a report says."""
    graph = pyfg.read(saved)
    estimate, truth = estimate_of(graph), truth_of(data, graph)
    if truth is not None:
        estimate = laid_on(estimate, truth)
    save_map(
        target, graph, estimate, truth=truth, title=data.name,
        untrusted={name: state for name, state in result['robots'].items() if state != 'located'},
        fix_share=result['fix_share'])


def summary(result: dict[str, Any], out: Path) -> str:
    """Lines for a terminal: state of the robots, counts, costs, latencies."""
    def text(value: Any, unit: str = '') -> str:
        return '-' if value is None else f'{value:.4g}{unit}'

    lines = ['']
    for robot, state in result['robots'].items():
        missing = result['missing'].get(robot)
        lines.append(f'  {robot:<12} {state}' + (f' ({missing})' if missing else ''))
        if robot in result['fix_share']:
            lines.append(f'  {"":<12} {share_text(result["fix_share"][robot])} of the time')
    messages = result['messages']
    received = sum(kind['received'] for kind in messages['kinds'].values())
    dropped: Counter[str] = Counter()
    for kind in messages['kinds'].values():
        dropped.update(kind['dropped'])
    lines += [
        f'  messages     {received} received, {messages["unaccounted"]} unaccounted for, '
        f'refused: {dict(dropped) or "none"}',
        f'  graph        {result.get("n_poses", 0)} poses, {result.get("n_ranges", 0)} ranges, '
        f'{result.get("n_sightings", 0)} sightings, {result.get("n_landmarks", 0)} beacons',
        f'  cost         {text(result.get("cost_final"))}'
        + (f', on the file {text(result["cost_on_file"])} {result["cost_on_file_note"]}'.rstrip()
           if 'cost_on_file_note' in result else '')
        + (f', solved from there {text(result["cost_on_file_solved"])}'
           if result['cost_on_file_solved'] is not None else ''),
        f'  ranges       median residual {text(result["range_residual_median_m"], " m")} as '
        'measured',
        f'  position     RMSE {text(result.get("ate_rmse_m"), " m")}, '
        f'mean {text(result.get("ate_m"), " m")}',
        *(f'               {line}' for line in accuracy_lines(result['stated'])),
        f'  map -> odom  longest gap '
        f'{text(max(result["tf_gap_max_s"].values(), default=None), " s")}',
        f'  callbacks    longest {text(result["callback_max_ms"], " ms")}',
        f'  latency      {text(result["latency_s"]["p95"], " s")} (95 % of the data); '
        f'{text(result["cpu_cores"])} processor cores',
        f'  settled      {text(result["settled_after_s"], " s")} after the end of the data',
        '  log          '
        + (', '.join(f'{n} {level}' for level, n in result['log_lines'].items()) or 'empty'),
        f'  results      {out}/',
    ]
    return '\n'.join(lines)


def latencies(published: Sequence[tuple[float, float]], rate: float) -> dict[str, float | None]:
    """Wall seconds from data to the first solution that contains them, data evenly in time.

    `published` lists (time of publication, newest stamp in the solution) in seconds of the data's
    clock, which runs `rate` times as fast as the wall's. Data between the newest stamps of two
    solutions wait for the second one.
    """
    waits = [np.zeros(0)]
    for (_, before), (at, newest) in pairwise(published):
        if newest > before:
            # As many samples per second of data everywhere.
            samples = max(2, int(_SAMPLES_PER_SECOND * (newest - before) / rate))
            waits.append((at - np.linspace(before, newest, samples)) / rate)
    every = np.concatenate(waits)
    if not len(every):
        return {'p50': None, 'p95': None, 'max': None}
    p50, p95, most = np.percentile(every, [50, 95, 100]).round(3).tolist()
    return {'p50': p50, 'p95': p95, 'max': most}
