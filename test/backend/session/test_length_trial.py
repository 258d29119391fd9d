"""One length of a radio explains ranges of its partners that seem faulty together."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.length_trial import LengthTrial
from sparser_ros.backend.session.range_doubts import RangeDoubt, of_sources
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.graph.finding import Finding
from sparser_ros.graph.range_ends import range_ends

LENGTH_M = 0.8
BEACONS = [[6.0, 1.0], [-2.0, 7.0], [4.0, -6.0], [9.0, 8.0]]


@pytest.fixture(scope='module')
def audited():
    """(auditor, contest): two robots among known beacons; the ranges of B are too long."""
    world = World(['curved', 'curved'], [np.zeros(2), np.full(2, 2.0)], BEACONS, seed=3,
                  known=range(4))
    auditor = Auditor(config(robots=world.names, solver=SolverConfig(
        robust=RobustConfig(kernel='gm'))))
    for one in world.increments(1):
        ranges = one.ranges
        ends = [np.where(end >= 0, one.poses.robot[np.maximum(end, 0)], -1)
                for end in (ranges.source, ranges.target)]
        long = (ends[0] == 1) | (ends[1] == 1)
        auditor.add(dataclasses.replace(one, ranges=ranges.replaced(
            distance_m=ranges.distance_m + np.where(long, LENGTH_M, 0.0))))
    contest, error = auditor._attempt(None)
    assert contest is not None, error
    return auditor, contest


def trial(auditor, *believed):
    return LengthTrial(
        auditor._store, auditor._faults._doubt, list(believed), auditor._again)


def group(auditor, subject):
    rows = of_sources(auditor._store.whole, (subject,), 0)
    return RangeDoubt(Finding('range_burst', subject, ''), rows, 0.0)


def test_the_length_of_the_radio_at_fault_is_found_with_the_map_free(audited):
    auditor, contest = audited
    least = trial(auditor).value('B', contest)
    taken = auditor._store.corrections
    auditor._faults._doubt([])
    rows = of_sources(auditor._store.whole, ('B',), 0)
    assert np.array_equal(taken.rows, rows)
    assert taken.length_m == pytest.approx(LENGTH_M, abs=0.15)
    honest = len(auditor._store.whole.ranges)
    assert least < 1.5 * honest < contest.best.value
    # What is taken off a radio that is right explains little.
    other = trial(auditor).value('A', contest)
    auditor._faults._doubt([])
    assert other > least + 25


def test_what_is_left_out_besides_stays_out(audited):
    auditor, contest = audited
    before = group(auditor, 'L0')
    trial(auditor, before).value('B', contest)
    doubted, taken = auditor._store.doubted, auditor._store.corrections
    auditor._faults._doubt([])
    assert np.array_equal(doubted, before.rows)
    assert not np.any(np.isin(taken.rows, before.rows))


def test_the_partner_is_the_other_end_of_most_of_the_misfit(audited):
    auditor, contest = audited
    whole, graph = contest.best.whole, auditor._store.whole
    for name in graph.landmarks.names:
        assert trial(auditor).partner(group(auditor, name), whole) == 'B'
    few = group(auditor, 'L0')
    ends = range_ends(graph)
    own = ends.names.index('B')
    of_b = few.rows[(ends.first[few.rows] == own) | (ends.second[few.rows] == own)]
    assert trial(auditor).partner(dataclasses.replace(few, rows=of_b[:5]), whole) == 'B'
    assert trial(auditor).partner(dataclasses.replace(few, rows=of_b[:4]), whole) == ''
