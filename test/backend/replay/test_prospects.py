"""Prospects of a recording: the information of its data, against dense algebra and draws."""

import numpy as np
import pytest
from backend_world import pair_world

from sparser_ros.backend.replay.prospects import _joint, prospects, with_changes
from sparser_ros.config import SolverConfig
from sparser_ros.config.backend_config import BackendConfig, ObservabilityConfig
from sparser_ros.linalg.rotations import align
from sparser_ros.solver import solve
from sparser_ros.solver.covariance import marginal_covariance


def of(place, limit=1.0, **options):
    graph = place.graph(4)
    backend = BackendConfig(observability=ObservabilityConfig(alert_limit_m=limit))
    return graph, (graph, place.truth, {}, graph.poses.stamp_ns, backend)


@pytest.mark.parametrize('known', [(), (0, 1, 2, 3)])
def test_the_information_is_that_of_the_marginal_covariances(dimension, known):
    place = pair_world(dimension, known=known)
    graph, _ = of(place)
    keyframes = np.array([0, 11, 30])
    joint = _joint(graph, place.truth, {}, np.ones(4, dtype=bool), keyframes)
    newest = [graph.n_poses - 2, graph.n_poses - 1]
    wanted = marginal_covariance(graph, place.truth, [*newest, *keyframes], range(4))
    size = dimension + (1 if dimension == 2 else 3)
    for at, block in zip([*joint.poses, *joint.keyframes], wanted.poses, strict=True):
        own = joint.joint[size * at:size * (at + 1), size * at:size * (at + 1)]
        np.testing.assert_allclose(own, block, atol=1e-6 + 1e-3 * np.max(np.abs(block)))
    for at, block in zip(joint.landmarks, wanted.landmarks, strict=True):
        rows = slice(size * at, size * at + dimension)
        np.testing.assert_allclose(joint.joint[rows, rows], block, atol=1e-6)


def test_robots_are_placed_once_ranges_tell_enough_and_sooner_with_a_wider_limit():
    wide, narrow = (prospects(*of(pair_world(known=(), range_sigma=0.3), limit)[1])
                    for limit in (5.0, 0.5))
    assert np.all(wide.placed[-1]) and wide.share() > narrow.share() > 0
    assert wide.lasting_s(1) < narrow.lasting_s(1)
    assert 0 < narrow.share(np.array([1])) < 1
    assert not np.any(narrow.placed & ~narrow.begun)


def test_odometry_alone_places_nobody():
    graph, (_, *others) = of(pair_world(known=(), range_sigma=0.3), 100.0)
    none = graph.replaced(ranges=graph.ranges.take(slice(0)))
    assert not np.any(prospects(none, *others).placed)


def test_more_measurements_are_no_loss(dimension):
    place = pair_world(dimension, known=(), range_sigma=0.5)
    _, arguments = of(place, {2: 0.6, 3: 2.0}[dimension])
    before = prospects(*arguments).share()
    shares = with_changes(*arguments)
    assert all(share >= before - 0.05 for share in shares.values()), (before, shares)
    assert max(shares.values()) > before
    assert ('the vertical and an altimeter (0.1 m)' in shares) == (dimension == 3)


def test_estimates_of_placed_robots_are_within_the_limit():
    """In draws of the noise, but for the accepted share."""
    limit, beyond, total = 0.25, 0, 0
    for seed in range(12):
        place = pair_world(known=(), seed=seed, range_sigma=0.1)
        graph, arguments = of(place, limit)
        if not np.all(prospects(*arguments).placed[-1]):
            continue
        estimate = solve(graph, SolverConfig(), initial=place.truth).estimate
        turn, shift = align(
            np.vstack([estimate.landmarks, estimate.translation]),
            np.vstack([place.beacons, place.truth.translation]))
        error = estimate.translation @ turn.T + shift - place.truth.translation
        beyond += int(np.sum(np.linalg.norm(error[-2:], axis=1) > limit))
        total += 2
    assert total >= 10
    assert beyond <= 0.1 * total
