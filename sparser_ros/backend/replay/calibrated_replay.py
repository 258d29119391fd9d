"""A bag replayed with its radios calibrated against the map of a first replay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...array_types import Array, Mask
from ...calibrate.antennas_and_clocks import calibration_with_places
from ...calibrate.lever_arms import LeverRow
from ...calibrate.radio_settings import calibrated_config
from ...calibrate.self_calibration import SelfCalibration
from ...config.sparser import SparserConfig
from ...frontend.record import RecordedOdometry
from ...graph import Graph
from ...graph.subgraph import extract
from ..session.radio_findings import significance
from ..session.solution import Location, Solution
from .replay import Progress, Replay, run
from .truth import TruthTrack


def run_calibrated(
    path: Path | str, config: SparserConfig, progress: Progress | None = None
) -> tuple[Replay, SelfCalibration | None, tuple[LeverRow, ...]]:
    """Replay a bag as `calibration.mode` says: once, or again with the radios calibrated.

    The second run has the biases in its configuration, and the lever arms of the robots in the last
    result, whose antennas stand elsewhere, as the node would after a calibration.
    """
    state = run(path, config, progress)
    if config.calibration.mode == 'none' or state.solution is None:
        return state, None, ()
    graph = heard_part(state.measured, state.solution)
    if not len(graph.ranges):
        return state, None, ()
    sigmas = significance(config.calibration, graph)
    # From scratch: beacons that are not located have no place to start from.
    *_, end = calibration_with_places(graph, None, config.calibration, config.solver, sigmas)
    assert end is not None
    found, places = end
    moved = () if found.doubted else tuple(
        row for row in places.antennas if row.significant(sigmas))
    noisy = config.calibration.sigma == 'estimate' and found.noise is not None
    if config.calibration.mode == 'report' or not (
            found.applied or noisy or any(row.to_move(sigmas) for row in moved)):
        return state, found, moved
    calibrated = calibrated_config(config, found, noise=noisy, levers=moved)
    return run(path, calibrated, progress), found, moved


def heard_part(graph: Graph, solution: Solution) -> Graph:
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


def reference_positions(
    graph: Graph, tracks: Mapping[str, TruthTrack], odometry: Mapping[str, RecordedOdometry]
) -> tuple[Array, Mask]:
    """Recorded positions (n, d) of the poses, and which of them (n,) the recording covers."""
    positions = np.zeros((graph.n_poses, graph.dimension))
    known = np.zeros(graph.n_poses, dtype=bool)
    for number, robot in enumerate(graph.robots):
        rows = np.flatnonzero(graph.poses.robot == number)
        if robot not in tracks or not len(rows):
            continue
        _, where, inside = tracks[robot].at(
            graph.poses.stamp_ns[rows], graph.dimension, odometry.get(robot))
        positions[rows[inside]] = where[inside]
        known[rows[inside]] = True
    return positions, known
