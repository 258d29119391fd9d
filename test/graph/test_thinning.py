"""Thinned graphs: the same geometry, never more information, bounded size."""

import numpy as np
import pytest
from graphs import world
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.synthetic import plain_ranges
from sparser_ros.config import GraphError
from sparser_ros.graph import Estimate, cost, estimate_of
from sparser_ros.graph.thinning import surplus, thin

SECOND = 10**9


def inner(graph, random, share=0.8):
    """A random mask of poses within the robots' odometry, no two of them neighbours."""
    drop = np.zeros(graph.n_poses, dtype=bool)
    seen = graph.sightings.point
    held = set(seen[seen >= 0].tolist())
    for row in range(1, graph.n_poses - 1):
        same = graph.poses.robot[row - 1] == graph.poses.robot[row + 1]
        if same and not drop[row - 1] and row not in held and random.random() < share:
            drop[row] = True
    return drop


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**20), d=st.sampled_from([2, 3]), per_pair=st.integers(0, 2),
    absolute=st.sampled_from(['', 'p', 'f', 'k', 'pfk']),
)
def test_the_truth_costs_nothing_where_odometry_is_exact(seed, d, per_pair, absolute):
    graph, random = world(seed, d, absolute=absolute), np.random.default_rng(seed)
    found = thin(graph, inner(graph, random), per_pair)
    found.graph.validate()
    assert found.graph.n_poses < graph.n_poses
    truth, kept = estimate_of(graph), found.renumbering.kept
    thin_truth = Estimate(truth.rotation[kept], truth.translation[kept], truth.landmarks.copy())
    assert cost(found.graph, thin_truth) < 1e-12 * graph.relative_poses.tau.sum()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**20), d=st.sampled_from([2, 3]))
def test_nothing_gets_surer_and_what_stays_put_stays_as_it_was(seed, d):
    graph, random = world(seed, d, absolute='pfk', noise=1.0), np.random.default_rng(seed)
    drop = inner(graph, random)
    found = thin(graph, drop)
    for name, weight in (('ranges', 'precision'), ('sightings', 'tau'), ('pose_priors', 'tau'),
                         ('point_priors', 'precision'), ('relative_poses', 'tau'),
                         ('relative_poses', 'kappa'), ('pose_priors', 'kappa')):
        before, after = getattr(graph, name), getattr(found.graph, name)
        rows = found.renumbering.rows[name]
        kept = np.flatnonzero(rows >= 0)
        assert np.all(np.diff(rows[kept]) > 0)
        old, new = getattr(before, weight)[kept], getattr(after, weight)[rows[kept]]
        assert np.all(new <= old * (1 + 1e-12))
        ends = [getattr(before, one)[kept] for one in before.endpoints()]
        still = np.all([~drop[np.maximum(end, 0)] | (end < 0) for end in ends], axis=0)
        if name == 'relative_poses':
            still &= ~before.odometry[kept]
        np.testing.assert_array_equal(new[still], old[still])
        if name == 'ranges':
            np.testing.assert_array_equal(
                after.distance_m[rows[kept]], before.distance_m[kept])
    assert found.dropped == sum(
        np.sum(one < 0) for one in found.renumbering.rows.values()) - np.sum(drop)


def test_the_information_about_a_pose_is_never_more_than_before():
    # Ranges in one direction at one pose share the error of the odometry by which they move.
    graph = world(3, 2, robots=1, length=3, landmarks=1, closures=0, ranges=0, sightings=0)
    one = plain_ranges(2, np.ones(50, dtype=int), np.full(50, -1), np.full(50, 3.0), 100.0)
    found = thin(graph.replaced(ranges=one), np.array([False, True, False]))
    edge = max(graph.relative_poses.tau)
    together = np.sum(found.graph.ranges.precision)
    assert together <= 1 / (1 / (50 * 100.0) + 1 / edge) * (1 + 1e-9)
    assert together > 0


def test_poses_that_cannot_go_are_refused():
    graph = world(1, 2, robots=1, length=6, sightings=0)
    for rows, text in (([0], 'end'), ([2, 3], 'in a row'), ([5], 'end')):
        drop = np.zeros(6, dtype=bool)
        drop[rows] = True
        with pytest.raises(GraphError, match=text):
            thin(graph, drop)


def test_gaps_grow_in_proportion_to_age():
    stamps, chain = np.arange(0, 0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    clock, most = 0, 400
    for _ in range(320):
        new = clock + SECOND * np.arange(1, 51)
        clock = int(new[-1])
        stamps, chain = np.r_[stamps, new], np.zeros(len(stamps) + 50, dtype=np.int64)
        if len(stamps) > most:
            drop = surplus(stamps, chain, 3 * most // 4, clock - 10 * SECOND)
            assert not np.any(drop[1:] & drop[:-1]) and not drop[0] and not drop[-1]
            stamps, chain = stamps[~drop], chain[~drop]
    gap, age = np.diff(stamps) / SECOND, (clock - stamps[:-1]) / SECOND
    assert len(stamps) <= most
    # Gaps of c times the age: 16 000 s fit on (1 / c) (1 + log(c 16 000)) poses, 300 of them for
    # c = 1 / 44. Every second pose goes, so that gaps lie up to a factor of 2 to either side.
    shares = (gap / age)[(age > 200) & (age < 15000)]
    assert np.max(shares) < 4 / 44
    assert 0.5 / 44 < np.median(shares) < 2 / 44


@pytest.mark.parametrize('robots', [1, 3])
def test_ends_of_odometry_and_new_poses_stay(robots):
    chain = np.repeat(np.arange(robots), 50)
    stamps = np.tile(np.arange(50), robots) * SECOND
    drop = surplus(stamps, chain, 10, 30 * SECOND)
    assert not np.any(drop[stamps > 30 * SECOND]) and not np.any(drop[stamps == 0])
    assert np.sum(drop) == 15 * robots
