"""How long a graph takes to grow by a factor."""

import math

from hypothesis import given
from hypothesis import strategies as st

from sparser_ros.backend.session.schedule import GrowthClock


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_it_finds_what_a_search_through_all_notes_finds(steps):
    clock, notes, count = GrowthClock(1.5), [], 1
    for second, step in enumerate(steps):
        count += step
        notes.append((float(second), count))
        clock.note(count, float(second))
    before = [at for at, n in notes if 1.5 * n <= count]
    assert clock.seconds(60.0) == (60.0 - before[-1] if before else math.inf)
