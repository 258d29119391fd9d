"""How long a graph takes to grow by a factor."""

import math

from hypothesis import given
from hypothesis import strategies as st

from sparser_ros.backend.session.schedule import GrowthClock


def test_steady_data_take_longer_and_longer():
    clock = GrowthClock(1.25)
    for second in range(1, 101):
        clock.note(10 * second, float(second))
        assert clock.seconds(float(second)) == (
            math.inf if second < 2 else second - math.floor(second / 1.25))
    assert clock.seconds(140.0) == 60.0, 'time goes on when no data come'


def test_a_graph_that_came_at_once_says_nothing():
    clock = GrowthClock(1.25)
    assert clock.seconds(1.0) == math.inf
    clock.note(5000, 1.0)
    clock.note(5100, 2.0)
    assert clock.seconds(3.0) == math.inf


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_it_finds_what_a_search_through_all_notes_finds(steps):
    clock, notes, count = GrowthClock(1.5), [], 1
    for second, step in enumerate(steps):
        count += step
        notes.append((float(second), count))
        clock.note(count, float(second))
    before = [at for at, n in notes if 1.5 * n <= count]
    assert clock.seconds(60.0) == (60.0 - before[-1] if before else math.inf)
