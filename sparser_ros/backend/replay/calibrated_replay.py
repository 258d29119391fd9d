"""A bag replayed with its radios calibrated against the map of a first replay."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...calibrate.radio_settings import calibrated_config
from ...calibrate.self_calibration import SelfCalibration, self_calibrate
from ...config.sparser import SparserConfig
from ...graph import Graph
from ...graph.subgraph import extract
from ..session.solution import Location, Solution
from .replay import Progress, Replay, run


def run_calibrated(
    path: Path | str, config: SparserConfig, progress: Progress | None = None
) -> tuple[Replay, SelfCalibration | None]:
    """Replay a bag as `calibration.mode` says: once, or again with the radios calibrated.

    The second run has the biases in its configuration, as the node would after a calibration.
    """
    state = run(path, config, progress)
    if config.calibration.mode == 'none' or state.solution is None:
        return state, None
    graph = _heard_part(state.graph, state.solution)
    if not len(graph.ranges):
        return state, None
    # From scratch: beacons that are not located have no place to start from.
    found = self_calibrate(graph, None, config.calibration, config.solver)
    noisy = config.calibration.sigma == 'estimate' and found.noise is not None
    if config.calibration.mode == 'report' or not (found.applied or noisy):
        return state, found
    return run(path, calibrated_config(config, found, noise=noisy), progress), found


def _heard_part(graph: Graph, solution: Solution) -> Graph:
    """The robots that have a place in map and every beacon that they range to.

    A beacon that is not located counts: for biases its ranges tell as much.
    """
    where = {robot.robot: robot.location for robot in solution.robots}
    placed = np.array([
        where.get(name, Location.UNLOCATED).placed for name in graph.robots], dtype=bool)
    poses = placed[graph.poses.robot]
    ranges = graph.ranges
    heard = np.zeros(graph.n_landmarks, dtype=bool)
    for one, other in ((ranges.source, ranges.target), (ranges.target, ranges.source)):
        pose, beacon = one >= 0, other < 0
        own = pose & beacon
        heard[~other[own]] |= poses[one[own]]
    return extract(graph, poses, heard).graph
