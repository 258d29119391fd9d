"""Options of the solver: what the paper leaves open, with defaults that were measured."""

from __future__ import annotations

from dataclasses import dataclass

from .option import option


@dataclass(frozen=True)
class RobustConfig:
    """Robust kernels and graduated non-convexity (paper, section 6)."""

    kernel: str = option(
        'none', 'robust kernel of the doubted measurements',
        choices=('none', 'gm', 'huber', 'cauchy'), live=True,
    )
    gnc: bool = option(
        False, 'graduate the kernel from convex to robust (mu_start down to 1)', live=True
    )
    threshold: float = option(
        5.0, 'kernel width c: residuals well beyond c sigma are doubted', unit='sigma',
        lower=0.1, upper=1e3, live=True,
    )
    threshold_probability: float = option(
        0.0, 'where positive, every kernel width is the quantile of its residual at this '
        'probability (chi-square of its dimension) instead of `threshold`', lower=0.0,
        upper=0.999999, live=True,
    )
    mu_start: float = option(64.0, 'first GNC multiplier of c^2', lower=1.0, upper=1e9)
    mu_divisor: float = option(1.4, 'GNC divides mu by this every step', lower=1.01, upper=100.0)
    max_outer_iterations: int = option(60, 'most reweightings of one solve', lower=1, upper=1000)
    weight_floor: float = option(
        1e-6, 'least weight over the root of what the kernel gives, so that the reduced matrix M '
        'stays positive definite',
        lower=1e-12, upper=1e-1,
    )
    closures: bool = option(True, 'apply the kernel to loop closures', live=True)
    ranges: bool = option(True, 'apply the kernel to ranges', live=True)
    sightings: bool = option(True, 'apply the kernel to landmark sightings', live=True)
    odometry: bool = option(False, 'apply the kernel to odometry as well', live=True)
    fixes: bool = option(
        True, 'apply the kernel to absolute positions and poses of robots', live=True)
    heights: bool = option(True, 'apply the kernel to heights', live=True)


@dataclass(frozen=True)
class SolverConfig:
    """One solve: start, rank, stopping rules, kernel, machine."""

    init: str = option(
        'auto', 'start: low-rank or chordal as the graph needs (auto), or as named',
        choices=('auto', 'odometry', 'chordal', 'random', 'file'),
    )
    rank: int = option(0, 'rank of the relaxation; 0 chooses (5, or d where no lift is needed)',
                       lower=0, upper=20)
    coarsening: int = option(
        0, 'a random start, and an `auto` solve with ranges, begins with a graph of every n-th '
        'pose; 0 chooses n, 1 = never', lower=0, upper=1000)
    seed: int = option(0, 'seed of random starts', lower=0)
    formulation: str = option(
        'schur', 'how X_f is handled', choices=('schur', 'original', 'original-varpro', 'dense'),
    )
    backend: str = option(
        'auto',
        'where to solve: auto takes a CUDA device if there is one and the graph is large; '
        'without a device `gpu` solves on the CPU and says so', choices=('auto', 'cpu', 'gpu'))
    max_iterations: int = option(1000, 'most trust-region iterations of one solve',
                                 lower=1, upper=1000000)
    max_cg_steps: int = option(2000, 'most CG steps of one trust-region iteration',
                               lower=1, upper=1000000)
    gradient_tolerance: float = option(
        1e-12, 'stop when the squared preconditioned gradient norm, an estimate of the cost still '
        'to gain, falls below this share of the cost',
        lower=0.0, upper=1.0,
    )
    cost_tolerance: float = option(
        1e-5, 'stop the relaxation when a step lowers the cost by less than this share (the '
        'rank-d refinement: by less than a thousandth of it)',
        lower=0.0, upper=1.0,
    )
    target_cost: float | None = option(
        None, 'stop as soon as the relaxed cost is at or below this value')
    time_limit_s: float = option(0.0, 'stop after this time; 0 = no limit', unit='s', lower=0.0)
    certify: bool = option(False, 'test the solution for global optimality')
    robust: RobustConfig = RobustConfig()


LIVE_ROBUST = RobustConfig(kernel='gm', gnc=True, threshold_probability=0.999999)
"""Robust by default: a node cannot know whether its radios have a line of sight."""
LIVE_SOLVER = SolverConfig(robust=LIVE_ROBUST)
"""The solver in the node and in `sparser replay`."""
