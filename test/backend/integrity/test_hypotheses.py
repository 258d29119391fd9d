"""Derivatives of faults are those of the residuals; windows of odometry hold their law."""

import numpy as np
import pytest
from faulty_world import graph, solved, world

from sparser_ros.backend.integrity.examine import examine
from sparser_ros.backend.integrity.faults import hypotheses_of
from sparser_ros.backend.integrity.gate import odometry_windows
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.integrity.selection import scores_of, selected
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph import squared_residuals
from sparser_ros.graph.ends import range_ends
from sparser_ros.graph.precision import chi_square_kappa
from sparser_ros.linalg.rotations import angle_to_matrix

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


@pytest.mark.parametrize('dimension', [2, 3])
def test_windows_of_the_truth_are_chi_square(dimension):
    """Against the truth, not an estimate, the law is exact up to the noise of the arms."""
    squares = []
    for seed in range(12):
        place = world(seed, dimension)
        made = graph(place, seed)
        squares.append(odometry_windows(made, place.truth, 20.0).square)
    mean = float(np.mean(np.concatenate(squares))) / dimension
    count = dimension * sum(map(len, squares))
    assert abs(mean - 1) < 5 * np.sqrt(2 / count)


def test_odometry_noisier_than_it_claims_is_named_with_the_factor():
    place = world(6)
    made = graph(place, 6)
    rel, rng = made.relative_poses, np.random.default_rng(6)
    own = (made.poses.robot[rel.i] == 1)[:, None]
    moved = rel.translation + np.where(own, rng.normal(0, 0.1, rel.translation.shape), 0.0)
    turned = rel.rotation @ angle_to_matrix(0.03 * own[:, 0] * rng.normal(size=len(rel)))
    noisy = made.replaced(relative_poses=rel.replaced(translation=moved, rotation=turned))
    # The poses of a graph are what the odometry adds up to.
    rotation, translation = made.poses.rotation.copy(), made.poses.translation.copy()
    for edge in np.flatnonzero(own[:, 0]):
        i, j = rel.i[edge], rel.j[edge]
        rotation[j] = rotation[i] @ turned[edge]
        translation[j] = translation[i] + rotation[i] @ moved[edge]
    noisy = noisy.replaced(poses=made.poses.replaced(rotation=rotation, translation=translation))
    found = examine(noisy, *solved(noisy, place.truth), IntegrityConfig())
    assert found.odometry_factors['B'] > 4
    assert max(found.odometry_factors[name] for name in 'AC') < 2
    named = [one for one in found.findings if one.subject == 'B']
    assert named, found.findings
