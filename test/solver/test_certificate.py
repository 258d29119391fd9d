"""The certificate of global optimality, better multipliers, and the staircase."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from dense import dense_certificate, ended, reduced
from graphs import with_landmarks, world
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.generators import with_false_closures
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.graph import Graph, estimate_of
from sparser_ros.io import graph_file
from sparser_ros.linalg.rotations import angle_to_matrix
from sparser_ros.solver import solve, staircase
from sparser_ros.solver.certificate import Certifier, Multipliers, ascended_gap
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.staircase import Goal, climb

CERTIFY = SolverConfig(certify=True)
ABSOLUTE = st.sampled_from(('', 'p', 'pfk'))
LIFTED = 5
"""Rank above both dimensions. It is the solver's own: kernels of other ranks would be compiled."""


def parts(graph: Graph):
    schur = SchurOperator(QuadraticProblem(graph))
    return schur, schur.problem.manifold, Certifier(schur)


def sharpened(certifier: Certifier, y: np.ndarray, wanted: float = 0.0) -> float:
    """The gap of a point that better multipliers than its own prove."""
    multipliers = Multipliers.of(certifier.manifold, y, certifier.schur(y))
    return ascended_gap(certifier, certifier.test(y), multipliers, wanted)


def ring(n: int, turns: int) -> tuple[Graph, np.ndarray]:
    """A ring of unit steps, and the headings of its local minimum that winds `turns` times."""
    step, angle = [1.0, 0.0], 2 * np.pi / n
    sigmas = {'sigma_m': 1e-3**-0.5, 'sigma_rad': 1.0}
    builder = Graph.builder().add_odometry('A', [step] * (n - 1), [angle] * (n - 1), **sigmas)
    builder.add_closure(('A', n - 1), ('A', 0), step, angle, **sigmas)
    return builder.build(), angle_to_matrix((1 + turns) * angle * np.arange(n))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from((2, 3)), ABSOLUTE, st.booleans())
def test_no_start_at_any_rank_ends_below_a_bound(seed, d, absolute, lifted):
    """Not even below that of a point that is not critical, or of a climb from there."""
    schur, manifold, certifier = parts(world(seed, d, absolute=absolute, noise=1.0))
    random = np.random.default_rng(seed)
    some = ended(
        schur, manifold.random_point(LIFTED if lifted else d, random), max_iterations=5)
    tested = certifier.test(some.y)
    sharper = sharpened(certifier, some.y)
    assert sharper <= tested.gap
    top = climb(certifier, some.y, Goal(), max_rank=LIFTED)
    assert np.isfinite(top.lower_bound) and top.run.cost >= top.lower_bound
    bound = max(some.cost - sharper, top.lower_bound)
    for rank in (d, d, LIFTED):
        best = ended(schur, manifold.random_point(rank, random))
        assert best.cost >= bound - certifier.tolerance(best.cost)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from((2, 3)), ABSOLUTE)
def test_pose_graphs_with_little_noise_are_certified(seed, d, absolute):
    result = solve(world(seed, d, ranges=0, absolute=absolute, noise=0.2), CERTIFY)
    assert result.stats.certified
    assert 0 <= result.stats.suboptimality <= 1e-6 * result.stats.cost_final
    assert result.stats.lambda_min is None
    assert result.stats.seconds['certify'] > 0


@pytest.mark.parametrize('seed', range(3))
def test_lambda_min_is_the_least_eigenvalue(seed):
    schur, manifold, certifier = parts(world(seed, noise=2.0))
    start = manifold.random_point(2, np.random.default_rng(seed))
    y = ended(schur, start).y
    dense = dense_certificate(schur, y)
    values, vectors = np.linalg.eigh((dense + dense.T) / 2)
    certificate = certifier.test(y)
    assert values[0] < -1e-3
    assert not certificate.certified
    assert certificate.lambda_min == pytest.approx(values[0], rel=1e-3)
    assert abs(vectors[:, 0] @ certificate.directions[:, 0]) > 0.99
    assert certificate.gap >= -values[0] * manifold.rows * (1 - 1e-9)


def test_planted_local_minimum_is_not_certified_and_the_staircase_leaves_it():
    """Every heading turns once too often on the way round."""
    graph, headings = ring(20, turns=1)
    schur, _, certifier = parts(graph)
    bad = ended(schur, schur.problem.pack(replace(estimate_of(graph), rotation=headings)))
    best = solve(graph, CERTIFY).stats
    assert best.certified
    assert bad.cost > 1.01 * best.cost_final + 0.1
    certificate = certifier.test(bad.y)
    assert not certificate.certified
    assert certificate.lower_bound <= best.cost_final + 1e-6
    top = climb(certifier, bad.y, Goal(), max_rank=9)
    assert top.certificate.certified
    assert top.run.y.shape[1] > 2
    assert top.run.cost == pytest.approx(best.cost_final, abs=1e-6)
    wound = graph.replaced(poses=graph.poses.replaced(rotation=headings))
    assert solve(wound, SolverConfig(init='file')).stats.cost_final > 0.1
    free = solve(wound, replace(CERTIFY, init='file')).stats
    assert free.certified and free.cost_final == pytest.approx(best.cost_final, abs=1e-6)


@pytest.mark.parametrize('absolute', ('', 'pfk'))
def test_a_loose_relaxation_bounds_the_trajectory_from_below_and_a_live_solve_does_not_climb(
        absolute):
    graph = world(21, absolute=absolute, noise=3.0, ranges=40)
    whole = solve(graph, CERTIFY)
    stats = whole.stats
    assert stats.cost_relaxed <= stats.cost_final
    assert stats.suboptimality == pytest.approx(
        stats.cost_final - stats.cost_relaxed, abs=1e-4 * stats.cost_relaxed)
    assert stats.certified == (stats.suboptimality <= 1e-6 * stats.cost_final)
    live = solve(graph, CERTIFY, initial=whole.estimate).stats
    assert live.cost_relaxed is None
    assert live.cost_final == pytest.approx(stats.cost_final, rel=1e-6)
    assert live.suboptimality >= stats.suboptimality * (1 - 1e-6)
    assert live.certified == stats.certified


def test_a_point_without_rotations_measured_still_gets_an_answer():
    """Ranges alone leave rotations free: S is zero there, which the shift covers."""
    graph = world(3, closures=0, sightings=0, levers=False)
    rel = graph.relative_poses
    graph = with_landmarks(
        graph.replaced(relative_poses=rel.take(slice(0, 3))), fixed=np.ones(2, dtype=bool))
    with patch.object(staircase, 'HIGHEST_RANK', LIFTED):
        stats = solve(graph, CERTIFY).stats
    assert np.isfinite(stats.suboptimality)


@pytest.mark.parametrize('name, best', [
    ('MIT', 61.154), ('intel', 52.348), ('manhattan', 6431.39), ('parking-garage', 1.262524),
    ('sphere2500', 1687.006), ('torus3D', 24227.05), ('city10000', 638.62),
    ('smallGrid3D', 1025.40)])
def test_reference_pose_graphs_are_solved_and_certified(data_dir, name, best):
    graph = graph_file.read(data_dir / 'g2o' / f'{name}.g2o')
    assert solve(graph, SolverConfig()).stats.cost_final == pytest.approx(best, rel=2e-5)
    stats = solve(graph, CERTIFY).stats
    assert stats.certified
    assert stats.suboptimality <= 1e-6 * stats.cost_final
    assert stats.cost_final == pytest.approx(best, rel=2e-5)


def test_a_robust_solve_is_certified_at_its_final_weights():
    graph, false = with_false_closures(world(31, ranges=0, noise=0.2, closures=12), 0.17, 0)
    config = SolverConfig(certify=True, robust=RobustConfig(kernel='gm', gnc=True))
    stats = solve(graph, config).stats
    assert np.all(stats.weights['relative_poses'][false] < 0.1)
    assert stats.certified


def relaxed(seed, iterations):
    schur, _, start = reduced(
        world(seed, robots=2, length=12, ranges=30, noise=1.0), seed=seed)
    return schur, ended(schur, start, max_iterations=iterations)


@pytest.mark.parametrize('seed', range(3))
def test_the_bound_gets_close_to_the_optimum_or_as_close_as_wanted(seed):
    schur, best = relaxed(seed, 300)
    certifier = Certifier(schur)
    for iterations in range(1, 40):
        run = relaxed(seed, iterations)[1]
        if run.cost <= best.cost * (1 + 1e-3):
            break
    plain = certifier.test(run.y)
    assert not plain.certified
    sharp = sharpened(certifier, run.y)
    assert run.cost - sharp <= best.cost * (1 + 1e-9)
    assert sharp < 0.5 * plain.gap
    wanted = np.sqrt(sharp * plain.gap)
    assert sharp <= sharpened(certifier, run.y, wanted) <= max(wanted, plain.tolerance * 1.001)
