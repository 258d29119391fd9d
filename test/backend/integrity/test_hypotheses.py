"""Derivatives of faults are those of the residuals, and the estimates of small faults are right."""

import numpy as np
import pytest
from faulty_world import graph, solved, world

from sparser_ros.backend.integrity.faults import hypotheses_of
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.integrity.selection import scores_of, selected
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph import squared_residuals
from sparser_ros.graph.ends import range_ends
from sparser_ros.graph.precision import chi_square_kappa

CONFIG = IntegrityConfig()


@pytest.mark.parametrize('dimension', [2, 3])
def test_residuals_are_those_of_the_cost(dimension):
    place = world(1, dimension)
    made = graph(place, 1)
    model = linear_model(made, place.truth, {})
    squares = squared_residuals(made, place.truth)
    start, rel = model.starts['ranges'], made.relative_poses
    own = model.residual[start:start + len(made.ranges)] ** 2
    np.testing.assert_allclose(own, squares['ranges'], rtol=1e-9, atol=1e-12)
    turns = np.sum(model.residual[:model.starts['moves']] ** 2)
    moves = np.sum(model.residual[model.starts['moves']:model.starts['sightings']] ** 2)
    # The cost of the plane counts angles twice; small angles are chords.
    factor = rel.kappa[0] / chi_square_kappa(rel.kappa, dimension)[0]
    assert factor * turns + moves == pytest.approx(np.sum(squares['relative_poses']), rel=1e-3)


@pytest.mark.parametrize('dimension', [2, 3])
def test_derivatives_agree_with_differences(dimension):
    """A jump of the odometry, a scale and a bias: r(theta) - r(0) = G theta."""
    place = world(2, dimension)
    made = graph(place, 2)
    sources = range_ends(made)
    model = linear_model(made, place.truth, {})
    tested = {(one.kind, one.subject): one for one in hypotheses_of(
        model, sources, [], CONFIG)}
    rel, step = made.relative_poses, 1e-4

    def difference(**parts):
        # Taken off the measurement, a fault of size theta is a residual of G theta more.
        return linear_model(made.replaced(**parts), place.truth, {}).residual - model.residual

    long = sources.at(1)
    np.testing.assert_allclose(
        difference(ranges=made.ranges.replaced(
            distance_m=made.ranges.distance_m - step * long)),
        step * tested['range_bias', 'B'].columns.toarray()[:, 0], atol=1e-6)
    edge = (made.poses.robot[rel.i] == 1)[:, None]
    # Odometry measures the motion of the estimate, longer by the share; its noise stays.
    motion = np.einsum('kji,kj->ki', place.truth.rotation[rel.i], (
        place.truth.translation[rel.j] - place.truth.translation[rel.i]))
    np.testing.assert_allclose(
        difference(relative_poses=rel.replaced(
            translation=rel.translation - step * edge * motion)),
        step * tested['odometry_scale', 'B'].columns.toarray()[:, 0], atol=1e-6)


def test_two_faults_at_once_are_told_apart():
    place = world(3)
    made = graph(place, 3)
    sources = range_ends(made)
    longer = made.ranges.distance_m + 0.6 * sources.at(0) - 0.6 * sources.at(5)
    bent = made.replaced(ranges=made.ranges.replaced(distance_m=longer))
    estimate, weights = solved(bent, place.truth)
    model = linear_model(bent, estimate, weights)
    tested = hypotheses_of(model, sources, [], CONFIG)
    found = selected(scores_of(model, tested), tested, 1e-7)
    assert {(one.kind, one.subject) for one, _, _ in found} == {
        ('range_bias', 'A'), ('range_bias', sources.names[5])}
    for one, theta, _ in found:
        assert theta[0] == pytest.approx(0.6 if one.subject == 'A' else -0.6, abs=0.15)


def test_a_parameter_that_nothing_determines_is_never_significant():
    """One robot and one beacon that it never leaves: a bias of either is a matter of place."""
    place = world(4)
    made = graph(place, 4)
    few = made.replaced(ranges=made.ranges.take(slice(0, 1)))
    model = linear_model(few, place.truth, {})
    tested = hypotheses_of(model, range_ends(few), [], CONFIG)
    assert selected(scores_of(model, tested), tested, 1e-7) == []
