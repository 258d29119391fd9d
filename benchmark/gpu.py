"""Whole solves on the CPU, on a CUDA device, and where `auto` goes.

Wall seconds of one thread beside the device, the first solve of each kind apart; needs cupy but
neither ROS nor plots. `python -m benchmark.gpu [--sets tiers …] [--spheres 10000] [--lattices …]`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from sparser_ros.config import ConfigError, SolverConfig, SolverError
from sparser_ros.graph import Graph
from sparser_ros.io import graph_file
from sparser_ros.linalg.gpu.device import open_device
from sparser_ros.solver import solve

from . import generators, synthetic
from .datasets import chosen, directory
from .table import Table, median, parser, run_main, timed

SETS = ['sphere2500', 'torus3D', 'city10000', 'plaza2', 'tiers', 'outfinite']
BACKENDS = 'cpu', 'gpu', 'auto'
MOST_POSES = 20_000
"""Poses up to which a random start is measured beside the usual one."""
AGREEMENT = 1e-3
"""Largest relative difference of costs: several tolerances of the solver."""


def main(argv: list[str] | None = None) -> int:
    made = parser('gpu', __doc__ or '', timeout_s=60)
    made.set_defaults(sets=SETS)
    made.add_argument('--spheres', nargs='*', type=int, metavar='POSES', default=[10_000])
    made.add_argument('--lattices', nargs='*', type=int, metavar='POSES', default=[50_000, 200_000])
    made.add_argument('--repeats', type=int, default=3, help='solves, the median counts')
    args = made.parse_args(argv)
    try:
        device = open_device().description
    except SolverError as error:
        raise ConfigError(str(error)) from error
    table = Table('gpu', f'CPU and {device}, seconds of whole solves', {
        'set': 'set', 'poses': 'poses', 'init': 'start', **{name: name for name in BACKENDS},
        'ratio': 'cpu over auto', 'ran': 'auto ran on', 'cost': 'cost', 'note': '',
    }, args.out)
    graphs: Iterator[tuple[str, Callable[[], Graph]]] = iter([
        *((data.name, partial(graph_file.read, directory(args.data) / data.file))
          for data in chosen(args.sets)),
        *((f'sphere{n}', partial(generators.sphere, laps=n // 50)) for n in args.spheres),
        *((f'lattice{n}', partial(synthetic.pose_graph, n)) for n in args.lattices)])
    for name, make in graphs:
        graph = make().validate()
        for init in ('auto', 'random') if graph.n_poses <= MOST_POSES else ('auto',):
            row = {'set': name, 'poses': graph.n_poses, 'init': init}
            table.add({**row, **measured(graph, init, args.repeats, args.timeout)})
    return 0


def measured(graph: Graph, init: str, repeats: int, limit_s: float) -> dict[str, object]:
    """Median seconds by backend, and what `auto` did."""
    seconds: dict[str, float] = {}
    costs: list[float] = []
    ran = ''
    for backend in BACKENDS:
        config = SolverConfig(backend=backend, init=init, time_limit_s=limit_s)
        solve(graph, config)
        taken = []
        for _ in range(repeats):
            result, wall, _ = timed(solve, graph, config)
            taken.append(wall)
        seconds[backend], ran = median(taken), result.stats.backend
        assert result.stats.cost_final is not None
        costs.append(result.stats.cost_final)
    apart = (max(costs) - min(costs)) / max(costs)
    return {
        **seconds, 'ratio': seconds['cpu'] / seconds['auto'], 'ran': ran, 'cost': costs[0],
        'note': f'costs differ by {apart:.1e}' if apart > AGREEMENT else ''}


if __name__ == '__main__':
    run_main(main)
