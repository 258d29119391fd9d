"""Ranges that are faulty together are left out as a group, and come back when they fit."""

import dataclasses
import re

import numpy as np
import pytest
from backend_world import World, config, graph_of
from scipy.special import chdtri

from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.range_doubts import (
    RangeDoubt,
    closed,
    corrections_of,
    faulty_together,
    held_since,
    joined,
    of_sources,
    possible,
    revived,
    rows_of,
)
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.backend.session.tracker import Tracker
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import AuditConfig, IntegrityConfig
from sparser_ros.graph import range_residuals
from sparser_ros.graph.finding import Finding

ROBUST = SolverConfig(robust=RobustConfig(kernel='gm', gnc=True))
FINDING = Finding('range_burst', 'B', 'ranges of radio B were 3.0 m too long', 3.0, 'm')


def doubt(*rows, end_s=1.0, subject='B'):
    return RangeDoubt(
        dataclasses.replace(FINDING, subject=subject), np.array(rows, dtype=np.int64), end_s,
        open=False)


def test_a_group_is_faulty_beyond_the_quantile_of_its_chi_square():
    quantile = chdtri(10, np.exp(-12.5))
    assert faulty_together(1.01 * quantile, 10, 25.0)
    assert not faulty_together(0.99 * quantile, 10, 25.0)
    assert not faulty_together(1e9, 0, 25.0)


def test_a_burst_that_goes_on_is_one_group():
    found = joined([doubt(1, 2), doubt(7, subject='C')], [doubt(2, 3, end_s=4.0)])
    assert [one.finding.subject for one in found] == ['C', 'B']
    assert found[1].rows.tolist() == [1, 2, 3] and found[1].end_s == 4.0


@pytest.mark.parametrize(('late', 'located', 'wanted'), [
    ([4.0, 4.0, 4.0], True, (3, True, False)), ([0.1] * 6, True, (4, False, False)),
    ([0.1] * 3, True, (3, True, False)), ([4.0, 4.0, 4.0], False, (3, False, True))])
def test_a_fault_is_over_when_the_newest_ranges_fit_the_map(late, located, wanted):
    true = world()
    graph, extra = graph_of(true.increments(20)), len(late)
    rows = of_sources(graph, ('B',), 0)[:4 + extra]
    error = np.zeros(len(graph.ranges))
    error[rows] = [4.0] * 4 + late
    exact = graph.replaced(ranges=graph.ranges.replaced(distance_m=np.zeros(len(graph.ranges))))
    distance = range_residuals(exact, true.truth)
    group = dataclasses.replace(doubt(*rows), open=True)
    after = closed(
        group, graph.replaced(ranges=graph.ranges.replaced(distance_m=distance + error)),
        true.truth, located)
    kept, still_open, unresolved = wanted
    assert len(after.rows) == (4 if kept == 4 else 4 + extra)
    assert (after.open, after.unresolved) == (still_open, unresolved)


def world():
    return World(
        ['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 7], [-4, 1], [6, -3], [0, -6]],
        steps=120, seed=3)


def of_robot(ranges, robot):
    """Ranges that one of two robots takes part in."""
    return ((ranges.source >= 0) & (ranges.source % 2 == robot)) | (
        (ranges.target >= 0) & (ranges.target % 2 == robot))


def with_burst(increments, error=lambda count: np.full(count, 4.0)):
    """From 20 to 40 s all ranges of the second robot are too long by `error`."""
    made, burst = [], []
    for one in increments:
        step, ranges = np.maximum(one.ranges.source, one.ranges.target) // 2, one.ranges
        far = of_robot(ranges, 1) & (step >= 40) & (step < 80)
        burst.append(far)
        made.append(dataclasses.replace(one, ranges=ranges.replaced(
            distance_m=ranges.distance_m + far * error(len(far)))))
    return made, np.flatnonzero(np.concatenate(burst))


def after_all(increments, **backend):
    """The session after these increments, with a solve after each; its last solution."""
    session = Session(config(solver=ROBUST, audit=AuditConfig(growth=1.25), **backend))
    for one in increments:
        session.add(one)
        session.solve()
    return session, session.solve(True)


def assert_placed(solution, true, limit_m):
    """Both robots are located, and no pose is off by more than the limit."""
    assert [one.location for one in solution.robots] == [Location.LOCATED] * 2
    one = solution.estimate.translation
    aligned = (one - one[0]) @ solution.estimate.rotation[0]
    wanted = (true.truth.translation - true.truth.translation[0]) @ true.truth.rotation[0]
    assert np.max(np.linalg.norm(aligned - wanted, axis=1)) < limit_m


def same(rows, wanted):
    """Whether more than 90 % of either are in the other."""
    return np.isin(rows, wanted).mean() > 0.9 and np.isin(wanted, rows).mean() > 0.9


def test_a_burst_of_one_length_counts_with_that_taken_off():
    true = world()
    increments, burst = with_burst(true.increments(10))
    session, solution = after_all(increments)
    verdict = session.auditor.audit()
    corrections = verdict.corrections
    assert same(corrections.rows, burst) and not len(verdict.doubted_ranges)
    assert len(session.graph.ranges) == sum(len(one.ranges) for one in increments)
    np.testing.assert_allclose(corrections.length_m, 4.0, atol=0.1)
    assert np.all(corrections.factor >= 2.0)
    row = corrections.rows[0]
    assert session.graph.ranges.distance_m[row] == pytest.approx(
        session.auditor._store.whole.ranges.distance_m[row] - corrections.length_m[0])
    words = [one.text for one in solution.findings if one.kind == 'range_burst']
    assert len(words) == 1 and words[0].startswith('ranges of radio B were 4.0 m too long from')
    assert words[0].endswith('; that is taken off')
    assert_placed(solution, true, 0.3)


def test_a_burst_of_many_lengths_is_left_out_and_named_and_its_robot_stays_where_it_is():
    true, rng = world(), np.random.default_rng(4)
    increments, burst = with_burst(
        true.increments(10), lambda count: rng.uniform(1.0, 7.0, count))
    session, solution = after_all(increments)
    verdict = session.auditor.audit()
    left_out = verdict.doubted_ranges
    assert same(left_out, burst) and not len(verdict.corrections)
    assert len(session.graph.ranges) == sum(len(one.ranges) for one in increments) - len(left_out)
    assert any(one.kind == 'range_burst' and one.subject == 'B' for one in solution.findings)
    assert_placed(solution, true, 0.5)


def test_ranges_are_only_reported_where_nothing_is_to_be_doubted():
    increments, _ = with_burst(world().increments(10))
    session, solution = after_all(increments, integrity=IntegrityConfig(doubt_ranges=False))
    verdict = session.auditor.audit()
    assert not len(verdict.doubted_ranges) and not len(verdict.corrections)
    assert len(session.graph.ranges) == sum(len(one.ranges) for one in increments)
    assert any('radio B' in one.text for one in solution.findings)


def test_a_range_shorter_than_its_error_denies_the_length_of_its_group():
    ranges = graph_of(world().increments(20))
    shortest = float(ranges.ranges.distance_m[4:40].min())
    one = dataclasses.replace(doubt(*range(4, 40)), corrected=np.arange(4, 40))
    for length, wanted in ((0.9 * shortest, True), (1.1 * shortest, False), (-100.0, True)):
        assert possible(dataclasses.replace(one, length_m=length), ranges) == wanted


def test_a_robot_whose_ranges_are_held_back_is_withdrawn_as_its_odometry_drifts():
    """Between audits: the last one had it located."""
    increments = world().increments(24)
    auditor, tracker = Auditor(config(solver=ROBUST)), Tracker(config(solver=ROBUST))
    for one in increments[:12]:
        auditor.add(one)
        tracker.add(one)
    verdict = auditor.audit()
    assert 0 < verdict.segments[1].sigma_m < 0.1
    tracker.adopt(dataclasses.replace(verdict, held_sources=('B',)))
    where, words = [], ''
    for one in increments[12:]:
        tracker.add(one)
        robots = tracker.solve().robots
        assert robots[0].location is Location.LOCATED
        where.append(robots[1].location is Location.LOCATED)
        words = robots[1].missing
    assert where[0] and not where[-1] and where == sorted(where, reverse=True)
    assert 'no measurement of B but odometry has counted' in words


def test_between_audits_ranges_of_a_known_length_count_with_that_taken_off():
    true, length = world(), 3.0
    increments = true.increments(24)
    auditor, tracker = Auditor(config(solver=ROBUST)), Tracker(config(solver=ROBUST))
    for one in increments[:12]:
        auditor.add(one)
        tracker.add(one)
    tracker.adopt(dataclasses.replace(
        auditor.audit(), held_sources=('B',), held_lengths={'B': (length, 2.0)}))
    for one in increments[12:]:
        long = of_robot(one.ranges, 1)
        tracker.add(dataclasses.replace(one, ranges=one.ranges.replaced(
            distance_m=one.ranges.distance_m + length * long)))
        solution = tracker.solve()
        assert [one.location for one in solution.robots] == [Location.LOCATED] * 2
    assert len(tracker.graph.ranges) == len(tracker.whole.ranges)
    rejected = [one for one in solution.rejected if one.type == 'ranges']
    assert len(rejected) < 0.05 * len(tracker.graph.ranges)
    assert_placed(solution, true, 0.3)


def test_ranges_of_held_sources_are_left_out_unless_their_known_length_explains_them():
    true = world()
    graph = graph_of(true.increments(20))
    of_a, of_b = (of_sources(graph, (name,), 10) for name in 'AB')
    long = np.zeros(len(graph.ranges))
    long[of_b[:len(of_b) // 2]] = 3.0
    graph = graph.replaced(ranges=graph.ranges.replaced(
        distance_m=graph.ranges.distance_m + long))
    groups = held_since(('A', 'B'), {'B': (3.0, 2.0)}, graph, 10, true.truth)
    over = of_b[len(of_b) // 2:]
    assert rows_of(groups).tolist() == np.union1d(of_a, over).tolist()
    corrections = corrections_of(groups)
    assert corrections.rows.tolist() == np.setdiff1d(of_b, np.union1d(of_a, over)).tolist()
    assert set(corrections.length_m) == {3.0} and set(corrections.factor) == {2.0}


def test_groups_that_fit_come_back():
    session = Session(config(solver=ROBUST, audit=AuditConfig(growth=3.0)))
    for one in world().increments(20):
        session.add(one)
    estimate, graph = session.solve(True).estimate, session.graph
    fits = doubt(0, 1, 2, 3)
    assert revived([fits], graph, estimate) == []
    moved = graph.replaced(ranges=graph.ranges.replaced(
        distance_m=graph.ranges.distance_m + 5.0))
    assert revived([fits], moved, estimate) == [fits]


def bent(seed, numbers):
    """Few ranges, and no audit while they are wrong: hardly one is rejected, the path gives way.

    The findings after each of these increments, and the session.
    """
    true = World(
        ['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 7], [-4, 1], [6, -3], [0, -6]],
        steps=160, seed=seed, range_sigma=0.3)
    session, found = Session(config(solver=ROBUST, audit=AuditConfig(growth=1.25))), {}
    for number, one in enumerate(true.increments(8, every=4)[:numbers[-1] + 1]):
        step = np.maximum(one.ranges.source, one.ranges.target) // 2
        wrong = of_robot(one.ranges, 1) & (step >= 60) & (step < 110)
        session.add(dataclasses.replace(one, ranges=one.ranges.replaced(
            distance_m=one.ranges.distance_m + 3.0 * wrong)))
        if number in numbers:
            found[number] = session.solve().findings
    return found, session


@pytest.mark.parametrize('seed', [1, 2])
def test_a_burst_that_bends_the_map_is_no_jump_of_odometry(seed):
    found, _ = bent(seed, (2, 4, 6, 7))
    for number, findings in found.items():
        # B was located where the burst began: that the map moves it is told once.
        assert {(one.kind, one.subject) for one in findings
                if one.kind not in ('map_changed', 'position_risk')} == (
            {('range_burst', 'B')} if number > 2 else set())
    finding = found[7][0]
    assert finding.value == pytest.approx(3.0, abs=0.5)
    begin, end = re.search(r'from (\d+) s to (\d+) s', finding.text).groups()
    assert abs(int(begin) - 30) <= 3 and abs(int(end) - 55) <= 3, 'the whole burst, not a part'


@pytest.mark.parametrize(('factor', 'doubted'), [(1.0, True), (5.0, False)])
def test_nothing_is_doubted_where_odometry_does_not_hold_what_it_claims(
        monkeypatch, factor, doubted):
    """It bends the map without any burst, and chi-square at claimed noise says nothing then."""
    truly = Auditor._judged
    monkeypatch.setattr(Auditor, '_judged', lambda self, contest: dataclasses.replace(
        truly(self, contest), odometry_factors={'B': factor}))
    found, session = bent(2, (2, 4))
    verdict = session.auditor.audit()
    assert bool(len(verdict.doubted_ranges) + len(verdict.corrections)) == doubted
    assert any(one.kind == 'range_burst' for one in found[4]) == doubted


def test_a_jump_of_odometry_is_no_burst_of_the_ranges_after_it():
    true = world()
    rotation, move, frame_rotation, place = true.odometry[1]
    jump = np.array([2.0, 1.5])
    move, place = move.copy(), place.copy()
    move[40] += jump
    place[41:] += frame_rotation[40] @ jump
    true.odometry[1] = rotation, move, frame_rotation, place
    session = Session(config(solver=ROBUST, audit=AuditConfig(growth=1.25)))
    doubted = 0
    for one in true.increments(10):
        session.add(one)
        solution = session.solve()
        verdict = session.auditor.audit()
        doubted = max(doubted, len(verdict.doubted_ranges) + len(verdict.corrections))
    assert doubted == 0
    assert [one.subject for one in solution.findings if one.kind == 'odometry_failed'] == ['B']
    assert {one.robot for one in solution.robots if one.location is Location.LOCATED} == {
        'A', 'B'}
