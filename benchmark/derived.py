"""Recordings made of a recorded one: driven backwards, a part of it, with fewer ranges or beacons.

Real errors in an order, a geometry, and with claims, that nothing was made for. Changes are applied
from left to right: `plaza2:backwards,0.3-1,every3,without-L2`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sparser_ros.array_types import Index
from sparser_ros.config import ConfigError
from sparser_ros.graph import Graph
from sparser_ros.graph.parts import extract
from sparser_ros.io.graph_bag import pose_stamps

CHANGES = 'backwards, BEGIN-END (shares of its time), everyN (of its ranges and sightings), ' \
    'without-BEACON, odometry-SHARE (that it claims of its standard deviations)'


def derived(graph: Graph, changes: str) -> Graph:
    """A graph with changes, separated by commas; raises ConfigError where one is unknown."""
    stamps = pose_stamps(graph)
    graph = graph.replaced(poses=graph.poses.replaced(stamp_ns=stamps))
    for change in filter(None, changes.split(',')):
        if change == 'backwards':
            graph = backwards(graph)
        elif span := re.fullmatch(r'([\d.]+)-([\d.]+)', change):
            graph = _between(graph, float(span[1]), float(span[2]))
        elif every := re.fullmatch(r'every(\d+)', change):
            graph = _every(graph, int(every[1]))
        elif share := re.fullmatch(r'odometry-([\d.]+)', change):
            graph = _boastful(graph, float(share[1]))
        elif change.startswith('without-') and change[8:] in graph.landmarks.names:
            graph = extract(graph, np.ones(graph.n_poses, dtype=bool), np.array(
                [name != change[8:] for name in graph.landmarks.names])).graph
        else:
            raise ConfigError(f'unknown change {change!r} of a recording; known: {CHANGES}')
    return graph


def backwards(graph: Graph) -> Graph:
    """Every robot drives its path from the end to the start, with the same measurements."""
    last, poses = graph.n_poses - 1, graph.poses
    ends_ns = int(poses.stamp_ns.min() + poses.stamp_ns.max())

    def turned(table: Any) -> Any:
        changed: dict[str, Index] = {
            column: np.where(end < 0, end, last - end)
            for column in table.endpoints() for end in [getattr(table, column)]}
        stamps = table.stamp_ns
        return table.replaced(**changed, stamp_ns=np.where(stamps > 0, ends_ns - stamps, stamps))

    tables: dict[str, Any] = {
        name: turned(table).take(np.arange(len(table))[::-1])
        for name, table in graph.tables().items()}
    odometry = tables['relative_poses']
    back = np.swapaxes(odometry.rotation, 1, 2)
    tables['relative_poses'] = odometry.replaced(
        i=odometry.j, j=odometry.i, rotation=back,
        translation=-np.einsum('kij,kj->ki', back, odometry.translation))
    rows = np.arange(graph.n_poses)[::-1]
    return graph.replaced(
        poses=poses.take(rows).replaced(
            stamp_ns=ends_ns - poses.stamp_ns[rows], index=poses.index.max() - poses.index[rows]),
        **tables)


def _between(graph: Graph, begin: float, end: float) -> Graph:
    stamps = graph.poses.stamp_ns
    share = (stamps - stamps.min()) / max(int(np.ptp(stamps)), 1)
    return _heard(extract(
        graph, (share >= begin) & (share <= end), np.ones(graph.n_landmarks, dtype=bool)).graph)


def _every(graph: Graph, number: int) -> Graph:
    random = np.random.default_rng(number)
    return _heard(graph.replaced(**{
        name: table.take(random.random(len(table)) < 1 / number)
        for name, table in graph.tables().items() if name in ('ranges', 'sightings')}))


def _boastful(graph: Graph, share: float) -> Graph:
    table = graph.relative_poses
    factor = np.where(table.odometry, share**-2, 1.0)
    return graph.replaced(relative_poses=table.replaced(
        tau=table.tau * factor, kappa=table.kappa * factor))


def _heard(graph: Graph) -> Graph:
    """Without landmarks that nothing measures."""
    heard = np.zeros(graph.n_landmarks, dtype=bool)
    for table in graph.tables().values():
        for column in table.endpoints():
            end = getattr(table, column)
            heard[~end[end < 0]] = True
    return extract(graph, np.ones(graph.n_poses, dtype=bool), heard).graph
