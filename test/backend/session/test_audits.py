"""Live equals batch, whatever the ticks; what an audit says decides what is located; its bound."""

import dataclasses
import re
from functools import partial

import numpy as np
import pytest
from backend_world import (
    ROBUST,
    config,
    filled,
    heard,
    in_force,
    lived,
    longer,
    of_robot,
    same,
    two_robots,
    with_false_ranges,
)

from sparser_ros.backend.integrity.faults import BURST, LENGTH, MISPLACED, Fault
from sparser_ros.backend.integrity.hypotheses import ONGOING
from sparser_ros.backend.integrity.noise import Noise
from sparser_ros.backend.integrity.odometry_errors import SCALE
from sparser_ros.backend.integrity.radio_errors import RadioErrors
from sparser_ros.backend.process.wire import Answer, decode, verdict_message
from sparser_ros.backend.session import contest, fault_search
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.contest import SearchEnd, robust_cost
from sparser_ros.backend.session.fault_search import Attempts, FaultSearch
from sparser_ros.backend.session.graph_store import GraphStore
from sparser_ros.backend.session.judgement import Judgement, examined
from sparser_ros.backend.session.lasting_faults import solved_sizes
from sparser_ros.backend.session.rulings import Ruling, Rulings
from sparser_ros.backend.session.schedule import Schedule
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import (
    Location,
    SegmentVerdict,
    VerdictKind,
    tracked_map,
)
from sparser_ros.backend.session.tracker import Tracker
from sparser_ros.backend.session.treatment import Treatment
from sparser_ros.backend.session.trust import announcements
from sparser_ros.config import SolverConfig
from sparser_ros.config.backend_config import AuditConfig
from sparser_ros.linalg.rotations import angle_to_matrix
from sparser_ros.solver import solve
from sparser_ros.solver.result import SolveStatus


def world_of(seed=0, steps=60):
    return two_robots(3, steps=steps, seed=seed)


@pytest.mark.parametrize(('seed', 'share'), [(0, 0.1), (1, 0.4)])
def test_live_equals_batch_at_any_tick_rate(seed, share):
    increments, _ = with_false_ranges(
        world_of(seed, steps=40).increments(10), share, seed, (5, 50))
    for every in (1, 5):
        # Each audit costs about a second.
        session = Session(config(solver=ROBUST, audit=AuditConfig(growth=3.0)))
        for first in range(0, 10, every):
            filled(session, increments[first:first + every]).solve()
        solution = session.solve(True)
        # Weighted by the noise that is found, which depends on the audits before.
        graph = session.graph
        batch = min(
            solve(graph, dataclasses.replace(ROBUST, seed=k)).stats.cost_robust for k in range(2))
        assert solution.stats.cost_robust <= 1.01 * batch
        assert {one.location for one in solution.robots} == {Location.LOCATED}
        assert robust_cost(graph, solution.estimate, session.config) == pytest.approx(
            solution.stats.cost_robust, rel=1e-6)


def test_starts_from_scratch_become_rare_where_they_agree(monkeypatch):
    auditor, begun, audits = Auditor(config(solver=ROBUST)), [], 0
    start = contest.run_from_scratch

    def counted(*arguments):
        begun.append(auditor._store.n_measurements)
        return start(*arguments)

    monkeypatch.setattr(contest, 'run_from_scratch', counted)
    for one in world_of(steps=120).increments(40):
        auditor.add(one)
        if auditor.due():
            auditor.audit()
            audits += 1
    begun = np.unique(begun)
    assert np.max(begun[1:] / begun[:-1]) > 1.9 and len(begun) < audits / 2


def audited(increments):
    session = filled(Session(config(solver=ROBUST)), increments)
    return session, session.solve(True)


def in_a_wrong_basin(session, good):
    rows = np.flatnonzero(session.graph.poses.robot == 1)
    turned, moved = good.estimate.rotation.copy(), good.estimate.translation.copy()
    turned[rows] = angle_to_matrix(np.array(3.0)) @ turned[rows]
    moved[rows] += [40.0, -30.0]
    return dataclasses.replace(good.estimate, rotation=turned, translation=moved)


def auditor_of(increments, **options):
    return filled(Auditor(config(solver=ROBUST), **options), increments)


def test_a_tracker_in_a_wrong_basin_gets_a_better_map_in_one_step():
    increments = world_of().increments(10)
    session, good = audited(increments)
    auditor = auditor_of(increments)
    tracked = dataclasses.replace(tracked_map(good), estimate=in_a_wrong_basin(session, good))
    verdict = auditor.audit(tracked, request=7)
    assert verdict.kind is VerdictKind.BETTER_MAP and verdict.request == 7
    session.tracker.adopt(verdict)
    after = session.tracker.solve()
    assert after.full and after.stats.cost_robust == pytest.approx(
        good.stats.cost_robust, rel=1e-3)
    assert auditor.audit(tracked_map(after)).kind is VerdictKind.AGREE


def test_a_map_that_fits_as_well_is_not_forgotten_until_it_is_excluded():
    """Nothing but a map of the audit before leads to the right one at two of these."""
    world = two_robots(0, dimension=3, steps=24, seed=4, range_sigma=0.1)
    auditor, true = Auditor(config(dimension=3, solver=ROBUST)), world.true_in_map().translation
    for increment in world.increments(6):
        auditor.add(increment)
        verdict = auditor.audit()
        place, other = verdict.estimate.translation, verdict.segments[1].location
        assert other is not Location.LOCATED or np.linalg.norm(
            place[-1] - true[len(place) - 1]) < 1.0


@pytest.mark.parametrize('then', ['options', 'poison'])
def test_what_comes_after_a_better_map_does_not_bring_the_old_one_back(then):
    """Live options make the map anew, and data with which it cannot be solved are taken back."""
    increments = world_of().increments(10)
    session, good = audited(increments[:9])
    tracker, verdict = session.tracker, session.auditor.audit()
    wrong = in_a_wrong_basin(session, good)
    tracker._map, tracker._good = tracker._built(wrong, good.placed), (8, wrong)
    tracker.adopt(dataclasses.replace(verdict, kind=VerdictKind.BETTER_MAP))
    if then == 'options':
        solver = dataclasses.replace(tracker.config.solver, gradient_tolerance=1e-7)
        tracker.config = dataclasses.replace(tracker.config, solver=solver)
    else:
        ranges = increments[9].ranges
        tracker.add(increments[9].replaced(ranges=ranges.replaced(
            precision=np.full(len(ranges), np.nan))))
    after = tracker.solve()
    assert (after.quarantined != ()) == (then == 'poison')
    moved = after.estimate.translation[:len(good.estimate.translation)] - good.estimate.translation
    assert np.max(np.abs(moved)) < 0.1


def test_a_better_map_that_moves_a_located_robot_is_announced():
    session, good = audited(world_of().increments(10))
    wrong = in_a_wrong_basin(session, good)
    for located, subjects in (('AB', ['B']), ('A', [])):
        said = announcements(session.graph, wrong, good.estimate, set(located), 1.0)
        assert [one.subject for one in said] == subjects
        assert all(one.unit == 'm' and one.value > 10 for one in said)


def test_a_map_that_is_worse_with_all_data_is_not_adopted_and_nothing_is_located():
    increments = world_of().increments(10)
    session, good = audited(increments)
    auditor = auditor_of(increments)
    verdict = auditor.audit(tracked_map(good))
    tracker = filled(Tracker(config(solver=ROBUST)), increments)
    tracker.restore(good.estimate)
    tracker.adopt(dataclasses.replace(
        verdict, kind=VerdictKind.BETTER_MAP, estimate=in_a_wrong_basin(session, good)))
    kept = tracker.solve()
    assert kept.stats.cost_robust == pytest.approx(good.stats.cost_robust, rel=1e-3)
    assert {one.location for one in kept.robots} == {Location.UNLOCATED}
    assert all('next audit' in one.missing for one in kept.robots)
    tracker.adopt(auditor.audit(tracked_map(kept)))
    assert {one.location for one in tracker.solve().robots} == {Location.LOCATED}


def test_the_map_of_a_long_audit_is_handed_over_with_what_came_meanwhile():
    increments = world_of().increments(10)
    auditor = auditor_of(increments[:4])
    verdict = auditor.audit(request=1)
    assert verdict.kind is VerdictKind.BETTER_MAP
    assert auditor.caught_up(verdict) is verdict
    filled(auditor, increments[4:])
    later = auditor.caught_up(verdict)
    session, best = audited(increments)
    assert later.sequence == verdict.sequence == 3
    assert len(later.estimate.rotation) == session.graph.n_poses
    assert robust_cost(session.graph, later.estimate, session.config) < 1.5 * (
        best.stats.cost_robust)


def test_new_measurements_that_contradict_the_audit_withdraw_the_robot_at_that_tick():
    *early, last = world_of().increments(10)
    session, before = audited(early)
    assert before.robots[1].location is Location.LOCATED
    session.add(longer(last, 15.0 * of_robot(last.ranges, 1)))
    solution = session.solve(False)
    assert solution.robots[1].location is Location.UNLOCATED
    assert 'newest measurements of B do not fit' in solution.robots[1].missing
    assert 'B' in solution.doubt and solution.audited_sequence == 8


def test_odometry_that_begins_anew_is_unlocated_until_an_audit_places_it():
    *early, a, b = world_of().increments(10)
    session, _ = audited(early)
    edges = a.relative_poses
    own = edges.odometry & (edges.j % 2 == 1)
    cut = ~(own & (np.cumsum(own) == 1))
    session.add(dataclasses.replace(a, relative_poses=edges.take(cut)))
    between = session.solve(False)
    assert [one.location for one in between.robots] == [Location.LOCATED, Location.UNLOCATED]
    assert 'begun anew' in between.robots[1].missing
    session.add(b)
    after = session.solve(True)
    error = world_of().errors_in_map(after)
    assert after.robots[1].location is Location.LOCATED
    assert np.max(error[1::2][-3:]) < 0.5
    assert np.max(error[0::2]) < 0.3


def test_an_audit_ages_by_measurements_and_not_by_odometry_alone():
    increments = world_of(steps=80).increments(10)
    rule = AuditConfig(stale_s=5.0, growth=1e3, growth_unlocated=1e3)
    session = filled(Session(config(solver=ROBUST, audit=rule)), increments[:6])
    assert session.solve(True).robots[0].location is Location.LOCATED
    for one in increments[6:9]:
        session.add(one.replaced(
            ranges=one.ranges.take(np.zeros(0, dtype=np.int64)),
            relative_poses=one.relative_poses.take(one.relative_poses.odometry)))
    missing = [robot.missing for robot in session.solve(False).robots]
    assert not any('audit' in text for text in missing)
    assert session.auditor.due() == ''
    session.add(increments[9])
    assert 'audit' in session.solve(False).robots[0].missing
    assert session.auditor.due() == 'measurements have waited'


def test_before_an_audit_nothing_is_located_and_odometry_is_kept():
    world = world_of()
    tracker = Tracker(config(solver=ROBUST))
    tracker.add(world.increments(4)[0])
    solution = tracker.solve()
    assert solution.status.solved and solution.audited_sequence == -1
    assert {one.location for one in solution.robots} == {Location.UNLOCATED}
    np.testing.assert_allclose(
        solution.estimate.translation[::2], world.odometry[0][3][:15], atol=1e-9)


def test_a_place_is_confirmed_with_its_heading():
    """Two headings at one place are two maps once the robot drives on: a start from scratch that
    has left both has chosen none."""
    schedule, store = Schedule(), GraphStore(2)

    def judgement(location):
        return Judgement(
            (SegmentVerdict(0, 'A', location, '', 0.0),), np.zeros(0, dtype=bool), '')

    def restrained(location):
        return schedule.restrained(judgement(location), measured=True).segments[0].location

    schedule.searched(judgement(Location.POSITION_ONLY), store, SearchEnd.AGREED)
    assert restrained(Location.POSITION_ONLY) is Location.POSITION_ONLY
    assert restrained(Location.LOCATED) is Location.UNLOCATED
    schedule.searched(judgement(Location.LOCATED), store, SearchEnd.AGREED)
    # A robot that loses its heading for a while is where it was.
    schedule.kept(judgement(Location.POSITION_ONLY))
    assert restrained(Location.LOCATED) is Location.LOCATED
    schedule.kept(judgement(Location.UNLOCATED))
    assert restrained(Location.LOCATED) is Location.UNLOCATED


def test_verdicts_survive_encoding():
    auditor = auditor_of(world_of().increments(5))
    # What defaults would hide.
    verdict = dataclasses.replace(
        auditor.audit(request=3), treatment=Treatment((
            Fault(LENGTH, 'A', (0.1,), ((5, ONGOING),)), Fault(MISPLACED, 'L0'),
            Fault(BURST, 'B', (3.0,), ((1, 2), (4, 9)), 8, 'long', ('A',), 6, 2.0, 9)),
            RadioErrors({'A': 0.1}, {'B': (0.2, -0.1)}),
            Rulings((Ruling('ignore', 'pair', ('A', 'L0'), 3, 4),), 2), ((3, 1),), (('A', 'B'),),
            Noise({('odometry', 'B'): 0.5})),
        noise=Noise({('odometry', 'B'): 0.5, ('ranges', ''): -1.0}), variance={'B': (0.3, 0.7)})
    packet = decode(verdict_message(verdict, Answer(2, 3)))
    assert packet.answer == Answer(2, 3) and same(packet.body, verdict)


def with_long_odometry():
    world = two_robots(steps=120, seed=3)
    turns, moves, rotations, places = world.odometry[1]
    world.odometry[1] = turns, 1.15 * moves, rotations, 1.15 * places
    return world.increments(10)


def test_odometry_that_is_too_long_is_solved_for():
    increments = with_long_odometry()
    session, _ = heard(increments, 1.5)
    solution = session.solve(True)
    errors = in_force(session).treatment.odometry_errors
    assert list(errors.size) == [(SCALE, 'B')]
    share = errors.of(SCALE, 'B')
    assert share == pytest.approx(1 - 1 / 1.15, abs=0.01)
    edges, claimed = session.graph.relative_poses, np.concatenate(
        [one.relative_poses.translation for one in increments])
    of_b = session.graph.poses.robot[edges.i] == 1
    np.testing.assert_allclose(
        edges.translation, np.where(of_b, 1 - share, 1.0)[:, None] * claimed)
    assert any(one.kind == 'odometry_scale' and one.subject == 'B' for one in solution.findings)
    assert {one.location for one in solution.robots} == {Location.LOCATED}, solution.robots


def test_an_error_that_no_odometry_has_is_not_taken_off(monkeypatch):
    """Other faults, such as exchanged radios, bend several paths."""
    auditor = auditor_of(with_long_odometry())
    contest, _ = auditor._attempt(auditor._store.treatment, None)
    truly = examined(contest, auditor.config)

    def solved_for(size):
        solved = tuple(Fault(SCALE, name, (share,)) for name, share in size.items())
        monkeypatch.setattr(
            fault_search, 'examined', lambda *_: dataclasses.replace(truly, solved=solved))
        search = FaultSearch(
            auditor._store, contest, auditor._solved, Attempts(), auditor.config)
        search.run(partial(solved_sizes, elsewhere=lambda _: False, of_ranges=False))
        return search.treatment.odometry_errors

    assert solved_for({'B': 0.35}).size == {(SCALE, 'B'): 0.35}
    assert not solved_for({'B': 0.35, 'A': 0.87})


def scratch_ending(monkeypatch, *, bounded, **ending):
    """The verdict of an audit whose starts from scratch end like that, and its auditor."""
    start = contest.run_from_scratch
    monkeypatch.setattr(contest, 'run_from_scratch', lambda *arguments: dataclasses.replace(
        start(*arguments), **ending))
    auditor = auditor_of(world_of(steps=30).increments(3), bounded=bounded)
    return auditor.audit(), auditor


@pytest.mark.parametrize('bounded', [False, True])
def test_starts_from_scratch_that_fail_confirm_nothing_and_say_so(monkeypatch, bounded):
    verdict, auditor = scratch_ending(
        monkeypatch, bounded=bounded, estimate=None, status=SolveStatus.FAILED,
        message='ValueError: shapes')
    assert not any(one.location.placed for one in verdict.segments)
    found = {one.kind: one.text for one in verdict.findings}
    assert 'ValueError: shapes' in found['search_failed']
    assert auditor.postponed == 'starts from scratch fail'


def test_starts_from_scratch_that_stall_are_finished_from_where_they_are(monkeypatch):
    """In the running node only those that are out of time are cut off."""
    verdict, auditor = scratch_ending(monkeypatch, bounded=True, status=SolveStatus.MAX_ITERATIONS)
    assert [one.location for one in verdict.segments] == [Location.LOCATED] * 2
    assert not auditor.postponed


def bounded(full):
    session, _ = lived(world_of(steps=40), solver=ROBUST)
    session.solve(full)
    return session


def test_a_forced_audit_bounds_its_map_and_two_runs_give_the_same_bits():
    session = bounded(full=True)
    bound = session.bound
    assert bound == bounded(full=True).bound
    assert 0 < bound.lower <= bound.cost * (1 + 1e-9)
    assert bound.sequence == 3 and bound.suboptimality < 0.1 * bound.cost
    (words,) = re.findall(r'no map costs less than ([\d.]+)', bound.words)
    assert float(words) == pytest.approx(bound.lower, rel=1e-3)
    assert bounded(full=None).bound is None, 'an audit that is not forced bounds nothing'
    # Other starts with the same weights find nothing below it.
    solved = session.auditor.solved
    graph = solved.graph.replaced(ranges=solved.graph.ranges.replaced(
        precision=solved.graph.ranges.precision * solved.weights['ranges']))
    for seed in range(3):
        other = solve(graph, SolverConfig(seed=seed, init='random'))
        assert other.stats.cost_final >= bound.lower * (1 - 1e-9)
