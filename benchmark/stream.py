"""A graph as the increments that the node would have made of its data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparser_ros.array_types import Array, Index
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Solution
from sparser_ros.config import RobustConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import Estimate, Graph, Increment, Landmarks, Table
from sparser_ros.io.chain import compose
from sparser_ros.io.graph_bag import pose_stamps
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.solver.incremental import IncrementalSolver, terms_of

NO_KERNEL = RobustConfig()


def increments_of(graph: Graph, ticks: int) -> list[Increment]:
    """The graph in `ticks` increments with about equal numbers of poses, in the order of stamps.

    A measurement belongs to the first increment that has all its poses, a landmark to that of its
    first measurement. Poses have the values composed from odometry.
    """
    stamps = pose_stamps(graph)
    order = np.lexsort((graph.poses.robot, stamps))
    number = _inverse(order)
    edges = np.linspace(0, graph.n_poses, ticks + 1).astype(int)
    tick = np.searchsorted(edges[1:], number, side='right')
    comes = {name: _comes(table, tick) for name, table in graph.tables().items()}
    seen = np.full(graph.n_landmarks, ticks - 1)
    for name, table in graph.tables().items():
        for column in table.endpoints():
            end = getattr(table, column)
            far = end < 0
            np.minimum.at(seen, ~end[far], comes[name][far])
    by_first = np.argsort(seen, kind='stable')
    landmark = _inverse(by_first)

    def renumbered(end: Index) -> Index:
        far = end < 0
        result = np.empty_like(end)
        result[~far], result[far] = number[end[~far]], ~landmark[~end[far]]
        return result

    rotation, translation = odometry_poses(graph)
    made: list[Increment] = []
    for k in range(ticks):
        rows = order[edges[k]:edges[k + 1]]
        marks = by_first[seen[by_first] == k]
        fixed = graph.landmarks.fixed[marks]
        tables = {}
        for name, table in graph.tables().items():
            own = table.take(comes[name] == k)
            tables[name] = own.replaced(
                **{column: renumbered(getattr(own, column)) for column in table.endpoints()})
        made.append(Increment(
            sequence=k, robots=graph.robots,
            poses=graph.poses.take(rows).replaced(
                rotation=rotation[rows], translation=translation[rows], stamp_ns=stamps[rows]),
            landmarks=Landmarks(
                tuple(graph.landmarks.names[m] for m in marks),
                np.where(fixed[:, None], graph.landmarks.position[marks], np.nan), fixed),
            newest_stamp_ns=int(np.max(stamps[rows], initial=0)), measurements=tables))
    return made


def played(
    graph: Graph, config: SparserConfig, ticks: int
) -> Iterator[tuple[Increment, Solution]]:
    """The increments of a graph, and the solution after each, of tracker and auditor in turns."""
    session = Session(config)
    with single_threaded_blas():
        for increment in increments_of(graph, ticks):
            session.add(increment)
            yield increment, session.solve()


def solver_of(
    graph: Graph, values: Estimate, robust: RobustConfig = NO_KERNEL, *, held: bool = True
) -> IncrementalSolver:
    """An incremental solver of a graph; without absolute data the first pose is held, if at all."""
    d = graph.dimension
    solver = IncrementalSolver(d, robust)
    free = np.ones(graph.n_poses, dtype=bool)
    free[0] = graph.anchored or not held
    solver.add_bodies(values.rotation, values.translation, False, free)
    solver.add_bodies(
        np.tile(np.eye(d), (graph.n_landmarks, 1, 1)), values.landmarks, True,
        ~graph.landmarks.fixed)
    solver.add_terms(terms_of(graph, d, graph.points, robust))
    return solver


def estimate_of_increments(
    graph: Graph, estimate: Estimate, increments: list[Increment]
) -> Estimate:
    """The part of a whole graph's estimate that the first increments contain, in their order."""
    order = np.lexsort((graph.poses.robot, pose_stamps(graph)))
    poses = order[:sum(len(one.poses) for one in increments)]
    names = {name: m for m, name in enumerate(graph.landmarks.names)}
    marks = [names[name] for one in increments for name in one.landmarks.names]
    return Estimate(
        estimate.rotation[poses], estimate.translation[poses], estimate.landmarks[marks])


def _comes(table: Table, tick: Index) -> Index:
    """(k,): for each measurement of a table, the first increment that has all its poses."""
    first = np.zeros(len(table), dtype=np.int64)
    for column in table.endpoints():
        end = getattr(table, column)
        first = np.maximum(first, np.where(end >= 0, tick[np.maximum(end, 0)], 0))
    return first


def odometry_poses(graph: Graph) -> tuple[Array, Array]:
    """Poses (n, d, d), (n, d) of each robot in a frame of its own, composed from odometry."""
    poses, table = graph.poses, graph.relative_poses
    order = np.lexsort((poses.index, poses.robot))
    place = _inverse(order)
    d, n = graph.dimension, len(order)
    turn, move = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d))
    steps = np.flatnonzero(table.odometry & (place[table.j] == place[table.i] + 1))
    turn[place[table.j[steps]]] = table.rotation[steps]
    move[place[table.j[steps]]] = table.translation[steps]
    rotation, translation = compose(turn, move, np.diff(poses.robot[order], prepend=-1) != 0)
    return rotation[place], translation[place]


def _inverse(order: Index) -> Index:
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return inverse
