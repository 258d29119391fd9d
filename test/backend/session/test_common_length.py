"""The length that ranges have in common, against dense least squares."""

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.common_length import common_length
from sparser_ros.backend.session.range_corrections import RangeCorrections


def contest_of(beacons, rows=(), length_m=0.0, factor=1.0):
    """Of a world whose ranges `rows` are too long by a length and have a larger variance."""
    auditor = Auditor(config(robots=('A',)))
    world = World(['curved'], [[0, 0]], beacons=beacons, steps=60, seed=2)
    for one in world.increments(3):
        auditor.add(one)
    rows = np.array(rows, dtype=np.int64)
    auditor._store.correct(RangeCorrections(
        rows, np.full(len(rows), -length_m), np.full(len(rows), factor)))
    contest, error = auditor._attempt(None)
    assert contest is not None, error
    return contest


@pytest.mark.parametrize('factor', [1.0, 6.0])
def test_the_length_is_that_of_dense_least_squares(factor):
    rows = np.arange(20, 60)
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
