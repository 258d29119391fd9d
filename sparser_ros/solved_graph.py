"""The package in a few lines of Python: read or build a graph, solve it, look at the result.

    from sparser_ros import Graph, solve

    builder = Graph.builder()
    builder.add_odometry('A', [1.0, 0.0], 0.1, sigma_m=0.02, sigma_rad=0.01)
    builder.add_range(('A', 0), 'door', 4.2, sigma_m=0.1)
    print(solve(builder.build()))
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .array_types import Array
from .config import SolverConfig, SolverError
from .graph import Estimate, Graph, with_estimate

if TYPE_CHECKING:
    from .solver import SolveResult

PICTURES = ('.png', '.svg', '.pdf')


@dataclass(frozen=True)
class SolvedGraph:
    """A graph and its solution; `print` shows a summary, `save` writes files by their suffix."""

    graph: Graph
    result: SolveResult

    @property
    def estimate(self) -> Estimate:
        """Poses and landmarks in map; SolverError where the solve gave none.

        Where nothing absolute fixes the map, the first pose stays where the graph has it.
        """
        graph, found = self.graph, self.result.estimate
        if found is None:
            raise SolverError(self.result.message)
        if graph.anchored or not graph.n_poses:
            return found
        turn = graph.poses.rotation[0] @ found.rotation[0].T
        return found.moved(turn, graph.poses.translation[0] - turn @ found.translation[0])

    @property
    def beacons(self) -> dict[str, Array]:
        """Position (d,) of every landmark by name, metres in map."""
        return dict(zip(self.graph.landmarks.names, self.estimate.landmarks, strict=True))

    def trajectory(self, robot: str) -> Array:
        """(k, d): positions of a robot's poses in their order, metres in map."""
        graph = self.graph
        if robot not in graph.robots:
            raise SolverError(f'no robot {robot!r}; there are {", ".join(graph.robots)}')
        rows = np.flatnonzero(graph.poses.robot == graph.robots.index(robot))
        return self.estimate.translation[rows[np.argsort(graph.poses.index[rows], kind='stable')]]

    def save(self, path: Path | str) -> None:
        """Write a graph (.pyfg, .g2o), a picture (.png, .svg, .pdf) or a folder of TUM files."""
        path, graph, estimate = Path(path), self.graph, self.estimate
        if path.suffix in PICTURES:
            from .plot import map as map_plot

            map_plot.save(path, graph, estimate, weights=self.result.stats.weights,
                          cost=self.result.stats.cost_final)
        elif path.suffix:
            from .io import graph_file

            graph_file.write(path, with_estimate(graph, estimate))
        else:
            from .io import tum

            tum.write(path, graph, estimate, graph.poses.stamp_ns)

    def __str__(self) -> str:
        lines = [f'{self.graph}', f'{self.result}']
        if self.result.estimate is not None:
            lines += [
                f'  {name}: ' + ' '.join(f'{value:.3f}' for value in position) + ' m'
                for name, position in self.beacons.items()]
        return '\n'.join(lines)


def solve(graph: Graph, config: SolverConfig | None = None) -> SolvedGraph:
    """Solve a graph, by default without a robust kernel and with the default limits.

    Raises SolverError or GraphError when the problem is ill-posed.
    """
    from .solver import solve as solve_graph

    return SolvedGraph(graph, solve_graph(graph, config or SolverConfig()))


def read(path: Path | str) -> Graph:
    """The graph in a .pyfg or .g2o file; FormatError names file, line and what was expected.

    What is left out of the file or assumed (`Graph.remarks`) is told as Python warnings.
    """
    from .io import graph_file

    graph = graph_file.read(path).validate()
    for text in graph.remarks:
        warnings.warn(f'{path}: {text}', stacklevel=2)
    return graph
