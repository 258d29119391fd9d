"""Ranges that do not fit together for a while; beacons that were moved."""

import numpy as np
import pytest
from faulty_world import beacon_moved, examined, graph, world

from sparser_ros.backend.integrity import doubts
from sparser_ros.backend.integrity.faults import hypotheses_of
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.integrity.stretches import beacon_steps, shifts
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph import range_directions, range_residuals
from sparser_ros.graph.ends import RangeEnds, range_ends

ALARM, SIGMA = 1e-6, 0.1
CONFIG = IntegrityConfig()


def ends_of(rng, count=1500):
    """Ranges of three robots with one another and five beacons over 150 s."""
    first = rng.integers(0, 3, count)
    second = (first + 1 + rng.integers(0, 7, count)) % 8
    return RangeEnds(tuple('ABC') + tuple(f'L{k}' for k in range(5)), 3, first, second,
                     np.sort(rng.uniform(0, 150, count)))


def honest(seed):
    """Ends and whitened residuals."""
    rng = np.random.default_rng(seed)
    sources = ends_of(rng)
    return sources, rng.normal(size=len(sources.seconds))


def rows(far, error):
    return doubts.Rows(error, error / 0.1, far)


def test_bounds_hold_the_share_that_was_drawn():
    rng = np.random.default_rng(1)
    outside = 0
    for _ in range(2000):
        count = int(rng.binomial(200, 0.3))
        assert count / 200 < doubts.upper_share(count, 200, 0.05)
        outside += doubts.upper_share(count, 200, 0.05) < 0.3
    assert outside < 2000 * 0.05 * 1.2
    assert doubts.upper_share(0, 0, ALARM) == 1.0
    assert not doubts.exceeds(0, 0, 0.2, ALARM)


def test_one_source_is_doubted_and_not_those_it_talks_to():
    rng = np.random.default_rng(0)
    sources = ends_of(rng)
    far = rng.random(1500) < 0.05
    error = np.where(far, rng.uniform(2, 20, 1500), rng.normal(0, 0.1, 1500))
    bad = sources.at(1) & (np.random.default_rng(2).random(len(far)) < 0.6)
    found = doubts.doubted_sources(sources, rows(far | bad, np.where(bad, 3.0, error)), ALARM)
    assert [doubt.source for doubt in found] == [1]
    finding = doubts.doubt_finding(sources, found[0])
    assert finding.subject == 'B' and '3.0 m too long' in finding.text
    assert finding.value == pytest.approx(62, abs=6)


def found(sources, whitened):
    return shifts(sources, rows(np.abs(whitened) > 3.3, SIGMA * whitened),
                  np.ones(len(whitened)), set(), ALARM, CONFIG)


def test_honest_ranges_have_none():
    assert [seed for seed in range(300) if found(*honest(seed))] == []


def test_what_fills_most_of_the_time_or_lies_far_back_is_no_burst():
    sources, whitened = honest(3)
    seconds, of_b = sources.seconds, sources.at(1)
    often = found(sources, whitened + 2.0 * (of_b & (seconds >= 20) & (seconds < 130)))
    assert 1 not in {one.source for one in often}
    old = RangeEnds(sources.names, 3, sources.first, sources.second, seconds * 10)
    late = found(old, whitened + 2.0 * (of_b & (seconds >= 10) & (seconds < 30)))
    assert all(one.end_s >= old.seconds.max() - CONFIG.memory_s for one in late)


def test_derivatives_agree_with_differences(dimension):
    place = world(2, dimension)
    made = graph(place, 2)
    way, sources = 1e-4 * np.ones(dimension), range_ends(made)
    rows = sources.at(sources.robots + 1) & (sources.seconds >= 40.0)
    changed = beacon_moved(made, place.truth, 1, way, rows)
    model = linear_model(made, place.truth, {})
    step = doubts.Stretch(4, 'L1', np.flatnonzero(rows), 40.0, 90.0, lambda _: None, landmark=1)
    one = next(one for one in hypotheses_of(
        model, sources, [step], CONFIG) if one.kind == 'beacon_moved')
    assert one.subject == 'L1'
    # A beacon that is further away is measured longer: its residual becomes smaller.
    np.testing.assert_allclose(
        model.residual - linear_model(changed, place.truth, {}).residual, one.columns @ way,
        atol=1e-6)


def test_beacons_at_rest_are_suspected_as_seldom_as_stated():
    count = 0
    for seed in range(10):
        place = world(seed)
        made = graph(place, seed, share=0.0)
        root = np.sqrt(made.ranges.precision)
        count += len(beacon_steps(
            range_ends(made), range_directions(made, place.truth),
            -range_residuals(made, place.truth) * root, root, CONFIG))
        assert not examined(made, place.truth).bursts
    # 60 beacons at 1 % each.
    assert count <= 3
