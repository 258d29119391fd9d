"""Every number that the solver chose itself: value, unit, reason, source.

Those of iterations, certificates and updates stand in the modules beside this one, those of
`linalg/` in `linalg/linalg_numbers.py`. Code reads all by `current()`. `override` changes some for
the length of a `with` block, in this thread only, which is how `sparser bench sensitivity` sweeps
them. Options that users may set are in `config/solver_config.py`; measured sensitivities are in
docs/development/sensitivity.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from ..linalg import linalg_numbers
from ..number_registry import NumberInfo, NumberRegistry
from ..number_registry import number as _number
from .certify_numbers import CertifyNumbers
from .incremental_numbers import IncrementalNumbers
from .iteration_numbers import IterationNumbers


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
