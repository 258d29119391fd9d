"""Numbers of certificates, of the staircase and of covariances."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..number_registry import number


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
