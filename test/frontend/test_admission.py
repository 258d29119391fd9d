"""Floods: ranges by the thousand, and beacons made of noise."""

import numpy as np
import pytest
from frontend_world import Robot, config, drive, graph_of, range_sample

from sparser_ros.frontend import Frontend
from sparser_ros.frontend.radios import similar


def driven(seconds=10.0, **values):
    frontend = Frontend(config(**values))
    drive(frontend, [Robot('A', 2, 1), Robot('B', 2, 2)], seconds)
    return frontend


def test_a_pair_that_floods_is_thinned_and_named():
    frontend, graph = driven(), None
    for k in range(9000):
        frontend.add(range_sample('A', 'L1', 0.001 * k, 5.0))
        if k % 100 == 0:
            frontend.add(range_sample('B', 'L2', 0.001 * k, 5.0))
            graph = graph_of(frontend, flush=False, graph=graph)
    graph = graph_of(frontend, graph=graph)
    counters = frontend.counters.ranges
    assert counters.balanced and counters.waiting == 0
    assert len(graph.ranges) == 9 * 50 + 90
    assert counters.dropped == {'rate_limit': 9000 - 9 * 50}
    assert any(f.kind == 'range_flood' and 'A and L1' in f.subject for f in frontend.findings)


def test_all_pairs_together_share_the_limit():
    frontend = driven(ranges={'max_total_rate_hz': 100.0})
    for k in range(300):
        for beacon in range(20):
            frontend.add(range_sample('A', f'L{beacon}', 0.03 * k, 5.0))
    graph = graph_of(frontend)
    assert 9 * 95 <= len(graph.ranges) <= 9 * 120
    heard = np.bincount(~graph.ranges.target)
    assert heard.min() > 0.7 * heard.max()


def test_random_names_become_no_beacons_and_the_flood_is_named():
    frontend = driven()
    rng, graph = np.random.default_rng(1), None
    for k in range(2000):
        frontend.add(range_sample('A', f'x{rng.integers(10**9)}', 0.005 * k, 5.0))
        if k % 10 == 0:
            frontend.add(range_sample('A', 'L1', 0.005 * k, 5.0))
            graph = graph_of(frontend, flush=False, graph=graph)
    graph = graph_of(frontend, graph=graph)
    assert len(graph.landmarks) <= 21
    assert 'L1' in graph.landmarks.names
    counters = frontend.counters.ranges
    assert counters.balanced and counters.waiting == 0
    assert counters.dropped['unconfirmed_radio'] >= 1900
    assert any(f.kind == 'unknown_radios' for f in frontend.findings)


def test_no_more_than_so_many_new_beacons():
    frontend = driven(ranges={'max_new_beacons': 5})
    for k in range(100):
        frontend.add(range_sample('A', f'L{k % 10}', 0.09 * k, 5.0))
    assert len(graph_of(frontend).landmarks) == 5
    assert frontend.counters.ranges.dropped == {'unconfirmed_radio': 50}


@pytest.mark.parametrize(('known', 'heard', 'words'), [
    ('anchor_07', ['Anchor_7', 'anchor_08'], ["'Anchor_7'", "'anchor_07'"]),
    # YAML and drivers turn 81:00 into 4860 and 0x6958 into 26968.
    ('4860', ['81:00'], ["'81:00'", "'4860'", 'quotes'])])
def test_names_that_look_mistyped_are_pointed_out(known, heard, words):
    frontend = driven(radios={known: {'beacon': known}})
    for k in range(5):
        for name in heard:
            frontend.add(range_sample('A', name, 0.5 * k, 5.0))
    graph_of(frontend)
    (text,) = frontend.warnings
    assert all(word in text for word in words)


@pytest.mark.parametrize(('one', 'other', 'expected'), [
    ('L0', 'L1', False), ('17', '18', False), ('beacon_1', 'beacon_2', False),
    ('0xDECA01', '0xdeca01', True), ('07', '7', True), ('a', 'A', True),
    ('beacon_1', 'becon_1', True), ('tag', 'bag', False),
    ('0x6958', '26968', True), ('0x6958', '6958', True), ('81:00', '4860', True),
    ('81:00', '82:00', False), ('10', '16', False), ('0x10', '0x11', False),
])
def test_similar_names(one, other, expected):
    assert similar(one, other) == expected
