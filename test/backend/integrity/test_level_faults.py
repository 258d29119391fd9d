"""Heights that drift, or that are measured to something else than the floor, are named."""

import re

import numpy as np
import pytest
from backend_world import GM, config, filled
from faulty_world import examined
from graphs import flying_graph
from hypothesis import given
from hypothesis import strategies as st

from sparser_ros.backend.integrity.faults import FAILED, Fault
from sparser_ros.backend.integrity.hypotheses import ALTIMETER, ONGOING, altimeter_drift, drifted
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.treatment import Treatment
from sparser_ros.graph import Increment
from sparser_ros.graph.ends import owners_of, stamps_of

STEPS, STEP_NS = 80, 10**9


def flown(seed, change=lambda at: 0.0):
    """(graph, truth): the heights of B changed by a function of the share of the time."""
    graph, truth = flying_graph(seed, steps=STEPS, beacons=4, kappa_sigma=0.002)
    index = graph.poses.index
    graph = graph.replaced(poses=graph.poses.replaced(stamp_ns=index * STEP_NS))
    table = graph.heights
    own = (table.point >= 0) & (graph.poses.robot[table.point] == 1)
    share = index[table.point] / STEPS
    height = table.height_m + np.where(own, np.vectorize(change)(share), 0.0)
    return graph.replaced(heights=table.replaced(
        height_m=height, stamp_ns=np.where(table.point >= 0, index[table.point] * STEP_NS, 0))
    ), truth


def told(found):
    return {(one.kind, one.subject): one for one in found.findings
            if one.kind in (ALTIMETER, 'heights_rejected')}


@pytest.mark.parametrize('seed', range(4))
def test_nobody_is_blamed_for_sound_heights(seed):
    found = examined(*flown(seed))
    assert not told(found)
    assert max(found.undetected.likely(0.01)[1:][[
        cause.startswith(ALTIMETER) for cause in found.undetected.causes]]) < 0.5


@pytest.mark.parametrize('metres', [2.0, -2.0])
@pytest.mark.parametrize('since', [0.0, 0.5])
def test_an_altimeter_that_drifts_is_named_and_may_have_moved_its_robot(metres, since):
    found = examined(*flown(5, lambda at: metres * max(0.0, at - since) / (1 - since)))
    own = told(found)[ALTIMETER, 'B']
    assert own.value == pytest.approx(metres, abs=0.7)
    assert ('high' if metres > 0 else 'low') in own.text and (ALTIMETER, 'A') not in told(found)
    hidden = found.undetected
    of_b = [cause == f'{ALTIMETER} of B' for cause in hidden.causes]
    assert np.sum(hidden.likely(0.01)[1:][of_b]) > 0.9
    later = hidden.driven_on(
        np.zeros((2, 3)), np.full(2, 0.5 * (1 - since) * STEPS), np.tile(np.eye(3, 6), (2, 1, 1)))
    likely = np.where(of_b, hidden.likely(0.01)[1:], 0.0)
    first, then = (one.lone_shift[1, 2] @ likely for one in (hidden, later))
    assert np.sign(first) == -np.sign(metres)
    assert 1.1 < then / first < 1.6


def test_a_drift_that_is_over_stays_a_fault():
    found = examined(*flown(8, lambda at: 2.0 * np.clip((at - 0.3) / 0.2, 0.0, 1.0)))
    own = told(found)[ALTIMETER, 'B']
    assert own.value == pytest.approx(2.0, abs=0.4)
    (ago,) = re.findall(r'until (\d+) s ago', own.text)
    assert 25 < int(ago) < 45
    hidden = found.undetected
    of_b = np.array([cause == f'{ALTIMETER} of B' for cause in hidden.causes])
    assert np.sum(hidden.likely(0.01)[1:][of_b]) > 0.99
    column = max(np.flatnonzero(of_b), key=lambda k: hidden.evidence[k])
    later = hidden.driven_on(np.zeros((2, 3)), np.full(2, 30.0), np.tile(np.eye(3, 6), (2, 1, 1)))
    assert later.lone_shift[1, 2, column] == hidden.lone_shift[1, 2, column]
    assert hidden.lone_shift[1, 2, column] == pytest.approx(-2.0, abs=0.4)


def test_tables_below_a_laser_are_named():
    found = examined(*flown(6, lambda at: -0.9 * (0.2 < at < 0.3 or 0.6 < at < 0.78)))
    own = told(found)['heights_rejected', 'B']
    assert own.value == pytest.approx(28, abs=7)
    (metres,) = re.findall(r'by (\S+) m:', own.text)
    assert float(metres) == pytest.approx(-0.9, abs=0.15)


@pytest.mark.parametrize('seed', [5, 6, 8])
def test_a_height_that_steps_for_good_is_no_jump_of_the_odometry(seed):
    found = examined(*flown(seed, lambda at: -0.9 * (at > 0.5)))
    assert {(one.kind, one.subject) for one in found.findings} == {(ALTIMETER, 'B')}
    assert re.search(r'0\.[89] m too low at once, (39|40) s ago', told(found)[ALTIMETER, 'B'].text)


def test_a_jump_across_is_one_although_there_are_heights():
    graph, truth = flown(5)
    rel = graph.relative_poses
    row = np.flatnonzero(rel.odometry & (graph.poses.robot[rel.i] == 1))[STEPS // 2]
    jumped = rel.translation + np.where(
        np.arange(len(rel)) == row, 1.0, 0.0)[:, None] * np.array([3.0, 0.0, 0.0])
    found = examined(graph.replaced(relative_poses=rel.replaced(translation=jumped)), truth)
    assert ('odometry_jump', 'B') in {(one.kind, one.subject) for one in found.findings}


spans = st.tuples(st.integers(0, STEPS), st.integers(0, STEPS) | st.none()).filter(
    lambda span: span[1] is None or span[0] <= span[1]).map(
    lambda span: (span[0] * STEP_NS, ONGOING if span[1] is None else span[1] * STEP_NS))


@given(span=spans)
def test_a_drift_begins_at_nothing_only_grows_and_stays(span):
    stamps = np.arange(STEPS + 1) * STEP_NS
    value = drifted(span, stamps)
    assert not np.any(value[stamps <= span[0]]) and np.all(np.diff(value) >= 0)
    np.testing.assert_allclose(value[stamps > span[1]], 1.0)


@pytest.mark.parametrize(('span', 'size'), [
    ((20 * STEP_NS, 60 * STEP_NS), 0.7), ((30 * STEP_NS, ONGOING), 0.03),
    ((50 * STEP_NS, 50 * STEP_NS), -0.7)])
def test_the_size_of_a_drift_is_taken_off_heights_as_the_linear_model_says(span, size):
    graph, truth = flown(5)
    without = Treatment((Fault(ALTIMETER, 'B', (size,), (span,)),)).apply(graph).graph
    model = linear_model(graph, truth, {})
    np.testing.assert_allclose(
        linear_model(without, truth, {}).residual - model.residual,
        size * altimeter_drift(model, 'B', span).columns.toarray()[:, 0], atol=1e-9)


def test_a_drift_is_nothing_where_no_height_tells_of_it():
    graph, truth = flown(5)
    model = linear_model(graph, truth, {})
    for name, begin in ('B', STEPS + 1), ('C', 0):
        assert altimeter_drift(model, name, (begin * STEP_NS, ONGOING)) is None


@given(first=st.integers(0, STEPS - 2), count=st.integers(0, STEPS))
def test_measurements_while_odometry_fails_count_in_no_table(first, count):
    """Heights tied to the last pose before a failure make a drift of what the robot has climbed."""
    graph, _ = flown(0)
    last = min(first + count, STEPS - 2)
    treatment = Treatment((Fault(FAILED, 'B', spans=((first * STEP_NS, last * STEP_NS),)),))
    for name in ('ranges', 'heights', 'verticals'):
        table = graph.tables()[name]
        of_b = np.any(owners_of(graph, table) == 1, axis=0)
        step = stamps_of(graph, table) // STEP_NS
        assert np.array_equal(
            treatment.counts(graph, name, table), ~(of_b & (step >= first) & (step <= last + 1)))


@pytest.mark.parametrize('until', [0.5, 0.8, 1.0])
def test_an_altimeter_that_drifts_is_solved_for_and_its_robot_located(until):
    begin = until - 0.4
    graph, truth = flown(5, lambda at: 2.0 * np.clip((at - begin) / 0.4, 0.0, 1.0))
    whole = Increment(
        0, graph.robots, graph.poses, graph.landmarks,
        newest_stamp_ns=int(graph.poses.stamp_ns.max()), measurements=graph.tables())
    auditor = filled(Auditor(config(dimension=3, robots=graph.robots, solver=GM)), [whole])
    verdict = auditor.audit()
    faults = verdict.treatment.of(ALTIMETER)
    assert {fault.subject for fault in faults} == {'B'}
    newest = np.array([STEPS * STEP_NS])
    drift_m = sum(fault.size[0] * drifted(fault.spans[0], newest)[0] for fault in faults)
    assert drift_m == pytest.approx(2.0, abs=0.4)
    height = verdict.estimate.translation[:, 2] - truth.translation[:, 2]
    assert np.max(np.abs(height)) < 0.5
    assert {one.location.value for one in verdict.segments} == {'located'}
    again = auditor.audit()
    assert again.treatment.of(ALTIMETER) == faults
