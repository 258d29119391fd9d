"""Numbers of the incremental solver."""

from __future__ import annotations

from dataclasses import dataclass

from ..number_registry import number


@dataclass(frozen=True)
class IncrementalNumbers:
    """What `incremental/` decides by."""

    update_steps: int = number(
        20, 'incremental', 'most Newton steps of one update; what they leave is taken up by the '
        'next update', unit='steps')
    update_most_cliques: int = number(
        6_000, 'incremental', 'cliques formed or entered from which an update begins no further '
        'step: 0.15 s of work at 25 us a clique, so that a poor start of a large map does not hold '
        'up the trajectories; what is left is taken up by the next update', unit='cliques',
        source='measured on the machine of docs/benchmarks.md', off=10**9)
    renewed_cliques: int = number(
        300, 'incremental', 'cliques whose changed values enter the covariances at one call, '
        'beside new ones: 5 ms; bodies of the others have hardly moved against each other, and '
        'none waits longer than the size of the tree over this number of calls', unit='cliques',
        source='measured on the machine of docs/benchmarks.md', off=10**9)
    update_trials: int = number(
        4, 'incremental', 'most lengths of one step that are tried', unit='steps')
    update_longest_step: float = number(
        3.0, 'incremental', 'longest step, in steps of the quadratic model')
    update_length_tolerance: float = number(
        0.2, 'incremental', 'relative deviation of a tried length from the best one of a parabola '
        'through the cost, within which the tried one is kept: by the parabola it loses 6 % of the '
        'gain at most')
    reform_decrement_ratio: float = number(
        0.1, 'incremental', 'decrement after a step, over that before it, above which the cliques '
        'entered are factorised again; a step with the exact Hessian leaves far less near an '
        'optimum')
    reform_length: float = number(
        0.5, 'incremental', 'length of an accepted step below which the cliques entered are '
        'factorised again: the Hessian differs as much from the model elsewhere')
    entered_gain_share: float = number(
        0.02, 'incremental', 'gain of entering a subtree, over the tolerance of the update, up to '
        'which it is not entered', off=0.0)
    stuck_decrement_ratio: float = number(
        0.5, 'incremental', 'decrement after a step, over that before it, above which more '
        'subtrees are entered')
    stuck_entered_gain: float = number(
        0.1, 'incremental', 'multiple of the gain from which subtrees are entered then', off=1.0)
    slowest_rate: float = number(
        0.98, 'incremental', 'bound of the rate of convergence that is believed; what is left to '
        'gain is then 50 decrements. A decrement of rounding errors no longer falls and must not '
        'keep an update going')
    front_damping: float = number(
        1e-10, 'incremental', 'share of its diagonal added to a front, and precision in m^-2 '
        'added to its points, so that rounding keeps it positive definite',
        source='above rounding error')
    reorder_growth: float = number(
        2.0, 'incremental', 'variables, over those at the last ordering of the whole tree, from '
        'which all are ordered again: orderings of the whole then cost as much as one of the last, '
        'in sum')
