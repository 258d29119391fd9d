"""False loop closures and blocked ranges: rejected measurements, time and accuracy.

Every case adds seeded false measurements to a public set and solves it with Geman-McClure in GNC,
from the odometry (pose graphs) or from scratch (ranges). GTSAM's GNC solves the same pose graphs in
an interpreter that has it (--gtsam-python).
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sparser_ros.io import graph_file

from .arguments import parser
from .datasets import chosen, directory
from .gtsam_job import export_graph
from .isolated import run as run_isolated
from .isolated import run_command
from .robust_job import corrupted
from .table import Table, run_main

SCRIPT = Path(__file__).with_name('gtsam_gnc.py')
SETS = ('sphere2500', 'parking-garage', 'intel', 'manhattan', 'plaza2', 'tiers')
SHARES = (0.1, 0.2, 0.3, 0.5)
PROBABILITY = 0.99966
"""Of a chi-square variable of six degrees of freedom to be below 25, the square of our default
kernel width: GTSAM gets the same threshold."""


def main(argv: list[str] | None = None) -> int:
    """Measure, print, save."""
    made = parser('robust', __doc__.partition('\n')[0], seeds=1, timeout_s=600)
    made.add_argument('--shares', nargs='+', type=float, default=SHARES, metavar='X',
                      help='false closures as a share of the true ones')
    made.add_argument('--kernel', default='gm', choices=('gm', 'huber', 'cauchy'))
    made.add_argument('--gtsam-python', default=sys.executable, metavar='PYTHON',
                      help='interpreter that has gtsam')
    made.add_argument('--gtsam-timeout', type=float, default=300, metavar='S')
    made.add_argument('--no-gtsam', action='store_true')
    args = made.parse_args(argv)
    data = directory(args.data)
    table = Table('robust', 'False measurements', {
        'set': 'set', 'share': 'false', 'seed': 'seed', 'found': 'false rejected',
        'lost': 'true rejected', 'excess_percent': 'robust cost over best, %',
        'wall_s': 'wall s', 'cpu_s': 'CPU s', 'ate_m': 'ATE m', 'ate_clean_m': 'clean ATE m',
        'ate_plain_m': 'ATE without kernel m', 'gtsam': 'GTSAM GNC',
    }, args.out)
    for dataset in chosen(args.sets or list(SETS)):
        what = 'ranges' if dataset.range_aided else 'closures'
        for share in (0.2,) if dataset.range_aided else args.shares:
            for seed in range(args.seeds):
                job = {
                    'kind': 'robust', 'graph': str(data / dataset.file), 'what': what,
                    'share': share, 'seed': seed, 'kernel': args.kernel}
                table.add(row(dataset.name, job, args))
    table.note(
        'False rejected: false measurements of weight below 0.1, of all false ones; in brackets '
        'those kept also when the solve starts from the optimum of the clean graph. True rejected: '
        'in brackets those rejected also from there. Best: the robust cost reached from there. '
        'ATE of pose graphs is the mean distance from the clean solution.')
    return 0


def row(name: str, job: dict[str, Any], args: Any) -> dict[str, Any]:
    """One case, ours and GTSAM's."""
    figures = run_isolated(job, args.timeout)
    line = {'set': name, 'share': f'{100 * job["share"]:g} %', 'seed': job['seed'], **figures}
    if 'error' in figures:
        line['found'] = figures['error']
        return line
    line['found'] = (
        f'{figures["false_rejected"]}/{figures["false"]} ({figures["false_plausible"]})')
    line['lost'] = f'{figures["true_rejected"]}/{figures["true"]} ({figures["true_far"]})'
    line['excess_percent'] = 100 * figures.get('excess', math.nan)
    if job['what'] == 'closures' and not args.no_gtsam:
        line['gtsam'] = gtsam(job, args)
    return line


def gtsam(job: dict[str, Any], args: Any) -> str:
    """GTSAM's counts and seconds, or why there are none."""
    clean = graph_file.read(Path(job['graph']))
    graph, rows, _ = corrupted(clean, job['what'], job['share'], job['seed'])
    with tempfile.TemporaryDirectory(prefix='sparser_gtsam_') as scratch:
        arrays = Path(scratch) / 'graph.npz'
        export_graph(graph, arrays, odometry=graph.relative_poses.odometry, false=np.asarray(rows))
        found = run_command(
            [args.gtsam_python, str(SCRIPT)],
            {'arrays': str(arrays), 'probability': PROBABILITY}, args.gtsam_timeout)
    if 'error' in found:
        return str(found['error'])
    return (f'{found["false_rejected"]} false, {found["true_rejected"]} true rejected, '
            f'{found["wall_s"]:.3g} s')


if __name__ == '__main__':
    run_main(main)
