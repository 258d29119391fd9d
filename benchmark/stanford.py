"""Stanford diagram: true error against protection level, and how many epochs lie in each region.

The regions are those of satellite navigation. An epoch is one robot with a published position at
one solution; errors and levels are horizontal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.special import betaincinv

from sparser_ros.array_types import Array, Index
from sparser_ros.backend.session.scene import datum_of, relative_to
from sparser_ros.backend.session.solution import Location, Solution
from sparser_ros.config.solver_config import LiveSolverConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import Graph
from sparser_ros.io import graph_file
from sparser_ros.io.graph_bag import pose_stamps
from sparser_ros.linalg.rotations import align
from sparser_ros.plot.figure import COLOURS, FAINT, REJECTED, figure

from . import stream
from .table import Table

REGIONS = {
    'nominal': 'error <= level <= limit',
    'unavailable': 'error <= level, level > limit',
    'misleading': 'level < error <= limit',
    'misleading, unavailable': 'limit < level < error',
    'hazardous': 'level <= limit < error',
}
CONFIDENCE = 0.95
_BINS = 60
_SIDE = 3.0
"""Length of the axes, over the alert limit; what is beyond is drawn at the edge."""


def error_of(
    robot: str, solution: Solution, landmarks: Sequence[str], places: Mapping[str, Array],
    truth: Mapping[str, Array],
) -> float | None:
    """Horizontal error of a robot beside what its level is relative to, metres.

    `places` and `truth` hold newest positions of robots and positions of landmarks (d,);
    `landmarks` are all of them in the graph. None where too little is located.
    """
    located = [name for name, known in zip(landmarks, solution.landmark_located, strict=False)
               if known]
    names = datum_of(robot, solution.robots, located)
    points = np.array([places[name] for name in names])
    if not names or relative_to(places[robot], points) is None:
        return None
    turn, shift = align(points, np.array([truth[name] for name in names]))
    return float(np.linalg.norm((turn @ places[robot] + shift - truth[robot])[:2]))


def region_of(points: Array, limit_m: float) -> Index:
    """(k,): index into REGIONS of points (k, 2) = (error, level), metres."""
    error, level = points[:, 0], points[:, 1]
    out, usable = error > level, level <= limit_m
    return np.select(
        [~out & usable, ~out, usable & (error <= limit_m), ~usable], [0, 1, 2, 3],
        4).astype(np.int64)


def counts(points: Array, limit_m: float) -> dict[str, int]:
    number = np.bincount(region_of(points, limit_m), minlength=len(REGIONS))
    return dict(zip(REGIONS, number.tolist(), strict=True))


def row_of(name: str, points: Array, limit_m: float) -> dict[str, object]:
    """One row of the table: shares in percent."""
    found = counts(points, limit_m)
    total = max(len(points), 1)
    wrong = found['misleading'] + found['misleading, unavailable'] + found['hazardous']
    finite = points[np.isfinite(points[:, 1])]
    return {
        'name': name, 'epochs': len(points),
        **{region: 100 * number / total for region, number in found.items()},
        'ratio': float(np.max(finite[:, 0] / finite[:, 1])) if len(finite) else None,
        'level': float(np.median(points[:, 1])) if len(points) else None,
        'most': float(np.percentile(points[:, 1], 90, method='higher')) if len(points) else None,
        'rate': float(betaincinv(wrong + 1, total - wrong, CONFIDENCE)) if wrong < total else 1.0}


def table(out: Path) -> Table:
    return Table('stanford', 'Protection levels against true errors', {
        'name': 'recordings', 'epochs': 'epochs',
        **{region: f'{region} %' for region in REGIONS},
        'level': 'median level m', 'most': '90 % of levels below m',
        'ratio': 'largest error over level',
        'rate': 'error above level, share below (95 %)'}, out, 'integrity')


def picture(path: Path, panels: Mapping[str, Array], limit_m: float) -> None:
    """One diagram a panel: epochs by error and level, logarithmic colours."""
    from matplotlib.colors import LogNorm

    side = _SIDE * limit_m
    with figure(path, 3.4 * max(len(panels), 1), 3.4) as drawing:
        for number, (name, points) in enumerate(panels.items()):
            axes = drawing.add_subplot(1, len(panels), number + 1)
            axes.fill_between([0, side], [0, side], 0, color=FAINT, alpha=0.2, lw=0)
            axes.fill_between([limit_m, side], limit_m, 0, color=REJECTED, alpha=0.3, lw=0)
            axes.plot([0, side], [0, side], color=FAINT, lw=0.8)
            axes.axhline(limit_m, color=COLOURS[5], lw=0.8, ls='--')
            if len(points):
                inside = np.clip(points, 0, side * (1 - 0.5 / _BINS))
                axes.hist2d(
                    inside[:, 0], inside[:, 1], bins=_BINS, range=[[0, side], [0, side]],
                    cmin=1, norm=LogNorm(), cmap='viridis')
            found = counts(points, limit_m)
            axes.set_title(
                f'{name}: {len(points)} epochs, {found["hazardous"]} hazardous', fontsize=8)
            axes.set_xlim(0, side)
            axes.set_ylim(0, side)
            axes.set_aspect('equal')
            axes.tick_params(labelsize=7)
            axes.set_xlabel('horizontal error, m', fontsize=8)
            if number == 0:
                axes.set_ylabel('protection level, m', fontsize=8)


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
    points, names = [], []
    for increment, solution in stream.played(graph, config, ticks):
        names += increment.landmarks.names
        points += _epochs(graph, solution, truth, robot, names)
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
    beside = {name: None if solution.anchored else error_of(
        name, solution, names, places, true_places) for name in located}
    return [(float(error[row[k]]) if beside[name] is None else beside[name],
             solution.protection.of(name)[0]) for name, k in newest.items()]
