"""Numbers of trust region, truncated CG, column basis, and of the choice of a device."""

from __future__ import annotations

from dataclasses import dataclass

from ..number_registry import number


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
