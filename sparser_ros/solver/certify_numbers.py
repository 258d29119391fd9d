"""Numbers of certificates, of the staircase and of covariances."""

from __future__ import annotations

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
    certificate_tightenings: int = number(
        2, 'certify', 'times that a proven gap is divided by ten, one factorisation each, for a '
        'sharper bound', unit='factorisations', off=0)
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
    polishing_gap: float = number(
        1e-2, 'certify', 'gap of a failed certificate, over the cost, below which polishing may '
        'still close it; a larger one means another minimum', off=0.0)
    staircase_tolerances: tuple[float, ...] = number(
        (1e-5, 1e-7), 'certify', 'cost tolerances of the first runs at a rank: rough runs come '
        'first, since a saddle shows in their certificates already')
    staircase_saddle_gaps: tuple[float, ...] = number(
        (0.1, 1e-2), 'certify', 'share of the cost above which a gap after each of these runs '
        'means a saddle to leave; a smaller one may be lack of polish')
    staircase_single_steps: int = number(
        12, 'certify', 'runs of one accepted step that follow, with a certificate after each: each '
        'takes long, and one may be enough', unit='runs')
    staircase_cg_steps: int = number(
        500, 'certify', 'most CG steps of an iteration: near a saddle the Hessian is nearly '
        'singular, and CG would use any number', unit='CG steps')
    escape_halvings: int = number(
        40, 'certify', 'step lengths that are tried on the way down from a saddle: 1 to 1e-12 of a '
        'unit row', unit='steps', source='rounding error of a unit row')
    escape_noise: float = number(
        1e-13, 'certify', 'decrease of the cost, over the cost, that is a rounding error',
        source='rounding error of float64')
    covariance_columns: int = number(
        6, 'memory', 'right-hand sides that are solved at once for covariances: the degrees of '
        'freedom of a pose', unit='columns', source='size of the result')
