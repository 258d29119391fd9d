"""A new kind of fault is one row of the table: ranges of a radio that are too long by a share."""

import numpy as np
import pytest
from backend_world import GM, config, longer, of_robot, pair_world

from sparser_ros.backend.integrity.faults import KINDS, FaultKind
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.solution import Location
from sparser_ros.graph.finding import Finding

SHARE = 'range_share'


def share_columns(fault, model):
    """With a share theta taken off, predicted minus measured grows by theta times measured."""
    rows = fault.rows(model.graph)
    slope = model.root_of_ranges * model.graph.ranges.distance_m
    return model.columns('ranges', rows, slope[rows, None])


def without_share(faults, graph, table):
    for fault in faults:
        table = table.replaced(distance_m=table.distance_m * np.where(
            fault.ranges(graph, table), 1 - fault.size[0], 1.0))
    return table


def share_words(fault, graph, off):
    percent = 100 * fault.size[0]
    return [Finding(SHARE, fault.subject, f'ranges of {fault.subject} are {percent:.1f} % too long',
                    percent, '%')]


@pytest.fixture(autouse=True)
def range_shares(monkeypatch):
    monkeypatch.setitem(KINDS, SHARE, FaultKind(
        share_words, 'ranges of {} are too long by a share', columns=share_columns,
        floor=lambda config: 0.01, corrected={'ranges': without_share}))


@pytest.mark.parametrize('share', [0.0, 0.03])
def test_it_is_found_taken_off_and_told(share):
    world = pair_world(steps=80)
    auditor = Auditor(config(robots=world.names, solver=GM))
    for one in world.increments(2):
        auditor.add(longer(one, share * one.ranges.distance_m * of_robot(one.ranges, 1)))
    verdict = auditor.audit()
    faults = verdict.treatment.of(SHARE)
    assert [fault.subject for fault in faults] == (['B'] if share else [])
    assert all(segment.location is Location.LOCATED for segment in verdict.segments)
    assert world.map_error_m(verdict.estimate) < 0.05
    if share:
        assert faults[0].size[0] == pytest.approx(1 - 1 / (1 + share), abs=0.003)
        assert [finding.text for finding in verdict.findings] == [
            f'ranges of B are {100 * faults[0].size[0]:.1f} % too long']
