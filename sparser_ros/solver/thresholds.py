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
from ..number_registry import number as _number


@dataclass(frozen=True)
class IterationNumbers:
    """What `optimize/` and `model/` decide by."""

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
    change_noise: float = number(
        1e-13, 'descent', 'changes of cost, over the cost, that are rounding errors',
        source='rounding error of float64')
    small_gains: int = number(
        3, 'descent', 'accepted steps of small gain in a row that end a run', unit='steps')
    interior_decrement: float = number(
        1e-3, 'descent', 'decrement, over the cost, below which one step of small gain ends a run, '
        "provided that CG did not stop at the boundary: Newton's method is then in its region of "
        'fast convergence', off=0.0)
    least_radius: float = number(
        1e-14, 'descent', "radius, over 1 + the step's length, below which a run has stalled",
        source='rounding error of float64')

    # Truncated CG.
    cg_forcing: float = number(
        0.1, 'descent', 'residual, over the gradient, at which CG stops, both in the norm of P^-1. '
        'A constant forcing term gives linear convergence of the outer iterations at this rate; '
        'smaller ones spend CG steps on models that hold near the point only',
        source='Dembo, Eisenstat and Steihaug 1982; Eisenstat and Walker 1996')
    cg_tolerance_share: float = number(
        0.1, 'descent', 'squared residual at which CG stops, over the squared gradient at which '
        'the trust region converges: what is below changes the answer by less than its tolerance',
        off=0.0)
    cg_clock_period: int = number(
        16, 'descent', 'CG steps from one look at the clock to the next; a deadline is exceeded by '
        'no more', unit='CG steps', source='reading the clock: 0.1 us, a CG step: 10 us and more')

    # Problem.
    dependent_column_share: float = number(
        1e-10, 'ranges', 'a column whose part orthogonal to those before it is shorter than this '
        'share of it counts as dependent on them', source='well above rounding (1e-16 per '
        'rotation), far below any real independence')
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


@dataclass(frozen=True)
class CertifyNumbers:
    """What `certify/` decides by."""

    certified_gap: float = number(
        1e-6, 'certify', 'share of the cost within which a solution counts as optimal',
        source='contract of the report; the cost tolerance of a solve')
    certificate_rounding: float = number(
        1e-12, 'certify', 'rounding error of a cost, over tr Q_cc: costs are sums of as many terms '
        'of both signs', source='rounding error of float64')
    pinned_margin: float = number(
        10.0, 'certify', 'margin of the test with one block held, over the shift of the plain '
        'test: the gap falls with the margin, which the least eigenvalue of S without the gauge '
        'must exceed')
    certificate_growths: int = number(
        14, 'certify', 'times that the gap of a failed test is multiplied by ten before there is '
        'no bound: from 1e-6 to 1e8 of the cost', unit='factorisations',
        source='a cost of 1e8 times the optimum bounds nothing')
    escape_directions: int = number(
        5, 'certify', 'most directions of escape; each becomes a column', unit='columns',
        source='as many as a relaxation of rank 5 has')
    lanczos_vectors: int = number(
        24, 'certify', 'vectors that Lanczos keeps', unit='vectors',
        source='ARPACK: 20, or twice the wanted ones and one')
    lanczos_tolerance: float = number(
        1e-4, 'certify', 'relative error of the least eigenvalues; a factorisation proves the '
        'bound afterwards')
    held_rounding: float = number(
        1e-14, 'certify', 'least margin of the test with one block held, over the largest diagonal '
        'entry: errors of a Cholesky factor are a few machine precisions of that',
        source='rounding error of float64')
    dual_vectors: int = number(
        12, 'certify', 'least eigenvectors of S by which better multipliers are found; more than '
        'the rank of a relaxation, so that those that the step turns negative are among them',
        unit='vectors')
    dual_rounds: int = number(
        6, 'certify', 'most rounds of better multipliers at a point; each proves a bound',
        unit='rounds', off=0)
    dual_length: float = number(
        3.0, 'certify', 'first step length of better multipliers, over the least eigenvalue')
    dual_far: float = number(
        10.0, 'certify', 'gap after a round, over the one that is wanted, above which the point '
        'itself is too far from the optimum for better multipliers')
    dual_shift: float = number(
        5.0, 'certify', 'shift of the factor that Lanczos inverts, over the least eigenvalue')
    dual_longer: float = number(
        10.0, 'certify', 'step length after a better bound, over the last one, and the other way '
        'round after a worse one')
    dual_inner_steps: int = number(
        400, 'certify', 'most projected gradients of a round; each costs one eigenvalue problem '
        'of `dual_vectors` rows', unit='steps')
    dual_piece_blocks: int = number(
        512, 'certify', 'blocks whose pairs of twelve vectors are multiplied at a time: 512 times '
        '78 numbers take 320 kB', unit='blocks', source='size of a second-level cache')
    newton_first_shift: float = number(
        1.0, 'certify', 'first shift of the Hessian of a relaxation, over cost / rows: a move of '
        'all unit rows by one is priced at the whole cost', source='unit rows')
    newton_least_shift: float = number(
        1e-7, 'certify', 'least such shift: moves that it holds back gain less than a tenth of '
        '`certified_gap`', source='`certified_gap`')
    newton_largest_shift: float = number(
        1e12, 'certify', 'shift above which a run ends: steps are then rounding errors',
        source='rounding error of float64')
    newton_shift_growth: float = number(
        4.0, 'certify', 'shift after a failed factorisation or a poor step, over the last one')
    newton_shift_decrease: float = number(
        0.1, 'certify', 'shift after a good step, over the last one')
    newton_refused_margin: float = number(
        2.0, 'certify', 'least shift that is tried at the next point, over one that left the '
        'Hessian indefinite')
    newton_corrections: int = number(
        4, 'certify', 'most corrections of a poor step by the factor that it was made with; each '
        'costs a third of a factorisation', unit='corrections', off=0)
    newton_contraction: float = number(
        0.7, 'certify', 'length of a correction over the last one, above which it is not made: '
        'the motion bends more than one factor can tell')
    newton_corrected: float = number(
        0.03, 'certify', 'length of a correction over that of the step, below which no other is '
        'made')
    newton_aimed_contraction: float = number(
        0.35, 'certify', 'first correction over the step that the next shift aims at: half of '
        '`newton_contraction`, since a longer step bends more')
    newton_turns: int = number(
        1, 'certify', 'times that bearings follow the positions after a step; each costs a '
        'twentieth of a factorisation', unit='times', off=0)
    staircase_tolerance: float = number(
        1e-4, 'certify', 'gain over the cost that ends the first run at a rank, if two Newton '
        'steps in a row gain less: each gains a tenth of the last one there')
    staircase_gain_share: float = number(
        1e-2, 'certify', 'the same over the gap that is wanted, where that is larger')
    staircase_saddle_gap: float = number(
        0.1, 'certify', 'share of the cost above which a gap after that run means a saddle to '
        'leave; a smaller one may be lack of polish')
    staircase_ranks: tuple[int, ...] = number(
        (5, 6, 7, 9, 12), 'certify', 'ranks that a climb stops at: kernels are compiled for each, '
        'and a factor of the Hessian grows with the square', unit='columns')
    staircase_least_column: float = number(
        0.03, 'certify', 'share of unit rows, as their norm in a column of the principal frame, '
        'below which the column is free for a direction of escape; one that is taken too early '
        'comes back as such a direction')
    staircase_escapes: int = number(
        8, 'certify', 'most times that a point is left, twice for each rank', unit='times')
    staircase_steps: int = number(
        60, 'certify', 'most Newton steps of the first run at a rank', unit='steps')
    staircase_rounds: int = number(
        6, 'certify', 'most polishing rounds at a rank, before directions that are left become '
        'columns', unit='rounds')
    round_steps: int = number(
        4, 'certify', 'Newton steps of a polishing round, between two certificates: these take as '
        'long as two steps', unit='steps')
    round_gain_share: float = number(
        0.1, 'certify', 'gain of a round, over the gap that is wanted (of Newton steps) or left '
        '(of better multipliers), below which no other is made: the rest is not theirs to close')
    bound_gap: float = number(
        1e-4, 'certify', 'share of the cost within which the bound of a relaxation ends the climb, '
        'where the trajectory above is further away', source='contract of `suboptimality`')
    thinned_bound_gap: float = number(
        1e-2, 'certify', 'gap, over the cost, at which the climb on a thinned graph ends where it '
        'begins at the trajectory: thinning itself moves the optimum by more')
    thinned_gain: float = number(
        2e-5, 'certify', 'gain over the cost that ends Newton steps on a thinned graph, if two in '
        'a row gain less: its soft motions are those of the whole graph, at a tenth of the price')
    opening_shift: float = number(
        1e-2, 'certify', 'shift with which random columns are turned into directions of escape, '
        'over cost / rows: such as gain more than that share of the cost stand out')
    opening_solves: int = number(
        3, 'certify', 'solves by which random columns become directions of escape', unit='solves')
    bound_share: float = number(
        0.1, 'certify', 'gap of that bound, over the distance to the trajectory: a sharper one '
        'would tell a user no more', source='contract of `suboptimality`')
    escape_halvings: int = number(
        40, 'certify', 'step lengths that are tried on the way down from a saddle: 1 to 1e-12 of a '
        'unit row', unit='steps', source='rounding error of a unit row')
    escape_begun: float = number(
        1e-2, 'certify', 'step along a direction of escape that no straight step gains by, of a '
        'unit row: its square is what `bound_gap` can see', source='`bound_gap`')
    escape_noise: float = number(
        1e-13, 'certify', 'decrease of the cost, over the cost, that is a rounding error',
        source='rounding error of float64')
    live_polish_steps: int = number(
        2, 'certify', 'most Newton steps that take the map to the optimum of its robust weights '
        'before it is tested while the node runs; reweighting stops that near', unit='steps')
    live_steps: int = number(
        2, 'certify', 'Newton steps of a burst of the bound while the node runs: an audit that is '
        'due waits for a burst', unit='steps')
    live_bursts: int = number(
        3, 'certify', 'bursts between two proofs, which cost as much as one or two of them',
        unit='bursts')
    live_rank: int = number(
        7, 'certify', 'highest rank of the relaxed point of a running node: its factor takes 130 '
        'MB on outfinite', unit='columns')
    bound_part: float = number(
        0.25, 'certify', 'share of poses that no bound says anything of from which these alone are '
        'bounded next while the node runs: the whole takes as long as it is large, and the cost of '
        'what came meanwhile is missing in the bound', off=math.inf)
    carried_shares: tuple[float, ...] = number(
        (0.97, 0.9, 0.7, 0.4), 'certify', 'shares of the multipliers of an earlier map that are '
        'tried where the whole of them proves nothing: weights that fell by a third leave two '
        'thirds of a bound; the nearest of these is at most 1.75 times too low', off=())
    covariance_columns: int = number(
        6, 'memory', 'right-hand sides that are solved at once for covariances: the degrees of '
        'freedom of a pose', unit='columns', source='size of the result')


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


@dataclass(frozen=True)
class Thresholds(IncrementalNumbers, CertifyNumbers, IterationNumbers):
    """The numbers of one solve; the groups are those of `sparser bench sensitivity`."""

    # Plan: rank, thinning.
    relaxation_rank: int = _number(
        5, 'ranges', 'rank of the relaxation of a random start; more columns leave fewer bad '
        'minima and cost more', unit='columns', source='paper, section 7.1')
    staircase_highest_rank: int = _number(
        12, 'certify', 'rank at which the Riemannian staircase ends', unit='columns')
    thinning_factor_limit: int = _number(
        10, 'ranges', 'largest thinning: composed odometry becomes too stiff beyond it',
        unit='poses per kept pose', off=1)
    thinning_trajectory_poses: int = _number(
        500, 'ranges', 'kept poses above which a thinned trajectory saves time', unit='poses')
    thinning_relaxation_poses: int = _number(
        250, 'relaxation', 'kept poses above which a thinned relaxation saves time', unit='poses')
    second_thinning_from: int = _number(
        4, 'large', 'multiple of `thinning_trajectory_poses` above which a thinned graph is '
        'thinned again (100 000 poses: 14 instead of 20 s)', off=10**9)
    second_thinning_factor: int = _number(
        3, 'large', 'the second thinning; composed odometry of a higher one takes more CG steps '
        'than fewer poses save', unit='poses per kept pose')
    second_thinning_ranges: int = _number(
        6, 'large', 'most ranges of a graph thinned twice', unit='ranges per pose', off=10**9)

    # Stopping: multiples of the configured cost tolerance, and time.
    tolerance_thinned_relaxation: float = _number(
        1000.0, 'relaxation', 'multiple of the cost tolerance for a relaxation that only starts '
        'another one')
    tolerance_early_rounding: float = _number(
        100.0, 'ranges', 'multiple of the cost tolerance for a relaxation that is rounded early: '
        'refinement by the exact Hessian finds the same trajectory from a cost good to 1e-3 '
        '(plaza2, tiers, single_drone: 16 starts of 16) in a third of the time', off=1.0)
    tolerance_second_rounding: float = _number(
        10.0, 'robots', 'multiple of the cost tolerance for a relaxation that is rounded a second '
        'time')
    tolerance_refinement: float = _number(
        1e-3, 'poses', 'multiple of the cost tolerance for the refinement at rank d')
    tolerance_target: float = _number(
        1e-4, 'relaxation', 'multiple of the cost tolerance on the way to a target cost')
    relaxation_time_share: float = _number(
        0.6, 'ranges', 'share of a time limit for the relaxation, which is no trajectory yet')
    frozen_gain_share: float = _number(
        0.1, 'poses', 'the gain that T^T Q T predicts falls short of the true one by up to a '
        'factor of six (city10000), since it is stiffer than the Hessian', off=1.0)

    # Rounding and random starts.
    rounding_gap: float = _number(
        1.5, 'ranges', 'refined over relaxed cost above which rounding ended in a bad minimum',
        off=math.inf)
    poor_start_ratio: float = _number(
        1.25, 'poses', 'cost of a spectral start over that of its refinement above which another '
        'refinement is tried: 1.38 or more where a frozen preconditioner ended in a neighbouring '
        'minimum (MIT with 0.1 rad more noise), 1.13 at most elsewhere', off=math.inf)
    random_starts: int = _number(
        6, 'ranges', 'most random starts of one solve', unit='starts', off=1)
    settled_iterations: int = _number(
        5, 'robots', 'most iterations of a refinement that began near its minimum (roundings of '
        'outfinite that ended elsewhere took 7 or more)', unit='iterations')
    settled_cg_steps: int = _number(
        10, 'robots', 'most CG steps of such a refinement (elsewhere: 16 or more)',
        unit='CG steps')
    same_minimum_share: float = _number(
        5e-4, 'ranges', 'share of the cost within which two starts have found the same minimum, '
        'or minima so near that neither is worth another start')
    thinned_cost_slack: float = _number(
        1e-6, 'ranges', 'share by which the refined cost of the whole graph may exceed that of '
        'the thinned one', source='cost tolerance of the refinement')

    negligible_cost: float = _number(
        1e-9, 'ranges', 'difference of costs that decides nothing: no measurement is off by more '
        'than 3e-5 sigma', unit='sigma^2', source='weights are inverse variances')

    # Starts.
    connection_laplacian_shift: float = _number(
        1e-9, 'poses', 'share of its diagonal added to the connection Laplacian, which is singular '
        'in the common frame', source='above rounding error, below its second eigenvalue')
    spectral_least_block: float = _number(
        1e-6, 'poses', 'least share of the largest block of an eigenvector whose direction is '
        'above rounding error')

    # Preconditioners.
    frozen_least_cg_steps: int = _number(
        6, 'poses', 'CG steps that a refinement may take with the cheaper preconditioner on any '
        'graph', unit='CG steps')
    frozen_factorisation_share: float = _number(
        0.5, 'poses', 'share of the time of a factorisation of T^T Q T that CG may take before it '
        'is made')
    landmarks_per_pose: float = _number(
        1.0, 'sightings', 'most landmarks per pose of a graph whose factors take blocks of poses: '
        'a landmark is padded to the size of a pose', unit='landmarks per pose')
    newton_damping: float = _number(
        1e-10, 'ranges', 'share of its diagonal added to the Hessian, singular in the gauge')
    newton_fallback_damping: float = _number(
        1e4, 'ranges', 'multiple of that damping for the Gauss-Newton matrix, used where the '
        'Hessian is indefinite')
    newton_diagonal_floor: float = _number(
        1e-6, 'ranges', 'share of the largest entry below which a diagonal entry is raised: a '
        'rotation that no measurement turns has a zero row')
    regularised_condition: float = _number(
        1e6, 'relaxation', 'bound on the condition number of Q + mu I of graphs with ranges '
        '(outfinite: 1 200 CG steps; 2 100 at 1e5)', source='paper, section 7.1')
    regularised_diagonal_share: float = _number(
        1e-6, 'pose-relaxation', 'share of diag(Q) added to Q of graphs without ranges '
        '(parking-garage: 200 CG steps; 330 with a multiple of the identity)')
    regularised_bearing_plane: float = _number(
        0.01, 'relaxation', 'share of its own weight added to the row of a bearing in the plane, '
        'which stands in for its unit norm (plaza2: 1 200 CG steps; 8 100 without)', off=0.0)
    regularised_bearing_space: float = _number(
        1e-4, 'relaxation', 'the same in space, where a bearing is also held by other ranges '
        '(single_drone)', off=0.0)
    inlier_weight: float = _number(
        0.1, 'robust', 'robust weight above which a measurement is in the factor')
    inlier_slowdown: float = _number(
        1.5, 'robust', 'CG steps of an iteration over those after the last factorisation above '
        'which another one is made', off=0.0)
    inlier_least_cg_steps: int = _number(
        4, 'robust', 'CG steps of an iteration that count as few whatever the factor',
        unit='CG steps')

    # Robust reweighting.
    robust_inner_steps: int = _number(
        1, 'robust', 'accepted steps of an inner solve before the last', unit='steps')
    robust_inner_iterations: int = _number(
        8, 'robust', 'iterations of such a solve, rejected steps included', unit='iterations')
    robust_inner_tolerance: float = _number(
        1e-3, 'robust', 'cost tolerance of such a solve')
    robust_radius_growth: float = _number(
        4.0, 'robust', 'an inner solve starts with this multiple of the last trust radius')
    robust_probe_steps: int = _number(
        2, 'robust', 'reweightings at mu = 1 from a given estimate, whose result the graduated one '
        'has to improve on', unit='reweightings')
    overfitted_square: float = _number(
        0.1, 'robust', 'mean squared residual of inliers below which the stated noise is far too '
        'large (parking-garage)', unit='sigma^2', off=0.0)
    overfitted_rejected_share: float = _number(
        0.4, 'robust', 'most rejected measurements of such a graph', unit='share of the doubted')
    rejected_weight: float = _number(
        0.1, 'robust', 'robust weight below which a measurement counts as rejected',
        source='contract of the report')
    narrow_widths: tuple[float, ...] = _number(
        (0.25, 0.1, 0.1, 0.3), 'robust', 'kernel widths below c^2 after a graduation: false '
        'measurements that a piece of trajectory was bent to fit do not survive them, true ones '
        'do', unit='c^2', off=())
    robust_cost_change: float = _number(
        1e-5, 'robust', 'relative change of the robust cost below which reweighting at mu = 1 '
        'ends')
    robust_cost_change_warm: float = _number(
        1e-4, 'robust', 'the same from a given estimate')
    weight_floor_share: float = _number(
        1e-4, 'robust', 'least share of its value to which the floor of weights falls')
    warm_schedule_power: int = _number(
        4, 'robust', 'steps of the GNC schedule taken at once from a given estimate', off=1)
    robust_start_width: float = _number(
        4.0, 'robust', 'first kernel width from a start that was found robustly', unit='c^2')
    bearing_least_length_m: float = _number(
        1e-9, 'ranges', 'distance between antennas below which a bearing keeps its direction',
        unit='m', source='rounding error of positions')


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
