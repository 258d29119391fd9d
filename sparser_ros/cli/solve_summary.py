"""What `sparser solve` prints of a solution: for its user, and with -v for a developer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import Estimate, Graph, range_residuals
from ..graph.graph import counted

if TYPE_CHECKING:
    from ..solver import SolveResult

NOUNS = {'ranges': 'range', 'relative_poses': 'loop closure', 'sightings': 'sighting'}


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


def rejected_text(rejected: Iterable[str], counts: Mapping[str, int]) -> str:
    """`10 of 258 ranges (3.9 %) and 0 of 6 loop closures rejected`.

    `rejected` are the tables of the rejected measurements, `counts` how many there are of each kind
    that the kernel doubts, by noun.
    """
    number = Counter(NOUNS.get(name, name) for name in rejected)
    parts = [
        f'{number[noun]} of {counted(count, noun)}'
        + (f' ({100 * number[noun] / count:.3g} %)' if number[noun] else '')
        for noun, count in counts.items() if count]
    return f'{" and ".join(parts)} rejected' if parts else 'nothing to reject'


def residual_text(median: float, p95: float) -> str:
    """How far measured distances are from those of the map; false ones hardly count in it."""
    return (f'ranges differ from the map by {median:.3f} m in the median, 95 % by less than '
            f'{p95:.3f} m')


def show(
    graph: Graph, result: SolveResult, seconds: float, estimate: Estimate | None,
    truth: Estimate | None, *, partial: bool = False,
) -> None:
    """Print errors, residuals, what is rejected, and the certificate where one was asked for.

    `partial`: parts of the graph are undetermined, which the status then says.
    """
    from ..io.report import REJECTED_BELOW, ate, ate_rmse

    stats = result.stats
    print(f'{graph.name}: {graph}\n{status_text(result.status.value, partial)} in {seconds:.2f} s')
    if not result.status.solved:
        print(result.message)
    if truth is not None and estimate is not None:
        print(f'  against the positions in the file: RMSE {ate_rmse(estimate, truth):.3f} m, '
              f'mean {ate(estimate, truth):.3f} m')
    if estimate is not None and len(graph.ranges):
        absolute = np.abs(range_residuals(graph, estimate))
        print(f'  {residual_text(float(np.median(absolute)), float(np.percentile(absolute, 95)))}')
    if stats.weights:
        closures = int(np.count_nonzero(~graph.relative_poses.odometry))
        print('  ' + rejected_text(
            [name for name, weights in stats.weights.items()
             for _ in range(int(np.sum(weights < REJECTED_BELOW)))],
            {'range': len(graph.ranges), 'loop closure': closures,
             'sighting': len(graph.sightings)}))
    cost = stats.cost_relaxed if stats.cost_final is None else stats.cost_final
    if stats.certified is not None and stats.suboptimality is not None and cost is not None:
        print(f'  {certificate_text(cost, stats.suboptimality, stats.certified)}')


def details(result: SolveResult) -> None:
    """What a developer asks: costs, effort, times and choices."""
    stats = result.stats
    cost = stats.cost_relaxed if stats.cost_final is None else stats.cost_final
    print(f'  cost {"none" if cost is None else f"{cost:.8g}"}' + (
        '' if stats.cost_robust is None
        else f' at unit weights, {stats.cost_robust:.8g} with kernel {stats.kernel}'))
    times = ', '.join(f'{stage} {seconds:.3f} s' for stage, seconds in stats.seconds.items())
    print(f'  {stats.iterations} iterations, {stats.cg_steps} CG steps from {stats.init} at rank '
          f'{stats.rank}; {times}; on the {stats.backend}')
    for name, choice in stats.plan.items():
        print(f'  {name}: {choice}')
