"""A second drive in the map of a first one: other paths, starts and noise among the same beacons.

The first drive's beacons are saved as `~/save` does, the second begins in them as with
`node.map_file`, without an initial pose. Errors are against the simulated truth: the first drive's
map says where its frame lies, nothing of the second drive is aligned.
`python -m benchmark.second_drive [--seeds 10]`
"""

from __future__ import annotations

import dataclasses
import tempfile

import numpy as np

from sparser_ros.backend.replay.replay import Replay
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Solution, located
from sparser_ros.config import SolverError
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.frontend import Frontend
from sparser_ros.graph import Estimate, Graph
from sparser_ros.io.simulation import Simulation, node_config
from sparser_ros.linalg.rotations import align, aligned_errors
from sparser_ros.node import saving

from .scenarios import samples_of, seconds_of
from .table import Row, Table, median, parser, rmse, run_main

DRIVE = SimulationConfig(robots=2, beacons=6, minutes=2.0, radius=20.0, truth_rate=0.0)
OTHER_SEED = 1000
"""The second drive of seed s has seed s + 1000."""


def main(argv: list[str] | None = None) -> int:
    args = parser('second_drive', __doc__ or '', data=False, seeds=10).parse_args(argv)
    table = Table('second_drive', f'Second drives: {DRIVE.robots} robots, {DRIVE.minutes:g} min', {
        'seed': 'seed', 'beacons': 'beacons saved', 'first_m': 'first drive m',
        'located': 'located', 'after_s': 'all after s', 'second_m': 'second in its frame m',
        'most_m': 'largest m', 'own_m': 'aligned by itself m'}, args.out)
    for seed in range(args.seeds):
        table.add({'seed': seed, **measured(dataclasses.replace(DRIVE, seed=seed))})
    table.add({'seed': 'median', **{
        key: median([row[key] for row in table.rows if key in row])
        for key in ('first_m', 'after_s', 'second_m', 'most_m', 'own_m')}})
    table.note('Rmse of the keyframes of located robots. First drive: after alignment. Second: '
               'truth laid on the map of the first drive, nothing aligned; largest error; rmse '
               'after an alignment of its own, for comparison.')
    return 0


def measured(config: SimulationConfig) -> Row:
    """Cells of a first drive and a second one, through front-end and back-end.

    Errors of the second one are in the frame of the first one's map.
    """
    first = Simulation(config)
    second = Simulation(dataclasses.replace(
        config, seed=config.seed + OTHER_SEED, site=config.seed))
    mapped = driven(first, SparserConfig.from_mapping(node_config(first)))
    with tempfile.TemporaryDirectory() as folder:
        plain = SparserConfig.from_mapping({
            **node_config(second), 'node': {'save_directory': folder}})
        path = saving.save(plain, mapped.graph, solution_of(mapped))
        again = driven(second, saving.with_beacons(plain, path))
    graph, estimate = located_in(mapped)
    if not graph.n_poses:
        return {'beacons': 0, 'located': 0}
    true = np.concatenate(first.truth_of(graph))
    rotation, translation = align(true, estimate.points)
    row = {'beacons': graph.n_landmarks,
           'first_m': rmse(aligned_errors(estimate.points, true)[:graph.n_poses])}
    graph, estimate = located_in(again)
    row['located'] = len(np.unique(graph.poses.robot))
    if not graph.n_poses:
        return row
    true, _ = second.truth_of(graph)
    error = np.linalg.norm(estimate.translation - true @ rotation.T - translation, axis=1)
    robots = len(again.config.robots)
    after_s = min((one['data_s'] for one in again.history if len(one['located']) == robots),
                  default=float('nan'))
    return {
        **row, 'after_s': after_s, 'second_m': rmse(error), 'most_m': float(error.max()),
        'own_m': rmse(aligned_errors(estimate.translation, true))}


def solution_of(state: Replay) -> Solution:
    """SolverError where nothing was solved."""
    if state.solution is None:
        raise SolverError('nothing was solved')
    return state.solution


def located_in(state: Replay) -> tuple[Graph, Estimate]:
    """The graph of what has a position in map, and its estimate."""
    part = located(state.graph, solution_of(state))
    return part.graph, part.of(solution_of(state).estimate)


def driven(run: Simulation, config: SparserConfig) -> Replay:
    """A run through front-end and back-end, as in `sparser replay`."""
    state = Replay(config, Frontend(config), Session(config))
    due = period = config.backend.replay_solve_period_s
    for sample in samples_of(run):
        if seconds_of(sample) >= due:
            state.solve(due)
            due += period
        state.frontend.add(sample)
    state.solve(run.duration_s, flush=True)
    state.solve(run.duration_s, flush=True, full=True)
    return state


if __name__ == '__main__':
    run_main(main)
