"""Heights that drift, or that are measured to something else than the floor, are named."""

import re

import numpy as np
import pytest
from faulty_world import examined
from flying_world import flying_graph

from sparser_ros.backend.integrity.hypotheses import ALTIMETER

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
    assert max(found.undetected.likely(0.01)[[
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
    assert np.sum(hidden.likely(0.01)[of_b]) > 0.9
    later = hidden.driven_on(
        np.zeros((2, 3)), np.full(2, 0.5 * (1 - since) * STEPS), np.tile(np.eye(3, 6), (2, 1, 1)))
    likely = np.where(of_b, hidden.likely(0.01), 0.0)
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
    assert np.sum(hidden.likely(0.01)[of_b]) > 0.99
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
