"""What contradicts an audit, and other maps that fit about as well."""

import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pytest
from backend_world import (
    ROBUST,
    config,
    filled,
    lived,
    longer,
    of_robot,
    pair_world,
    ticks,
    two_robots,
)

from sparser_ros.backend.integrity.faults import BURST, stretch
from sparser_ros.backend.integrity.gate import astray, denying
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.contest import Contest
from sparser_ros.backend.session.frame import frame_of, initial_pose
from sparser_ros.backend.session.graph_store import GraphStore
from sparser_ros.backend.session.judgement import against_rivals, beside_faults, judged
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location, TrackedMap, VerdictKind, tracked_map
from sparser_ros.backend.session.treatment import Treatment
from sparser_ros.backend.session.trust import contradictions
from sparser_ros.config.backend_config import ObservabilityConfig

TWO_PARTNERS = np.tile([[2.0, 0.0], [0.0, 2.0]], (40, 1))
"""Whitened residuals by the place of a robot: to partners ahead and beside it, within 0.5 m."""
AGO_S = 0.3 * np.arange(80)


@pytest.mark.parametrize(('misfit', 'usual', 'count'), [
    ([], 0.1, 0), ([9] * 5, 0.1, 0), ([9] * 6, 0.1, 6), ([9] * 40, 0.1, 40),
    ([9, 9, 1] * 8, 0.1, 23), ([9, 0] * 20, 0.1, 39), ([1] * 10 + [9] * 40, 0.1, 0),
    ([0] * 2 + [9] * 8, 0.1, 10),
    # Each by itself is no surprise, so many are one.
    ([2.5] * 8, 0.1, 0), ([2.5] * 20, 0.1, 20), ([1.5] * 200, 0.1, 0),
    # Where many fail at all times more must; with more than half no robust estimate is sure.
    ([9] * 6, 0.4, 0), ([9] * 6, 0.51, 6), ([9] * 6, 1.0, 6)])
def test_only_measurements_that_fail_together_and_now_deny_a_map(misfit, usual, count):
    denied = denying(np.array(misfit, dtype=float), usual)
    assert len(denied) == count
    # Some of them must not fit: the robot is withdrawn with their number.
    assert np.any(denied) == bool(count)
    assert usual < 0.5 or np.all(denied)


@pytest.mark.parametrize('usual', [0.0, 0.1, 0.4])
def test_the_usual_share_denies_nothing_however_often_one_looks(usual):
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(20):
        # Wrong ones of the size that speaks most.
        size = np.where(rng.random(1000) < usual, 1e6, np.abs(rng.normal(size=1000)))
        alarms += any(len(denying(size[first:], usual)) for first in range(0, 800, 3))
    assert alarms <= 2


def risk_of(error, usual=0.1):
    return astray(error, TWO_PARTNERS, AGO_S, 1.0, usual, 1.0, 0.01).risk


def test_small_misfits_that_one_displacement_explains_put_a_robot_at_risk():
    """Ranges to the partner ahead are a metre off since five seconds, those beside it are not."""
    agree = np.where((np.arange(80) < 18) & (TWO_PARTNERS[:, 0] > 0), 2.6, 0.3)
    turns = agree * np.where(np.arange(80) // 2 % 2, -1, 1)
    assert not len(denying(agree, 0.1))
    found = astray(agree, TWO_PARTNERS, AGO_S, 1.0, 0.1, 1.0, 0.01)
    assert found.risk > 0.3 and found.probability > 0.9
    assert found.metres == pytest.approx(1.3, abs=0.2)
    assert found.seconds == pytest.approx(5.4, abs=2.0)
    assert risk_of(turns) < 0.05
    # So do false ranges, two of which always agree with some place.
    for false in ([40.0, 7.0], [-9.0, 0.2, 30.0]):
        assert risk_of(np.append(false, 0.3 * np.ones(80 - len(false)))) < 0.05


@pytest.mark.parametrize('share', [0.0, 0.1])
def test_honest_ranges_rarely_put_a_robot_at_risk(share):
    rng, alarms = np.random.default_rng(7), 0
    for _ in range(300):
        error = rng.normal(size=80)
        error[rng.random(80) < share] *= rng.uniform(3, 30)
        alarms += risk_of(error) > 0.05
    assert alarms <= 3


def said_of(store, estimate):
    """What contradicts the last audit, robot by robot, in the graph of a store."""
    rows = {name: np.arange(len(table)) for name, table in store.graph.tables().items()}
    return contradictions(
        store, estimate, rows,
        SimpleNamespace(segments=()), config())


def off_since_25_s(world, metres):
    """The truth with B elsewhere at its newest poses."""
    moved, step = world.truth.translation.copy(), np.arange(len(world.truth.translation)) // 2
    moved[1::2] += np.where(step >= 50, 1.0, 0.0)[1::2, None] * metres
    return dataclasses.replace(world.truth, translation=moved)


@pytest.mark.parametrize('left_out', [False, True])
def test_ranges_that_are_left_out_speak_as_well(left_out):
    """Of a robot that only its odometry carries nothing confirms the place."""
    world = two_robots(2, steps=60)
    store = filled(GraphStore(2), world.increments(6))
    source = store.whole.ranges.source
    own = np.flatnonzero((source % 2 == 1) & (source >= world.row(1, 50)))
    if left_out:
        store.treat(Treatment((stretch(BURST, 'B', own, store.whole),)))
    assert said_of(store, world.truth) == {}
    assert 'newest measurements of B do not fit' in said_of(
        store, off_since_25_s(world, [3.0, 3.0]))['B'].words


def test_a_robot_that_is_not_where_its_odometry_has_it_is_withdrawn_by_coarse_ranges():
    world = two_robots(3, steps=60, range_sigma=0.5)
    store = filled(GraphStore(2), world.increments(6))
    off = off_since_25_s(world, [1.2, -1.0])
    assert said_of(store, world.truth) == {}
    assert re.search(r'the odometry of B has not held for \d s', said_of(store, off)['B'].words)


def located(solution):
    return {one.robot for one in solution.robots if one.location is Location.LOCATED}


def left_out(tracker):
    """Rows of the ranges that a tracker leaves out."""
    return set(tracker._store.now.left_out('ranges').tolist())


def test_what_a_denied_robot_measures_says_nothing_while_an_audit_cannot_tell_why():
    """It pulled at the others meanwhile, and they were located elsewhere."""
    world, false = two_robots(steps=60, seed=3), 36
    *before, first, second, last = [
        longer(one, 3.0 * of_robot(one.ranges, 1, begin=false)) for one in world.increments(10)]
    session = Session(config(solver=ROBUST))
    ticks(session, before[:6], True)
    *_, solution = ticks(session, [before[6], first], False)
    assert 'newest measurements of B do not fit' in solution.doubt
    tracker = session.tracker
    verdict = filled(session.auditor, [second]).audit(tracked_map(solution))
    tracker.add(second)
    tracker.adopt(dataclasses.replace(
        verdict, treatment=Treatment(), unclear=(('B', 'its radio or its odometry'),)))
    solution = tracker.solve()
    own = np.flatnonzero(of_robot(tracker.whole.ranges, 1, begin=false))
    assert left_out(tracker) == set(own.tolist()) and located(solution) == {'A'}
    assert np.max(world.errors_in_map(solution)[0::2]) < 0.2
    tracker.adopt(verdict)
    tracker.add(last)
    solution = tracker.solve()
    assert not left_out(tracker)
    assert located(solution) == {'A', 'B'} and not solution.doubt
    assert np.max(world.errors_in_map(solution)) < 0.3


@pytest.fixture(scope='module')
def situation():
    """Two located robots: the contest of their map, and its verdicts."""
    session, solution = lived(pair_world(known=()))
    options, graph = session.config, session.tracker.graph
    frame = frame_of(graph, options, None)
    contest = Contest(
        frame, solution.estimate, initial_pose(options.backend, 2), options,
        session.tracker._store.now)
    contest.from_present((0, 0))
    found = judged(contest, options)
    assert [one.location for one in found.segments] == [Location.LOCATED] * 2
    return contest, found, options


def rival_of(contest, gap, translation):
    """Another map that costs so much more and has poses elsewhere."""
    return dataclasses.replace(
        contest.best, start='hypothesis', value=contest.best.value + gap,
        whole=dataclasses.replace(contest.best.whole, translation=translation))


@pytest.mark.parametrize(('gap', 'metres', 'ambiguous'), [
    (24.0, 5.0, True), (26.0, 5.0, False), (24.0, 0.5, False)])
def test_robots_and_beacons_that_another_map_has_elsewhere_are_not_located(
        situation, gap, metres, ambiguous):
    contest, found, options = situation
    moved, marks = contest.best.whole.translation.copy(), contest.best.whole.landmarks.copy()
    moved[contest.frame.graph.poses.robot == 1, 0] += metres
    marks[2, 0] += metres
    rival = rival_of(contest, gap, moved)
    rival = dataclasses.replace(rival, whole=dataclasses.replace(rival.whole, landmarks=marks))
    both = Contest(contest.frame, contest.guess, contest.pose, contest.config, contest.data)
    both.candidates += [contest.best, rival]
    seen = against_rivals(dataclasses.replace(found, undetected=None), both, options)
    a, b = seen.segments
    assert np.all(found.landmark_located)
    assert seen.landmark_located.tolist() == [True, True, not ambiguous, True]
    assert a.location is Location.LOCATED
    assert b.location is (Location.AMBIGUOUS if ambiguous else Location.LOCATED)
    assert not ambiguous or ('chi-square' in b.missing and 'has it 5.0 m away' in b.missing)


@pytest.mark.parametrize(('gap', 'kind'), [
    (24.0, VerdictKind.AGREE), (26.0, VerdictKind.BETTER_MAP)])
def test_a_map_that_excludes_the_present_one_is_better_however_much_both_cost(
        situation, gap, kind):
    contest, _, options = situation
    auditor = filled(Auditor(options), pair_world(known=()).increments(4))
    both = Contest(contest.frame, contest.guess, contest.pose, contest.config, contest.data)
    both.candidates += [
        dataclasses.replace(contest.best, value=value) for value in (1e5 + gap, 1e5)]
    placed = contest.frame.placed(contest.frame.mask)
    tracked = TrackedMap(
        auditor.sequence, contest.best.whole, placed, contest.frame.anchored)
    assert auditor._kind(both, tracked, placed) is kind


def test_a_start_that_fails_is_never_the_best_map(situation):
    contest, *_ = situation
    both = Contest(contest.frame, contest.guess, contest.pose, contest.config, contest.data)
    both.candidates += [rival_of(contest, np.inf, contest.best.whole.translation), contest.best]
    assert both.best is contest.best


def beside(situation, gap, here, there, *, metres=(0.0, 5.0), shift=0.0, risk=0.05):
    """{robot: why not} beside a map that costs `gap` more and has A and B so many `metres` away.

    `here`, `there`: evidence of a scale of B's odometry, which `shift`s B further in the other one.
    """
    contest, found, options = situation
    number = found.undetected.causes.index('odometry_scale of B')

    def with_evidence(value, away):
        evidence = np.full(len(found.undetected.causes), -20.0)
        evidence[number] = value
        shifts = np.zeros_like(found.undetected.lone_shift)
        shifts[found.undetected.place('B'), 0, number] = away
        return dataclasses.replace(found.undetected, evidence=evidence, lone_shift=shifts)

    translation = contest.best.whole.translation.copy()
    translation[:, 0] += np.array(metres)[contest.frame.graph.poses.robot]
    backend = dataclasses.replace(
        options.backend, observability=ObservabilityConfig(integrity_risk=risk))
    segments = beside_faults(
        list(found.segments), contest, rival_of(contest, gap, translation),
        with_evidence(here, 0.0), with_evidence(there, shift),
        dataclasses.replace(options, backend=backend))
    for one in segments:
        metres_away = re.search(r'([0-9.]+) m away', one.missing)
        assert one.apart_m == pytest.approx(
            float(metres_away[1]) if metres_away else 0.0, abs=0.05), 'levels allow for it'
    return {one.robot: one.missing for one in segments if one.location is not Location.LOCATED}


def test_a_map_that_a_fault_makes_as_good_leaves_its_robots_ambiguous(situation):
    # exp(-30 / 2) (1 + 0.01 exp(16)) = 0.027 are odds above 0.01; with exp(14) they are 0.004.
    assert beside(situation, 30.0, -20.0, 16.0) == {
        'B': 'if the odometry of B is too long or too short, another map fits about as well and '
             'has it 5.0 m away'}
    assert not beside(situation, 30.0, -20.0, 14.0)
    # A fault that has it here does not count there.
    assert beside(situation, 20.0, -20.0, 14.6, shift=-4.9) == {
        'B': 'another map fits about as well and has it 5.0 m away'}
    # What the same fault explains here does not count.
    assert not beside(situation, 30.0, 16.0, 16.0)


@pytest.mark.parametrize(('there', 'shift', 'risk', 'robots'), [
    # exp(-20 / 2) (1 + 0.01 exp(14.6)) = 1: one half, and there the fault is all but certain.
    (14.6, 3.0, 0.05, {'A', 'B'}), (11.0, 3.0, 0.05, {'A'}), (11.0, 3.0, 0.02, {'A', 'B'}),
    (14.6, 3.0, 0.5, {'A'}), (14.6, 0.0, 0.05, {'A'})])
def test_a_robot_that_only_the_fault_moves_there_is_at_risk_with_both_probabilities(
        situation, there, shift, risk, robots):
    assert set(beside(
        situation, 20.0, -20.0, there, metres=(5.0, 0.9), shift=shift, risk=risk)) == robots
