"""Counting ranges that do not fit: bounds of shares, and who is doubted."""

import numpy as np
import pytest

from sparser_ros.backend.integrity.doubts import (
    Rows,
    bursts,
    doubt_finding,
    doubted_sources,
    exceeds,
    lasting,
    lower_share,
    upper_share,
)
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph.range_ends import RangeEnds

ALARM = 1e-6


def ranges(seed=0, count=1500, share=0.05):
    """Ranges of three robots with one another and five beacons over 150 s."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, count)
    second = (first + 1 + rng.integers(0, 7, count)) % 8
    sources = RangeEnds(tuple('ABC') + tuple(f'L{k}' for k in range(5)), 3, first, second,
                      np.sort(rng.uniform(0, 150, count)))
    far = rng.random(count) < share
    return sources, far, np.where(far, rng.uniform(2, 20, count), rng.normal(0, 0.1, count))


def rows(far, error):
    return Rows(error, error / 0.1, far)


def test_bounds_hold_the_share_that_was_drawn():
    rng = np.random.default_rng(1)
    outside = 0
    for _ in range(2000):
        count = int(rng.binomial(200, 0.3))
        assert lower_share(count, 200, 0.05) < count / 200 < upper_share(count, 200, 0.05)
        outside += lower_share(count, 200, 0.05) > 0.3
        outside += upper_share(count, 200, 0.05) < 0.3
    assert outside < 2000 * 0.1 * 1.2
    assert (lower_share(0, 0, ALARM), upper_share(0, 0, ALARM)) == (0.0, 1.0)
    assert not exceeds(0, 0, 0.2, ALARM)


@pytest.mark.parametrize('share', [0.0, 0.05, 0.2, 0.4])
def test_nobody_is_doubted_where_all_fail_alike(share):
    for seed in range(20):
        sources, far, error = ranges(seed, share=share)
        assert doubted_sources(sources, rows(far, error), ALARM) == []
        assert bursts(sources, rows(far, error), set(), ALARM, IntegrityConfig()) == []


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
    assert lasting(sources, these, doubts, ALARM, IntegrityConfig()) == []
    found = bursts(sources, these, set(), ALARM, IntegrityConfig())
    assert sources.names[found[0].source] == 'C'
    # Long ago, it is none any more.
    assert bursts(sources, these, set(), ALARM, IntegrityConfig(memory_s=10.0)) == []
