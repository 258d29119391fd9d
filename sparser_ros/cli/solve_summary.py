"""What `sparser solve` prints of a solution: for its user, and with -v for a developer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import Estimate, Graph

if TYPE_CHECKING:
    from ..solver import SolveResult


def covariances(fields: Mapping[str, Any] | None) -> None:
    """Print the standard deviations of a report's covariances; None: they were not asked for."""
    if fields is None:
        return
    if 'error' in fields:
        print(f'covariances: {fields["error"]}')
        return
    print(f'standard deviations relative to {fields["gauge"]}, by the claimed noise '
          f'(found variance {fields["variance_factor"]:.2f} times that):')
    size = 2 if fields['order'] == 'x y rz' else 3
    for kind in ('newest_poses', 'landmarks'):
        for name, values in fields[kind].items():
            if values is None:
                print(f'  {name}: undetermined')
                continue
            sigma = np.sqrt(np.maximum(np.diag(np.array(values)), 0))
            turn = ''.join(f' {np.degrees(s):.3f} deg' for s in sigma[size:])
            print(f'  {name}: ' + ' '.join(f'{s:.3f} m' for s in sigma[:size]) + turn)


def certificate_text(cost: float, suboptimality: float, certified: bool) -> str:
    """What a certificate says, in words; costs as in the report."""
    lowest = max(cost - suboptimality, 0.0)
    share = f' ({100 * suboptimality / cost:.2g} %)' if cost > 0 else ''
    if certified:
        return (f'certified: this is the best possible map; no solution costs less than '
                f'{lowest:.8g}')
    if not np.isfinite(suboptimality):
        return 'not certified: no bound on better maps was found'
    return (f'not certified: no solution costs less than {lowest:.6g}; the best possible map is at '
            f'most {suboptimality:.4g}{share} better')


def status_text(status: str, partial: bool) -> str:
    """The status of a solve; not a plain `converged` where parts have no determined place."""
    return f'{status} in parts, the rest is undetermined' if partial else status


def show(
    graph: Graph, result: SolveResult, seconds: float, estimate: Estimate | None,
    truth: Estimate | None, *, partial: bool = False,
) -> None:
    """Print cost, rejected measurements, certificate and error where a reference exists.

    `partial`: parts of the graph are undetermined, which the status then says.
    """
    from ..io.report import REJECTED_BELOW, ate, ate_rmse

    stats = result.stats
    cost = stats.cost_relaxed if stats.cost_final is None else stats.cost_final
    shown = 'none' if cost is None else f'{cost:.8g}'
    print(
        f'{graph.name}: {graph}\n'
        f'{status_text(result.status.value, partial)}: cost {shown}, {seconds:.2f} s')
    if stats.cost_robust is not None:
        rejected = sum(int(np.sum(w < REJECTED_BELOW)) for w in stats.weights.values())
        print(f'{stats.kernel}: robust cost {stats.cost_robust:.8g}, '
              f'{rejected} measurements rejected')
    if stats.certified is not None and stats.suboptimality is not None and cost is not None:
        print(certificate_text(cost, stats.suboptimality, stats.certified))
    if truth is not None and estimate is not None:
        print(f'against the positions in the file: RMSE {ate_rmse(estimate, truth):.3f} m, '
              f'mean {ate(estimate, truth):.3f} m')
    if not result.status.solved:
        print(result.message)


def details(result: SolveResult) -> None:
    """What a developer asks: effort, times and choices."""
    stats = result.stats
    times = ', '.join(f'{stage} {seconds:.3f} s' for stage, seconds in stats.seconds.items())
    print(f'  {stats.iterations} iterations, {stats.cg_steps} CG steps from {stats.init} at rank '
          f'{stats.rank}; {times}; on the {stats.backend}')
    for name, choice in stats.plan.items():
        print(f'  {name}: {choice}')
