"""A front-end goes on after a crash as if there had been none."""

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from journal_world import Run, no_objects, same_graph, simulated

from sparser_ros.backend.process.recording import Recording
from sparser_ros.backend.session.treatment import Ruling, Rulings

NOBODY = 65534
"""A user who owns nothing; permissions do not bind the first one."""


@pytest.fixture(scope='module')
def recording(tmp_path_factory):
    return simulated(tmp_path_factory.mktemp('bag') / 'bag')


THIN = {'keyframes': {'max_count': 40, 'distance_m': 0.3}, 'odometry': {'history_s': 2.0}}


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
        assert run.start.messages == begin and not run.start.notes
        run.play(messages[begin:end], begin, flush=end == len(messages)).close()
        begin = end
    back = Run(parameters, tmp_path, resume=True, segment_mb=segment_mb).close()
    for one in (run, back):
        assert same_graph(one.graph, whole.graph)
        assert one.frontend.counters.as_dict() == whole.frontend.counters.as_dict()
        assert one.frontend.thinnings == whole.frontend.thinnings


def test_a_reset_begins_a_session_of_its_own(tmp_path, recording):
    parameters, messages = recording
    run = Run(parameters, tmp_path).play(messages[:300])
    positions = {'L0': [1.0, 2.0]}
    run.recording.restart(run.config, positions, run.start.rulings)
    run.frontend.reset(keep_beacons=True, positions=positions)
    run.increments.clear()
    run.play(messages[300:700], 300).close()
    back = Run(parameters, tmp_path, resume=True).close()
    assert same_graph(back.graph, run.graph) and len(back.graph.point_priors)


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


def test_nothing_to_resume_is_a_fresh_start(tmp_path, recording):
    run = Run(recording[0], tmp_path / 'new', resume=True).close()
    assert not run.recording.resumed and not run.increments and not run.recording.findings


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
    """A new map began without a word. Once the disk can be written again the journal goes on."""
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
        assert same_graph(replayed.graph, run.graph)
        end = time.monotonic() + 60
        while not kept.findings and time.monotonic() < end:
            time.sleep(0.02)
        finding, = kept.findings
        assert finding.kind == 'journal_failed' and 'nothing new is kept' in finding.text
        assert 'Permission denied' in finding.text
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
    again = Run(parameters, tmp_path, resume=True, segment_mb=segment_mb)
    assert again.start.rulings == second
    again.close()


def test_one_damaged_byte_of_a_ruling_costs_nothing(tmp_path, recording):
    parameters, messages = recording
    rulings = Rulings().with_ruling(Ruling('ignore', 'robot', ('B',)))
    run = Run(parameters, tmp_path)
    run.play(messages[:200])
    run.recording.rule(rulings)
    run.close()
    path = sorted(tmp_path.glob('*.journal'))[-1]
    whole = path.read_bytes()
    tail = whole.rindex(b'ignore')
    for place in (tail, whole[:tail].rindex(b'ignore')):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(bytes(damaged))
        run = Run(parameters, tmp_path, resume=True)
        assert run.start.rulings == rulings, place
        run.close()
        for extra in tmp_path.glob('*'):
            if extra.suffix != '.lock' and extra.name > path.name:
                extra.unlink()
