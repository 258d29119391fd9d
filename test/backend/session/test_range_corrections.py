"""What is taken off ranges, by rows of the sum of all increments."""

import numpy as np
import pytest
from backend_world import World, graph_of
from hypothesis import given
from hypothesis import strategies as st

from sparser_ros.backend.session.range_corrections import RangeCorrections
from sparser_ros.backend.session.range_doubts import RangeDoubt, corrections_of, rows_of
from sparser_ros.graph.finding import Finding
from sparser_ros.graph.thinning import Renumbering

FINDING = Finding('range_burst', 'B', 'ranges of radio B were 3.0 m too long', 3.0, 'm')


@pytest.fixture(scope='module')
def ranges():
    return graph_of(World(['curved'], [[0, 0]], beacons=[[3, 7], [-4, 1]], steps=20).increments(
        2)).ranges


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30), min_size=1))
def test_each_range_is_corrected_by_its_own_length(ranges, corrected, taken):
    rows, chosen = np.array(sorted(corrected), dtype=np.int64), np.array(sorted(taken))
    corrections = RangeCorrections(rows, 0.01 * rows, 2.0 + rows)
    part = corrections.applied(ranges.take(chosen), chosen)
    own = np.isin(chosen, rows)
    np.testing.assert_allclose(
        ranges.distance_m[chosen] - part.distance_m, np.where(own, 0.01 * chosen, 0.0), atol=1e-12)
    np.testing.assert_allclose(
        ranges.precision[chosen] / part.precision, np.where(own, 2.0 + chosen, 1.0))


def test_distances_stay_positive(ranges):
    corrections = RangeCorrections(np.array([0]), np.array([1e3]), np.array([2.0]))
    assert corrections.applied(ranges, np.arange(len(ranges))).distance_m[0] > 0.0


def test_corrections_follow_a_thinned_graph():
    none = np.zeros(0, dtype=np.int64)
    to = Renumbering(none, none, {'ranges': np.array([1, -1, 0, 2])}, none, none)
    one = RangeCorrections(np.array([0, 1, 2]), np.array([0.1, 0.2, 0.3]), np.array([2., 3., 4.]))
    other = one.thinned(to)
    assert other.rows.tolist() == [0, 1]
    assert other.length_m.tolist() == [0.3, 0.1] and other.factor.tolist() == [4.0, 2.0]
    assert not one.same(other) and one.same(RangeCorrections(one.rows, one.length_m, one.factor))


def group(rows, corrected, length):
    return RangeDoubt(FINDING, np.array(rows), 1.0, corrected=np.array(corrected), length_m=length,
                      factor=2.0)


def test_a_range_in_two_groups_is_left_out():
    """Between two radios at fault its length is the sum of two, of which neither is known."""
    first, second = group([1, 2, 3], [1, 2], 1.0), group([2, 5], [2, 5], 4.0)
    assert rows_of([first, second]).tolist() == [2, 3]
    corrections = corrections_of([first, second])
    assert corrections.rows.tolist() == [1, 5] and corrections.length_m.tolist() == [1.0, 4.0]
    assert not len(corrections_of([])) and not len(rows_of([]))


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_of_two_corrections_of_a_range_the_first_one_counts(first, second):
    one, other = (
        RangeCorrections(np.array(sorted(rows), dtype=np.int64), np.full(len(rows), length),
                         np.full(len(rows), 1.0 + length))
        for rows, length in ((first, 1.0), (second, 2.0)))
    both = one.beside(other)
    assert both.rows.tolist() == sorted(first | second)
    assert both.length_m.tolist() == [1.0 if row in first else 2.0 for row in both.rows]
    assert np.array_equal(both.factor, 1.0 + both.length_m)
