"""What was written before a crash can be read again."""

import numpy as np
import pytest
from backend_world import World

from sparser_ros.backend.process.journal import Journal, load
from sparser_ros.config import FormatError


@pytest.fixture
def increments():
    return World(['curved'], [[0, 0]], beacons=[[2, 5]], steps=6).increments(3)


def written(path, increments):
    with Journal(path) as journal:
        for one in increments:
            journal.append(one)
    return path


def test_increments_come_back_in_order(tmp_path, increments):
    back = load(written(tmp_path / 'deep' / 'run.journal', increments))
    assert [one.sequence for one in back] == [0, 1, 2]
    for one, other in zip(increments, back, strict=True):
        assert np.array_equal(one.ranges.distance_m, other.ranges.distance_m)


@pytest.mark.parametrize('cut', [1, 10, 16, 17, 200])
def test_a_torn_tail_is_ignored_and_cut_off_on_appending(tmp_path, increments, cut):
    path = written(tmp_path / 'run.journal', increments[:2])
    whole = path.stat().st_size
    written(path, increments[2:])
    data = path.read_bytes()
    path.write_bytes(data[:whole + cut])
    assert [one.sequence for one in load(path)] == [0, 1]
    written(path, increments[2:])
    assert [one.sequence for one in load(path)] == [0, 1, 2]
    assert path.read_bytes() == data


def test_a_damaged_frame_ends_the_journal(tmp_path, increments):
    path = written(tmp_path / 'run.journal', increments)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    assert len(load(path)) < 3


def test_another_kind_of_file_is_refused(tmp_path):
    path = tmp_path / 'notes.txt'
    path.write_text('do not touch')
    with pytest.raises(FormatError, match='not a journal'):
        Journal(path)
    assert path.read_text() == 'do not touch'


def test_a_fresh_journal_keeps_the_previous_one(tmp_path, increments):
    path = written(tmp_path / 'run.journal', increments)
    Journal.fresh(path).close()
    assert load(path) == []
    assert len(load(tmp_path / 'run.journal.previous')) == 3
