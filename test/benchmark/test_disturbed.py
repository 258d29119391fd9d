"""Messages are disturbed as stated, and the map stays where that of the clean ones lies."""

import json
from pathlib import Path

import pytest

from benchmark.disturbed import Disturbance, disturbed, main, messages_of

SAMPLES = Path(__file__).parents[2] / 'docs' / 'samples'
NOTHING = Disturbance(0, 0, 0, 0, 0, 0)


@pytest.fixture(scope='module')
def clean():
    return messages_of(SAMPLES / 'two_robots.mcap')


def test_no_disturbance_changes_nothing(clean):
    assert disturbed(clean, NOTHING, 0)[0] == clean


def test_a_disturbed_recording_ends_in_the_valley_of_the_clean_one(tmp_path):
    assert main([str(SAMPLES / 'two_robots.pyfg'), '--seeds', '1', '--out', str(tmp_path)]) == 0
    rows = json.loads((tmp_path / 'disturbed.json').read_text())['rows']
    assert rows[0]['lost'] == 0 < rows[1]['lost'] and rows[1]['ratio'] == pytest.approx(1, abs=0.02)
