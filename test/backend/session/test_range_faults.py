"""Ranges that are faulty together are left out as a group, and come back when they fit."""

import dataclasses
import re

import numpy as np
import pytest
from backend_world import (
    ROBUST,
    World,
    config,
    filled,
    heard,
    in_force,
    longer,
    of_robot,
    ticks,
    two_robots,
)

from sparser_ros.backend.integrity.faults import BURST, Fault, ranges_of, stretch
from sparser_ros.backend.integrity.hypotheses import ONGOING
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.range_faults import common_length, still_stands
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.backend.session.tracker import Tracker
from sparser_ros.backend.session.treatment import Treatment
from sparser_ros.config.backend_config import AuditConfig, IntegrityConfig


def world():
    return two_robots(steps=120, seed=3)


def with_burst(increments, error=lambda count: np.full(count, 4.0)):
    """From 20 to 40 s all ranges of the second robot are too long by `error`."""
    made, burst = [], []
    for one in increments:
        far = of_robot(one.ranges, 1, begin=40, end=80)
        burst.append(far)
        made.append(longer(one, far * error(len(far))))
    return made, np.flatnonzero(np.concatenate(burst))


def assert_placed(solution, true, limit_m):
    assert [one.location for one in solution.robots] == [Location.LOCATED] * 2
    assert np.max(true.errors_in_map(solution)) < limit_m


def same(rows, wanted):
    """Whether more than 90 % of either are in the other."""
    return np.isin(rows, wanted).mean() > 0.9 and np.isin(wanted, rows).mean() > 0.9


def after(increments, **backend):
    """(session, last solution, its data as the last audit has them), audited at every tick."""
    session, (*_, solution) = heard(increments, 1.1, **backend)
    return session, solution, in_force(session)


def test_a_burst_of_one_length_counts_with_that_taken_off():
    true = world()
    increments, burst = with_burst(true.increments(7))
    session, solution, data = after(increments)
    (fault,) = data.treatment.of(BURST)
    assert same(fault.rows(data.whole), burst) and not len(data.left_out('ranges'))
    assert len(session.graph.ranges) == sum(len(one.ranges) for one in increments)
    assert fault.size[0] == pytest.approx(4.0, abs=0.1) and fault.factor >= 2.0
    row = fault.rows(data.whole)[0]
    assert session.graph.ranges.distance_m[row] == pytest.approx(
        data.whole.ranges.distance_m[row] - fault.size[0])
    words = [one.text for one in solution.findings if one.kind == 'range_burst']
    assert len(words) == 1 and words[0].startswith('ranges of radio B were 4.0 m too long from')
    assert words[0].endswith('; that is taken off')
    assert_placed(solution, true, 0.3)


def test_a_burst_of_many_lengths_is_left_out_and_named_and_its_robot_stays_where_it_is():
    true, rng = world(), np.random.default_rng(4)
    increments, burst = with_burst(
        true.increments(7), lambda count: rng.uniform(1.0, 7.0, count))
    session, solution, data = after(increments)
    left_out = data.left_out('ranges')
    assert same(left_out, burst)
    assert len(session.graph.ranges) == sum(len(one.ranges) for one in increments) - len(left_out)
    assert any(one.kind == 'range_burst' and one.subject == 'B' for one in solution.findings)
    assert_placed(solution, true, 0.5)


def test_ranges_are_only_reported_where_nothing_is_to_be_doubted():
    increments, _ = with_burst(world().increments(7))
    session, solution, data = after(
        increments, integrity=IntegrityConfig(doubt_ranges=False))
    assert any('radio B' in one.text for one in solution.findings)
    assert not data.treatment.faults
    assert len(session.graph.ranges) == sum(len(one.ranges) for one in increments)


def held(increments, length_m=None):
    """A tracker that doubts what B measures from now on, of a length that is known or not."""
    tracker = filled(Tracker(config(solver=ROBUST)), increments)
    verdict = filled(Auditor(config(solver=ROBUST)), increments).audit()
    now = int(tracker.whole.poses.stamp_ns.max())
    fault = Fault(BURST, 'B', (length_m or 1.0,), (), held_ns=now, factor=2.0,
                  known_ns=0 if length_m is None else now)
    tracker.adopt(dataclasses.replace(verdict, treatment=Treatment((fault,))))
    return tracker, verdict


def test_a_burst_ends_between_audits_where_outliers_follow_it():
    """One outlier is no sign that it goes on, and what follows the end is not shortened."""
    true, length, made = world(), 4.0, []
    for one in true.increments(12):
        own = of_robot(one.ranges, 1)
        outlier = of_robot(one.ranges, 1, begin=80) & (np.arange(len(own)) % 9 == 0)
        # Among them the newest of every increment.
        outlier[np.flatnonzero(own)[-1]] |= one.sequence >= 8
        made.append(longer(one, length * of_robot(one.ranges, 1, begin=40, end=80) + 8.0 * outlier))
    session = Session(config(solver=ROBUST))
    for one, full in zip(made, [True] * 6 + [False] * 3 + [True] * 3, strict=True):
        ticks(session, [one], full)
    data = in_force(session)
    (fault,) = data.treatment.of(BURST)
    stamps = data.whole.poses.stamp_ns
    begin, end = stamps[true.row(1, 40)], stamps[true.row(1, 79)]
    assert fault.spans == ((begin, end),) and fault.known_ns == end and not fault.open
    assert fault.size[0] == pytest.approx(length, abs=0.1)
    assert_placed(session.solve(), true, 0.3)


def test_a_burst_of_a_known_length_stands_with_most_ranges_of_its_source():
    true, length = world(), 4.0
    session = Session(config(solver=ROBUST))
    for one in true.increments(12):
        ticks(session, [longer(one, length * of_robot(one.ranges, 1, begin=30, end=110))], True)
    (fault,) = in_force(session).treatment.of(BURST)
    assert fault.subject == 'B' and fault.size[0] == pytest.approx(length, abs=0.1)
    assert_placed(session.solve(), true, 0.3)


def test_what_fits_with_a_length_and_without_it_is_nearer_to_either():
    """Three standard deviations: most ranges are not far from the map."""
    true, length = world(), 0.15
    graph = true.graph()
    own = of_robot(graph.ranges, 1, begin=40, end=80)
    for offset, stands in ((length, True), (0.0, False)):
        measured = longer(graph, offset * own)
        fault = stretch(BURST, 'B', np.flatnonzero(own), measured, size=(length,))
        known = dataclasses.replace(fault, known_ns=fault.end_ns)
        assert still_stands(known, measured, true.truth) is stands
        assert not still_stands(fault, measured, true.truth)


def test_a_robot_whose_ranges_are_held_back_is_withdrawn_as_its_odometry_drifts():
    """Between audits: the last one had it located."""
    increments = world().increments(24)
    tracker, verdict = held(increments[:6])
    assert 0 < verdict.segments[1].sigma_m < 0.1
    where, words = [], ''
    for one in increments[6:]:
        tracker.add(one)
        robots = tracker.solve().robots
        assert robots[0].location is Location.LOCATED
        where.append(robots[1].location is Location.LOCATED)
        words = robots[1].missing
    assert where[0] and not where[-1] and where == sorted(where, reverse=True)
    assert 'its position is uncertain by' in words


def test_between_audits_ranges_of_a_known_length_count_with_that_taken_off():
    true, length = world(), 3.0
    increments = true.increments(24)
    tracker, _ = held(increments[:12], length)
    for one in increments[12:]:
        tracker.add(longer(one, length * of_robot(one.ranges, 1)))
        solution = tracker.solve()
        assert [one.location for one in solution.robots] == [Location.LOCATED] * 2
    assert len(tracker.graph.ranges) == len(tracker.whole.ranges)
    rejected = [one for one in solution.rejected if one.type == 'ranges']
    assert len(rejected) < 0.05 * len(tracker.graph.ranges)
    assert_placed(solution, true, 0.3)


def test_a_range_in_two_bursts_is_left_out():
    """Between two radios at fault its length is the sum of two, of which neither is known."""
    whole = world().graph(4)
    both = Treatment(tuple(Fault(BURST, name, (1.0,), known_ns=ONGOING) for name in 'AB'))
    shared = np.intersect1d(ranges_of('A', whole), ranges_of('B', whole))
    assert len(shared)
    np.testing.assert_array_equal(both.apply(whole).left_out('ranges'), shared)


@pytest.mark.parametrize('seed', [1, 2])
def test_a_burst_that_bends_the_map_is_no_jump_of_odometry(seed):
    """The path gives way to few ranges."""
    true = two_robots(steps=160, seed=seed, range_sigma=0.3)
    session, found = Session(config(solver=ROBUST, audit=AuditConfig(growth=1.25))), {}
    for number, one in enumerate(true.increments(8, every=4)):
        session.add(longer(one, 3.0 * of_robot(one.ranges, 1, begin=60, end=110)))
        if number in (2, 4, 6, 7):
            found[number] = session.solve().findings
    for number, findings in found.items():
        # B was located where the burst began: that the map moves it is told once.
        assert {(one.kind, one.subject) for one in findings
                if one.kind not in ('map_changed', 'position_risk')} == (
            {('range_burst', 'B')} if number > 2 else set())
    finding = found[7][0]
    assert finding.value == pytest.approx(3.0, abs=0.5)
    begin, end = re.search(r'from (\d+) s to (\d+) s', finding.text).groups()
    assert abs(int(begin) - 30) <= 3 and abs(int(end) - 55) <= 3, 'the whole burst, not a part'


def test_a_jump_of_odometry_is_no_burst_of_the_ranges_after_it():
    true = world()
    true.odometry[1][1][40] += [2.0, 1.5]
    true.add_up_odometry()
    session = Session(config(solver=ROBUST, audit=AuditConfig(growth=1.25)))
    for one in true.increments(10):
        session.add(one)
        solution = session.solve()
        assert not in_force(session).treatment.of(BURST)
    assert [one.subject for one in solution.findings if one.kind == 'odometry_failed'] == ['B']
    assert [one.location for one in solution.robots] == [Location.LOCATED] * 2


def contest_of(beacons, rows=(), length_m=0.0, factor=1.0):
    """Of a world whose ranges `rows` are too long by a length and have a larger variance."""
    world = World(['curved'], [[0, 0]], beacons=beacons, steps=60, seed=2)
    auditor = filled(Auditor(config(robots=('A',))), world.increments(3))
    whole = auditor._store.whole
    faults = (stretch(BURST, 'A', np.array(rows), whole, size=(-length_m,), factor=factor,
                      known_ns=ONGOING),) if len(rows) else ()
    contest, error = auditor._attempt(Treatment(faults), None)
    assert contest is not None, error
    return contest


@pytest.mark.parametrize('factor', [1.0, 6.0])
def test_the_length_is_that_of_dense_least_squares(factor):
    rows = np.arange(21, 60)  # 13 steps of 3 ranges
    contest = contest_of([[3, 7], [-4, 1], [6, -3]], rows, 0.05, factor)
    subgraph = contest.frame.subgraph
    model = linear_model(subgraph.graph, subgraph.of(contest.best.whole), {})
    root = np.sqrt(subgraph.graph.ranges.precision[rows])
    column = np.zeros(len(model.residual))
    column[model.starts['ranges'] + rows] = root
    J = model.jacobian.toarray()
    joint = np.column_stack([J, column])
    covariance = np.linalg.pinv(joint.T @ joint)
    wanted = -(covariance @ (joint.T @ model.residual))[-1]
    sigma = np.sqrt(covariance[-1, -1])
    found = common_length(contest, rows, factor)
    assert found is not None
    assert found[0] == pytest.approx(wanted, rel=1e-3)
    assert abs(found[0] - 0.05) < 4 * sigma
    # With all their weight, the rows tell of the length, in a known map, with a variance of
    # 1 / bare; the rest of the data add what they leave undetermined of it.
    bare = float(np.sum(root**2)) * factor
    beyond = sigma**2 - factor / bare
    assert found[1] == pytest.approx(1.0 + (1.0 / bare + beyond) * bare, rel=1e-2)


def test_where_the_map_moves_with_the_length_the_ranges_count_for_next_to_nothing():
    """All ranges to a far beacon: one still farther away explains a common length."""
    contest = contest_of([[300.0, 700.0], [3, 7], [-4, 1], [6, -3]])
    ranges = contest.frame.subgraph.graph.ranges
    far = np.flatnonzero((ranges.target == -1) | (ranges.source == -1))
    lost, told = common_length(contest, far, 1.0), common_length(contest, np.arange(20, 60), 1.0)
    assert told is not None and 2.0 <= told[1] < 100.0
    assert lost is None or lost[1] > 1e4 * told[1]
