"""What the node has taken in is on disk, and what a damaged file still holds is read."""

import contextlib
import os
import re
import shutil
import sqlite3
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from backend_world import same
from journal_world import Run, kept, no_objects, simulated
from waiting import until

from sparser_ros.backend.process import journal, wire
from sparser_ros.backend.process.journal import GRAPH, MAP, MAP_NUMBER, MESSAGES, STATE, Record
from sparser_ros.backend.process.recording import Recording, newest
from sparser_ros.backend.process.worker import KeptMap
from sparser_ros.backend.session.graph_store import merged
from sparser_ros.backend.session.rulings import Ruling, Rulings
from sparser_ros.backend.session.session import Session
from sparser_ros.config import SparserError

NOBODY = 65534
"""A user who owns nothing; permissions do not bind the first one."""
THIN = {'keyframes': {'max_count': 40, 'distance_m': 0.3}, 'odometry': {'history_s': 2.0}}
THINNER = {'keyframes': {'max_count': 16, 'distance_m': 0.2}, 'odometry': {'history_s': 2.0}}


@pytest.fixture(scope='module')
def recording(tmp_path_factory):
    return simulated(tmp_path_factory.mktemp('bag') / 'bag')


def messages_in(records):
    return [one for record in records if record.kind == MESSAGES for one in record.body]


def test_a_message_is_on_disk_once_its_record_is_safe(tmp_path, recording):
    parameters, messages = recording
    run = Run(parameters, tmp_path).play(messages[:20])
    number = run.take()
    until(lambda: run.recording.safe(number), 'the disk')
    copy = tmp_path.with_name('copy')
    shutil.copytree(tmp_path, copy)
    assert messages_in(kept(copy).records) == messages[:20]
    run.close()


def test_a_journal_of_another_version_is_refused_by_name(tmp_path, recording, monkeypatch):
    parameters, messages = recording
    with monkeypatch.context() as patch:
        patch.setattr(journal, 'VERSION', 1)
        Run(parameters, tmp_path).play(messages[:50]).close()
    run = Run(parameters, tmp_path, resume=True).close()
    assert 'another version of this package' in run.recording.findings[0].text


def test_nothing_that_it_did_not_write_is_touched(tmp_path, recording):
    parameters, messages = recording
    foreign = {'notes.txt': b'mine', 'sparser-000003.journal': b'not a journal'}
    for name, data in foreign.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / 'sparser-000005.journal').mkdir()
    for turn in range(3):
        Run(parameters, tmp_path, resume=turn > 0, segment_mb=0.1, max_mb=0.0).play(
            messages[200 * turn:200 * turn + 200], 200 * turn).close()
    assert {name: (tmp_path / name).read_bytes() for name in foreign} == foreign
    assert (tmp_path / 'sparser-000005.journal').is_dir()


def test_two_nodes_do_not_share_a_journal(tmp_path, recording):
    parameters, messages = recording
    run = Run(parameters, tmp_path).play(messages[:50])
    until(lambda: run.recording.safe(run.take()), 'the disk')
    other = Run(parameters, tmp_path, resume=True)
    until(lambda: other.recording.findings, 'a finding')
    assert 'another node writes' in other.recording.findings[0].text
    other.close()
    run.close()
    assert messages_in(kept(tmp_path).records) == messages[:50]


def test_old_sessions_go_when_all_together_are_too_large(tmp_path, recording):
    parameters, messages = recording
    for _ in range(4):
        Run(parameters, tmp_path, max_mb=0.6).play(messages[:400]).close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1.0e6
    assert messages_in(kept(tmp_path).records) == messages[:400]


def test_a_session_does_not_grow_with_its_messages(tmp_path, recording):
    parameters, messages = recording
    Run(parameters, tmp_path, segment_mb=0.1).play(messages).close()
    path, = tmp_path.glob('*.journal')
    assert sum(len(one.data) for one in messages) > 0.25e6
    records, _ = journal.read(path)
    assert sum(len(data) for *_, data in messages_in(records)) < 0.15e6
    assert [record.kind for record in records].count(STATE) == 1


def test_what_is_quarantined_stays_apart_in_a_state(tmp_path, recording):
    parameters, messages = recording
    run = Run(parameters, tmp_path).play(messages)
    run.take(full=True, alone=(3, 9))
    run.close()
    ends = [one.sequence for one in kept(tmp_path).increments]
    assert ends[:4] == [2, 3, 8, 9] and len(ends) < len(run.increments) / 4
    back = Run(parameters, tmp_path, resume=True)
    assert same(back.graph, run.graph)
    back.close()


@pytest.mark.parametrize('state', [False, True])
def test_a_full_disk_stops_nothing_and_loses_nothing(tmp_path, recording, monkeypatch, state):
    """Writes fail half-way and are tried again and again: none of the tries counts as a state."""
    parameters, messages = recording
    run = Run(parameters, tmp_path / 'journal')
    number = run.play(messages[:400]).take(full=state)
    until(lambda: run.recording.safe(number + 2 * state), 'the disk')
    opened, tries = journal._opened, []

    def full(path):
        tries.append(path)
        database = opened(path)
        database.set_progress_handler(lambda: 1, 30)
        return database

    with monkeypatch.context() as patch:
        patch.setattr(journal, '_opened', full)
        patch.setattr(journal, 'RETRY_S', 0.01)
        run.recording._writer._close()
        run.play(messages[400:500], 400).take(full=state)
        until(lambda: len(tries) > 3, 'some tries')
        assert 'a crash would lose data: interrupted' in run.recording.findings[0].text
    until(lambda: not run.recording.findings, 'the disk')
    run.play(messages[500:], 500).close()
    session = kept(tmp_path / 'journal')
    assert session.messages == len(messages) and not session.notes
    assert state or messages_in(session.records) == messages


def test_a_folder_that_cannot_be_made_is_told(tmp_path, recording):
    (tmp_path / 'file').write_text('in the way')
    run = Run(recording[0], tmp_path / 'file' / 'journal')
    assert 'a crash would lose data' in run.recording.findings[0].text
    assert (tmp_path / 'file').read_text() == 'in the way'


@pytest.mark.parametrize('segment_mb', [64.0, 0.1])
@pytest.mark.parametrize('thin', [{}, THIN], ids=['whole', 'thinned'])
def test_a_run_in_pieces_gives_the_graph_of_the_whole(tmp_path, recording, thin, segment_mb):
    parameters, messages = {**recording[0], **thin}, recording[1]
    whole = Run(parameters).play(messages, flush=True)
    assert not thin or (whole.frontend.thinnings >= 3 and whole.graph.n_poses <= 45)
    begin = 0
    ends = np.random.default_rng(1).integers(10, len(messages), 4).tolist()
    for end in [10, *sorted(ends), len(messages)]:
        run = Run(parameters, tmp_path, resume=True, segment_mb=segment_mb)
        assert run.start.messages == begin and not run.start.notes and not run.recording.findings
        run.play(messages[begin:end], begin, flush=end == len(messages)).close()
        begin = end
    back = Run(parameters, tmp_path, resume=True, segment_mb=segment_mb).close()
    for one in (run, back):
        assert same(one.graph, whole.graph)
        assert one.frontend.counters.as_dict() == whole.frontend.counters.as_dict()
        assert one.frontend.thinnings == whole.frontend.thinnings


def test_a_reset_begins_a_session_of_its_own(tmp_path, recording):
    """That before keeps the messages since its last take."""
    parameters, messages = recording
    run = Run(parameters, tmp_path).play(messages[:310])
    run.recording.restart(run.start.rulings, epoch=4)
    run.frontend.reset()
    run.increments.clear()
    run.play(messages[310:700], 310).close()
    assert [messages_in(journal.read(path)[0]) for path in sorted(tmp_path.glob('*.journal'))] == [
        messages[:310], messages[310:700]]
    back = Run(parameters, tmp_path, resume=True).close()
    assert same(back.graph, run.graph) and back.start.messages == len(messages[310:700])
    # No map of the session before is kept: whatever comes is another one.
    assert back.start.epoch == 5


def test_what_was_forgotten_does_not_come_back(tmp_path, recording):
    """Also where nothing has come since, and where the front-end goes on with older values."""
    parameters, messages = recording
    Run(parameters, tmp_path).play(messages[:100]).close()
    other = {**parameters, 'keyframes': {'distance_m': 3.0}}
    run = Run(other, tmp_path, resume=True)
    run.recording.restart(run.start.rulings)
    run.frontend.reset()
    run.increments.clear()
    run.close()
    run = Run(other, tmp_path, resume=True)
    assert not run.start.messages and not run.increments
    run.play(messages[100:300], 100).close()
    assert same(Run(other, tmp_path, resume=True).close().graph, run.graph)


def test_messages_that_were_never_written_are_told(tmp_path, recording):
    parameters, messages = recording
    Run(parameters, tmp_path).play(messages[:300]).close()
    with contextlib.closing(sqlite3.connect(journal.path_of(tmp_path, 0))) as database:
        database.execute('delete from records where number = 4')
        database.commit()
    run = Run(parameters, tmp_path, resume=True).close()
    assert any(re.search(r'\d+ messages are not in', text) for text in run.start.notes)


def test_while_the_disk_refuses_only_the_newest_map_and_state_wait(tmp_path):
    journal.path_of(tmp_path, 0).mkdir()
    writer = journal.Writer(tmp_path, 100.0)
    for item in (0, Record(STATE, 1, 0, {'instead_of': 1}), Record(MESSAGES, 2, 0, []),
                 Record(GRAPH, 3, 0, b''), Record(STATE, 4, 0, {'instead_of': 3}),
                 *(Record(MAP, MAP_NUMBER, 0, (bytes([k]),)) for k in range(5)),
                 Record(MESSAGES, 5, 0, [])):
        writer.inbox.put(item)
    until(lambda: writer.problem and writer.inbox.empty(), 'a refusal')
    writer._forget()
    assert [item if isinstance(item, int) else (item.kind, item.number, item.body)
            for item in writer._waiting] == [
        0, (GRAPH, 3, b''), (STATE, 4, {'instead_of': 3}), (MAP, MAP_NUMBER, (b'\x04',)),
        (MESSAGES, 5, [])]
    writer.inbox.put(None)
    writer.join(10.0)


def test_a_disk_that_does_not_answer_holds_up_nothing(tmp_path, recording, monkeypatch):
    parameters, messages = recording
    commit, answers = journal.Writer._commit, threading.Event()
    run = Run(parameters, tmp_path).play(messages[:100])
    until(lambda: run.recording.safe(run.take()), 'the disk')
    monkeypatch.setattr(journal.Writer, '_commit', lambda *given: (answers.wait(), commit(*given)))
    monkeypatch.setattr(journal, 'HANGS_S', 0.5)
    monkeypatch.setattr(journal, 'MAX_WAITING_BYTES', 3000)
    number = run.play(messages[100:150], 100).take()
    assert not run.recording.safe(number)
    until(lambda: run.recording.findings, 'a finding')
    assert 'the disk has not answered for' in run.recording.findings[0].text
    run.play(messages[150:400], 150)
    assert run.recording.safe(run.take())
    answers.set()
    until(lambda: not run.recording.findings and run.recording.safe(run.take()), 'the disk')
    run.play(messages[400:450], 400).close()
    records = kept(tmp_path).records
    assert messages_in(records)[:150] == messages[:150] and messages_in(records)[-50:] == (
        messages[400:450]) and len(messages_in(records)) < 400
    assert 'messages are not in' in kept(tmp_path).notes[0]


def test_what_no_disk_raises_is_told_as_well(tmp_path, recording, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(journal.Writer, '_commit', fail)
    run = Run(recording[0], tmp_path).play(recording[1][:50])
    until(lambda: run.recording.safe(run.take()), 'a refusal')
    assert 'MemoryError' in run.recording.findings[0].text
    run.close()


def test_other_robots_begin_another_session_and_other_values_are_named(tmp_path, recording):
    parameters, messages = recording
    Run(parameters, tmp_path).play(messages[:100]).close()
    changed = {**parameters, 'ranges': {**parameters.get('ranges', {}), 'sigma_m': 0.77}}
    note, = Run(changed, tmp_path, resume=True).close().start.notes
    assert 'ranges.sigma_m' in note and '0.77' in note
    before = {path.name: path.read_bytes() for path in tmp_path.glob('*.journal')}
    run = Run({**parameters, 'robots': ['A', 'C']}, tmp_path, resume=True).close()
    finding, = run.recording.findings
    assert 'not resumed, a new map begins: the journal holds robots A, B' in finding.text
    assert not run.recording.resumed and not run.increments
    after = {path.name: path.read_bytes() for path in tmp_path.glob('*.journal')}
    assert len(after) == len(before) + 1 and all(after[name] == before[name] for name in before)


@pytest.fixture
def read_only():
    """A folder, and a context in which this process may read it only, like a failing SD card."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)

    @contextlib.contextmanager
    def context():
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        owner = os.geteuid()
        try:
            if owner == 0:
                os.seteuid(NOBODY)
            yield
        finally:
            os.seteuid(owner)

    yield folder, context
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_journal_that_can_only_be_read_is_resumed_and_told(read_only, recording):
    parameters, messages = recording
    folder, only_reading = read_only
    run = Run(parameters, folder).play(messages[:400], flush=True)
    run.close()
    config = Run({**parameters, 'node': {}}, folder, resume=True).close().config
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    replayed = Run(parameters)
    with only_reading():
        kept = Recording(config, folder, no_objects)
        replayed.increments = kept.session.increments
        assert same(replayed.graph, run.graph)
        until(lambda: kept.findings, 'a finding')
        finding, = kept.findings
        assert finding.kind == 'journal_failed' and 'nothing new is kept' in finding.text
        assert 'readonly database' in finding.text or 'unable to open' in finding.text
        assert kept.words.startswith(f'session 0 of {folder} goes on: 400 messages')
        kept.close()
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize('segment_mb', [64.0, 0.1])
def test_what_the_operator_has_said_is_kept(tmp_path, recording, segment_mb):
    parameters, messages = recording
    first = Rulings().with_ruling(Ruling('ignore', 'pair', ('A', 'L0'), 5, 7))
    second = first.with_ruling(Ruling('doubt', 'odometry', ('B',)))
    half = len(messages) // 2
    run = Run(parameters, tmp_path, segment_mb=segment_mb)
    assert run.start.rulings == Rulings()
    run.play(messages[:100])
    run.recording.rule(first)
    run.play(messages[100:half], 100)
    run.recording.rule(second)
    run.close()
    run = Run(parameters, tmp_path, resume=True, segment_mb=segment_mb)
    assert run.start.rulings == second and not run.start.notes
    run.play(messages[half:], half)
    run.close()
    again = Run(parameters, tmp_path, resume=True, segment_mb=segment_mb).close()
    assert again.start.rulings == second


@pytest.fixture(scope='module', params=[{}, THINNER], ids=['whole', 'thinned'])
def session(request, tmp_path_factory):
    """(parameters, path, messages, graph) of a session with a state, increments and a map."""
    folder = tmp_path_factory.mktemp('session')
    parameters, messages = simulated(folder / 'bag', minutes=0.09)
    parameters, half = {**parameters, **request.param}, len(messages) // 2
    run = Run(parameters, folder / 'journal').play(messages[:half])
    run.take(full=True)
    run.play(messages[half:], half, flush=True)
    solver = Session(run.config)
    solver.add(merged(run.increments), first=0)
    run.recording.keep_map(KeptMap(
        wire.verdict_message(solver.auditor.audit(), wire.Answer(0, -1)), 3,
        run.frontend.thinnings))
    run.close()
    assert bool(run.frontend.thinnings) == bool(request.param)
    # Its number goes with the map.
    assert kept(folder / 'journal').epoch == 3
    path, = (folder / 'journal').glob('*.journal')
    return parameters, path, len(messages), run.graph


def test_no_damaged_byte_brings_anything_wrong(session, tmp_path):
    _, path, count, _ = session
    data, sound = path.read_bytes(), {str(one) for one in journal.read(path)[0]}
    told = read = 0
    # Also in the schema, and where the database looks for records.
    places = [*range(80, 120), *range(4040, 4096), *range(8136, 8192)]
    places += np.random.default_rng(1).integers(0, len(data), 400).tolist()
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        copy = tmp_path / path.name
        copy.write_bytes(bytes(changed))
        try:
            found = newest(tmp_path)
        except SparserError:
            told += 1
            continue
        assert {str(one) for one in found.records} <= sound
        assert found.notes or (found.kept is not None and found.messages == count)
        read += 1
    assert read > 200 and told > 20


def test_a_damaged_schema_that_is_no_text_is_told(session, tmp_path):
    _, path, _, _ = session
    data = path.read_bytes()
    place = data.lower().index(b'create table') + 3
    copy = tmp_path / path.name
    copy.write_bytes(data[:place] + b'\xd4' + data[place + 1:])
    with pytest.raises(SparserError, match='cannot be read: its schema is damaged'):
        journal.read(copy)


def damaged(path, folder, statement, kind):
    """A copy of a journal after a statement about a kind of record."""
    copy = folder / path.name
    shutil.copyfile(path, copy)
    with contextlib.closing(journal._opened(copy)) as database:
        database.execute(statement, (kind,))
    return copy


@pytest.mark.parametrize('kind', [MESSAGES, 'map'])
def test_a_session_with_a_damaged_record_goes_on_in_another_file(session, tmp_path, kind):
    parameters, path, _, graph = session
    copy = damaged(path, tmp_path, "update records set data = x'00' where number = "
                   '(select max(number) from records where kind = ?)', kind)
    before = copy.read_bytes()
    run = Run(parameters, tmp_path, resume=True).close()
    assert 'damaged' in run.start.notes[0] and copy.read_bytes() == before
    assert same(run.graph, graph) == (kind != MESSAGES)
    again = Run(parameters, tmp_path, resume=True).close()
    assert same(again.graph, run.graph) and not again.start.notes


@pytest.mark.parametrize('kind', [GRAPH, STATE])
def test_without_a_state_it_says_which_file_is_damaged(session, tmp_path, kind):
    parameters, path, _, _ = session
    copy = damaged(path, tmp_path, 'delete from records where kind = ?', kind)
    run = Run(parameters, tmp_path, resume=True).close()
    finding, = run.recording.findings
    assert f'{copy} is damaged' in finding.text and 'restore it' in finding.text
