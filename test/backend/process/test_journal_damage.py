"""Every 97th byte in turn of all files that a resume reads: nothing wrong is taken over."""

import hashlib
import re
import shutil

import pytest
from journal_world import Run, kept, same_graph, simulated

from sparser_ros.backend.process import recording, wire
from sparser_ros.backend.process.journal import BEGIN, GRAPH, MESSAGES, STATE, Files, scan
from sparser_ros.backend.process.worker import KeptMap
from sparser_ros.backend.session.session import Session

STEP = 97
THINNED = {'keyframes': {'max_count': 16, 'distance_m': 0.2}, 'odometry': {'history_s': 2.0}}


@pytest.fixture(scope='module', params=[{}, THINNED], ids=['whole', 'thinned'])
def session(request, tmp_path_factory):
    """(parameters, folder, messages, graph) of a session with states, increments and a map."""
    folder = tmp_path_factory.mktemp('session')
    parameters, messages = simulated(folder / 'bag', minutes=0.09)
    parameters, third = {**parameters, **request.param}, len(messages) // 3
    run = Run(parameters, folder / 'journal')
    for begin in (0, third):
        run.play(messages[begin:begin + third], begin).take(full=True)
    run.play(messages[2 * third:], 2 * third, flush=True)
    solver = Session(run.config)
    begin = 0
    for one in run.increments:
        solver.add(one, first=begin)
        begin = one.sequence + 1
    run.recording.keep_map(KeptMap(
        wire.verdict_message(solver.auditor.audit(), wire.Answer(0, -1)), 3,
        run.frontend.thinnings))
    run.close()
    assert [path.suffix for path in sorted((folder / 'journal').iterdir())] == [
        '.map', '.journal', '.journal', '.lock']
    assert bool(run.frontend.thinnings) == bool(request.param)
    return parameters, folder / 'journal', len(messages), run.graph


def outcome(found):
    """What a resume goes on with, as something that can be compared and counted."""
    digest = hashlib.sha256((found.state or {}).get('front_end', b''))
    for one in found.increments:
        digest.update(wire.increment_message(one))
    return digest.hexdigest(), tuple(one.number for one in found.records), found.kept is not None


def test_no_byte_of_any_file_costs_more_than_its_record_or_brings_anything_wrong(
        session, tmp_path, monkeypatch):
    parameters, folder, count, graph = session
    # Read once: opening thousands of times is what takes long.
    contents = {path: path.read_bytes() for path in folder.iterdir() if path.suffix != '.lock'}
    sessions, seen = Files(folder, 1e3).sessions(), {}
    sound = [one for data in contents.values() for one, _ in scan(data)]
    for path, data in contents.items():
        records = list(scan(data))
        for place in range(0, len(data), STEP):
            changed = bytearray(data)
            changed[place] ^= 1 << place % 8
            with monkeypatch.context() as patch:
                patch.setattr(type(path), 'read_bytes', lambda one: (
                    bytes(changed) if one == path else contents[one]))  # noqa: B023
                found = recording.newest(sessions)
            lost = count - sum(found.topics.values())
            hit = next(one for one, end in records if place < end)
            count_of_hit = len(hit.body) if hit.kind == MESSAGES else 0
            assert lost in {0, count_of_hit}, (path.name, place)
            assert all(one in sound for one in found.records), (path.name, place)
            gone = path.suffix == '.map'
            assert (found.kept is None) == gone
            assert bool(found.notes) == (lost > 0 or gone), (path.name, place)
            if gone:
                assert path.name in found.notes[0]
            if not lost:
                seen.setdefault(outcome(found), (path, bytes(changed)))
    assert 2 <= len(seen) <= 3, 'the newest state or the one before it, with or without the map'
    for number, (path, changed) in enumerate(seen.values()):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        (copy / path.name).write_bytes(changed)
        assert same_graph(Run(parameters, copy, resume=True).close().graph, graph), path.name


def without(folder, copy, kind, newest=False):
    """A copy of a session in which records of a kind are damaged, all or those of the last file."""
    shutil.copytree(folder, copy)
    for path in sorted(copy.glob('*.journal'))[-1 if newest else 0:]:
        data, begin = bytearray(path.read_bytes()), 0
        for one, begin in scan(bytes(data)):
            if one.kind == kind:
                data[begin - 1] ^= 1
        assert begin
        path.write_bytes(bytes(data))
    return {path.name: path.read_bytes() for path in copy.glob('*.journal')}


@pytest.mark.parametrize('kind', [GRAPH, STATE])
def test_what_is_gone_is_found_in_the_state_before(session, tmp_path, kind):
    parameters, folder, _, graph = session
    without(folder, tmp_path / 'copy', kind, newest=True)
    run = Run(parameters, tmp_path / 'copy', resume=True).close()
    assert same_graph(run.graph, graph) and not run.start.notes
    assert kept(folder).messages == run.start.messages


@pytest.mark.parametrize(('kind', 'words'), [
    (GRAPH, r'sparser-0+-0+1.journal, sparser-0+-0+2.journal are damaged or missing.*restore'),
    (BEGIN, 'its configuration cannot be read')])
def test_without_any_it_says_which_files_are_damaged(session, tmp_path, kind, words):
    parameters, folder, _, _ = session
    before = without(folder, tmp_path / 'copy', kind)
    run = Run(parameters, tmp_path / 'copy', resume=True).close()
    finding, = run.recording.findings
    assert re.search(words, finding.text), finding.text
    assert {name: (tmp_path / 'copy' / name).read_bytes() for name in before} == before
