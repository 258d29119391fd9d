"""A measurement type is one block: a new one works everywhere without another line of code."""

import numpy as np
import pytest
from extra_measurements import BASELINES, DOCKINGS, Baselines, Dockings
from helpers import world

from sparser_ros.backend.process.wire import decode, increment_message
from sparser_ros.backend.session.graph_store import GraphStore
from sparser_ros.config import GraphError, RobustConfig, SolverConfig
from sparser_ros.graph import (
    MEASUREMENT_TYPES,
    Graph,
    Increment,
    cost,
    empty_graph,
    estimate_of,
    extended,
    range_lever_derivatives,
    range_residuals,
    register,
    squared_residuals,
)
from sparser_ros.io import report
from sparser_ros.solver import solve
from sparser_ros.solver.incremental import IncrementalSolver, terms_of
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.robust import thresholds
from sparser_ros.solver.start import coarsen

SIGMA_M = 0.02


@pytest.fixture
def types():
    """Both types registered for the length of one test."""
    for kind in (DOCKINGS, BASELINES):
        register(kind)
    yield
    for kind in (DOCKINGS, BASELINES):
        del MEASUREMENT_TYPES[kind.name]


def measured(d: int, *, wrong_m: float = 0.0) -> tuple[Graph, object]:
    """A world with three dockings and two baselines, the first docking off by `wrong_m`."""
    graph = world(5, d, landmarks=3, noise=0.2)
    truth = estimate_of(graph)
    random = np.random.default_rng(d)
    i, j = np.array([2, 7, 11]), np.array([5, 12, -1])
    levers = random.normal(size=(2, 3, d)) * 0.3
    levers[1][2] = 0
    met = truth.translation[i] + np.einsum('kij,kj->ki', truth.rotation[i], levers[0])
    there = truth.translation[j[:2]]
    levers[1][:2] = np.einsum('kji,kj->ki', truth.rotation[j[:2]], met[:2] - there)
    levers[0][2] = truth.rotation[11].T @ (truth.landmarks[0] - truth.translation[11])
    levers[0][0, 0] += wrong_m
    dockings = Dockings(
        i, j, levers[0], levers[1], np.full(3, SIGMA_M**-2), np.zeros(3, dtype=np.int64))
    ends = np.array([[-1, -2], [-2, -3]])
    span = np.linalg.norm(truth.landmarks[~ends[0]] - truth.landmarks[~ends[1]], axis=1)
    baselines = Baselines(ends[0], ends[1], span, np.full(2, SIGMA_M**-2))
    return graph.replaced(dockings=dockings, baselines=baselines).validate(), truth


@pytest.mark.parametrize('d', (2, 3))
def test_residuals_and_rows_agree(types, d):
    """The quadratic form of the rows is the sum of the squared residuals, type by type."""
    graph, _ = measured(d)
    estimate = solve(graph.replaced(dockings=graph.dockings.take([])), SolverConfig()).estimate
    problem = QuadraticProblem(graph)
    y = problem.pack(estimate)
    squares = squared_residuals(graph, estimate)
    assert squares['dockings'].shape == (3,) and squares['baselines'].shape == (2,)
    assert min(squares['dockings'].max(), squares['baselines'].max()) > 1e-6
    residual = problem.A @ y + problem.C @ estimate.points[problem.kept]
    whole = problem.omega * np.sum(residual**2, axis=1)
    for table, rows, measurement in problem.rows_of:
        if table in ('dockings', 'baselines'):
            sums = np.bincount(measurement, whole[rows], len(squares[table]))
            np.testing.assert_allclose(sums, squares[table], rtol=1e-8, atol=1e-12)
    assert problem.manifold.k == len(graph.ranges) + 2


@pytest.mark.parametrize('d', (2, 3))
def test_solve_from_scratch_and_thinned(types, d):
    graph, truth = measured(d)
    plain = solve(graph.replaced(
        dockings=graph.dockings.take([]), baselines=graph.baselines.take([])), SolverConfig())
    result = solve(graph, SolverConfig())
    assert result.status.solved
    assert cost(graph, result.estimate) == pytest.approx(result.stats.cost_final, rel=1e-9)
    assert cost(graph, result.estimate) < cost(graph, plain.estimate)
    assert report.ate(result.estimate, truth) < 0.5
    thin = coarsen(graph, 4)
    assert len(thin.graph.dockings) <= 3 and len(thin.graph.baselines) == 2
    hung = squared_residuals(thin.graph, estimate_of(thin.graph))['dockings']
    assert np.all(np.isfinite(hung))


def test_robust_weights_reject_a_false_docking(types):
    graph, _ = measured(2, wrong_m=8.0)
    robust = RobustConfig(kernel='gm', gnc=True)
    c2 = thresholds(graph, robust, 2)
    assert c2['dockings'].tolist() == [25.0] * 3 and c2['baselines'].tolist() == [25.0] * 2
    trusting = RobustConfig(kernel='gm', gnc=True, sightings=False)
    assert np.all(np.isinf(thresholds(graph, trusting, 2)['dockings']))
    result = solve(graph, SolverConfig(robust=robust), initial=estimate_of(graph))
    weights = result.stats.weights['dockings']
    assert weights[0] < 0.1 < weights[1:].min()
    listed = report.rejected_of(graph, result.estimate, result.stats)
    assert ('dockings', 0) in {(one['type'], one['index']) for one in listed}


@pytest.mark.parametrize('d', (2, 3))
def test_incremental_terms_have_the_same_cost(types, d):
    graph, _ = measured(d)
    estimate = solve(graph, SolverConfig()).estimate
    robust = RobustConfig()
    solver = IncrementalSolver(d, robust)
    poses = solver.add_bodies(
        estimate.rotation, estimate.translation, False, np.ones(graph.n_poses, dtype=bool))
    marks = solver.add_bodies(
        np.tile(np.eye(d), (graph.n_landmarks, 1, 1)), estimate.landmarks, True,
        ~graph.landmarks.fixed)
    numbers = np.concatenate([poses, marks])
    solver.add_terms(terms_of(graph, d, lambda end: numbers[graph.points(end)], robust))
    assert solver.quadratic_cost == pytest.approx(cost(graph, estimate), rel=1e-9)


def test_increments_carry_it_across_the_wire(types):
    graph, _ = measured(3)
    sent = Increment(
        0, graph.robots, graph.poses, graph.landmarks, measurements=graph.measurements)
    back = decode(increment_message(sent)).body
    whole = extended(empty_graph(3, graph.robots), back)
    store = GraphStore(3)
    store.add(back)
    for one in (whole, store.graph):
        for column in DOCKINGS.table.columns():
            np.testing.assert_array_equal(
                getattr(one.dockings, column), getattr(graph.dockings, column))
        assert cost(one, estimate_of(graph)) == cost(graph, estimate_of(graph))
    assert back.n_measurements == graph.n_measurements


def test_faults_are_named(types):
    graph, _ = measured(2)
    with pytest.raises(GraphError, match=r'baselines\[1\]\.length_m = -1\.0 is not positive'):
        graph.replaced(baselines=graph.baselines.replaced(
            length_m=np.array([1.0, -1.0]))).validate()
    with pytest.raises(GraphError, match=r'dockings\[0\]\.i names no variable'):
        graph.replaced(dockings=graph.dockings.replaced(i=np.array([-1, 2, 3]))).validate()
    with pytest.raises(TypeError, match='no measurement type'):
        graph.replaced(dokings=graph.dockings)
    with pytest.raises(ValueError, match='already'):
        register(DOCKINGS)
    with pytest.raises(AttributeError, match='rangez'):
        _ = graph.rangez


def test_a_graph_says_what_it_holds(types):
    graph, _ = measured(2)
    text = str(graph)
    assert text.startswith(f'2D, {graph.n_poses} poses, ')
    assert f'{len(graph.ranges)} ranges' in text and '3 dockings, 2 baselines' in text
    assert f' m, {len(graph.robots)} robot' in text
    shown = str(estimate_of(graph))
    assert shown.startswith(f'2D, {graph.n_poses} poses, {graph.n_landmarks} landmarks, ')
    assert shown.endswith(' m in size')
    assert str(empty_graph(2)) == '2D, 0 poses'


@pytest.mark.parametrize('dimension', [2, 3])
def test_derivatives_of_ranges_by_lever_arms(dimension):
    made = world(1, dimension, noise=0.3)
    truth, step = estimate_of(made), 1e-6
    by_end = range_lever_derivatives(made, truth)
    assert np.any(made.ranges.target < 0)
    for lever, endpoint, found in zip(
            ('lever_source', 'lever_target'), (made.ranges.source, made.ranges.target), by_end,
            strict=True):
        assert not np.any(found[endpoint < 0])
        for axis in range(dimension):
            moved = []
            for sign in (1, -1):
                arm = getattr(made.ranges, lever).copy()
                arm[:, axis] += sign * step
                moved.append(range_residuals(
                    made.replaced(ranges=made.ranges.replaced(**{lever: arm})), truth))
            np.testing.assert_allclose(
                found[:, axis], (moved[0] - moved[1]) / (2 * step), atol=1e-8)
