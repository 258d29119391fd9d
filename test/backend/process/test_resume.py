"""A front-end goes on after a crash as if there had been none."""

import contextlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from graphs import random_graph
from journal_world import Run, messages_of, no_objects, same_graph, simulated

from sparser_ros.backend.process import wire
from sparser_ros.backend.process.journal_records import (
    MAP,
    STATE,
    Record,
    map_in,
    map_record,
    pack,
)
from sparser_ros.backend.process.recording import Recording
from sparser_ros.backend.process.worker import KeptMap
from sparser_ros.backend.session.solution import Location, SegmentVerdict, VerdictKind
from sparser_ros.backend.session.treatment import Ruling, Rulings
from sparser_ros.config import SparserConfig, SparserError
from sparser_ros.io import graph_bag
from sparser_ros.io.graph_bag import node_config

NOBODY = 65534
"""A user who owns nothing; permissions do not bind the first one."""


@pytest.fixture(scope='module')
def recording(tmp_path_factory):
    return simulated(tmp_path_factory.mktemp('bag') / 'bag')


@pytest.fixture(scope='module')
def undisturbed(recording):
    parameters, messages = recording
    return Run(parameters).play(messages, flush=True)


@pytest.mark.parametrize('segment_mb', [64.0, 0.1])
def test_a_run_in_pieces_gives_the_graph_of_the_whole(
        tmp_path, recording, undisturbed, segment_mb):
    parameters, messages = recording
    rng = np.random.default_rng(1)
    ends = [10, *sorted(rng.integers(10, len(messages), 4).tolist()), len(messages)]
    begin = 0
    for end in ends:
        run = Run(parameters, tmp_path, resume=True, segment_mb=segment_mb)
        assert run.start.messages == begin and not run.start.notes
        run.play(messages[begin:end], begin, flush=end == len(messages))
        run.close()
        begin = end
    assert same_graph(run.graph, undisturbed.graph)
    assert run.frontend.counters.as_dict() == undisturbed.frontend.counters.as_dict()
    back = Run(parameters, tmp_path, resume=True, segment_mb=segment_mb)
    assert same_graph(back.graph, undisturbed.graph)
    back.close()


THIN = {'keyframes': {'max_count': 40, 'distance_m': 0.3}, 'odometry': {'history_s': 2.0}}


@pytest.mark.parametrize('segment_mb', [64.0, 0.1])
def test_a_thinned_graph_is_thinned_alike_after_a_crash(tmp_path, recording, segment_mb):
    parameters, messages = recording
    parameters = {**parameters, **THIN}
    whole = Run(parameters).play(messages, flush=True)
    assert whole.frontend.thinnings >= 3 and whole.graph.n_poses <= 45
    rng, begin = np.random.default_rng(2), 0
    ends = [10, *sorted(rng.integers(10, len(messages), 4).tolist()), len(messages)]
    for end in ends:
        run = Run(parameters, tmp_path, resume=True, segment_mb=segment_mb)
        assert run.start.messages == begin and not run.start.notes
        run.play(messages[begin:end], begin, flush=end == len(messages))
        run.close()
        begin = end
    assert run.frontend.thinnings == whole.frontend.thinnings
    assert same_graph(run.graph, whole.graph)
    back = Run(parameters, tmp_path, resume=True, segment_mb=segment_mb)
    assert same_graph(back.graph, whole.graph)
    back.close()


def test_a_thinned_graph_survives_the_loss_of_the_newest_state(tmp_path, recording):
    parameters, messages = recording
    parameters = {**parameters, **THIN}
    whole = Run(parameters).play(messages, flush=True)
    Run(parameters, tmp_path, segment_mb=0.1).play(messages, flush=True).close()
    assert len(list(tmp_path.glob('*.graph'))) < 6, 'graphs before the last thinnings are gone'
    newest = sorted(tmp_path.glob('*.journal'))[-1]
    newest.unlink()
    run = Run(parameters, tmp_path, resume=True)
    assert 0 < run.frontend.thinnings <= whole.frontend.thinnings
    assert run.graph.validate().n_poses <= 45
    run.close()


def test_every_state_of_a_session_is_kept_twice(tmp_path, recording, undisturbed):
    parameters, messages = recording
    Run(parameters, tmp_path, segment_mb=0.1).play(messages, flush=True).close()
    newest = sorted(tmp_path.glob('*.journal'))[-1]
    graph = sorted(tmp_path.glob('*.graph'))[0]
    for path in (newest, graph):
        whole = path.read_bytes()
        for place in np.linspace(0, min(len(whole), 60_000) - 1, 7).astype(int):
            damaged = bytearray(whole)
            damaged[place] ^= 0xFF
            path.write_bytes(bytes(damaged))
            run = Run(parameters, tmp_path, resume=True)
            if not any('messages' in note for note in run.start.notes):
                assert same_graph(run.graph, undisturbed.graph), (path, place)
            run.close()
            for extra in set(tmp_path.glob('*')) - {newest}:
                if extra.name > newest.name and extra.suffix != '.lock':
                    extra.unlink()
        path.write_bytes(whole)


def test_waiting_ranges_and_counts_survive(tmp_path, recording):
    parameters, messages = recording
    run = Run(parameters, tmp_path).play(messages[:333])
    waiting = run.frontend.counters.as_dict()
    assert waiting['ranges']['waiting'] > 0
    run.close()
    back = Run(parameters, tmp_path, resume=True)
    assert back.frontend.counters.as_dict() == waiting
    assert back.frontend.newest_stamp_ns == run.frontend.newest_stamp_ns
    back.close()


def test_a_reset_begins_a_session_of_its_own(tmp_path, recording):
    parameters, messages = recording
    run = Run(parameters, tmp_path).play(messages[:300])
    positions = {'L0': [1.0, 2.0]}
    run.journal.restart({'config': json.loads(json.dumps(
        run.start.begin['config'])), 'positions': positions})
    run.frontend.reset(keep_beacons=True, positions=positions)
    run.increments.clear()
    run.play(messages[300:700], 300)
    run.close()
    back = Run(parameters, tmp_path, resume=True)
    assert same_graph(back.graph, run.graph) and len(back.graph.point_priors)
    back.close()


def test_other_robots_are_refused_and_other_values_are_named(tmp_path, recording):
    parameters, messages = recording
    Run(parameters, tmp_path).play(messages[:100]).close()
    with pytest.raises(SparserError, match='the journal holds robots A, B'):
        Run({**parameters, 'robots': ['A', 'C']}, tmp_path, resume=True)
    changed = {**parameters, 'ranges': {**parameters.get('ranges', {}), 'sigma_m': 0.77}}
    again = tmp_path.with_name('again')
    Run(parameters, again).play(messages[:100]).close()
    run = Run(changed, again, resume=True)
    assert 'ranges.sigma_m' in run.start.notes[0] and '0.77' in run.start.notes[0]
    run.close()


def test_nothing_to_resume_is_a_fresh_start(tmp_path, recording):
    run = Run(recording[0], tmp_path / 'new', resume=True)
    assert run.start.session is None and not run.increments
    run.close()


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
    config = SparserConfig.from_mapping({**parameters, 'node': {'journal': {'resume': True}}})
    Recording(config, folder, no_objects).close()  # what is imported late must be there
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    replayed = Run(parameters)
    with only_reading():
        kept = Recording(config, folder, no_objects)
        replayed.increments = kept.resumed.increments
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
    run.journal.rule(first.values())
    run.play(messages[100:half], 100)
    run.journal.rule(second.values())
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
    run.journal.rule(rulings.values())
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


def test_landmark_sightings_are_kept_like_everything_else(tmp_path):
    graph = random_graph(1, length=60, levers=False, ranges=0, sightings=50)
    graph_bag.write(tmp_path / 'bag', graph)
    parameters = node_config(graph)
    messages = messages_of(tmp_path / 'bag', parameters)
    whole = Run(parameters).play(messages, flush=True)
    assert len(whole.graph.sightings) == 50
    half, folder = len(messages) // 2, tmp_path / 'journal'
    run = Run(parameters, folder, segment_mb=0.1).play(messages[:half])
    run.close()
    run = Run(parameters, folder, resume=True, segment_mb=0.1)
    assert run.start.messages == half and not run.start.notes
    run.play(messages[half:], half, flush=True).close()
    assert same_graph(run.graph, whole.graph)
    assert run.frontend.counters.as_dict() == whole.frontend.counters.as_dict()


def test_a_map_of_the_first_layout_is_read(tmp_path):
    """Verdicts were written field by field once, the newer fields missing in the oldest."""
    located = np.array([True])
    values = {
        'answer': {'generation': 0, 'request': 4, 'audit': 1}, 'kind': 'agree', 'sequence': 7,
        'request': -1, 'newest_stamp_ns': 9, 'anchored': True, 'gauge_name': None, 'message': '',
        'placed': ['segment 0', 'L0'], 'status': 'converged', 'odometry_factors': {'A': 2.0},
        'segments': [[0, 'A', 'located', '', 0.25]], 'findings': [['k', 'A', 'text', 1.0, 'm']],
        'stats': {'rank': 2, 'init': 'file', 'formulation': 'schur', 'backend': 'cpu',
                  'kernel': 'gm', 'seconds': {'solve': 0.5}, 'trace': [[0.1, 2.0]]},
        'gate_reasons': [], 'gate_robots': [['B', 'why']], 'held_sources': ['B'],
        'held_lengths': {'B': [0.3, 5.0]}, 'quarantined': [[3, 1]], 'biases': {'B': 0.1},
        'noise': [['ranges', 'B', 0.5]],
        'rulings': {'revision': 2, 'entries': [
            {'action': 'ignore', 'kind': 'pair', 'names': ['A', 'L0'], 'begin_ns': 3,
             'end_ns': 4}]}}
    arrays = {
        'rotation': np.eye(2)[None], 'translation': np.ones((1, 2)), 'landmarks': np.zeros((1, 2)),
        'landmark_located': located, 'doubted_ranges': np.array([5]),
        'weights.ranges': np.array([0.5])}
    body = wire.encode('verdict', values, arrays)
    path = tmp_path / 'sparser-000000-000000.map'
    path.write_bytes(pack(Record(STATE, 0, 0, 0, 0, 0, body)))
    kept, losses = map_in([path])
    verdict = kept.verdict
    assert not losses and (kept.epoch, kept.thinnings) == (4, 1)
    assert (verdict.kind, verdict.sequence) == (VerdictKind.AGREE, 7)
    assert verdict.segments == (SegmentVerdict(0, 'A', Location.LOCATED, '', 0.25),)
    assert verdict.estimate.translation.tolist() == [[1.0, 1.0]]
    assert verdict.stats.weights['ranges'].tolist() == [0.5]
    assert verdict.stats.seconds == {'solve': 0.5} and verdict.stats.trace == ((0.1, 2.0),)
    treatment = verdict.treatment
    assert treatment.radio_errors.bias_m == {'B': 0.1} and verdict.undetected is None
    assert verdict.noise.log_factor == {('ranges', 'B'): 0.5}
    # Rows of a graph are forgotten; what B measures since is held back still.
    assert [(one.kind, one.subject, one.held_ns) for one in treatment.faults] == [
        ('range_burst', 'B', 9)]
    assert verdict.odometry_factors == {'A': 2.0} and treatment.quarantined == ((3, 1),)
    assert treatment.rulings.entries == (Ruling('ignore', 'pair', ('A', 'L0'), 3, 4),)
    newer = KeptMap(wire.verdict_message(verdict, wire.Answer(0, -1)), 4, 1)
    path.write_bytes(pack(map_record(newer)))
    back, _ = map_in([path])
    assert (back.epoch, back.thinnings) == (4, 1) and repr(back.verdict) == repr(verdict)
    path.write_bytes(pack(Record(MAP, 1, 4, 0, 0, 0, wire.message('verdict', verdict=newer.epoch))))
    none, losses = map_in([path])
    assert none is None and 'solved anew' in losses[0]


def test_a_journal_that_cannot_be_resumed_stays_and_another_session_begins(tmp_path, recording):
    parameters, messages = recording
    Run(parameters, tmp_path).play(messages[:50]).close()
    before = {path.name: path.read_bytes() for path in tmp_path.glob('*.journal')}
    config = SparserConfig.from_mapping(
        {**parameters, 'robots': ['A', 'C'], 'node': {'journal': {'resume': True}}})
    kept = Recording(config, tmp_path, no_objects)
    finding, = kept.findings
    assert 'not resumed, a new map begins' in finding.text
    assert kept.resumed.session is None
    kept.close()
    after = {path.name: path.read_bytes() for path in tmp_path.glob('*.journal')}
    assert len(after) == len(before) + 1 and all(after[name] == before[name] for name in before)
