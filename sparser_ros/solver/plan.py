"""The one place that chooses: a problem in, the plan of its solve with reasons out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..config import SolverConfig, SolverError
from ..graph import Graph
from ..linalg.arrays import HOST
from .compute_backend import ComputeBackend
from .preconditioner import gauss_newton_pays
from .schur import SchurOperator
from .start import rotation_components

RELAXATION_RANK = 5
"""Columns of a relaxation from a random start (paper, section 7.1); more leave fewer bad minima
and cost more."""
MOST_THINNING = 10
"""Poses per kept pose; composed odometry becomes too stiff beyond it."""
THINNED_POSES = 500
"""Kept poses above which a thinned trajectory saves time."""
SECOND_THINNING_FROM = 4
"""Multiple of THINNED_POSES above which a thinned graph is thinned again."""
SECOND_THINNING = 3
"""Poses per kept pose of the second thinning."""
SECOND_THINNING_RANGES = 6
"""Most ranges per pose of a graph thinned twice."""

WHOLE, THINNED, THINNED_TWICE = 0, 1, 2
"""How often the graph of a solve was thinned before."""


@dataclass(frozen=True)
class Plan:
    """How one graph is solved, and why."""

    init: str
    """initial, spectral, chordal, odometry, file or random."""
    rank: int
    """Of the first run: d where no relaxation is needed."""
    coarsening: int
    """The trajectory starts from one of every so many poses; 1 = from the whole graph."""
    ranges_per_pose: float
    """Most ranges per pose of that thinned graph."""
    compare_starts: bool
    """Whether this graph, a thinned one, is solved from several random starts."""
    relaxation_coarsening: int
    """The same thinning for a relaxation from a random start."""
    early_rounding: bool
    """Whether a rough relaxation is rounded, and another random start drawn where that fails."""
    confirm_rounding: bool
    """Whether a rounding far from its minimum is repeated from a better relaxation."""
    preconditioner: str
    """Of the refinement: newton, frozen or regularised."""
    robust_start: str
    """given, trusted, thinned, relaxation; empty without a robust kernel."""
    backend: str
    thinned: int = WHOLE
    """How often this graph was thinned before."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why, by field."""

    def described(self) -> dict[str, str]:
        """Each choice and its reason by name, for reports."""
        chosen = {'init': self.init, 'rank': self.rank, 'coarsening': self.coarsening}
        if self.init == 'random':
            chosen['relaxation_coarsening'] = self.relaxation_coarsening
            chosen['rounding'] = 'early' if self.early_rounding else 'of a converged relaxation'
        chosen['preconditioner'] = self.preconditioner
        if self.robust_start:
            chosen['robust_start'] = self.robust_start
        chosen['backend'] = self.backend
        return {
            name: f'{value} ({self.reasons[name]})' if self.reasons.get(name) else str(value)
            for name, value in chosen.items()}

    def __str__(self) -> str:
        return '\n'.join(f'{name}: {text}' for name, text in self.described().items())


def make_plan(
    schur: SchurOperator, config: SolverConfig, backend: ComputeBackend, *,
    given: bool = False, thinned: int = WHOLE,
) -> Plan:
    """Choose for an assembled problem; SolverError where the configuration contradicts the graph.

    `given`: an estimate to refine is given. `thinned`: WHOLE, or how often this graph was thinned
    before it came here.
    """
    graph = schur.problem.graph
    reasons: dict[str, str] = {'backend': backend.reason}
    init, rank = _start(graph, config, given, reasons)
    twice = _thinned_twice(graph, config, thinned)
    factor = 1 if given or config.target_cost is not None else (
        _coarsening(graph, config, thinned, THINNED_POSES))
    early = config.init == 'auto' and graph.n_bearings > 0
    robust_start = ''
    if config.robust.kernel != 'none' and config.target_cost is None:
        robust_start = _robust_start(config, given, rank == graph.dimension, factor, reasons)
        if robust_start == 'trusted' and config.init == 'auto':
            init, reasons['init'] = 'odometry', 'only trusted measurements shape a robust start'
    through_thinned = robust_start == 'thinned' if robust_start else early
    if through_thinned and factor > 1:
        reasons['coarsening'] = f'{graph.n_poses} poses; starts are compared on a small graph'
    relaxation = _coarsening(graph, config, thinned, poses=250)
    if relaxation > 1:
        reasons['relaxation_coarsening'] = 'a rough relaxation of fewer poses is nearer'
    reasons['rounding'] = (
        'the exact Hessian of the ranges refines a rough one as well' if early
        else 'the start is configured, or there are no ranges')
    return Plan(
        init=init,
        rank=rank,
        coarsening=factor if through_thinned else 1,
        ranges_per_pose=SECOND_THINNING_RANGES if twice else math.inf,
        compare_starts=thinned > WHOLE and not twice,
        relaxation_coarsening=relaxation,
        early_rounding=early,
        confirm_rounding=int(graph.poses.robot.max(initial=0)) > 0,
        preconditioner=_preconditioner(schur, backend, reasons),
        robust_start=robust_start,
        backend=backend.arrays.name,
        thinned=thinned,
        reasons=reasons,
    )


def _start(
    graph: Graph, config: SolverConfig, given: bool, reasons: dict[str, str]
) -> tuple[str, int]:
    """Start and rank: rank d where the relative poses determine all rotations."""
    d = graph.dimension
    if given:
        reasons['init'] = 'an estimate is given'
        return 'initial', d
    lifted = max(RELAXATION_RANK, d)
    init, rank = config.init, config.rank
    reasons['init'] = reasons['rank'] = 'as configured'
    # Heights alone leave to their cost how a frame is tilted: a start in another one is too far.
    tilted = bool(len(graph.heights) and not len(graph.verticals) and not graph.anchored)
    determined = not graph.n_bearings and rotation_components(graph)[0] == 1
    if init == 'auto':
        if determined and not tilted:
            framed = graph.anchored or graph.levelled
            init = 'chordal' if framed else 'spectral'
            reasons['init'] = 'relative poses determine all rotations, ' + (
                'absolute data fix the frame' if graph.anchored else
                'verticals level the frame' if framed else 'nothing fixes the frame')
        else:
            init = 'random'
            reasons['init'] = (
                'ranges make the problem far from convex' if graph.n_bearings
                else 'heights alone tell how the frame is tilted' if determined
                else 'relative poses do not connect all rotations')
    if not rank:
        rank = lifted if init == 'random' else d
        reasons['rank'] = (
            'a random start needs more columns' if init == 'random' else
            'the start is near enough for no relaxation')
    if rank < d:
        raise SolverError(f'rank {rank} is below the dimension {d}')
    return init, rank


def _thinned_twice(graph: Graph, config: SolverConfig, thinned: int) -> bool:
    """Whether a thinned graph is so large that it is thinned once more."""
    least = SECOND_THINNING_FROM * THINNED_POSES
    return thinned == THINNED and config.coarsening == 0 and graph.n_poses >= least


def _coarsening(
    graph: Graph, config: SolverConfig, thinned: int, poses: int
) -> int:
    """Poses per kept pose of a first solve that keeps at least `poses`; 1 = the whole at once."""
    if graph.free_scale or not graph.n_poses or thinned == THINNED_TWICE:
        return 1
    if thinned == THINNED:
        twice = _thinned_twice(graph, config, thinned)
        return SECOND_THINNING if twice else 1
    return config.coarsening or max(
        1, min(MOST_THINNING, graph.n_poses // poses))


def _robust_start(
    config: SolverConfig, given: bool, at_rank_d: bool, factor: int, reasons: dict[str, str]
) -> str:
    """Where the reweighting starts; SolverError where the formulation knows no weights."""
    if config.formulation != 'schur':
        raise SolverError('robust kernels need the formulation schur')
    if given:
        start, why = 'given', 'an estimate is given'
    elif at_rank_d:
        start, why = 'trusted', 'trusted measurements determine all rotations'
    elif config.init == 'auto' and factor > 1:
        start, why = 'thinned', 'a thinned graph is reweighted first'
    else:
        start, why = 'relaxation', 'weights carry over from the relaxation through residuals'
    reasons['robust_start'] = why
    return start


def _preconditioner(
    schur: SchurOperator, backend: ComputeBackend, reasons: dict[str, str]
) -> str:
    """Of the refinement at rank d, where the graph tells."""
    graph = schur.problem.graph
    if graph.free_scale:
        choice, why = 'regularised', 'poses of free scale'
    elif graph.n_bearings:
        choice, why = 'newton', 'ranges are stiff along directions that only the Hessian sees'
    elif backend.arrays is not HOST and backend.eager:
        choice, why = 'regularised', 'the others run on the CPU only'
    elif gauss_newton_pays(schur):
        choice, why = 'frozen', (
            'in the plane its factor is no larger than that of Q' if graph.dimension == 2
            else 'its factor costs few CG steps')
    else:
        choice, why = 'regularised', 'the factor of T^T Q T would cost more than it saves'
    reasons['preconditioner'] = why
    return choice
