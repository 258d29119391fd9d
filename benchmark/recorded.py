"""Real recordings, as their graph files, played tick by tick and compared with their truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparser_ros.array_types import Array, Index
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location, Solution
from sparser_ros.config.solver_config import LiveSolverConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import Graph
from sparser_ros.io import graph_file
from sparser_ros.io.graph_bag import pose_stamps
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.linalg.rotations import align

from . import stanford
from .stream import increments_of


def played(path: Path, ticks: int) -> Array:
    """(k, 2): horizontal errors and protection levels of located robots at every tick, metres.

    The map is aligned with the truth, rigidly, by what the level of a robot is relative to: the
    located beacons and the other robots; where these are too few, by all poses of located robots
    so far, as known headings of the first poses are not in these files.
    """
    graph = graph_file.read(path)
    config = SparserConfig(
        dimension=graph.dimension, robots=list(graph.robots), solver=LiveSolverConfig())
    order = np.lexsort((graph.poses.robot, pose_stamps(graph)))
    truth, robot = graph.poses.translation[order], graph.poses.robot[order]
    session, points, names = Session(config), [], []
    with single_threaded_blas():
        for increment in increments_of(graph, ticks):
            session.add(increment)
            names += increment.landmarks.names
            points += _epochs(graph, session.solve(), truth, robot, names)
    return np.array(points).reshape(-1, 2)


def _epochs(
    graph: Graph, solution: Solution, truth: Array, robot: Index, names: list[str]
) -> list[tuple[float, float]]:
    located = [one.robot for one in solution.robots if one.location is Location.LOCATED]
    count = len(solution.estimate.translation)
    number = robot[:count]
    own = np.isin(number, [graph.robots.index(name) for name in located])
    if np.sum(own) <= graph.dimension or solution.protection is None:
        return []
    path, true = solution.estimate.translation[own], truth[:count][own]
    turn, shift = align(path, true)
    error = np.linalg.norm((path @ turn.T + shift - true)[:, :2], axis=1)
    newest = {name: int(np.flatnonzero(number == graph.robots.index(name))[-1])
              for name in located}
    row = np.cumsum(own) - 1
    places = {name: solution.estimate.translation[k] for name, k in newest.items()}
    true_places = {name: truth[k] for name, k in newest.items()}
    places.update(zip(names, solution.estimate.landmarks, strict=False))
    true_places.update(zip(graph.landmarks.names, graph.landmarks.position, strict=True))
    beside = {name: None if solution.anchored else stanford.error_of(
        name, solution, names, places, true_places) for name in located}
    return [(float(error[row[k]]) if beside[name] is None else beside[name],
             solution.protection.of(name)[0]) for name, k in newest.items()]
