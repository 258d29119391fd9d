"""`sparser info`: what a bag or graph file holds, what a solve of it lacks, a draft of a config."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import ConfigError, SolverError
from .console import NOT_CONVERGED, SOLVED, noise_text, replay_progress, show_warnings
from .options import GRAPHS, Kind, Reads, Writes

if TYPE_CHECKING:
    from ..array_types import Index
    from ..backend.replay.replay import Replay
    from ..backend.session.solution import Solution
    from ..config import SparserConfig
    from ..graph import Graph
    from ..io.bag_survey import TopicSurvey


_ENOUGH = 0.99
"""Share of the time from which nothing more is asked for."""


def add_info(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        'info', help='what a bag or graph file holds, and what a solve of it lacks',
        description='Robots, radios, topics with types, rates and gaps, units, connectivity. Exit '
        'code 0: a solve has what it needs; 2: bad input; 3: something is missing (it is named).')
    parser.add_argument('data', action=Reads, kind=Kind.DATA, metavar='FILE|BAG',
                        help='.pyfg, .g2o or ROS 2 bag')
    parser.add_argument('--config', action=Writes, kind=Kind.DRAFT, metavar='C.yaml', help=(
        'of a bag: compare with this file, or draft it where it does not exist'))
    parser.add_argument('--prospects', action='store_true', help=(
        'solve the data too: how large their noise really is, how soon and how much of the time '
        'robots can be placed with them at best, and what would help most'))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Describe the data; 3 where something is missing."""
    if args.data.suffix.lower() in GRAPHS:
        if args.config is not None:
            raise ConfigError('--config: is compared with a bag; a graph file needs none')
        from ..io import graph_file

        lacks = _graph(graph_file.read(args.data).validate())
    else:
        lacks = _bag(args.data, args.config)
    for text in lacks:
        print(f'missing: {text}')
    if args.prospects and not lacks:
        _prospects(*(_of_graph(args.data) if args.data.suffix.lower() in GRAPHS
                     else _of_bag(args.data, args.config)))
    return NOT_CONVERGED if lacks else SOLVED


def bag_parameters(bag: Path, path: Path | None) -> tuple[SparserConfig, dict[str, Any]]:
    """The configuration with which a command reads a bag, and its parameters as a file has them.

    Without a file it is drafted from the bag, which stderr tells.
    """
    from ..config.sparser import SparserConfig, load_yaml

    if path is not None:
        return SparserConfig.from_yaml(path), load_yaml(path)
    from ..frontend.draft_config import draft
    from ..io.bag_survey import survey

    values, notes = draft(survey(bag))
    print('no --config: drafted from the topics, names and motion in the bag. To keep and correct '
          f'the draft: sparser info {bag} --config FILE; then --config FILE', file=sys.stderr)
    for note in notes:
        print(f'drafted: {note}', file=sys.stderr)
    return SparserConfig.from_mapping(values), values


def replayed(bag: Path, config: SparserConfig) -> tuple[Replay, Solution]:
    """A whole bag through front-end and back-end; ConfigError where that makes no map."""
    from ..backend.replay import replay

    with replay_progress() as progress:
        state = replay.run(bag, config, progress)
    if state.solution is None:
        raise ConfigError(f'{bag}: no odometry was usable: there is no map')
    return state, state.solution


def _graph(graph: Graph) -> list[str]:
    from ..graph.parts import thinly_measured, undetermined

    show_warnings(graph.remarks)
    print(f'{graph.name}: {graph}')
    for number, robot in enumerate(graph.robots):
        print(f'  robot {robot}: {np.sum(graph.poses.robot == number)} poses')
    known = int(np.sum(graph.landmarks.fixed))
    print(f'  {graph.n_landmarks} landmarks, {known} of them at a known position; '
          + ('absolute measurements fix the map' if graph.anchored else
             'nothing absolute: the first pose is the origin of the map'))
    if len(graph.ranges):
        distance = graph.ranges.distance_m
        sigma = graph.ranges.precision**-0.5
        print(f'  ranges: median {np.median(distance):.2f} m, {distance.min():.2f} to '
              f'{distance.max():.2f} m, sigma {np.median(sigma):.3f} m')
    for finding in thinly_measured(graph):
        print(f'warning: {finding.text}')
    return [finding.text for finding in undetermined(graph)]


def _bag(path: Path, config: Path | None) -> list[str]:
    from ..config import SparserConfig
    from ..frontend.draft_config import draft
    from ..frontend.inputs import MEASURING, Inputs
    from ..io.bag_survey import survey

    faults: list[str] = []
    topics = survey(path, faults)
    for text in faults:
        print(f'warning: {text}')
    if not sum(topic.count for topic in topics):
        return [f'{path} has no messages']
    width = max(len(topic.topic) for topic in topics)
    for topic in topics:
        print(f'  {topic.topic:{width}}  {topic.type}: {topic.count} messages, '
              f'{topic.rate_hz:.1f} Hz'
              + (f', {topic.gaps} gaps, the longest {topic.longest_gap_s:.1f} s'
                 if topic.gaps else '')
              + (f', {topic.unstamped} without a stamp' if topic.unstamped else ''))
    _units(topics)
    if config is not None and config.exists():
        return _compared(topics, SparserConfig.from_yaml(config))
    values, notes = draft(topics)
    print(f'robots: {", ".join(values.get("robots", [])) or "none"}; '
          f'other radios: {", ".join(values.get("radios", {})) or "none named"}')
    if config is not None:
        from ..io.atomic import write_parameters

        write_parameters(config, values, [f'Drafted by `sparser info {path}`.', *notes])
        print(f'drafted: {config}')
    for note in notes:
        print(f'check: {note}')
    if 'robots' not in values:
        return ['odometry']
    inputs = Inputs(SparserConfig.from_mapping(values))
    kinds = {route.kind for topic in topics if topic.count
             if (route := inputs.match(topic.topic, topic.type))}
    return [] if kinds & {*MEASURING} else [
        f'{", ".join(MEASURING[:-1])} or {MEASURING[-1]} (no topic is known as one by its type)']


def _of_graph(path: Path) -> tuple[Graph, Index, SparserConfig]:
    """A graph, stamps of its poses, and the node's configuration for it."""
    from ..config import SparserConfig
    from ..io import graph_file
    from ..io.graph_bag import limit_of, pose_stamps

    graph = graph_file.read(path).validate()
    if not graph.n_poses:
        raise ConfigError(f'{path}: it has no poses: --prospects is about robots')
    return graph, pose_stamps(graph), SparserConfig.from_mapping({
        'dimension': graph.dimension, 'robots': list(graph.robots),
        'backend.observability.alert_limit_m': limit_of(graph)})


def _of_bag(path: Path, file: Path | None) -> tuple[Graph, Index, SparserConfig]:
    """What a bag measures of the robots that are tied to anything; as `_of_graph`."""
    from dataclasses import replace

    from ..backend.replay.prospects import tied_part

    config, _ = bag_parameters(path, file)
    once = replace(config.backend, replay_solve_period_s=3600.0)
    state, _ = replayed(path, replace(config, backend=once))
    graph = tied_part(state.measured)
    if not graph.n_poses:
        raise SolverError(f'{path}: no range or closure ties a robot to another one or a beacon')
    return graph, graph.poses.stamp_ns, config


def _prospects(graph: Graph, stamps_ns: Index, config: SparserConfig) -> None:
    """Noise, times and shares at the robust map of a graph."""
    from ..backend.integrity.noise import noise_of
    from ..backend.replay.prospects import prospects, with_changes
    from ..solver import solve_checked

    result = solve_checked(graph, config.solver)
    if result.estimate is None:
        raise SolverError(f'no map: {result.message}')
    estimate, weights, backend = result.estimate, result.stats.weights, config.backend
    noise = noise_of(graph, estimate, weights, backend.observability.range_sigma_floor_m,
                     backend.integrity)
    for source, factor in noise.sigmas.items():
        print(noise_text(source, factor))
    graph = noise.applied_to(graph)
    best = prospects(graph, estimate, weights, stamps_ns, backend)
    print(f'within {backend.observability.alert_limit_m:g} m at best (information of these data '
          'with this noise, no faults):')
    for number in np.unique(graph.poses.robot).tolist():
        robot = graph.robots[number]
        begin = best.lasting_s(number)
        print(f'  {robot}: {100 * best.share(np.array([number])):.0f} % of the time, ' + (
            f'from {begin:.0f} s on' if np.isfinite(begin) else 'not at the end'))
    if best.share() > _ENOUGH:
        return
    print(f'with more, instead of {100 * best.share():.0f} % of the time:')
    shares = with_changes(graph, estimate, weights, stamps_ns, backend)
    for words, share in sorted(shares.items(), key=lambda item: -item[1]):
        print(f'  {words}: {100 * share:.0f} %')


def _units(topics: list[TopicSurvey]) -> None:
    """A word where the ranges of a topic look like another unit."""
    from ..frontend.draft_config import unit_check

    values = [metres for topic in topics for metres in topic.ranges_m if 0 < metres < np.inf]
    if values:
        print(f'ranges: median {np.median(values):.2f}, {min(values):.2f} to {max(values):.2f} '
              'in the unit of the messages')
    for finding in unit_check(topics).findings():
        print(f'warning: {finding.text}')


def _compared(topics: list[TopicSurvey], config: SparserConfig) -> list[str]:
    """What of the configuration and the topics does not go together."""
    from ..frontend.inputs import Inputs, topic_findings
    from ..frontend.radios import Radios

    configured = Radios(config).configured
    for name in sorted(set().union(*(topic.radios for topic in topics))):
        if name not in configured:
            print(f'warning: radio {name!r} is not configured and becomes a beacon')
    lacks = []
    for finding in topic_findings(
            Inputs(config), {topic.topic: topic.type for topic in topics if topic.count},
            tuple(config.backend.truth_topics.values())):
        # Robots may be left out on purpose; topics that are expected and absent are faults.
        if finding.kind == 'input_unused':
            print(f'warning: {finding.text}')
        else:
            lacks.append(finding.text)
    return lacks
