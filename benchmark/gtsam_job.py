"""A graph as plain arrays, for the process that has GTSAM but not this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparser_ros.config import ConfigError
from sparser_ros.graph import Graph
from sparser_ros.io import graph_file
from sparser_ros.solver.start import odometry_estimate


def export(graph_path: Path, arrays: Path) -> int:
    """Write measurements and starts to `arrays` (.npz); returns the dimension.

    Raises ConfigError for measurements that the comparison does not cover.
    """
    return export_graph(graph_file.read(graph_path).validate(), arrays)


def export_graph(graph: Graph, arrays: Path, **more: NDArray[Any]) -> int:
    """The same for a graph in memory; `more` arrays are written as well."""
    rel, ranges = graph.relative_poses, graph.ranges
    if len(graph.sightings) or graph.anchored or np.any(ranges.lever_source) or np.any(
            ranges.lever_target):
        raise ConfigError(
            f'{graph.name}: the comparison with GTSAM covers relative poses and plain ranges')
    chained = odometry_estimate(graph)
    n, d = graph.n_poses, graph.dimension
    # Start from measurements alone: every robot's first pose is the origin, not its reference.
    blank = graph.replaced(poses=graph.poses.replaced(
        rotation=np.tile(np.eye(d), (n, 1, 1)), translation=np.zeros((n, d))))
    own = odometry_estimate(blank)
    arrays.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        arrays, dimension=graph.dimension, n=graph.n_poses, m=graph.n_landmarks,
        i=rel.i, j=rel.j, rotation=rel.rotation, translation=rel.translation,
        kappa=rel.kappa, tau=rel.tau,
        source=graph.points(ranges.source), target=graph.points(ranges.target),
        distance=ranges.distance_m, precision=ranges.precision,
        file_rotation=graph.poses.rotation, file_translation=graph.poses.translation,
        chained_rotation=chained.rotation, chained_translation=chained.translation,
        own_rotation=own.rotation, own_translation=own.translation, **more,
    )
    return graph.dimension
