"""Messages are disturbed as stated, and the map stays where that of the clean ones lies."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.disturbed import Disturbance, disturbed, main, messages_of

SAMPLES = Path(__file__).parents[2] / 'docs' / 'samples'
NOTHING = Disturbance(0, 0, 0, 0, 0, 0)


@pytest.fixture(scope='module')
def clean():
    return messages_of(SAMPLES / 'two_robots.mcap')


def stamp(one):
    return one.body.header.stamp.sec * 10**9 + one.body.header.stamp.nanosec


def test_no_disturbance_changes_nothing(clean):
    assert disturbed(clean, NOTHING, 0)[0] == clean


@pytest.mark.parametrize(('share', 'low', 'high'), [('lost', 0.6, 0.8), ('doubled', 1.2, 1.4)])
def test_messages_are_lost_or_come_twice(clean, share, low, high):
    arriving, _ = disturbed(clean, replace(NOTHING, **{share: 0.3}), 0)
    assert low < len(arriving) / len(clean) < high


def test_the_clock_is_ahead_from_the_middle_on(clean):
    arriving, middle = disturbed(clean, replace(NOTHING, clock_step_s=1.0), 0)
    ahead = [b.received_ns - a.received_ns for a, b in zip(clean, arriving, strict=True)]
    assert ahead == [10**9 * (a.received_ns >= middle) for a in clean]
    assert [stamp(b) - stamp(a) for a, b in zip(clean, arriving, strict=True)] == ahead


def test_late_messages_and_long_ranges(clean):
    arriving, _ = disturbed(clean, replace(NOTHING, late=0.2, latest_s=2.0, gross=0.5), 0)
    late = {id(b.body): b.received_ns for b in arriving}
    assert sum(late.get(id(a.body), a.received_ns) > a.received_ns for a in clean) > 20
    assert arriving == sorted(arriving, key=lambda one: one.received_ns)
    longest = [max(one.body.range for one in some if hasattr(one.body, 'range'))
               for some in (clean, arriving)]
    assert longest[1] > longest[0] + 4


def test_a_disturbed_recording_ends_in_the_valley_of_the_clean_one(tmp_path):
    assert main([str(SAMPLES / 'two_robots.pyfg'), '--seeds', '1', '--out', str(tmp_path)]) == 0
    rows = json.loads((tmp_path / 'disturbed.json').read_text())['rows']
    assert rows[0]['lost'] == 0 < rows[1]['lost'] and rows[1]['ratio'] == pytest.approx(1, abs=0.02)
