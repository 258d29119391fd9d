"""What contradicts an audit, and what is only noise or too little to matter."""

from types import SimpleNamespace

import numpy as np
import pytest
from backend_world import World, graph_of

from sparser_ros.backend.integrity.doubts import Rows
from sparser_ros.backend.integrity.faults import BURST, stretch
from sparser_ros.backend.integrity.gate import _beyond_robust, denying
from sparser_ros.backend.session.graph_store import GraphStore
from sparser_ros.backend.session.solution import Location
from sparser_ros.backend.session.treatment import Treatment
from sparser_ros.backend.session.trust import contradictions, locations
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import squared_residuals
from sparser_ros.graph.parts import find_segments


@pytest.mark.parametrize(('misfit', 'count'), [
    ([], 0), ([1] * 4, 0), ([1] * 5, 5), ([1] * 40, 40), ([1, 1, 0] * 8, 23), ([1, 0] * 20, 39),
    ([0] * 10 + [1] * 40, 0), ([0] * 2 + [1] * 8, 10)])
def test_only_measurements_that_fail_together_and_now_deny_a_map(misfit, count):
    assert denying(np.array(misfit, dtype=bool), 0.1) == count


def test_where_many_fail_at_all_times_more_must_fail():
    six = np.ones(6, dtype=bool)
    assert denying(six, 0.1) and not denying(six, 0.4)
    # With more than half of them wrong no robust estimate is sure.
    assert denying(six, 0.51) == 6


@pytest.mark.parametrize('usual', [0.0, 0.1, 0.4])
def test_the_usual_share_denies_nothing_however_often_one_looks(usual):
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(20):
        misfit = rng.random(1000) < usual
        alarms += any(denying(misfit[first:], usual) for first in range(0, 800, 3))
    assert alarms <= 2


@pytest.fixture(scope='module')
def world():
    return World(['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 7], [-4, 1]], steps=60)


@pytest.mark.parametrize('left_out', [False, True])
def test_ranges_that_are_left_out_speak_as_well(world, left_out):
    """Of a robot that only its odometry carries nothing confirms the place."""
    store = GraphStore(2)
    for one in world.increments(6):
        store.add(one)
    ranges, moved = store.whole.ranges, world.truth.translation.copy()
    late = np.arange(len(moved)) >= world.row(1, 50)
    moved[late & (store.whole.poses.robot == 1)] += 3.0
    off = type(world.truth)(world.truth.rotation, moved, world.truth.landmarks)
    own = np.flatnonzero([np.isin(np.arange(len(moved)), [end]).any() and late[end] and
                          store.whole.poses.robot[end] == 1 for end in ranges.source])
    if left_out:
        store.treat(Treatment((stretch(BURST, 'B', own, store.whole),)))
    graph = store.graph
    rows = {name: np.arange(len(table)) for name, table in graph.tables().items()}
    verdict = SimpleNamespace(segments=())
    assert contradictions(
        store, world.truth, rows, squared_residuals(graph, world.truth), verdict) == {}
    said = contradictions(store, off, rows, squared_residuals(graph, off), verdict)
    assert 'newest measurements of B do not fit' in said['B']


@pytest.mark.parametrize('news', [True, False])
@pytest.mark.parametrize('age_s', [59.0, 61.0])
def test_an_audit_is_stale_only_where_measurements_came_that_it_has_not_seen(world, age_s, news):
    graph = graph_of(world.increments(1), 2)
    segments = find_segments(graph)
    verdict = SimpleNamespace(
        withheld='', gate_reasons=(), gate_robots=(), newest_stamp_ns=7, segments=tuple(
            SimpleNamespace(first=int(first), robot=robot, location=Location.LOCATED, missing='')
            for first, robot in zip(segments.first, graph.robots, strict=True)))
    states = locations(
        graph, segments, verdict, {}, 7 + int(age_s * 1e9),
        SparserConfig(robots=list(graph.robots)), news)
    stale = news and age_s > 60.0
    assert [state.location for state in states] == [
        Location.UNLOCATED if stale else Location.LOCATED] * 2
    assert all(('61 s old' in state.missing) is stale for state in states)


@pytest.mark.parametrize(('wrong', 'sigma', 'words'), [
    (0.3, 1.0, ''), (0.7, 1.0, 'do not fit'), (0.0, 5.0, 'times their noise')])
def test_what_no_robust_estimate_survives_is_beyond_it_however_usual(wrong, sigma, words):
    rng = np.random.default_rng(2)
    whitened = sigma * rng.normal(size=200)
    whitened[rng.random(200) < wrong] = 20.0
    rows = Rows(0.1 * whitened, whitened, np.abs(whitened) > 3.3 * sigma)
    reason = _beyond_robust(rows, np.ones(200, dtype=bool))
    assert words in reason and bool(reason) == bool(words)
    assert not _beyond_robust(rows, np.zeros(200, dtype=bool))
