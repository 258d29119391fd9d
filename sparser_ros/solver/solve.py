"""One solve from a graph to a trajectory: start, low-rank relaxation, rounding, refinement."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..config import SolverConfig, SolverError
from ..graph import Estimate, Graph
from ..graph import cost as graph_cost
from ..linalg.blas import single_threaded_blas
from .certify.certificate import Certifier
from .certify.optimality import assess
from .certify.staircase import Climb, climb
from .initialize.coarsening import coarsen
from .initialize.initialization import rotation_components, start_point
from .manifold.rounding import round_to_rotations
from .multistart import SEED_STRIDE, STARTS, Multistart, agree
from .optimize.trust_region import TrustRegionRun
from .result import SolveResult, SolveStats, SolveStatus
from .robust.robust_trajectory import RobustTrajectory
from .solve_context import EARLY, REFINED, ROUGH, TO_TARGET, Progress

Array = NDArray[np.float64]

_RELAXED_RANK = 5
_HIGHEST_RANK = 12
"""Where the Riemannian staircase ends."""
_MOST_COARSE, _COARSE_POSES, _RELAXED_POSES = 10, 500, 250
"""Coarsest thinning, and how many poses are worth a factor of one: to a trajectory, or to a
relaxed solution only."""
_AGAIN, _COARSER, _RANGES_PER_POSE = 4, 3, 6
"""From so many times `_COARSE_POSES` on, a thinned graph is thinned again by that factor, and its
ranges to so many a pose (100 000 poses: 14 instead of 20 s). Much coarser, composed odometry takes
more CG steps than fewer poses save."""


def solve(
    graph: Graph,
    config: SolverConfig,
    *,
    initial: Estimate | None = None,
    progress: Progress | None = None,
) -> SolveResult:
    """Solve a graph; the estimate's frame is arbitrary where nothing absolute fixes it.

    With `initial` the solve is a rank-d refinement from it. `progress(stage, iteration, cost)` is
    called at every accepted step. Raises SolverError or GraphError when the problem is ill-posed;
    running out of iterations or time is no error: the best iterate comes back with its status.
    """
    graph.validate()
    if graph.n_poses + graph.n_landmarks == 0:
        raise SolverError('the graph has no poses and no landmarks: nothing to solve')
    if config.certify and graph.free_scale:
        raise SolverError(
            'no certificate for poses of free scale: their rows of X_c are not bounded')
    with single_threaded_blas():
        return _Solve(graph, config, progress).run(initial)


class _Solve(Multistart):
    """One solve: which stages run, and in what order."""

    ranges_per_pose = math.inf
    """Most ranges of the thinned graph that this solve starts from."""

    def run(self, initial: Estimate | None) -> SolveResult:
        relaxed: TrustRegionRun | None = None
        final = self.config.target_cost is None
        if final and self.config.robust.kernel != 'none':
            return self._run_robust(initial)
        if initial is not None:
            init, rank = 'initial', self.graph.dimension
            started = self.problem.pack(initial)
        else:
            init, rank = self._plan()
            factor = self._coarsening(_COARSE_POSES)
            if self.config.init == 'auto' and len(self.graph.ranges) and factor > 1 and final:
                refined = self._from_coarse(factor)
                if refined is not None:
                    return self._final(refined, None, 'coarse', rank)
            started = self._started(init, rank)
        if rank > self.graph.dimension or not final:
            if not final:
                relaxed = self.relax(started, TO_TARGET)
                return self._result(relaxed, relaxed, init, rank, final=False)
            relaxed, refined = self.relax_and_round(started)
        else:
            refined = self.compared(self.refine(started), started)
        return self._final(refined, relaxed, init, rank)

    def _run_robust(self, initial: Estimate | None) -> SolveResult:
        """Reweighted solves (paper, section V) from the start that suits the graph."""
        if self.config.formulation != 'schur':
            raise SolverError('robust kernels need the formulation schur')
        robust = RobustTrajectory(
            self.schur, self.config.robust, self.rule(REFINED), self.observer('robust'),
            self.machine)
        init, rank = ('initial', self.graph.dimension) if initial is not None else self._plan()
        factor = self._coarsening(_COARSE_POSES)
        begin = time.perf_counter()
        if initial is not None:
            found = robust.from_estimate(initial)
        elif rank == self.graph.dimension:
            init = 'odometry' if self.config.init == 'auto' else init
            found = robust.from_trusted(init, self.config.seed)
        elif self.config.init == 'auto' and factor > 1:
            init, coarse = 'coarse', coarsen(self.graph, factor)
            inner = self._inner(coarse.graph)
            result = inner.run(None)
            self._absorb(inner, begin)
            if result.estimate is None:
                return result
            begin = time.perf_counter()
            found = robust.from_estimate(coarse.interpolate(result.estimate), robust=True)
        else:
            relaxed = self.relax(self._started(init, rank), EARLY)
            begin = time.perf_counter()
            found = robust.from_relaxation(relaxed)
        self.tally.count(found.run)
        self.clock('refine', begin)
        self._preconditioner = self._switching = self._rigid = None
        result = self._final(found.run, None, init, rank)
        if result.estimate is None:
            return result
        reweighting = robust.reweighting
        squares = reweighting.squares_of(result.estimate)
        return replace(result, stats=replace(
            result.stats, cost_robust=reweighting.cost(squares), reweightings=found.reweightings,
            weights=reweighting.tables(reweighting.weights_at(squares))))

    def _plan(self) -> tuple[str, int]:
        """Start and rank: rank d where the relative poses determine all rotations."""
        d = self.graph.dimension
        init, rank = self.config.init, self.config.rank
        chained = rotation_components(self.graph)[0] == 1 and not len(self.graph.ranges)
        if init == 'auto':
            init = 'random'
            if chained:
                init = 'chordal' if self.graph.anchored else 'spectral'
            rank = rank or (d if chained else max(_RELAXED_RANK, d))
        rank = rank or (max(_RELAXED_RANK, d) if init == 'random' else d)
        if rank < d:
            raise SolverError(f'rank {rank} is below the dimension {d}')
        return init, rank

    def _started(self, init: str, rank: int) -> Array:
        """The start of the relaxation or, at rank d, of the refinement (rows, rank)."""
        if init == 'random' and rank > self.graph.dimension:
            factor = self._coarsening(_RELAXED_POSES)
            if factor > 1:
                return self._prolonged(rank, factor)
        if init == 'spectral':
            y = self.spectral()
            if y is not None:
                return self.problem.manifold.lift(y, rank)
            init = 'chordal'
        return start_point(self.problem, init, rank, self.config.seed)

    def _coarsening(self, poses: int) -> int:
        """Keep every so many poses in a first solve; 1 = solve the whole at once."""
        if self.graph.free_scale:
            return 1
        return self.config.coarsening or max(1, min(_MOST_COARSE, self.graph.n_poses // poses))

    def _prolonged(self, rank: int, factor: int) -> Array:
        """A rough relaxation of a thinned graph from a random start, carried to all poses."""
        begin = time.perf_counter()
        coarse = coarsen(self.graph, factor)
        inner = self._inner(coarse.graph)
        run = inner.relax(inner._started('random', rank), ROUGH)
        n, d = inner.problem.manifold.n, self.graph.dimension
        points = inner.schur.points(run.y)
        rows, translation = coarse.prolong(run.y[: n * d].reshape(n, d, rank), points[:n])
        started = self.problem.compose(rows, np.concatenate([translation, points[n:]]))
        self._absorb(inner, begin)
        self.relaxed_for = time.perf_counter() - begin
        return started

    def _inner(self, graph: Graph) -> _Solve:
        """The same solve of a thinned graph, on the same clock."""
        config = replace(self.config, coarsening=1, certify=False, target_cost=None)
        inner = _Solve(graph, config, self.progress)
        inner.deadline, inner.relax_until = self.deadline, self.relax_until
        return inner

    def _absorb(self, inner: _Solve, since: float) -> None:
        self.tally.iterations += inner.tally.iterations
        self.tally.cg_steps += inner.tally.cg_steps
        if inner.machine.ran != 'cpu':
            self.machine.ran = inner.machine.ran
        self.clock('solve', since)

    def _from_coarse(self, factor: int) -> TrustRegionRun | None:
        """Refinement from the solution of a thinned graph; None where that leads astray.

        The whole graph has the freedom of the thinned one and more, so its refined cost lies
        below, unless refinement ended in another basin.
        """
        begin = time.perf_counter()
        coarse = coarsen(self.graph, factor)
        thin = coarse.graph
        stride = int(len(thin.ranges) / (self.ranges_per_pose * thin.n_poses)) + 1
        if stride > 1:
            thin = thin.replaced(ranges=thin.ranges.take(np.arange(0, len(thin.ranges), stride)))
        inner = self._inner(thin)
        if self.config.coarsening == 0 and coarse.graph.n_poses >= _AGAIN * _COARSE_POSES:
            # Solved by way of a thinner one still, which is where starts are compared.
            inner.config = replace(inner.config, coarsening=_COARSER)
            inner.ranges_per_pose = _RANGES_PER_POSE
            result = inner.run(None)
        else:
            result = inner.agreed()
        self._absorb(inner, begin)
        if result.estimate is None or result.stats.cost_final is None:
            return None
        refined = self.refine(self.problem.pack(coarse.interpolate(result.estimate)))
        bound = result.stats.cost_final
        if thin is not coarse.graph:
            bound = graph_cost(coarse.graph, result.estimate)
        return refined if refined.cost <= bound * (1 + 1e-6) + 1e-9 else None

    def agreed(self) -> SolveResult:
        """The best of several random starts; two that end at the same least cost settle it.

        Rounding may end in a neighbouring minimum (outfinite thinned tenfold: one start in eight,
        0.2 to 20 % above) unless refinement settles at once; on a thinned graph asking twice is
        cheap.
        """
        best = self.run(None)
        if self.settled:
            return best
        seed = self.config.seed
        for attempt in range(1, STARTS):
            self.config = replace(self.config, seed=seed + attempt * STARTS * SEED_STRIDE)
            other = self.run(None)
            least, cost = best.stats.cost_final, other.stats.cost_final
            if least is None or cost is None:
                break
            if cost < least:
                best = other
            if agree(cost, least):
                break
        return best

    def _final(
        self, refined: TrustRegionRun, relaxed: TrustRegionRun | None, init: str, rank: int
    ) -> SolveResult:
        """The finished trajectory, certified if asked for; a live solve is only tested."""
        if not self.config.certify:
            return self._result(refined, relaxed, init, rank, final=True)
        t = time.perf_counter()
        certifier = Certifier(self.schur)

        def climb_from(y: Array) -> Climb:
            top = climb(
                self.schur, y, self.regularised(), self.rule(0.0),
                max_rank=max(_HIGHEST_RANK, y.shape[1]), certifier=certifier,
                observer=self.observer('certify'), machine=self.machine)
            self.tally.iterations += top.iterations
            self.tally.cg_steps += top.cg_steps
            return top

        assessed = assess(
            certifier, refined, relaxed, polish=self.polish, descend=self.descend,
            climb=None if init == 'initial' else climb_from)
        self.clock('certify', t)
        result = self._result(assessed.run, assessed.relaxed, init, rank, final=True)
        return replace(result, stats=replace(
            result.stats, certified=assessed.certified, suboptimality=assessed.suboptimality,
            lambda_min=assessed.lambda_min))

    def _result(
        self, run: TrustRegionRun, relaxed: TrustRegionRun | None, init: str, rank: int,
        final: bool,
    ) -> SolveResult:
        problem = self.problem
        y = run.y if final else round_to_rotations(problem.manifold, run.y)
        estimate = problem.unpack(y, self.schur.points(y))
        stats = SolveStats(
            rank=rank, init=init, formulation=self.config.formulation,
            backend=self.machine.ran, backend_reason=self.machine.reason,
            kernel=self.config.robust.kernel, iterations=self.tally.iterations,
            cg_steps=self.tally.cg_steps, seconds=self.tally.seconds,
            cost_relaxed=None if relaxed is None else relaxed.cost,
            cost_final=graph_cost(self.graph, estimate) if final else None,
            trace=tuple((run if relaxed is None else relaxed).trace),
        )
        status = run.status
        if not final and self.config.target_cost is not None and status is SolveStatus.CONVERGED:
            status = SolveStatus.STALLED
        finite = all(
            np.all(np.isfinite(a))
            for a in (estimate.rotation, estimate.translation, estimate.landmarks))
        if not finite:
            return SolveResult(
                None, SolveStatus.FAILED,
                'the solution is not finite: weights differ too much in scale, or a variable is '
                'determined by no measurement', replace(stats, cost_final=None))
        return SolveResult(estimate, status, status.advice, stats)
