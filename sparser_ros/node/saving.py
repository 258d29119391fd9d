"""What `~/save` writes: the graph with its estimate and one trajectory per located robot."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from ..backend.session.covariances import Covariances
from ..backend.session.solution import Location, Solution
from ..config import SparserError
from ..graph import Estimate, Graph, with_estimate
from ..io import atomic, pyfg, report, tum


def save(directory: str, graph: Graph, solution: Solution) -> Path:
    """Write a new folder below `directory`, whole or not at all, and return it.

    `graph` is the sum of the increments up to `solution.sequence`. The folder holds `map.pyfg`,
    `<robot>.tum` of every robot located in `map` (others have no trajectory there) and, where they
    are known, covariances of newest poses and landmarks in `covariances.json`.
    """
    if graph.n_poses != len(solution.estimate.translation):
        raise SparserError(
            f'the solution has {len(solution.estimate.translation)} poses, its graph '
            f'{graph.n_poses}: save again after the next solution')
    target = _unused(Path(directory).expanduser() / time.strftime('map_%Y%m%d_%H%M%S'))
    with atomic.replacing(target) as folder:
        folder.mkdir(parents=True)
        pyfg.write(folder / 'map.pyfg', with_estimate(graph, solution.estimate))
        located = [r.robot for r in solution.robots if r.location is Location.LOCATED]
        part, estimate = _restricted(graph, solution.estimate, located)
        tum.write(folder, part, estimate, part.poses.stamp_ns)
        if solution.covariances is not None:
            report.write(folder / 'covariances.json', _covariances(graph, solution.covariances))
    return target


def _covariances(graph: Graph, known: Covariances) -> dict[str, Any]:
    names = graph.landmarks.names
    return report.covariance_fields(
        known.gauge, known.variance_factor,
        {robot: known.of(robot) for robot in known.robots},
        dict(zip(names, known.landmarks, strict=True)))


def _unused(path: Path) -> Path:
    number, candidate = 1, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f'{path.name}_{number}')
    return candidate


def _restricted(
    graph: Graph, estimate: Estimate, robots: list[str]
) -> tuple[Graph, Estimate]:
    """Poses of the given robots only; measurements stay behind."""
    keep = np.isin(graph.poses.robot, [graph.robots.index(name) for name in robots])
    part = graph.replaced(poses=graph.poses.take(keep))
    return part, Estimate(
        estimate.rotation[keep], estimate.translation[keep], estimate.landmarks)
