"""Measurement types: rows of the problem, residuals, incremental terms and the wire agree."""

import numpy as np
import pytest
from graphs import random_graph
from helpers import world

from sparser_ros.backend.process.wire import decode, increment_message
from sparser_ros.config import GraphError, RobustConfig
from sparser_ros.graph import (
    Estimate,
    Increment,
    cost,
    empty_graph,
    estimate_of,
    extended,
    range_lever_derivatives,
    range_residuals,
    squared_residuals,
)
from sparser_ros.solver.incremental import IncrementalSolver, terms_of
from sparser_ros.solver.problem import QuadraticProblem


def test_residuals_rows_and_incremental_terms_agree(d):
    graph = random_graph(3, d).validate()
    other, marks = estimate_of(random_graph(4, d)), graph.landmarks
    estimate = Estimate(other.rotation, other.translation, np.where(
        marks.fixed[:, None], marks.position, other.landmarks))
    problem = QuadraticProblem(graph)
    squares = squared_residuals(graph, estimate)
    residual = problem.A @ problem.pack(estimate) + problem.C @ estimate.points[problem.kept]
    whole = problem.omega * np.sum(residual**2, axis=1)
    sums = {name: np.zeros(len(square)) for name, square in squares.items()}
    for table, rows, measurement in problem.rows_of:
        sums[table] += np.bincount(measurement, whole[rows], len(squares[table]))
    for name, square in squares.items():
        np.testing.assert_allclose(sums[name], square, rtol=1e-6, err_msg=name)
    solver = IncrementalSolver(d, RobustConfig())
    numbers = np.concatenate([
        solver.add_bodies(
            estimate.rotation, estimate.translation, False, np.ones(graph.n_poses, dtype=bool)),
        solver.add_bodies(
            np.tile(np.eye(d), (graph.n_landmarks, 1, 1)), estimate.landmarks, True,
            ~graph.landmarks.fixed)])
    solver.add_terms(terms_of(graph, d, lambda end: numbers[graph.points(end)], RobustConfig()))
    assert solver.quadratic_cost == pytest.approx(cost(graph, estimate), rel=1e-9)


def test_increments_carry_every_type_across_the_wire():
    graph = random_graph(5, 3)
    sent = Increment(
        0, graph.robots, graph.poses, graph.landmarks, measurements=graph.measurements)
    back = decode(increment_message(sent)).body
    assert back.n_measurements == graph.n_measurements
    whole = extended(empty_graph(3, graph.robots), back)
    for name, table in graph.tables().items():
        for column in table.columns():
            np.testing.assert_array_equal(
                getattr(whole.tables()[name], column), getattr(table, column))


def test_faults_are_named():
    graph = random_graph(1, 2)
    with pytest.raises(GraphError, match=r'ranges\[1\]\.distance_m = -1\.0 is not positive'):
        distance = graph.ranges.distance_m.copy()
        distance[1] = -1.0
        graph.replaced(ranges=graph.ranges.replaced(distance_m=distance)).validate()
    with pytest.raises(GraphError, match=r'sightings\[0\]\.i names no variable'):
        graph.replaced(sightings=graph.sightings.replaced(
            i=np.array([-1, *graph.sightings.i[1:]]))).validate()
    with pytest.raises(TypeError, match='no measurement type'):
        graph.replaced(rangez=graph.ranges)
    with pytest.raises(AttributeError, match='rangez'):
        _ = graph.rangez


def test_a_graph_says_what_it_holds():
    graph = world(5, 2, landmarks=3, noise=0.2)
    text = str(graph)
    assert text.startswith(f'2D, {graph.n_poses} poses, ')
    assert f'{len(graph.ranges)} ranges' in text and f' m, {len(graph.robots)} robot' in text
    shown = str(estimate_of(graph))
    assert shown.startswith(f'2D, {graph.n_poses} poses, {graph.n_landmarks} landmarks, ')
    assert shown.endswith(' m in size')
    assert str(empty_graph(2)) == '2D, 0 poses'


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
