"""The path against its odometry: windows hold their law, and noise beyond the claim shows."""

import numpy as np
import pytest
from faulty_world import graph, solved, world

from sparser_ros.backend.integrity.examine import examine
from sparser_ros.backend.integrity.gate import odometry_windows
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.linalg.rotations import angle_to_matrix


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


def test_windows_of_an_estimate_are_smaller():
    place = world(5)
    made = graph(place, 5)
    estimate, _ = solved(made, place.truth)
    assert np.mean(odometry_windows(made, estimate, 20.0).square) < 2 * 1.3


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


def test_windows_do_not_span_a_break_of_odometry():
    place = world(7)
    made = graph(place, 7)
    rel = made.relative_poses
    cut = np.flatnonzero((made.poses.robot[rel.i] == 1) & (rel.i > 300))[0]
    rows = np.arange(len(rel)) != cut
    moved = made.poses.translation + np.where(
        (made.poses.robot == 1) & (np.arange(made.n_poses) > rel.i[cut]), 50.0, 0.0)[:, None]
    broken = made.replaced(relative_poses=rel.take(rows),
                           poses=made.poses.replaced(translation=moved))
    whole = odometry_windows(made, place.truth, 20.0)
    parts = odometry_windows(broken, place.truth, 20.0)
    assert np.max(parts.square) < 3 * np.max(whole.square)
