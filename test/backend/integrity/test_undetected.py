"""What a fault does to positions is what a solve does with it; what may hide is found if larger."""

import numpy as np
import pytest
from faulty_world import graph, solved, world
from scipy.special import chdtri, ndtri

from sparser_ros.backend.integrity.examine import examine
from sparser_ros.backend.integrity.hypotheses import hypotheses_of
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.integrity.selection import scores_of
from sparser_ros.backend.integrity.undetected import (
    TESTED,
    _moved,
    tail_probability,
    undetected_errors,
)
from sparser_ros.config import SolverConfig
from sparser_ros.config.integrity import IntegrityConfig
from sparser_ros.graph import range_residuals
from sparser_ros.graph.precision import chi_square_kappa
from sparser_ros.graph.range_ends import range_ends
from sparser_ros.solver import solve

CONFIG = IntegrityConfig()
ALARM = 1e-7


def scored(made, estimate, weights):
    model = linear_model(made, estimate, weights)
    tested = hypotheses_of(made, estimate, weights, model, range_ends(made), [], CONFIG)
    return tested, scores_of(model, tested)


def exact(made, truth):
    """Without noise, whose second-order terms are no part of the linear model."""
    rel, ranges = made.relative_poses, made.ranges
    turn, place = truth.rotation, truth.translation
    return made.replaced(
        relative_poses=rel.replaced(
            rotation=np.swapaxes(turn[rel.i], 1, 2) @ turn[rel.j],
            translation=np.einsum('kji,kj->ki', turn[rel.i], place[rel.j] - place[rel.i])),
        ranges=ranges.replaced(distance_m=ranges.distance_m + range_residuals(made, truth)))


@pytest.mark.parametrize('dimension', [2, 3])
def test_a_bias_moves_the_newest_poses_as_far_as_the_solve_with_it(dimension):
    place = world(3, dimension)
    made = exact(graph(place, 3), place.truth)

    def plain(graph):
        # Weights that follow the fault would be no part of the linear model. In the plane a solve
        # gives rotations twice the weight that their noise has.
        rel = graph.relative_poses
        even = graph.replaced(relative_poses=rel.replaced(
            kappa=chi_square_kappa(rel.kappa, dimension)))
        return solve(even, SolverConfig(gradient_tolerance=1e-20, cost_tolerance=0.0),
                     initial=place.truth).estimate

    estimate = plain(made)
    tested, scores = scored(made, estimate, {})
    number = [(one.kind, one.subject) for one in tested].index(('range_bias', 'A'))
    column = sum(one.columns.shape[1] for one in tested[:number])
    step = 0.01
    longer = made.ranges.distance_m + step * range_ends(made).at(0)
    bent = plain(made.replaced(ranges=made.ranges.replaced(distance_m=longer)))
    rows = np.array([np.flatnonzero(made.poses.robot == k)[-1] for k in range(len(made.robots))])
    gauge = None if made.anchored else 0
    found = step * _moved(made, estimate, scores.step, rows, gauge)[:, :, column]

    def seen(at):
        place = at.translation[rows]
        return place if gauge is None else (place - at.translation[0]) @ at.rotation[0]

    difference = seen(bent) - seen(estimate)
    if gauge is not None:
        difference = difference @ estimate.rotation[0].T
    # Predicted minus measured: theta is what is to be taken off, and moves the map the other way.
    np.testing.assert_allclose(np.abs(found), np.abs(difference), atol=0.1 * step)


def test_the_size_that_may_hide_is_that_of_the_tests():
    place = world(3)
    made = graph(place, 3)
    estimate, weights = solved(made, place.truth)
    tested, scores = scored(made, estimate, weights)
    kept = [one for one in tested if one.kind in TESTED]
    assert {one.kind for one in kept} >= {'range_bias', 'odometry_scale', 'odometry_turn'}
    worst = undetected_errors(made, estimate, scores, tested, None, ALARM, CONFIG)
    assert set(worst) == set(made.robots)
    rows = np.array([np.flatnonzero(made.poses.robot == k)[-1] for k in range(len(made.robots))])
    moved = _moved(made, estimate, scores.step, rows, None)
    column = 0
    reach = np.zeros(len(rows))
    for one in tested:
        if one.kind in TESTED and one.columns.shape[1] == 1:
            size = one.floor + (np.sqrt(chdtri(1, ALARM)) - ndtri(tail_probability(CONFIG))) / (
                np.sqrt(scores.information[column, column]))
            reach = np.maximum(reach, size * np.linalg.norm(moved[:, :, column], axis=1))
        column += one.columns.shape[1]
    for number, robot in enumerate(made.robots):
        assert worst[robot].horizontal_m >= reach[number] * (1 - 1e-9) > 0
        assert worst[robot].vertical_m == 0 and worst[robot].cause


def test_a_bias_larger_than_what_may_hide_is_found():
    place = world(3)
    made = graph(place, 3)
    estimate, weights = solved(made, place.truth)
    tested, scores = scored(made, estimate, weights)
    number = [(one.kind, one.subject) for one in tested].index(('range_bias', 'A'))
    column = sum(one.columns.shape[1] for one in tested[:number])
    size = CONFIG.bias_floor_m + (np.sqrt(chdtri(1, ALARM)) + 3.3) / np.sqrt(
        scores.information[column, column])
    longer = made.ranges.distance_m + 1.5 * size * range_ends(made).at(0)
    bent = made.replaced(ranges=made.ranges.replaced(distance_m=longer))
    found = examine(bent, *solved(bent, place.truth), CONFIG)
    assert any(one.subject == 'A' for one in found.findings)


def test_rarer_faults_and_a_larger_risk_ask_for_less():
    rare = IntegrityConfig(fault_probability=1e-4)
    assert tail_probability(CONFIG) == pytest.approx(5e-4)
    assert tail_probability(rare) == pytest.approx(0.05)
    assert tail_probability(IntegrityConfig(fault_probability=1e-6)) == 0.5
