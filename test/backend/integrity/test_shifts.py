"""Stretches in which the ranges of one source share an error, found from what residuals remain."""

import numpy as np
import pytest

from sparser_ros.backend.integrity.doubts import Rows
from sparser_ros.backend.integrity.stretches import shifts
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph.range_ends import RangeEnds

ALARM, SIGMA = 1e-6, 0.1
CONFIG = IntegrityConfig()


def ranges(seed, count=1500):
    """Ends and whitened residuals of three robots and five beacons over 150 s."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, count)
    second = (first + 1 + rng.integers(0, 7, count)) % 8
    sources = RangeEnds(tuple('ABC') + tuple(f'L{k}' for k in range(5)), 3, first, second,
                        np.sort(rng.uniform(0, 150, count)))
    return sources, rng.normal(size=count)


def found(sources, whitened, weight=None, taken=()):
    rows = Rows(SIGMA * whitened, whitened, np.abs(whitened) > 3.3)
    weight = np.ones(len(whitened)) if weight is None else weight
    return shifts(sources, rows, weight, set(taken), ALARM, CONFIG)


def stretch(sources, source, begin, end):
    return sources.at(source) & (sources.seconds >= begin) & (sources.seconds < end)


@pytest.mark.parametrize('source', [1, 4])
@pytest.mark.parametrize('size', [1.5, -1.5])
def test_a_stretch_is_found_with_its_times(source, size):
    sources, whitened = ranges(source)
    rows = stretch(sources, source, 67, 93)
    one = {shift.source: shift for shift in found(sources, whitened + size * rows)}[source]
    assert one.begin_s == pytest.approx(67, abs=3) and one.end_s == pytest.approx(93, abs=3)
    assert np.isin(np.flatnonzero(rows), one.rows).mean() > 0.9
    assert np.isin(one.rows, np.flatnonzero(rows)).mean() > 0.9
    assert ('long' if size > 0 else 'short') in one.finding('B', np.array([size])).text


def test_honest_ranges_have_none():
    assert [seed for seed in range(300) if found(*ranges(seed))] == []


def test_rejected_ranges_and_taken_sources_have_no_say():
    sources, whitened = ranges(2)
    rows = stretch(sources, 1, 60, 90)
    wrong = whitened + 40.0 * rows
    assert found(sources, wrong, np.where(rows, 0.0, 1.0)) == []
    assert 1 not in {one.source for one in found(sources, wrong, taken=[1])}


def test_what_fills_most_of_the_time_or_lies_far_back_is_no_burst():
    sources, whitened = ranges(3)
    often = found(sources, whitened + 2.0 * stretch(sources, 1, 20, 130))
    assert 1 not in {one.source for one in often}
    old = RangeEnds(sources.names, 3, sources.first, sources.second, sources.seconds * 10)
    late = found(old, whitened + 2.0 * stretch(old, 1, 100, 300))
    assert all(one.end_s >= old.seconds.max() - CONFIG.memory_s for one in late)
