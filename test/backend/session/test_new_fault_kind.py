"""A new kind of fault is one row of the table: ranges of a radio that are long by a share."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.integrity.faults import KINDS, FaultKind
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.solution import Location
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.graph.finding import Finding

SHARE = 'range_share'


def columns(fault, model):
    """With a share theta taken off, predicted minus measured grows by theta times measured."""
    rows = fault.rows(model.graph)
    slope = model.root_of_ranges * model.graph.ranges.distance_m
    return model.columns('ranges', rows, slope[rows, None])


def corrected(faults, graph, table):
    for fault in faults:
        table = table.replaced(distance_m=table.distance_m * np.where(
            fault.ranges(graph, table), 1 - fault.size[0], 1.0))
    return table


def words(fault, graph, off):
    percent = 100 * fault.size[0]
    return [Finding(SHARE, fault.subject, f'ranges of {fault.subject} are {percent:.1f} % too long',
                    percent, '%')]


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setitem(KINDS, SHARE, FaultKind(
        words, 'ranges of {} are too long by a share', columns=columns,
        floor=lambda config: 0.01, corrected={'ranges': corrected}))


@pytest.mark.parametrize('share', [0.0, 0.03])
def test_it_is_found_taken_off_and_told(table, share):
    world = World(['curved', 'curved'], [np.zeros(2), np.full(2, 2.0)],
                  [[6.0, 1.0], [-2.0, 17.0], [14.0, -6.0], [9.0, 8.0]], seed=3, known=range(4))
    auditor = Auditor(config(robots=world.names, solver=SolverConfig(
        robust=RobustConfig(kernel='gm'))))
    for one in world.increments(2):
        ranges = one.ranges
        of_b = (ranges.source % 2 == 1) & (ranges.source >= 0) | (
            (ranges.target % 2 == 1) & (ranges.target >= 0))
        auditor.add(dataclasses.replace(one, ranges=ranges.replaced(
            distance_m=ranges.distance_m * np.where(of_b, 1 + share, 1.0))))
        verdict = auditor.audit()
    found = verdict.treatment.of(SHARE)
    assert [one.subject for one in found] == (['B'] if share else [])
    assert all(one.location is Location.LOCATED for one in verdict.segments)
    if share:
        assert found[0].size[0] == pytest.approx(1 - 1 / (1 + share), abs=0.003)
        assert [one.text for one in verdict.findings] == ['ranges of B are 2.9 % too long']
        error = verdict.estimate.translation - world.truth.translation
        assert np.sqrt(np.mean(np.sum(error**2, axis=1))) < 0.05
