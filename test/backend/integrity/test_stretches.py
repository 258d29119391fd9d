"""Ranges that do not fit, counted, and stretches in which those of one source share an error."""

import numpy as np
import pytest

from sparser_ros.backend.integrity.doubts import (
    Rows,
    bursts,
    doubt_finding,
    doubted_sources,
    exceeds,
    lasting,
    upper_share,
)
from sparser_ros.backend.integrity.stretches import shifts
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph.ends import RangeEnds

ALARM, SIGMA = 1e-6, 0.1
CONFIG = IntegrityConfig()


def ends_of(rng, count=1500):
    """Ranges of three robots with one another and five beacons over 150 s."""
    first = rng.integers(0, 3, count)
    second = (first + 1 + rng.integers(0, 7, count)) % 8
    return RangeEnds(tuple('ABC') + tuple(f'L{k}' for k in range(5)), 3, first, second,
                     np.sort(rng.uniform(0, 150, count)))


def ranges(seed=0, share=0.05):
    """Ends, which ranges do not fit, and errors in metres."""
    rng = np.random.default_rng(seed)
    sources = ends_of(rng)
    count = len(sources.seconds)
    far = rng.random(count) < share
    return sources, far, np.where(far, rng.uniform(2, 20, count), rng.normal(0, 0.1, count))


def honest(seed):
    """Ends and whitened residuals."""
    rng = np.random.default_rng(seed)
    sources = ends_of(rng)
    return sources, rng.normal(size=len(sources.seconds))


def rows(far, error):
    return Rows(error, error / 0.1, far)


def test_bounds_hold_the_share_that_was_drawn():
    rng = np.random.default_rng(1)
    outside = 0
    for _ in range(2000):
        count = int(rng.binomial(200, 0.3))
        assert count / 200 < upper_share(count, 200, 0.05)
        outside += upper_share(count, 200, 0.05) < 0.3
    assert outside < 2000 * 0.05 * 1.2
    assert upper_share(0, 0, ALARM) == 1.0
    assert not exceeds(0, 0, 0.2, ALARM)


@pytest.mark.parametrize('share', [0.0, 0.05, 0.2, 0.4])
def test_nobody_is_doubted_where_all_fail_alike(share):
    for seed in range(20):
        sources, far, error = ranges(seed, share=share)
        assert doubted_sources(sources, rows(far, error), ALARM) == []
        assert bursts(sources, rows(far, error), set(), ALARM, CONFIG) == []


def test_one_source_is_doubted_and_not_those_it_talks_to():
    sources, far, error = ranges()
    bad = sources.at(1) & (np.random.default_rng(2).random(len(far)) < 0.6)
    found = doubted_sources(sources, rows(far | bad, np.where(bad, 3.0, error)), ALARM)
    assert [doubt.source for doubt in found] == [1]
    finding = doubt_finding(sources, found[0])
    assert finding.subject == 'B' and '3.0 m too long' in finding.text
    assert finding.value == pytest.approx(62, abs=6)


def test_a_source_that_fails_for_a_while_has_a_burst():
    sources, far, error = ranges()
    bad = sources.at(2) & (sources.seconds > 60) & (sources.seconds < 100)
    these = rows(far | bad, np.where(bad, -2.0, error))
    doubts = doubted_sources(sources, these, ALARM)
    assert lasting(sources, these, doubts, ALARM, CONFIG) == []
    found = bursts(sources, these, set(), ALARM, CONFIG)
    assert sources.names[found[0].source] == 'C'
    # Long ago, it is none any more.
    assert bursts(sources, these, set(), ALARM, IntegrityConfig(memory_s=10.0)) == []


def found(sources, whitened, weight=None, taken=()):
    weight = np.ones(len(whitened)) if weight is None else weight
    return shifts(
        sources, rows(np.abs(whitened) > 3.3, SIGMA * whitened), weight, set(taken), ALARM, CONFIG)


def stretch(sources, source, begin, end):
    return sources.at(source) & (sources.seconds >= begin) & (sources.seconds < end)


@pytest.mark.parametrize('source', [1, 4])
@pytest.mark.parametrize('size', [1.5, -1.5])
def test_a_stretch_is_found_with_its_times(source, size):
    sources, whitened = honest(source)
    own = stretch(sources, source, 67, 93)
    one = {shift.source: shift for shift in found(sources, whitened + size * own)}[source]
    assert one.begin_s == pytest.approx(67, abs=3) and one.end_s == pytest.approx(93, abs=3)
    assert np.isin(np.flatnonzero(own), one.rows).mean() > 0.9
    assert np.isin(one.rows, np.flatnonzero(own)).mean() > 0.9
    assert ('long' if size > 0 else 'short') in one.finding(np.array([size])).text


def test_honest_ranges_have_none():
    assert [seed for seed in range(300) if found(*honest(seed))] == []


def test_rejected_ranges_and_taken_sources_have_no_say():
    sources, whitened = honest(2)
    own = stretch(sources, 1, 60, 90)
    wrong = whitened + 40.0 * own
    assert found(sources, wrong, np.where(own, 0.0, 1.0)) == []
    assert 1 not in {one.source for one in found(sources, wrong, taken=[1])}


def test_what_fills_most_of_the_time_or_lies_far_back_is_no_burst():
    sources, whitened = honest(3)
    often = found(sources, whitened + 2.0 * stretch(sources, 1, 20, 130))
    assert 1 not in {one.source for one in often}
    old = RangeEnds(sources.names, 3, sources.first, sources.second, sources.seconds * 10)
    late = found(old, whitened + 2.0 * stretch(old, 1, 100, 300))
    assert all(one.end_s >= old.seconds.max() - CONFIG.memory_s for one in late)
