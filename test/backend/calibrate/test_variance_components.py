"""Score and information of the odometry's variances against dense matrices."""

import numpy as np
import pytest
from radio_world import radio_world

from sparser_ros.backend.calibrate import odometry_noise
from sparser_ros.backend.calibrate.odometry_noise import sources, variance_components
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.config import SolverConfig
from sparser_ros.graph import squared_residuals
from sparser_ros.graph.precision import chi_square_kappa
from sparser_ros.solver import solve
from sparser_ros.solver.covariance import Linearised

PROBES = 400
"""Enough that the random signs are no part of the comparison."""


@pytest.mark.parametrize('dimension', [2, 3])
def test_components_are_those_of_dense_projections(dimension, monkeypatch):
    monkeypatch.setattr(odometry_noise, 'PROBES', PROBES)
    world = radio_world(
        3, tuple(range(6)), dimension=dimension, steps=30, sigma_factor=1.0, blocked=0.0)
    graph = world.measured
    estimate = solve(graph, SolverConfig(), initial=world.truth).estimate
    model = linear_model(graph, estimate, {})
    system = Linearised(graph, estimate, {})
    J = system.jacobian[:, system.free(None)].toarray()
    hat = J @ np.linalg.solve(J.T @ J, J.T)
    R = np.eye(len(J)) - hat
    turns, edges, robots = 1 if dimension == 2 else 3, len(graph.relative_poses), 3
    robot = sources(graph)
    # Rows: rotations, translations, then ranges.
    group = np.concatenate([
        np.repeat(robot + robots, turns), np.repeat(robot, dimension),
        np.full(len(graph.ranges), 2 * robots)])
    squares = np.array([[np.sum(R[np.ix_(group == a, group == b)] ** 2)
                         for b in range(2 * robots + 1)] for a in range(2 * robots + 1)])
    last = 2 * robots
    fisher = squares[:last, :last] - np.outer(
        squares[:last, last], squares[:last, last]) / squares[last, last]
    rel = graph.relative_poses
    kappa = chi_square_kappa(rel.kappa, dimension)
    both = squared_residuals(
        graph.replaced(relative_poses=rel.replaced(kappa=kappa)), estimate)['relative_poses']
    redundancy = np.array([np.sum(np.diagonal(R)[group == g]) for g in range(last)])
    sums = np.bincount(robot, both, robots)
    rows = model.rows('ranges')
    found = variance_components(
        model, graph, len(graph.ranges) - float(np.trace(hat[rows, rows])))
    per_robot = (found.excess + redundancy).reshape(2, robots).sum(axis=0)
    # Random signs: the variance of an estimated trace is at most 2 tr R_gg R_gg / PROBES.
    off = np.sqrt(2 * np.diagonal(squares)[:last] / PROBES)
    assert np.all(np.abs(per_robot - sums) < 4 * off.reshape(2, robots).sum(axis=0))
    assert np.diagonal(found.fisher) == pytest.approx(np.diagonal(fisher), rel=0.2)
    assert found.with_ranges == pytest.approx(squares[:last, last], rel=0.2)
    assert edges == np.sum(robot >= 0)
