"""The incremental solver: its terms, what is left to gain, its optimum; marginal covariances."""

from unittest.mock import patch

import numpy as np
import pytest
from graphs import flying_graph, random_graph, stepped, values_of, world
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmark import synthetic
from benchmark.stream import solver_of
from sparser_ros.config import RobustConfig, SolverConfig, SolverError
from sparser_ros.graph import Graph, Kind, PointPriors, cost, estimate_of, squared_residuals
from sparser_ros.graph.precision import chi_square_kappa
from sparser_ros.solver import incremental, solve
from sparser_ros.solver.covariance import Linearised, in_map, marginal_covariance
from sparser_ros.solver.incremental import IncrementalSolver, terms_of
from sparser_ros.solver.robust import KERNELS, thresholds

NO_KERNEL = RobustConfig()
KERNEL = RobustConfig(kernel='gm', threshold=3.0, weight_floor=1e-12)


def chi_square_cost(graph, estimate):
    rel, prior, d = graph.relative_poses, graph.pose_priors, graph.dimension
    counted = graph.replaced(
        relative_poses=rel.replaced(kappa=chi_square_kappa(rel.kappa, d)),
        pose_priors=prior.replaced(kappa=chi_square_kappa(prior.kappa, d)))
    return sum(float(part.sum()) for part in squared_residuals(counted, estimate).values())


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from((2, 3)), st.sampled_from(('', 'pfk', 'flying')))
@example(3, 3, 'flying')
def test_information_is_half_the_hessian_of_the_cost_at_zero_residuals(seed, d, absolute):
    if absolute == 'flying':
        graph, truth = flying_graph(seed, steps=4, noise=0.0)
        d = graph.dimension
    else:
        graph = world(seed, d, length=3, closures=3, ranges=8, absolute=absolute)
        truth = estimate_of(graph)
    linear = Linearised(graph, truth, {})
    information = linear.information().toarray()
    random = np.random.default_rng(seed)
    for _ in range(5):
        step = random.normal(size=linear.size) * 1e-4
        # Only variables move; known landmarks are data.
        step[graph.n_poses * linear.step :].reshape(-1, d)[graph.landmarks.fixed] = 0
        ends = [chi_square_cost(graph, stepped(truth, sign * step)) for sign in (1, -1)]
        assert np.mean(ends) == pytest.approx(step @ information @ step, rel=1e-3)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from((2, 3)), st.sampled_from(('', 'p')))
def test_marginals_are_blocks_of_the_dense_inverse(seed, d, absolute):
    graph = world(seed, d, absolute=absolute, ranges=40, noise=0.3)
    truth = estimate_of(graph)
    linear = Linearised(graph, truth, {})
    free = linear.free()
    size = linear.step
    if absolute:
        assert free.all()
    else:
        assert np.flatnonzero(~free).tolist() == list(range(size))
    dense = np.zeros((linear.size, linear.size))
    dense[np.ix_(free, free)] = np.linalg.inv(linear.information().toarray()[free][:, free])
    found = marginal_covariance(graph, truth, poses=[0, 5, 11], landmarks=[1])
    scale = np.abs(dense).max()
    for k, i in enumerate((0, 5, 11)):
        block = slice(i * size, i * size + size)
        assert np.abs(found.poses[k] - dense[block, block]).max() < 1e-8 * scale
    at = graph.n_poses * size + d
    assert np.abs(found.landmarks[0] - dense[at : at + d, at : at + d]).max() < 1e-8 * scale
    rows = np.r_[0:size, 5 * size : 6 * size, 11 * size : 12 * size, at : at + d]
    assert np.abs(found.joint - dense[np.ix_(rows, rows)]).max() < 1e-8 * scale


def test_what_is_not_determined_is_an_error():
    graph = world(3, 2, ranges=0, sightings=0)
    with pytest.raises(SolverError, match='undetermined'):
        marginal_covariance(graph, estimate_of(graph), poses=[1])


@pytest.mark.parametrize('seed', range(4))
def test_a_turn_about_the_only_known_beacon_is_not_measured_by_residuals(seed, d):
    """Those of translations seem to measure it where they are taken for lever arms."""
    graph = world(seed, d, absolute='k', ranges=60, noise=1.0)
    with pytest.raises(SolverError, match='undetermined'):
        marginal_covariance(graph, estimate_of(graph), poses=[1])
    solver = solver_of(graph, estimate_of(graph), RobustConfig())
    last = np.array([graph.n_poses - 1])
    solver.update(last, 1e-6)
    covariance = solver.covariance(last)
    assert covariance is None or np.max(np.diag(covariance)) > 1e4


def robust_cost(config, graph, values):
    """The sum of rho over the measurements of a graph."""
    c2, total = thresholds(graph, config, graph.dimension), 0.0
    for name, squares in squared_residuals(graph, values).items():
        doubted = np.isfinite(c2[name])
        rho = KERNELS[config.kernel].rho(squares[doubted], c2[name][doubted])
        total += np.sum(rho) + np.sum(squares[~doubted])
    return total


@pytest.mark.parametrize('kernel', ['none', 'gm', 'huber'])
@pytest.mark.parametrize('seed', range(3))
def test_terms_are_the_cost(d, seed, kernel):
    graph = random_graph(seed, d)
    values = estimate_of(graph)
    robust = RobustConfig(kernel=kernel, threshold=20.0, weight_floor=1e-12)
    solver = solver_of(graph, values, robust)
    assert solver.quadratic_cost == pytest.approx(cost(graph, values), rel=1e-12)
    assert solver.cost == pytest.approx(robust_cost(robust, graph, values), rel=1e-12)
    # At the optimum of some the weights of others have changed.
    solver.update(np.array([graph.n_poses - 1]), 1e-2)
    values = values_of(solver, graph)
    assert solver.cost == pytest.approx(robust_cost(robust, graph, values), rel=1e-9)
    by_table = squared_residuals(graph, values)
    found = np.sum(solver.squares(
        solver.measurements((Kind.RANGE, Kind.SIGHTING), 0, solver.n_terms)))
    assert found == pytest.approx(np.sum(by_table['ranges']) + np.sum(by_table['sightings']))


def walk(n, seed=0, dimension=2, closures=True):
    """A graph of one robot with closures, or of two with ranges, and a start off the optimum."""
    if closures:
        graph = synthetic.pose_graph(n, dimension=dimension, closures=1.0, seed=seed)
    else:
        graph = synthetic.range_graph(n, robots=2, dimension=dimension, seed=seed)
    result = solve(graph, SolverConfig(), initial=estimate_of(graph))
    assert result.status.solved
    return graph, result.estimate


@pytest.mark.parametrize('closures', [True, False])
def test_the_optimum_is_that_of_the_trust_region(dimension, closures):
    graph, best = walk(200, 1, dimension, closures)
    rng = np.random.default_rng(0)
    start = type(best)(
        best.rotation, best.translation + 0.02 * rng.normal(size=best.translation.shape),
        best.landmarks)
    solver = solver_of(graph, start)
    update = solver.update(np.array([graph.n_poses - 1]), 1e-7)
    assert update.converged and update.steps > 0
    assert solver.cost == pytest.approx(cost(graph, best), rel=1e-6)
    assert cost(graph, values_of(solver, graph)) == pytest.approx(solver.cost, rel=1e-9)


@pytest.mark.parametrize('kernel', ['none', 'gm', 'huber'])
def test_the_optimum_is_that_of_a_solve_with_every_kind_of_measurement(d, kernel):
    graph = world(4, d, absolute='pfk', ranges=60, noise=0.3)
    robust = RobustConfig(kernel=kernel)
    best = solve(graph, SolverConfig(robust=robust, cost_tolerance=0.0, gradient_tolerance=1e-16),
                 initial=estimate_of(graph)).estimate
    solver = solver_of(graph, estimate_of(graph), robust)
    for _ in range(20):
        solver.update(np.array([graph.n_poses - 1]), 1e-9)
    assert solver.cost == pytest.approx(robust_cost(robust, graph, best), rel=2e-6)


@pytest.mark.parametrize('seed', range(3))
def test_measurements_that_come_one_by_one_lead_to_the_same_optimum(seed):
    """In random order, in twelve parts after a first one."""
    graph, best = walk(300, seed, closures=False)
    order = np.random.default_rng(seed).permutation(len(graph.ranges))
    odometry = graph.relative_poses.odometry
    first = graph.replaced(
        relative_poses=graph.relative_poses.take(odometry), ranges=graph.ranges.take(order[:60]))
    start = solve(first, SolverConfig(), initial=best).estimate
    turn = best.rotation[0] @ start.rotation[0].T
    start = start.moved(turn, best.translation[0] - turn @ start.translation[0])
    solver = solver_of(first, start)
    updates = [solver.update(np.array([graph.n_poses - 1]), 1e-4)]
    blank = graph.replaced(relative_poses=graph.relative_poses.take(~odometry))
    for k, rows in enumerate(np.array_split(order[60:], 12)):
        some = blank.replaced(
            ranges=graph.ranges.take(rows),
            relative_poses=blank.relative_poses.take(slice(k, None, 12)))
        solver.add_terms(terms_of(some, graph.dimension, graph.points, NO_KERNEL))
        updates.append(solver.update(np.array([graph.n_poses - 1]), 1e-4))
    assert all(update.converged for update in updates)
    assert cost(graph, best) - 1e-6 <= solver.cost <= cost(graph, best) + 2e-4


@pytest.mark.parametrize('n', [400, 3200])
def test_work_does_not_depend_on_what_stays_where_it_is(n):
    graph, at = synthetic.pose_graph(n, closures=0.0), np.arange(0, n, 10)
    fixes = PointPriors(
        at, np.zeros((len(at), 2)), graph.poses.translation[at] + 0.01, np.full(len(at), 400.0),
        np.zeros(len(at), dtype=np.int64))
    late = at >= n - 40
    solver = solver_of(graph.replaced(point_priors=fixes.take(~late)), estimate_of(graph))
    whole = solver.update(np.array([n - 1]), 1e-3)
    last = graph.replaced(
        relative_poses=graph.relative_poses.take(slice(0)), point_priors=fixes.take(late))
    solver.add_terms(terms_of(last, 2, graph.points, NO_KERNEL))
    update = solver.update(np.array([n - 1]), 1e-3)
    assert update.converged and whole.cliques > n / 16 and update.cliques < 100


def inverse(graph: Graph, solver: IncrementalSolver, poses, landmarks=()) -> np.ndarray:
    """The same, of poses and then of landmarks, from the information of the whole graph."""
    weights = {
        name: solver.weights(solver.measurements(kinds, 0, solver.n_terms))
        for name, kinds in (
            ('relative_poses', (Kind.ODOMETRY, Kind.CLOSURE)), ('ranges', (Kind.RANGE,)),
            ('sightings', (Kind.SIGHTING,)), ('pose_priors', (Kind.POSE_FIX,)),
            ('point_priors', (Kind.PRIOR, Kind.POSITION_FIX)))}
    return marginal_covariance(
        graph, values_of(solver, graph), poses, landmarks, weights=weights).joint


def found(graph: Graph, solver: IncrementalSolver, bodies: np.ndarray) -> np.ndarray:
    covariance = solver.covariance(bodies)
    assert covariance is not None
    return in_map(covariance, solver.rotation[bodies], bodies >= graph.n_poses)


@pytest.mark.parametrize('robust', [RobustConfig(), KERNEL], ids=['trusted', 'kernel'])
@pytest.mark.parametrize('absolute', ['', 'pfk'])
@pytest.mark.parametrize('seed', range(3))
def test_covariances_are_blocks_of_the_inverse(seed, d, absolute, robust):
    graph = world(seed, d, absolute=absolute, ranges=60, noise=0.3)
    solver = solver_of(graph, estimate_of(graph), robust)
    bodies = np.array([graph.n_poses - 1, 7, 0, graph.n_poses + 1])
    solver.update(bodies[:2], 1e-6)
    expected = inverse(graph, solver, bodies[:3], [1])
    actual, size = found(graph, solver, bodies), len(expected)
    assert np.abs(actual[:size, :size] - expected).max() < 1e-8 * np.abs(expected).max()
    # A landmark has no rotation, and without absolute measurements the first pose is held.
    assert not np.any(actual[size:])
    assert absolute or not np.any(actual[2 * len(actual) // 4:3 * len(actual) // 4])


def test_changes_that_wait_are_taken_up_by_later_calls():
    graph = world(6, 2, length=60, closures=20, ranges=80, noise=0.3)
    early = graph.replaced(ranges=graph.ranges.take(slice(0, 50)))
    solver = solver_of(early, estimate_of(graph), KERNEL)
    bodies = np.array([graph.n_poses - 1])
    solver.update(bodies, 1e-6)
    solver.covariance(bodies)
    late = graph.replaced(
        relative_poses=graph.relative_poses.take(slice(0)),
        sightings=graph.sightings.take(slice(0)), ranges=graph.ranges.take(slice(50, 52)))
    solver.add_terms(terms_of(late, 2, graph.points, KERNEL))
    solver.update(bodies, 1e-6)
    expected = inverse(
        graph.replaced(ranges=graph.ranges.take(slice(0, 52))), solver, bodies)
    with patch.object(incremental, 'RENEWED_CLIQUES', 1):
        off = [np.abs(found(graph, solver, bodies) - expected).max() for _ in range(60)]
    scale = np.abs(expected).max()
    assert off[0] > 1e-6 * scale and off[-1] < 1e-8 * scale


def test_what_is_not_determined_has_no_covariance():
    graph = world(3, 2, ranges=0, sightings=0, landmarks=0)
    odometry = graph.relative_poses.take(graph.relative_poses.odometry)
    solver = solver_of(graph.replaced(relative_poses=odometry), estimate_of(graph), RobustConfig())
    last = np.array([graph.n_poses - 1])
    # Nothing ties the second robot to the first, whose start is held.
    assert solver.covariance(last) is None
    solver.update(last, 1e-3)
    covariance = solver.covariance(last)
    assert covariance is None or np.max(np.diag(covariance)) > 1e8


@pytest.mark.parametrize('factor', [1.0, 4.0])
def test_the_variance_factor_is_that_of_the_noise(factor):
    """Measurements that claim `factor` times less variance than their noise has."""
    noise = 0.1
    graph = world(8, 2, length=100, ranges=300, noise=noise)
    sharper = factor / noise**2
    rel, see, ranges = graph.relative_poses, graph.sightings, graph.ranges
    graph = graph.replaced(
        relative_poses=rel.replaced(
            kappa=np.full(len(rel), 20 * sharper), tau=sharper * rel.tau),
        sightings=see.replaced(tau=sharper * see.tau),
        ranges=ranges.replaced(precision=sharper * ranges.precision))
    solver = solver_of(graph, estimate_of(graph), RobustConfig())
    solver.update(np.array([graph.n_poses - 1]), 1e-4)
    assert solver.variance_factor() == pytest.approx(factor, rel=0.2)


def test_a_pose_that_one_range_ties_stops_nothing():
    """Without a lever arm nothing tells its heading; the others keep their covariance."""
    graph = world(3, 2, ranges=60, noise=0.3)
    solver = solver_of(graph, estimate_of(graph), NO_KERNEL)
    last = np.array([graph.n_poses - 1])
    solver.update(last, 1e-6)
    alone = solver.covariance(last)
    lonely = int(solver.add_bodies(
        np.eye(2)[None], np.array([[3.0, 1.0]]), False, np.ones(1, dtype=bool))[0])
    held = terms_of(graph.replaced(
        ranges=graph.ranges.take(slice(0, 1)),
        **{name: table.take(slice(0)) for name, table in graph.tables().items()
           if name != 'ranges'}), 2, lambda ends: np.where(
               ends == graph.ranges.source[0], lonely, graph.points(ends)), NO_KERNEL)
    solver.add_terms(held)
    assert solver.update(last, 1e-6).converged
    both = solver.covariance(np.append(last, lonely))
    np.testing.assert_allclose(both[:3, :3], alone, rtol=1e-4)
    assert np.max(np.diag(both)[3:]) > 1e6
