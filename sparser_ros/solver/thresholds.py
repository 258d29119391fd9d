"""Every number that the solver chose itself: value, unit, reason, source.

Those of `linalg/` stand in `linalg/linalg_numbers.py`. Code reads all by `current()`. `override`
changes some for the length of a `with` block, in this thread only, which is how `sparser bench
sensitivity` sweeps them. Options that users may set are in `config/solver_config.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from ..linalg import linalg_numbers
from ..number_registry import NumberInfo, NumberRegistry, number


@dataclass(frozen=True)
class Thresholds:
    """The numbers of one solve; the groups are those of `sparser bench sensitivity`."""

    # Plan: rank, thinning.
    relaxation_rank: int = number(
        5, 'ranges', 'rank of the relaxation of a random start; more columns leave fewer bad '
        'minima and cost more', unit='columns', source='paper, section 7.1')
    staircase_highest_rank: int = number(
        12, 'certify', 'rank at which the Riemannian staircase ends', unit='columns')
    thinning_factor_limit: int = number(
        10, 'ranges', 'largest thinning: composed odometry becomes too stiff beyond it',
        unit='poses per kept pose', off=1)
    thinning_trajectory_poses: int = number(
        500, 'ranges', 'kept poses above which a thinned trajectory saves time', unit='poses')
    second_thinning_from: int = number(
        4, 'large', 'multiple of `thinning_trajectory_poses` above which a thinned graph is '
        'thinned again (100 000 poses: 14 instead of 20 s)', off=10**9)
    second_thinning_factor: int = number(
        3, 'large', 'the second thinning; composed odometry of a higher one takes more CG steps '
        'than fewer poses save', unit='poses per kept pose')
    second_thinning_ranges: int = number(
        6, 'large', 'most ranges of a graph thinned twice', unit='ranges per pose', off=10**9)

    # Stopping: multiples of the configured cost tolerance, and time.
    tolerance_early_rounding: float = number(
        100.0, 'ranges', 'multiple of the cost tolerance for a relaxation that is rounded early: '
        'refinement by the exact Hessian finds the same trajectory from a cost good to 1e-3 '
        '(plaza2, tiers, single_drone: 16 starts of 16) in a third of the time', off=1.0)
    tolerance_refinement: float = number(
        1e-3, 'poses', 'multiple of the cost tolerance for the refinement at rank d')
    tolerance_target: float = number(
        1e-4, 'relaxation', 'multiple of the cost tolerance on the way to a target cost')
    frozen_gain_share: float = number(
        0.1, 'poses', 'the gain that T^T Q T predicts falls short of the true one by up to a '
        'factor of six (city10000), since it is stiffer than the Hessian', off=1.0)

    # Rounding and random starts.
    rounding_gap: float = number(
        1.5, 'ranges', 'refined over relaxed cost above which rounding ended in a bad minimum',
        off=math.inf)
    poor_start_ratio: float = number(
        1.25, 'poses', 'cost of a spectral start over that of its refinement above which another '
        'refinement is tried: 1.38 or more where a frozen preconditioner ended in a neighbouring '
        'minimum (MIT with 0.1 rad more noise), 1.13 at most elsewhere', off=math.inf)
    random_starts: int = number(
        6, 'ranges', 'most random starts of one solve', unit='starts', off=1)
    settled_cg_steps: int = number(
        10, 'robots', 'most CG steps of such a refinement (elsewhere: 16 or more)',
        unit='CG steps')

    negligible_cost: float = number(
        1e-9, 'ranges', 'difference of costs that decides nothing: no measurement is off by more '
        'than 3e-5 sigma', unit='sigma^2', source='weights are inverse variances')

    # Preconditioners.
    frozen_least_cg_steps: int = number(
        6, 'poses', 'CG steps that a refinement may take with the cheaper preconditioner on any '
        'graph', unit='CG steps')
    regularised_condition: float = number(
        1e6, 'relaxation', 'bound on the condition number of Q + mu I of graphs with ranges '
        '(outfinite: 1 200 CG steps; 2 100 at 1e5)', source='paper, section 7.1')
    regularised_bearing_plane: float = number(
        0.01, 'relaxation', 'share of its own weight added to the row of a bearing in the plane, '
        'which stands in for its unit norm (plaza2: 1 200 CG steps; 8 100 without)', off=0.0)
    regularised_bearing_space: float = number(
        1e-4, 'relaxation', 'the same in space, where a bearing is also held by other ranges '
        '(single_drone)', off=0.0)
    inlier_weight: float = number(
        0.1, 'robust', 'robust weight above which a measurement is in the factor')
    inlier_slowdown: float = number(
        1.5, 'robust', 'CG steps of an iteration over those after the last factorisation above '
        'which another one is made', off=0.0)
    inlier_least_cg_steps: int = number(
        4, 'robust', 'CG steps of an iteration that count as few whatever the factor',
        unit='CG steps')

    # Robust reweighting.
    robust_inner_steps: int = number(
        1, 'robust', 'accepted steps of an inner solve before the last', unit='steps')
    overfitted_square: float = number(
        0.1, 'robust', 'mean squared residual of inliers below which the stated noise is far too '
        'large (parking-garage)', unit='sigma^2', off=0.0)
    overfitted_rejected_share: float = number(
        0.4, 'robust', 'most rejected measurements of such a graph', unit='share of the doubted')
    narrow_widths: tuple[float, ...] = number(
        (0.25, 0.1, 0.1, 0.3), 'robust', 'kernel widths below c^2 after a graduation: false '
        'measurements that a piece of trajectory was bent to fit do not survive them, true ones '
        'do', unit='c^2', off=())
    robust_cost_change: float = number(
        1e-5, 'robust', 'relative change of the robust cost below which reweighting at mu = 1 '
        'ends')
    warm_schedule_power: int = number(
        4, 'robust', 'steps of the GNC schedule taken at once from a given estimate', off=1)
    bearing_least_length_m: float = number(
        1e-9, 'ranges', 'distance between antennas below which a bearing keeps its direction',
        unit='m', source='rounding error of positions')

    # Trust region.
    accepted_ratio: float = number(
        0.05, 'descent', 'actual over predicted change from which a step is taken; any value below '
        '1/4 keeps the proof of convergence, small ones reject fewer steps',
        source='Absil, Baker and Gallivan 2007')
    poor_ratio: float = number(
        0.25, 'descent', 'actual over predicted change below which the region shrinks',
        source='Nocedal and Wright 2006, algorithm 4.1')
    good_ratio: float = number(
        0.75, 'descent', 'actual over predicted change above which the region grows where it '
        'limited the step', source='Nocedal and Wright 2006, algorithm 4.1')
    radius_shrink: float = number(
        0.25, 'descent', 'multiple of the radius, or of the step, after a poor one',
        source='Nocedal and Wright 2006, algorithm 4.1')
    radius_growth: float = number(
        2.5, 'descent', 'multiple of the radius after a good step that it limited',
        source='2 or more: Conn, Gould and Toint 2000, section 6.1')
    ratio_noise: float = number(
        1e-14, 'descent', 'share of the cost that is taken off both changes, so that a ratio of '
        'two rounding errors counts as agreement',
        source='Conn, Gould and Toint 2000, section 17.4.2')
    small_gains: int = number(
        3, 'descent', 'accepted steps of small gain in a row that end a run', unit='steps')
    interior_decrement: float = number(
        1e-3, 'descent', 'decrement, over the cost, below which one step of small gain ends a run, '
        "provided that CG did not stop at the boundary: Newton's method is then in its region of "
        'fast convergence', off=0.0)

    # Truncated CG.
    cg_forcing: float = number(
        0.1, 'descent', 'residual, over the gradient, at which CG stops, both in the norm of P^-1. '
        'A constant forcing term gives linear convergence of the outer iterations at this rate; '
        'smaller ones spend CG steps on models that hold near the point only',
        source='Dembo, Eisenstat and Steihaug 1982; Eisenstat and Walker 1996')

    # Problem.
    dense_limit_bytes: int = number(
        4 * 2**30, 'memory', 'largest explicit Schur complement of the formulation `dense`',
        unit='bytes', source='memory of a robot: some GB')

    # Choice of a device.
    gpu_least_variables: int = number(
        2000, 'gpu', 'poses and landmarks from where `auto` tries a GPU. A CG step queues 30 to 60 '
        'kernels there, some 100 us whatever the size; on the CPU it takes as long at 100 to 700 '
        'poses, and the partitioned inverse is yet to be made', unit='variables',
        source='estimate, not measured')
    gpu_agreement: float = number(
        1e-8, 'gpu', 'largest difference of what `auto` compares, over the largest entry. The '
        "emulator's products are off by 4e-12 or less, preconditioned vectors by up to 7e-9 "
        '(parking-garage, whose Q is conditioned badly)', source='measured on the emulator')
    gpu_cg_agreement: float = number(
        1e-6, 'gpu', 'the same for the first steps of CG, where differences grow from step to step',
        source='measured on the emulator')
    gpu_time_share: float = number(
        0.8, 'gpu', "most of the CPU's time that a CG step may take on a GPU for `auto` to stay",
        source='estimate, not measured')
    gpu_retry_growth: float = number(
        2.0, 'gpu', 'how much larger a graph must be for `auto` to try a GPU again that it left',
        source='trials then cost as much as one of the last, in sum')
    gpu_compared_steps: int = number(
        3, 'gpu', 'CG steps that are compared; a device makes the first kernel by kernel and '
        'repeats the others from a recording', unit='CG steps', source='one more than two')
    gpu_timed_queues: int = number(
        4, 'gpu', 'most queues of CG steps that are timed, of which the fastest counts',
        unit='queues', source='estimate, not measured')
    gpu_timed_s: float = number(
        0.05, 'gpu', 'time from where no other queue follows', unit='s',
        source='estimate, not measured')

    # Certificate, staircase, covariances.
    certified_gap: float = number(
        1e-6, 'certify', 'share of the cost within which a solution counts as optimal',
        source='contract of the report; the cost tolerance of a solve')
    certificate_rounding: float = number(
        1e-12, 'certify', 'rounding error of a cost, over tr Q_cc: costs are sums of as many terms '
        'of both signs', source='rounding error of float64')
    escape_directions: int = number(
        5, 'certify', 'most directions of escape; each becomes a column', unit='columns',
        source='as many as a relaxation of rank 5 has')
    dual_vectors: int = number(
        12, 'certify', 'least eigenvectors of S by which better multipliers are found; more than '
        'the rank of a relaxation, so that those that the step turns negative are among them',
        unit='vectors')
    dual_rounds: int = number(
        6, 'certify', 'most rounds of better multipliers at a point; each proves a bound',
        unit='rounds', off=0)
    dual_far: float = number(
        10.0, 'certify', 'gap after a round, over the one that is wanted, above which the point '
        'itself is too far from the optimum for better multipliers')
    dual_shift: float = number(
        5.0, 'certify', 'shift of the factor that Lanczos inverts, over the least eigenvalue')
    newton_first_shift: float = number(
        1.0, 'certify', 'first shift of the Hessian of a relaxation, over cost / rows: a move of '
        'all unit rows by one is priced at the whole cost', source='unit rows')
    newton_shift_growth: float = number(
        4.0, 'certify', 'shift after a failed factorisation or a poor step, over the last one')
    newton_shift_decrease: float = number(
        0.1, 'certify', 'shift after a good step, over the last one')
    newton_turns: int = number(
        1, 'certify', 'times that bearings follow the positions after a step; each costs a '
        'twentieth of a factorisation', unit='times', off=0)
    staircase_tolerance: float = number(
        1e-4, 'certify', 'gain over the cost that ends the first run at a rank, if two Newton '
        'steps in a row gain less: each gains a tenth of the last one there')
    staircase_saddle_gap: float = number(
        0.1, 'certify', 'share of the cost above which a gap after that run means a saddle to '
        'leave; a smaller one may be lack of polish')
    staircase_ranks: tuple[int, ...] = number(
        (5, 6, 7, 9, 12), 'certify', 'ranks that a climb stops at: kernels are compiled for each, '
        'and a factor of the Hessian grows with the square', unit='columns')
    staircase_steps: int = number(
        60, 'certify', 'most Newton steps of the first run at a rank', unit='steps')
    round_gain_share: float = number(
        0.1, 'certify', 'gain of a round, over the gap that is wanted (of Newton steps) or left '
        '(of better multipliers), below which no other is made: the rest is not theirs to close')
    bound_gap: float = number(
        1e-4, 'certify', 'share of the cost within which the bound of a relaxation ends the climb, '
        'where the trajectory above is further away', source='contract of `suboptimality`')
    bound_share: float = number(
        0.1, 'certify', 'gap of that bound, over the distance to the trajectory: a sharper one '
        'would tell a user no more', source='contract of `suboptimality`')
    escape_begun: float = number(
        1e-2, 'certify', 'step along a direction of escape that no straight step gains by, of a '
        'unit row: its square is what `bound_gap` can see', source='`bound_gap`')
    covariance_columns: int = number(
        6, 'memory', 'right-hand sides that are solved at once for covariances: the degrees of '
        'freedom of a pose', unit='columns', source='size of the result')

    # Live updates.
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
    entered_gain_share: float = number(
        0.02, 'incremental', 'gain of entering a subtree, over the tolerance of the update, up to '
        'which it is not entered', off=0.0)
    reorder_growth: float = number(
        2.0, 'incremental', 'variables, over those at the last ordering of the whole tree, from '
        'which all are ordered again: orderings of the whole then cost as much as one of the last, '
        'in sum')


REGISTRY = NumberRegistry(Thresholds)


def current() -> Thresholds:
    """The numbers in force."""
    return REGISTRY.current()


@contextmanager
def override(**values: Any) -> Iterator[Thresholds]:
    """Other values for some numbers inside the block; TypeError for a name that is none.

    Numbers of `linalg/` are known here as well.
    """
    known = {item.name for item in fields(linalg_numbers.LinalgNumbers)}
    below = {name: value for name, value in values.items() if name in known}
    own = {name: value for name, value in values.items() if name not in known}
    with linalg_numbers.REGISTRY.override(**below), REGISTRY.override(**own) as numbers_in_force:
        yield numbers_in_force


def numbers() -> dict[str, tuple[Any, NumberInfo]]:
    """Default and description of every number of solver and linalg by name."""
    return REGISTRY.numbers() | linalg_numbers.REGISTRY.numbers()
