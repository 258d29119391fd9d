"""A robot none of whose newest ranges fits is carried by odometry alone, and not believed."""

import numpy as np
import pytest
from backend_world import World

from sparser_ros.backend.integrity.faults import BURST, stretch
from sparser_ros.backend.session.graph_store import GraphStore
from sparser_ros.backend.session.treatment import Treatment
from sparser_ros.backend.session.trust import LOOK_BACK_S, Suspicions, failed_ranges, unconfirmed
from sparser_ros.graph import squared_residuals
from sparser_ros.graph.range_ends import range_ends

SECOND = 10**9


@pytest.fixture(scope='module')
def world():
    return World(['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 7], [-4, 1]], steps=60)


@pytest.fixture(scope='module')
def store(world):
    made = GraphStore(2)
    for one in world.increments(6):
        made.add(one)
    return made


def suspects(store, of_b, usual=0.1):
    """Who is named when these of the ranges of B fail, oldest first."""
    failed = np.zeros(len(store.whole.ranges), dtype=bool)
    rows = np.flatnonzero(range_ends(store.whole).at(1))
    failed[rows[len(rows) - len(of_b):]] = of_b
    return unconfirmed(store, failed, dict.fromkeys('AB', usual))


@pytest.mark.parametrize(('of_b', 'wanted'), [
    ([True] * 3, False), ([True] * 5, True), ([True] * 40, True), ([True, True, False] * 5, True),
    ([True] * 40 + [False] * 10, False), ([True, False] * 20, False)])
def test_only_ranges_that_fail_together_and_now_speak_against_a_robot(store, of_b, wanted):
    found = suspects(store, of_b)
    assert ('B' in found) == wanted, found
    if wanted:
        assert 'newest ranges of B do not fit' in found['B']


def test_where_many_fail_at_all_times_more_must_fail(store):
    assert suspects(store, [True] * 5, usual=0.1) and not suspects(store, [True] * 5, usual=0.4)


def test_random_false_ranges_speak_against_nobody(store):
    rng, named = np.random.default_rng(5), 0
    for _ in range(300):
        named += len(suspects(store, rng.random(60) < 0.4, usual=0.4))
    assert named <= 2


def test_ranges_that_are_left_out_are_compared_with_the_map_as_well(world, store):
    rows = np.arange(len(store.graph.ranges))
    squares = squared_residuals(store.graph, world.truth)['ranges']
    assert not failed_ranges(store, world.truth, rows, squares).mean() > 0.01
    moved = world.truth.translation.copy()
    moved[-1] += 3.0
    off = type(world.truth)(world.truth.rotation, moved, world.truth.landmarks)
    own = np.flatnonzero((store.whole.ranges.source == len(moved) - 1)
                         | (store.whole.ranges.target == len(moved) - 1))
    store.treat(Treatment((stretch(BURST, 'B', own, store.whole),)))
    left = np.flatnonzero(~np.isin(rows, own))
    failed = failed_ranges(store, off, np.arange(len(left)), squares[left])
    store.treat(Treatment())
    assert failed[own].mean() > 0.5 and failed[left].mean() < 0.01


def test_a_contradiction_that_nothing_explains_is_remembered_for_a_while():
    known = Suspicions()
    assert known.held({'B': 'off'}, (), {}, SECOND) == {}
    waiting = known.held({}, (), {'B': 0.1}, 4 * SECOND)
    assert set(waiting) == {'B'} and 'contradicted the map 3 s ago' in waiting['B']
    assert known.held({}, ('B',), {'B': 0.1}, 5 * SECOND) == {}, 'a fault was found'
    assert known.held({}, (), {'B': 0.1}, 6 * SECOND) == {}, 'and is not forgotten'
    known.held({'B': 'off'}, (), {}, 7 * SECOND)
    assert known.held({}, (), {'B': 0.1}, int((7 + LOOK_BACK_S) * SECOND)) == {}


@pytest.mark.parametrize(('later_s', 'fit', 'over'), [
    (0, 0.1, True), (0, 0.001, False), (1, 0.1, False), (1, 0.5, True)])
def test_data_that_fit_well_end_a_contradiction(later_s, fit, over):
    """In another map the same data may fit; newer ones must do so as honest data mostly do."""
    known = Suspicions()
    known.held({'B': 'off'}, (), {'B': 0.0}, SECOND)
    assert (known.held({}, (), {'B': fit}, (1 + later_s) * SECOND) == {}) == over
