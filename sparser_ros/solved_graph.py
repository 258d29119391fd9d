"""The package in a few lines of Python: read, build or log a graph, solve it, look at the result.

    from sparser_ros import Graph, solve

    builder = Graph.builder()
    builder.add_odometry('A', [1.0, 0.0], 0.1, sigma_m=0.02, sigma_rad=0.01)
    builder.add_range(('A', 0), 'door', 4.2, sigma_m=0.1)
    print(solve(builder.build()))
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .array_types import Array, Index
from .config import SolverConfig, SolverError, SparserConfig
from .config.errors import SolveWarning
from .config.option import check, walk
from .config.solver_config import LIVE_SOLVER
from .graph import Estimate, Graph, with_estimate
from .graph.estimate import from_first_pose
from .graph.graph import counted

if TYPE_CHECKING:
    from .backend.observability.judgement import Judgement
    from .solver import SolveResult

_SECOND = 1e9


@dataclass(frozen=True, eq=False, repr=False)
class SolvedGraph:
    """A graph and its solution in map; `print` shows a summary, `save` writes files by suffix.

    Positions are in metres, angles in radians, times in seconds. Arrays of a robot have one row
    for each of its k poses, in their order.
    """

    graph: Graph
    result: SolveResult
    """Status, message, costs and effort (`result.stats`)."""
    judgement: Judgement
    """What is not determined or contradicts, as data; the next three say it in words."""
    report: dict[str, Any] = field(default_factory=dict)
    """Fields of report.json (docs/report_fields.md) of a replay; empty after `solve`."""

    @property
    def status(self) -> str:
        """`converged`, or why not: `max_iterations`, `time_limit`, `stalled`, `failed`."""
        return self.result.status.value

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Sentences on robots and beacons that the measurements leave without a place."""
        return tuple(finding.text for finding in self.judgement.undetermined)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on robots and beacons with two places, and on false measurements."""
        return tuple(finding.text for finding in self.judgement.warnings)

    @property
    def other_places(self) -> dict[str, Array]:
        """Of what has two places, by name: the other one (d,), of a robot that of its last pose."""
        return {name: place.position for name, place in self.judgement.other_places.items()}

    @property
    def estimate(self) -> Estimate:
        """Poses and landmarks in map; SolverError where the solve gave none.

        Where nothing absolute fixes the map, the first pose stays where the graph has it.
        """
        if self.result.estimate is None:
            raise SolverError(self.result.message)
        return self.result.estimate

    @property
    def beacons(self) -> dict[str, Array]:
        """Position (d,) of every beacon or landmark by name; see `undetermined`."""
        return dict(zip(self.graph.landmarks.names, self.estimate.landmarks, strict=True))

    def trajectory(self, robot: str) -> Array:
        """(k, d): positions of a robot's poses."""
        return self.estimate.translation[self._rows(robot)]

    def headings(self, robot: str) -> Array:
        """(k,): yaw of a robot's poses, -pi to pi, counter-clockwise from the x axis of map."""
        rotation = self.rotations(robot)
        return np.asarray(np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0]))

    def rotations(self, robot: str) -> Array:
        """(k, d, d): rotation matrices of a robot's poses, from its own axes to those of map."""
        return self.estimate.rotation[self._rows(robot)]

    def stamps_s(self, robot: str) -> Array:
        """(k,): times of a robot's poses, 0 where the graph has none."""
        return self.graph.poses.stamp_ns[self._rows(robot)] / _SECOND

    def covariance(self, name: str, pose: int = -1) -> Array:
        """Marginal covariance of a beacon (d, d), or of a robot's pose, by default the newest.

        Of a pose (3, 3) in the order x, y, yaw, or (6, 6) in x, y, z, rx, ry, rz about the axes of
        map; from the claimed noise, relative to what fixes map (known beacons, else the first
        pose). SolverError where something is not determined.
        """
        from .graph.parts import components
        from .solver.covariance import marginal_covariance

        graph, poses, marks = self.graph, list[int](), list[int]()
        if name in graph.landmarks.names:
            marks = [graph.landmarks.names.index(name)]
        else:
            rows = self._rows(name)
            if not -len(rows) <= pose < len(rows):
                raise SolverError(f'robot {name!r} has poses 0 to {len(rows) - 1}, got {pose}')
            poses = [int(rows[pose])]
        apart = components(graph)[[*poses, *(graph.n_poses + mark for mark in marks)]].any()
        lost = [finding.text for finding in self.judgement.undetermined
                if apart or finding.subject == name]
        if lost:
            raise SolverError(f'{name} has no covariance: {"; ".join(lost)}')
        blocks = marginal_covariance(
            graph, self.estimate, poses, marks, weights=self.result.stats.weights)
        return blocks.landmarks[0] if marks else blocks.poses[0]

    @cached_property
    def rejected(self) -> list[dict[str, Any]]:
        """Measurements that the robust kernel left out: index, type, from, to, weight, residual."""
        from .io.report import rejected_of

        if 'rejected' in self.report:
            return list(self.report['rejected'])
        return rejected_of(self.graph, self.estimate, self.result.stats)

    def save(self, path: Path | str) -> None:
        """Write a graph (.pyfg, .g2o), a picture (.png, .svg, .pdf, .jpg, …) or a folder of TUM
        files."""
        path, graph, estimate = Path(path), self.graph, self.estimate
        from .plot.pictures import FORMATS, save_map

        if path.suffix.lower() in FORMATS:
            save_map(path, graph, estimate, weights=self.result.stats.weights,
                     cost=self.result.stats.cost_final)
        elif path.suffix:
            from .io import graph_file

            graph_file.write(path, with_estimate(graph, estimate))
        else:
            from .io import tum

            tum.write(path, graph, estimate, graph.poses.stamp_ns)

    def _rows(self, robot: str) -> Index:
        """Rows of a robot's poses, in their order; SolverError where it has none."""
        graph = self.graph
        if robot not in graph.robots or (self.report and not np.any(
                graph.poses.robot == graph.robots.index(robot))):
            missing = self.report.get('locations', {}).get(robot, {}).get('missing')
            raise SolverError(
                f'robot {robot!r} has no place in map: {missing}' if missing
                else f'no robot {robot!r}; there are {", ".join(graph.robots)}')
        return graph.pose_rows(graph.robots.index(robot))

    def __repr__(self) -> str:
        told = [counted(len(texts), noun) for texts, noun in (
            (self.undetermined, 'undetermined part'), (self.warnings, 'warning')) if texts]
        return f'<SolvedGraph: {", ".join([self.status, *told, str(self.graph)])}>'

    def __str__(self) -> str:
        stats, graph = self.result.stats, self.graph
        lines = [f'{graph}', self.status if self.result.status.solved else self.result.message]
        if stats.weights or self.report:
            lines.append(f'  {counted(len(self.rejected), "measurement")} rejected')
        if self.result.estimate is not None:
            lines += [
                f'  {name}: ' + ' '.join(f'{value:.3f}' for value in position) + ' m'
                for name, position in self.beacons.items()]
        lines += [f'undetermined: {text}' for text in self.undetermined]
        return '\n'.join([*lines, *(f'warning: {text}' for text in self.warnings)])


def solve(graph: Graph, config: SolverConfig | None = None) -> SolvedGraph:
    """Solve a graph; by default as the node does, without the measurements that are false.

    `config` chooses otherwise, for instance `SolverConfig()`: no robust kernel, as `sparser solve`.
    What the measurements leave open, and what contradicts the others, is in the result and comes
    as a SolveWarning. Raises SolverError or GraphError when the problem is ill-posed, ConfigError
    where the configuration is.
    """
    from .backend.observability.judgement import judge
    from .solver import SolveStatus, solve_checked

    config = LIVE_SOLVER if config is None else config
    for option in walk(config):
        value = option.default
        check(option, value.item() if isinstance(value, np.generic) else value)
    result = solve_checked(graph, config)
    if result.estimate is not None and not graph.anchored and graph.n_poses:
        result = replace(result, estimate=from_first_pose(graph, result.estimate))
    judgement = judge(
        graph, result.estimate if result.status is SolveStatus.CONVERGED else None,
        result.stats.weights, remedy='solve(graph) without a config leaves the false ones out')
    return _told(SolvedGraph(graph, result, judgement))


def replay(bag: Path | str, config: SparserConfig | Path | str | None = None) -> SolvedGraph:
    """A ROS 2 bag through the node's front-end and back-end: `sparser replay` without files.

    `bag` is a folder, .mcap or .db3 file; `config` the node's parameters, or the YAML file with
    them; without it one is drafted from the bag, which a SolveWarning tells. The result holds the
    robots and beacons that have a place in map; `report` has the fields of `sparser replay
    --report`: states of robots, errors against ground truth, counts. Raises FormatError,
    ConfigError, and SolverError where nothing was measured.
    """
    from .backend.observability.judgement import Judgement
    from .backend.replay import replay as replays
    from .backend.session.solution import located
    from .graph.finding import Finding
    from .solver import SolveResult

    if config is None:
        from .frontend.draft_config import draft
        from .io.bag_survey import survey

        values, notes = draft(survey(bag))
        warnings.warn('; '.join([f'{bag}: the configuration is drafted', *notes]), SolveWarning,
                      stacklevel=2)
        config = SparserConfig.from_mapping(values)
    elif not isinstance(config, SparserConfig):
        config = SparserConfig.from_yaml(config)
    state, _, _ = replays.run_calibrated(bag, config)
    report = replays.report_of(state, Path(bag).name)
    nothing = replays.nothing_measured(state)
    if nothing:
        raise SolverError(f'{bag}: {nothing}')
    solution = state.solution
    assert solution is not None
    part = located(state.graph, solution)
    weights = {name: rows[part.rows[name]] for name, rows in solution.stats.weights.items()}
    lost = tuple(
        Finding('undetermined', text.partition(':')[0], f'robot {text}')
        for text in replays.undetermined_robots(state)) + tuple(
        Finding('undetermined', name, f'beacon {name} is not located')
        for name, beacon in report['beacons'].items() if not beacon['located'])
    result = SolveResult(
        part.of(solution.estimate), solution.status, solution.message,
        replace(solution.stats, weights=weights))
    return _told(SolvedGraph(
        part.graph.replaced(name=Path(bag).stem), result,
        Judgement(lost, replays.findings_of(state)), report))


def _told(solved: SolvedGraph) -> SolvedGraph:
    """The same, its warnings told to the caller of the caller."""
    for text in (*(f'undetermined: {text}' for text in solved.undetermined), *solved.warnings):
        warnings.warn(text, SolveWarning, stacklevel=3)
    return solved


def read(path: Path | str) -> Graph:
    """The graph in a .pyfg or .g2o file; FormatError names file, line and what was expected.

    What is left out of the file or assumed (`Graph.remarks`) is told as SolveWarnings.
    """
    from .io import graph_file

    graph = graph_file.read(path).validate()
    for text in graph.remarks:
        warnings.warn(f'{path}: {text}', SolveWarning, stacklevel=2)
    return graph
