"""Every 97th byte in turn of all files that a resume reads: nothing wrong is taken over."""

import hashlib
import shutil

import numpy as np
import pytest
from journal_world import Run, same_graph, simulated

from sparser_ros.backend.process import journal_records, wire
from sparser_ros.backend.process.journal import Files
from sparser_ros.backend.process.journal_records import scan
from sparser_ros.backend.process.worker import KeptMap
from sparser_ros.backend.session.session import Session
from sparser_ros.config import SparserError

STEP = 97
THINNED = {'keyframes': {'max_count': 16, 'distance_m': 0.2}, 'odometry': {'history_s': 2.0}}


@pytest.fixture(scope='module', params=[{}, THINNED], ids=['whole', 'thinned'])
def kept(request, tmp_path_factory):
    """(parameters, folder, messages, graph) of a session with states, increments and a map."""
    folder = tmp_path_factory.mktemp('session')
    parameters, messages = simulated(folder / 'bag', minutes=0.09)
    parameters, third = {**parameters, **request.param}, len(messages) // 3
    run = Run(parameters, folder / 'journal')
    for begin in (0, third):
        run.play(messages[begin:begin + third], begin)
        run.take()
        run.checkpoint()
    run.play(messages[2 * third:], 2 * third, flush=True)
    session = Session(run.config)
    begin = 0
    for one in run.increments:
        session.add(one, first=begin)
        begin = one.sequence + 1
    verdict = session.auditor.audit()
    run.journal.keep_map(KeptMap(
        wire.verdict_message(verdict, wire.Answer(0, -1)), 3, run.frontend.thinnings))
    run.close()
    kinds = {path.suffix for path in (folder / 'journal').iterdir()}
    assert kinds == {'.journal', '.graph', '.map', '.lock'}
    assert bool(run.frontend.thinnings) == bool(request.param)
    return parameters, folder / 'journal', len(messages), run.graph


def outcome(session, increments):
    """What a resume goes on with, as something that can be compared and counted."""
    digest = hashlib.sha256(session.front_end)
    for one in session.increments if increments else ():
        digest.update(wire.increment_message(one))
    return (digest.hexdigest(), tuple(one.sequence for one in session.increments),
            tuple(one.number for one in session.records), session.kept is not None)


class InMemory:
    """The files of a folder, read once: opening thousands of times is what takes long."""

    def __init__(self, folder):
        self.contents = {path: path.read_bytes() for path in sorted(folder.iterdir())
                         if path.suffix != '.lock'}
        self._sessions = Files(folder, 1e3).sessions()

    def sessions(self):
        """As `Files` has it."""
        return self._sessions

    def damaged(self, monkeypatch, path, place, bit):
        """(session, bytes) with one byte of one file altered."""
        whole = self.contents[path]
        bad = whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1:]
        with monkeypatch.context() as patch:
            patch.setattr(type(path), 'read_bytes', lambda one: (
                bad if one == path else self.contents[one]))
            return journal_records.newest(self.sessions()), bad


def messages_at(data):
    """(ends, counts): where records of a file end, and the messages in each."""
    sizes, counts = [], []
    for one in scan(data):
        sizes.append(journal_records.HEAD_SIZE + len(one.body))
        counts.append(one.count if one.kind == journal_records.MESSAGES else 0)
    return np.cumsum(sizes), counts


def test_no_byte_of_any_file_costs_more_than_its_record_or_brings_anything_wrong(
        kept, tmp_path, monkeypatch):
    """Of a thinned session the increments, which alone are others."""
    parameters, folder, count, graph = kept
    files = InMemory(folder)
    sound = {one.body for data in files.contents.values() for one in scan(data)}
    seen = {}
    for path, data in files.contents.items():
        if 'keyframes' in parameters and path.suffix != '.graph':
            continue
        ends, counts = messages_at(data)
        for place in range(0, len(data), STEP):
            session, changed = files.damaged(monkeypatch, path, place, 1 << place % 8)
            lost = count - sum(session.topics.values())
            record = int(np.searchsorted(ends, place, side='right'))
            assert lost in {0, counts[record]}, (path.name, place)
            assert all(one.body in sound for one in session.records), (path.name, place)
            gone = path.suffix == '.map'
            assert (session.kept is None) == gone
            assert bool(session.losses) == (lost > 0 or gone), (path.name, place)
            if gone:
                assert path.name in session.losses[0]
            if not lost:
                seen.setdefault(
                    outcome(session, path.suffix == '.graph'), (path, changed))
    if 'keyframes' not in parameters:
        # Of journals and map: the newest state, or the one before it; with the map, or without.
        assert len({state for state, *_ in seen}) >= 2 and {with_map for *_, with_map in seen} == {
            True, False}
    for number, (path, changed) in enumerate(seen.values()):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        (copy / path.name).write_bytes(changed)
        run = Run(parameters, copy, resume=True)
        assert same_graph(run.graph, graph), path.name
        run.close()
    assert len(seen) <= 4, 'whatever the byte, it is one of these'


def test_increments_that_are_gone_are_found_in_the_state_before(kept, tmp_path):
    parameters, folder, _, graph = kept
    shutil.copytree(folder, tmp_path / 'copy')
    newest = sorted((tmp_path / 'copy').glob('*.graph'))[-1]
    newest.write_bytes(newest.read_bytes()[:50])
    run = Run(parameters, tmp_path / 'copy', resume=True)
    assert same_graph(run.graph, graph) and not run.start.notes
    run.close()


def test_without_any_increments_it_says_which_files_are_damaged(kept, tmp_path):
    parameters, folder, _, _ = kept
    copy = tmp_path / 'copy'
    shutil.copytree(folder, copy)
    for path in copy.glob('*.graph'):
        path.write_bytes(path.read_bytes()[:50])
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with pytest.raises(SparserError, match=r'sparser-0+-0\d+\.graph.*restore'):
        Run(parameters, copy, resume=True)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before
