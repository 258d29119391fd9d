"""What the operator ignores or doubts is out of the map, or light in it, until it is revived."""

import dataclasses

import numpy as np
import pytest
from backend_world import config, filled, graph_of, lived, longer, pair_world, ticks, two_robots

from sparser_ros.backend.integrity.noise import Noise
from sparser_ros.backend.session.graph_store import GraphStore, merged
from sparser_ros.backend.session.rulings import Ruling, Rulings, count
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location, unused_of
from sparser_ros.backend.session.treatment import Treatment
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph import Heights, RelativePoses, Verticals

SECOND = 10**9


def world(steps=24):
    return two_robots(steps=steps, seed=3)


def closure(one, i, j):
    new = RelativePoses(
        np.array([i]), np.array([j]), np.eye(2)[None], np.array([[1.0, 0.0]]), np.array([1e4]),
        np.array([1e4]), np.array([False]), np.array([7 * SECOND]))
    return one.replaced(relative_poses=one.relative_poses.append(new))


def ignore(kind, *names, **window):
    return Rulings().with_ruling(Ruling('ignore', kind, names, **window))


@pytest.mark.parametrize(('kind', 'names', 'seconds', 'wanted'), [
    ('radio', 'B', (), 24 * 5), ('radio', 'L1', (), 24 * 2), ('pair', 'L1 B', (), 24),
    ('pair', 'A B', (), 24), ('beacon', 'L1', (), 24 * 2), ('robot', 'A', (), 24 * 5 + 1),
    ('closure', 'B A', (), 1), ('closure', 'B', (), 1), ('odometry', 'A', (), 23),
    ('radio', 'unheard', (), 0),
    # Both ends of a stretch of time count, in stamps of measurements.
    ('pair', 'A L0', (2.5, 6), 8), ('pair', 'A L0', (2.5,), 21), ('closure', 'A B', (7, 7), 1),
    ('closure', 'A B', (7.001,), 0)])
def test_a_ruling_names_measurements_by_their_ends_and_time(kind, names, seconds, wanted):
    parts = world().increments(4)
    graph = graph_of([*parts[:3], closure(parts[3], 4, 11)])
    window = [round(s * SECOND) for s in seconds]
    assert count(Ruling('ignore', kind, tuple(names.split()), *window), graph) == wanted


def test_newest_increments_count_as_in_the_whole_graph():
    """The tracker adds increments one by one; the sum is what the auditor solves."""
    parts = world().increments(6)
    rulings = ignore('pair', 'B', 'L2').with_ruling(Ruling('doubt', 'radio', ('A',)))
    rulings = rulings.with_ruling(Ruling('doubt', 'odometry', ('B',)))
    store = filled(GraphStore(2), parts[:3])
    store.treat(Treatment(rulings=rulings, noise=Noise({
        ('ranges', ''): 1.4, ('odometry', 'A'): -0.7})))
    before = store.graph
    filled(store, parts[3:])
    news = store.newest(merged(parts[3:]))
    for name, table in store.graph.tables().items():
        head, tail = getattr(before, name), getattr(news, name)
        for column in table.columns():
            joined = np.concatenate([getattr(head, column), getattr(tail, column)])
            assert np.array_equal(joined, getattr(table, column)), (name, column)
    assert len(store.graph.ranges) == len(store.whole.ranges) - 24
    rows = store.original('ranges', np.arange(len(store.graph.ranges)))
    assert np.array_equal(store.whole.ranges.distance_m[rows], store.graph.ranges.distance_m)
    ratio = store.whole.ranges.precision[rows] / store.graph.ranges.precision
    assert set(ratio.tolist()) == {1.0, 100.0}


def test_a_ruling_replaces_older_ones_and_is_revived_by_name():
    rulings = ignore('pair', 'A', 'B', begin_ns=5, end_ns=9)
    rulings = rulings.with_ruling(Ruling('doubt', 'pair', ('B', 'A')))
    assert [one.action for one in rulings.entries] == ['doubt'] and rulings.revision == 2
    assert rulings.revived(Ruling('revive', 'pair', ('A', 'C'))) is rulings
    assert rulings.revived(Ruling('revive', 'pair', ('A', 'B'), 1, 2)) is rulings
    assert not rulings.revived(Ruling('revive', 'pair', ('A', 'B'))).entries
    short = rulings.with_ruling(Ruling('ignore', 'radio', ('A',), end_ns=9))
    assert [one.kind for one in short.lasting().entries] == ['pair']
    assert not short.cleared().entries and short.cleared().revision > short.revision
    assert Rulings.from_values(None) == Rulings()


def test_the_map_is_that_without_what_is_ignored_and_comes_back_when_it_is_revived():
    true = world(30)
    honest = true.increments(6)
    # Ranges of B to beacons are too long by a different length each.
    parts = [longer(one, np.where(
        (one.ranges.source % 2 == 1) & (one.ranges.target < 0),
        2.0 * (1 + ~one.ranges.target % 3), 0.0)) for one in honest]
    # The auditor leaves out what it finds faulty by itself: here the operator is to do that.
    options = config(integrity=IntegrityConfig(doubt_ranges=False))
    session = filled(Session(options), parts[:4])
    bent = session.solve(full=True)
    rulings = Rulings()
    for beacon in range(4):
        rulings = rulings.with_ruling(Ruling('ignore', 'pair', ('B', f'L{beacon}')))
    session.rule(rulings)
    clean = session.solve()
    assert clean.ruled == rulings.revision
    *_, clean = ticks(session, parts[4:], False)
    without = [one.replaced(ranges=one.ranges.take(
        ~((one.ranges.source % 2 == 1) & (one.ranges.target < 0)))) for one in honest]
    # The same increments are audited: maps are weighted by the noise that audits find.
    alone = filled(Session(options), without[:4])
    alone.solve(full=True)
    *_, wanted = ticks(alone, without[4:], False)
    # The tracker stops within a share of 1e-5 of the least cost.
    assert clean.stats.cost_final == pytest.approx(wanted.stats.cost_final, rel=1e-4)
    assert np.allclose(clean.estimate.translation, wanted.estimate.translation, atol=0.01)
    error = true.errors_in_map(clean)
    assert np.max(error[session.graph.poses.robot == 1]) < 0.4
    session.rule(rulings.cleared())
    again = session.solve()
    assert again.ruled == rulings.revision + 1
    assert again.stats.cost_final > 100 * clean.stats.cost_final
    assert bent.stats.cost_final > 100 * clean.stats.cost_final


def test_what_is_left_out_of_a_robot_in_space_is_listed_whatever_it_measures():
    session, solution = lived(pair_world(3))
    graph = session.graph
    n, stamps = graph.n_poses, graph.poses.stamp_ns
    up = solution.estimate.rotation[:, 2]
    graph = graph.replaced(
        verticals=Verticals(np.arange(n), up, np.full(n, 1e4), stamps),
        heights=Heights(np.arange(n), np.zeros((n, 3)), solution.estimate.translation[:, 2] - 0.5,
                        np.full(n, 100.0), stamps))
    listed = unused_of(graph, solution, np.zeros(0, dtype=int), ignore('robot', 'A'))
    kinds = {kind: [one for one in listed if one.kind == kind] for kind in (
        'range', 'height', 'vertical')}
    assert all(one.source == 'A' and one.reason.startswith('ignored') for one in listed)
    assert len(kinds['height']) == len(kinds['vertical']) == n / 2 < len(kinds['range'])
    for one in kinds['height']:
        assert one.target == 'map' and (one.residual_m, one.sigmas) == pytest.approx((0.5, 5.0))
    for one in kinds['vertical']:
        assert np.isnan(one.residual_m) and one.sigmas < 1e-6


def test_where_nothing_is_left_to_place_nothing_stays_located():
    session = Session(config())
    ticks(session, world().increments(2))
    verdict = session.auditor.audit()
    session.tracker.adopt(dataclasses.replace(
        session.auditor._cannot_tell('planted'), treatment=Treatment(rulings=ignore('robot', 'A'))))
    solution = session.tracker.solve()
    assert verdict.tells and solution.message == 'planted'
    assert not any(one.location is Location.LOCATED for one in solution.robots)
    assert solution.ruled == 1
