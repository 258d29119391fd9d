"""What a certificate costs beside its solve, and what it proves.

CPU seconds of a solve with a certificate less those of the same solve without one, which are
comparable on a busy machine. `python -m benchmark.certificate [--sets MIT outfinite]`
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from sparser_ros.config import SolverConfig
from sparser_ros.graph import Graph
from sparser_ros.io import graph_file
from sparser_ros.solver import solve
from sparser_ros.solver.warm_up import warm_up

from . import arguments, synthetic
from .datasets import PAPER, directory
from .table import Table, run_main

CORA_S = {'single_drone': 1.1, 'plaza2': 2.7, 'tiers': 21.6, 'outfinite': 31.2}
"""Whole runs of CORA's staircase from its own start, wall time on a quiet machine."""
FURTHER = {
    'smallGrid3D': 'g2o/smallGrid3D.g2o', 'mrclam5a': 'pyfg/mrclam5a.pyfg',
    'goats_14': 'pyfg/goats_14.pyfg'}
SPACE = (5750, 16900)
"""Poses and edges of a generated graph in space with isotropic noise."""


def main(argv: list[str] | None = None) -> int:
    made = arguments.parser('certificate', __doc__ or '')
    args = made.parse_args(argv)
    table = Table('certificate', 'Certificates: CPU seconds beside those of the solve', {
        'set': 'set', 'solve_s': 'solve s', 'certify_s': 'certify s', 'cost': 'cost',
        'lower': 'no solution below', 'certified': 'certified', 'relaxed_gap': 'gap of the bound',
        'cora_s': 'CORA, whole run s'}, args.out)
    for d in (2, 3):
        warm_up(d, SolverConfig(certify=True))
    files = {dataset.name: dataset.file for dataset in PAPER} | FURTHER
    for name in args.sets or [*files, 'space']:
        graph = (synthetic.space_lattice(*SPACE) if name == 'space'
                 else graph_file.read(directory(args.data) / files[name]).validate())
        for row in measured(graph):
            table.add({'set': name, **row, 'cora_s': CORA_S.get(name)})
    table.note('Gap of the bound: cost of the last relaxed point less the bound, over that cost; '
               'of certified trajectories their own.')
    return 0


def measured(graph: Graph) -> Iterator[dict[str, object]]:
    """One row; the solve runs twice, without and with the certificate."""
    seconds = []
    for certify in (False, True):
        begin = time.process_time()
        result = solve(graph, SolverConfig(certify=certify))
        seconds.append(time.process_time() - begin)
    stats = result.stats
    cost, gap = stats.cost_final, stats.suboptimality
    assert cost is not None and gap is not None
    lower = cost - gap
    top = cost if stats.certified or stats.cost_relaxed is None else stats.cost_relaxed
    yield {
        'solve_s': seconds[0], 'certify_s': max(seconds[1] - seconds[0], 0.0), 'cost': cost,
        'lower': lower, 'certified': 'yes' if stats.certified else 'no',
        'relaxed_gap': (top - lower) / top if top > 0 else None}


if __name__ == '__main__':
    run_main(main)
