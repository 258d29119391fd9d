"""Online: figures that `dev/demo` measured while it played data into the real node.

`./dev/demo GRAPH --rate 20`, then `python -m benchmark.online [out/report.json …]`
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sparser_ros.config import ConfigError

from .table import Table, run_main


def main(argv: list[str] | None = None) -> int:
    made = argparse.ArgumentParser(prog='python -m benchmark.online', description=__doc__)
    made.add_argument('reports', nargs='*', type=Path, default=[Path('out/report.json')],
                      metavar='REPORT.json')
    made.add_argument('--out', type=Path, default=Path('out/bench'), metavar='DIR')
    args = made.parse_args(argv)
    rows = [row(path) for path in args.reports]
    table = Table('online', 'Online: data played in time into the node', {
        'dataset': 'set', 'rate': 'rate', 'n_poses': 'poses', 'n_ranges': 'ranges',
        'solutions': 'solutions', 'p95': 'latency p95 s', 'p95_full': 'at full size s',
        'cpu_cores': 'CPU cores', 'settled_after_s': 'settled after s',
        'tf_gap_s': 'longest TF gap s', 'callback_max_ms': 'longest callback ms',
        'callback_max_cpu_ms': 'of processor time ms',
        'unaccounted': 'messages unaccounted', 'cost': 'cost on the file', 'passed': 'passed',
    }, args.out)
    for found in rows:
        table.add(found)
    return 0


def row(path: Path) -> dict[str, Any]:
    """The cells of one report; ConfigError for a file that is no report of dev/demo."""
    try:
        report = json.loads(path.read_text())
        gaps = report['tf_gap_max_s'].values()
        return {
            **{key: report.get(key) for key in (
                'dataset', 'rate', 'n_poses', 'n_ranges', 'solutions', 'settled_after_s',
                'callback_max_ms', 'callback_max_cpu_ms', 'cpu_cores', 'passed')},
            'p95': report['latency_s']['p95'], 'p95_full': report['latency_s']['p95_full_size'],
            'tf_gap_s': max(gaps, default=None), 'cost': report.get('cost_on_file'),
            'unaccounted': report['messages']['unaccounted'],
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f'{path} is no report of dev/demo ({error!r}): run ./dev/demo first') from None


if __name__ == '__main__':
    run_main(main)
