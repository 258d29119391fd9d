"""All of the package once on small data: numba compiles what it meets, and keeps it."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from ..config import RobustConfig, SolverConfig, SparserConfig
from ..config.calibration_config import CalibrationConfig
from ..config.simulation_config import SimulationConfig

DIMENSIONS = (2, 3)
CLIMB_RANKS = (5, 6)
"""Ranks that certificates of recorded range graphs climb to. Each takes 16 to 22 s of processor
time on a busy machine; higher ones compile when met."""


def cache_folders() -> list[Path]:
    """Where numba keeps compiled functions: as the environment says, else beside the source."""
    folder = os.environ.get('NUMBA_CACHE_DIR')
    return [Path(folder)] if folder else [Path(__file__).resolve().parent.parent]


def compiled_functions() -> int:
    """How many compiled functions are kept; one of another version of its source counts too."""
    return sum(1 for place in cache_folders() if place.is_dir() for _ in place.rglob('*.nbi'))


def compile_kernels() -> None:
    """Solve, prove, calibrate and replay simulated recordings, in the plane and in space.

    What is compiled already is loaded. Where nothing is, it takes minutes of processor time.
    """
    from ..backend.replay.study import in_processes

    with in_processes(compile_dimension, DIMENSIONS, len(DIMENSIONS)) as futures:
        for future in futures:
            future.result()


def compile_dimension(dimension: int) -> None:
    """The same for the plane (2) or space (3).

    The two run side by side, and share a third of their kernels. They come to those at different
    times: the one that is later finds them compiled.
    """
    from ..backend.observability.comparison_warm_up import warm_up as warm_up_comparison
    from ..config.solver_config import LiveSolverConfig
    from ..solver.warm_up import warm_up, warm_up_climb

    def begin() -> None:
        warm_up(dimension, LiveSolverConfig())

    def compare() -> None:
        warm_up_comparison(dimension)

    def climb() -> None:
        warm_up_climb(dimension, CLIMB_RANKS)

    def graphs() -> None:
        _graphs(dimension)

    def replay() -> None:
        _replay(dimension)

    for step in (begin, compare, climb, graphs, replay) if dimension == 2 else (
            climb, compare, begin, replay, graphs):
        step()


def _graphs(dimension: int) -> None:
    """With and without ranges, with and without a robust kernel; radios and covariances."""
    from ..calibrate.self_calibration import self_calibrate
    from ..io.simulation import Simulation, graph_of
    from ..solver import solve
    from ..solver.covariance import marginal_covariance

    robust = SolverConfig(robust=RobustConfig(kernel='gm', gnc=True))
    # One robot without beacons has no ranges: a pose graph.
    for robots, beacons in ((1, 0), (2, 4)):
        graph = graph_of(Simulation(SimulationConfig(
            robots=robots, beacons=beacons, minutes=0.3, closures=12, dimension=dimension,
            odometry_rate=4.0)))
        estimate = solve(graph, SolverConfig(certify=True)).estimate
        solve(graph, robust)
        if estimate is not None:
            marginal_covariance(graph, estimate, [graph.n_poses - 1], range(graph.n_landmarks))
            if beacons:
                self_calibrate(graph, estimate, CalibrationConfig(rounds=2), robust)


def _replay(dimension: int) -> None:
    from ..backend.replay import replay
    from ..io.simulation import Simulation, node_config, write_bag

    simulation = Simulation(SimulationConfig(
        robots=2, beacons=4, minutes=0.5, closures=4, dimension=dimension))
    with TemporaryDirectory() as folder:
        bag = Path(folder) / 'bag'
        write_bag(bag, simulation, storage='sqlite3', overwrite=False)
        replay.run(bag, SparserConfig.from_mapping(node_config(simulation)))
