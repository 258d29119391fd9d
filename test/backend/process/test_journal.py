"""What the node has taken in is on disk, and what a damaged file still holds is read."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from journal_world import Run, simulated

from sparser_ros.backend.process import journal_records
from sparser_ros.backend.process.journal import Files, Journal
from sparser_ros.backend.process.journal_records import MESSAGES, Damage, Record, scan
from sparser_ros.config import SparserError
from sparser_ros.config.node_config import JournalConfig


@pytest.fixture(scope='module')
def recording(tmp_path_factory):
    return simulated(tmp_path_factory.mktemp('bag') / 'bag')


def messages_of(session):
    return [one for record in session.records
            for one in journal_records.unpack_messages(record.body)]


def read(folder):
    return journal_records.newest(Files(folder, 1e3).sessions())


def test_every_message_comes_back(tmp_path, recording):
    parameters, messages = recording
    Run(parameters, tmp_path).play(messages).close()
    session = read(tmp_path)
    assert messages_of(session) == messages[:len(messages)] and not session.losses
    assert session.messages == len(messages)


def test_a_message_is_on_disk_once_its_record_counts_as_durable(tmp_path, recording):
    parameters, messages = recording
    run = Run(parameters, tmp_path).play(messages[:20])
    number = run.journal.take(False)
    end = time.monotonic() + 30
    while run.journal.durable < number and time.monotonic() < end:
        time.sleep(0.001)
    copy = tmp_path.with_name('copy')
    shutil.copytree(tmp_path, copy)
    assert messages_of(read(copy)) == messages[:20]
    run.close()


def test_a_session_that_ends_in_a_restart_keeps_its_last_messages(tmp_path, recording):
    parameters, messages = recording
    run = Run(parameters, tmp_path).play(messages[:20])
    run.journal.restart({})
    run.close()
    before, after = sorted(tmp_path.glob('*.journal'))
    kept = [one for record in scan(before.read_bytes()) if record.kind == MESSAGES
            for one in journal_records.unpack_messages(record.body)]
    assert kept == messages[:20]
    assert not [one for one in scan(after.read_bytes()) if one.kind == MESSAGES]


def test_one_damaged_byte_costs_no_more_than_its_record(tmp_path, recording):
    parameters, messages = recording
    Run(parameters, tmp_path).play(messages[:200]).close()
    path, = tmp_path.glob('*.journal')
    data = path.read_bytes()
    counts = [one.count for one in scan(data) if isinstance(one, Record)]
    assert sum(counts) == 200
    begins, at = [], 0
    for one in scan(data):
        begins.append(at)
        at += journal_records.HEAD_SIZE + len(one.body)
    for place in range(0, len(data), 97):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        found = list(scan(bytes(damaged)))
        hit = max(k for k, begin in enumerate(begins) if begin <= place)
        sound = [one.body for one in found if isinstance(one, Record)]
        assert sound == [one.body for k, one in enumerate(scan(data)) if k != hit], place
        assert sum(isinstance(one, Damage) for one in found) >= 1


def test_a_damaged_session_says_what_is_lost(tmp_path, recording):
    parameters, messages = recording
    Run(parameters, tmp_path).play(messages[:200]).close()
    path, = tmp_path.glob('*.journal')
    data = path.read_bytes()
    records = [one for one in scan(data) if isinstance(one, Record)]
    for place in range(0, len(data), 97):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        path.write_bytes(bytes(damaged))
        session = read(tmp_path)
        back = messages_of(session)
        rest = iter(messages)
        assert all(any(one == other for other in rest) for one in back), 'in order, none changed'
        lost = 200 - len(back)
        assert lost in {0, *(one.count for one in records if one.kind == MESSAGES)}
        assert bool(session.losses) == bool(lost)
        if lost and 'bytes' not in session.losses[0]:
            assert f'{lost} messages that came ' in session.losses[0]
            assert 'before 20' in session.losses[0] or 'between 20' in session.losses[0]


@pytest.mark.parametrize('cut', [1, 30, 60, 500])
def test_a_torn_tail_is_skipped_and_never_cut_off(tmp_path, recording, cut):
    parameters, messages = recording
    Run(parameters, tmp_path).play(messages[:100]).close()
    path, = tmp_path.glob('*.journal')
    data = path.read_bytes()[:-cut]
    path.write_bytes(data)
    session = read(tmp_path)
    assert messages_of(session) == messages[:75] and len(session.losses) == 1
    Run(parameters, tmp_path, resume=True).play(messages[75:100], 75).close()
    assert path.read_bytes() == data
    assert read(tmp_path).messages >= 100


def test_nothing_that_it_did_not_write_is_touched(tmp_path, recording):
    parameters, messages = recording
    foreign = {
        'notes.txt': b'mine', 'sparser-000003-000000.journal': b'not a journal',
        'sparser-000004-000001.graph': b'', 'sparser-000003-000000.map': b'another'}
    for name, data in foreign.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / 'sparser-000005-000000.journal').mkdir()
    for turn in range(3):
        Run(parameters, tmp_path, resume=turn > 0, segment_mb=0.1, max_mb=0.0).play(
            messages[200 * turn:200 * turn + 200], 200 * turn).close()
    assert {name: (tmp_path / name).read_bytes() for name in foreign} == foreign
    assert (tmp_path / 'sparser-000005-000000.journal').is_dir()


def test_two_nodes_do_not_share_a_folder(tmp_path, recording):
    run = Run(recording[0], tmp_path)
    with pytest.raises(SparserError, match='another node'):
        Run(recording[0], tmp_path)
    run.close()


def test_old_sessions_go_when_all_together_are_too_large(tmp_path, recording):
    parameters, messages = recording
    for _ in range(4):
        Run(parameters, tmp_path, max_mb=0.6).play(messages[:400]).close()
    sizes = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert sizes < 1.0e6
    assert messages_of(read(tmp_path)) == messages[:400]


def test_a_session_does_not_grow_with_its_messages(tmp_path, recording):
    parameters, messages = recording
    Run(parameters, tmp_path, segment_mb=0.1).play(messages).close()
    journals = sorted(tmp_path.glob('*.journal'))
    total = sum(len(one.data) for one in messages)
    assert len(journals) <= 2 and total > 0.25e6
    # A segment of messages, and the state of the front-end that it begins with.
    assert all(path.stat().st_size < 0.1e6 + 0.03e6 for path in journals)
    assert not (tmp_path / 'sparser-000000-000000.journal').exists()


FULL = '''
import resource, signal, sys, time
from pathlib import Path
from journal_world import Run, simulated
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path(sys.argv[1])
parameters, messages = simulated(folder / 'bag')
run = Run(parameters, folder / 'journal').play(messages[:200])
while run.journal.durable < run.journal.take(False):
    time.sleep(0.001)
first = run.journal.path
limit = max(path.stat().st_size for path in (folder / 'journal').iterdir()) + 100
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
run.play(messages[200:600], 200)
while run.journal.path == first and not run.journal.problem:
    time.sleep(0.001)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
run.play(messages[600:700], 600)
while run.journal.problem:
    time.sleep(0.01)
run.close()
'''


def test_a_full_disk_stops_nothing_and_what_was_written_stays(tmp_path, recording):
    """The limit of the size of files is what a full disk is: a write that fails half-way."""
    support = os.path.dirname(sys.modules['journal_world'].__file__)
    done = subprocess.run(
        [sys.executable, '-c', FULL, str(tmp_path)], capture_output=True, text=True, timeout=120,
        env={**os.environ, 'PYTHONPATH': f'{support}:{os.environ.get("PYTHONPATH", "")}'})
    assert done.returncode == 0 and 'cannot be written: [Errno 27]' in done.stderr, done.stderr
    session = read(tmp_path / 'journal')
    assert messages_of(session) == recording[1][:700] and not session.losses


def test_a_full_disk_is_not_littered_with_empty_files(tmp_path):
    """It is tried again every 2 s, each time with a new file."""
    files = Files(tmp_path, 1.0)
    path, file = files.create(0)
    file.close()
    files.withdraw(path)
    assert not path.exists()
    path.write_bytes(b'of somebody else')
    files.withdraw(path)
    assert path.read_bytes() == b'of somebody else'


def test_a_folder_that_cannot_be_made_is_an_error_of_its_own(tmp_path):
    (tmp_path / 'file').write_text('in the way')
    with pytest.raises(OSError, match='file'):
        Files(tmp_path / 'file' / 'journal', 1.0).open()
    assert (tmp_path / 'file').read_text() == 'in the way'


def test_a_second_is_enough_for_a_thousand_records(tmp_path):
    """What the executor pays: nothing waits for the disk."""
    files = Files(tmp_path, 1e3)
    files.open()
    journal = Journal(files, JournalConfig(), {'config': {}})
    one = journal_records.Message('/A/odom', 'nav_msgs/msg/Odometry', 1, bytes(720))
    begin = time.thread_time()
    for _ in range(1000):
        for _ in range(6):
            journal.message(one)
        journal.take(False)
    assert time.thread_time() - begin < 1.0
    journal.close()
    files.close()
