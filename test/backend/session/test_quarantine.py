"""Increments that no solve survives are found, left out and named; the rest goes on."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.session.graph_store import MEASUREMENTS, ODOMETRY, culprits
from sparser_ros.backend.session.session import Session


def solver_that_fails_with(bad):
    """Works where every bad increment is left out at the level that it needs, at least."""
    calls = []

    def works(excluded):
        calls.append(dict(excluded))
        return all(excluded.get(sequence, 0) >= level for sequence, level in bad.items())

    return works, calls


@pytest.mark.parametrize('bad', [
    {}, {7: MEASUREMENTS}, {0: ODOMETRY}, {31: MEASUREMENTS}, {3: ODOMETRY, 4: MEASUREMENTS},
    {2: MEASUREMENTS, 17: MEASUREMENTS, 30: ODOMETRY}])
def test_exactly_the_culprits_are_found_at_the_level_that_helps(bad):
    works, calls = solver_that_fails_with(bad)
    assert culprits(range(32), {}, works) == bad
    assert len(calls) <= 3 + 9 * len(bad)


def test_a_defect_of_another_kind_blames_no_increment():
    assert culprits(range(5), {}, lambda excluded: False) is None


def with_poison(increment, column, value):
    table = increment.ranges
    changed = getattr(table, column).copy()
    changed[0] = value
    return dataclasses.replace(increment, ranges=table.replaced(**{column: changed}))


@pytest.mark.parametrize(('column', 'value'), [
    ('precision', np.inf), ('distance_m', np.nan), ('distance_m', 1e200)])
def test_a_poisoned_increment_costs_its_own_measurements_only(column, value):
    world = World(['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 7], [-4, 1]], steps=48)
    increments = world.increments(8)
    increments[5] = with_poison(increments[5], column, value)
    session = Session(config())
    for one in increments:
        session.add(one)
        solution = session.solve()
        assert solution.status.solved
    solution = session.solve(True)
    named = [one for one in solution.findings if one.kind == 'quarantined']
    if value == 1e200 and not named:
        # Finite: where the solver survives it, the kernel must have rejected it.
        assert len(solution.rejected) >= 1
    else:
        assert [one.value for one in named] == [5.0] and 'A, B' in named[0].text
    truth = world.true_in_map()
    error = np.linalg.norm(solution.estimate.translation - truth.translation, axis=1)
    assert np.max(error) < 0.4
    # Rows are those of all increments, whatever is left out.
    assert len(solution.estimate.rotation) == 96
