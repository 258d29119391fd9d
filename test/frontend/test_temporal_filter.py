"""Ranges against their neighbours in time (paper, appendix D), in a stream."""

import math

import numpy as np
import pytest

from sparser_ros.config import SparserConfig
from sparser_ros.frontend import Frontend, OdometrySample, RangeSample
from sparser_ros.frontend.radios import Radio
from sparser_ros.frontend.ranges import PendingRange
from sparser_ros.frontend.temporal_filter import TemporalFilter

ENDS = (Radio('A', '', (0.0, 0.0), math.nan), Radio('', 'L', (0.0, 0.0), math.nan))


def stream(seed, false=0.1, rate_hz=50.0, seconds=20.0, step_m=(0.5, 5.0)):
    """Ranges of a robot that drives past a beacon, single ones of them too long; and which."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, seconds, int(rate_hz * seconds)))
    d = np.hypot(5.0, 1.0 * (t - seconds / 2)) + 0.03 * rng.normal(size=len(t))
    wrong = rng.random(len(t)) < false
    d = d + np.where(wrong, rng.uniform(*step_m, len(t)), 0.0)
    stamps = [int(1e9 * seconds) + 1 for seconds in t]
    ranges = [PendingRange(stamp_ns, ((0, stamp_ns), None), ENDS, 'A', 'L', '', metres, 0.01)
              for stamp_ns, metres in zip(stamps, d, strict=True)]
    return ranges, wrong


def sorted_in_parts(ranges, parts=40, window_s=2.0):
    made = TemporalFilter(window_s)
    passed, dropped, delay = [], [], 0
    for part in np.array_split(np.arange(len(ranges)), parts):
        now = ranges[part[-1]].stamp_ns
        some, others = made.sort([ranges[k] for k in part], now, False)
        passed += some
        dropped += others
        judged = {id(r) for r in passed + dropped}
        delay = max([delay, *(
            now - r.stamp_ns for r in ranges[:part[-1] + 1] if id(r) not in judged)])
    some, others = made.sort([], ranges[-1].stamp_ns, True)
    return passed + some, dropped + others, delay * 1e-9


@pytest.mark.parametrize('seed', range(3))
def test_single_false_ranges_are_dropped_and_nearly_no_others(seed):
    ranges, wrong = stream(seed)
    passed, dropped, _ = sorted_in_parts(ranges)
    assert len(passed) + len(dropped) == len(ranges)
    bad = {id(r) for r, one in zip(ranges, wrong, strict=True) if one}
    caught = sum(id(r) in bad for r in dropped)
    assert caught > 0.9 * len(bad)
    # 5 MAD are 3.4 sigma: 0.07 % of normal noise, and more beside false ranges.
    assert len(dropped) - caught < 0.05 * len(ranges)


def test_all_is_kept_where_nothing_is_false_and_nothing_waits_longer_than_half_a_window():
    ranges, _ = stream(5, false=0.0)
    passed, dropped, delay_s = sorted_in_parts(ranges)
    assert len(dropped) < 0.005 * len(ranges)
    out = {id(r) for r in dropped}
    assert [r.stamp_ns for r in passed] == [r.stamp_ns for r in ranges if id(r) not in out]
    assert delay_s <= 1.0


def test_the_front_end_counts_what_it_drops():
    front = Frontend(SparserConfig.from_mapping({
        'robots': ['A'], 'ranges': {'temporal_window_s': 2.0, 'max_rate_hz': 1e3}}))
    for k in range(100):
        stamp = 1_000_000_000 + k * 100_000_000
        front.add(OdometrySample(
            'A', stamp, stamp, np.array([0.1 * k, 0, 0]), np.array([0, 0, 0, 1.0]),
            np.zeros((6, 6)), np.zeros((6, 6))))
        front.add(RangeSample('A', 'L', stamp, stamp, 12.0 if k == 50 else 9.0, 0.04))
    made = front.take(flush=True)
    counters = front.counters.ranges
    assert counters.dropped['off_in_time'] == 1 and counters.waiting == 0
    assert np.max(made.ranges.distance_m) < 10
