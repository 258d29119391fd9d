"""The store of increments: quarantine, thinning, growth."""

import numpy as np
import pytest
from backend_world import config, ticks, two_robots

from sparser_ros.backend.session import graph_store
from sparser_ros.backend.session.fault_search import Attempts, Retry
from sparser_ros.backend.session.graph_store import (
    MEASUREMENTS,
    ODOMETRY,
    GraphStore,
    condense,
    culprits,
    possible,
    thinned,
    until,
)
from sparser_ros.backend.session.schedule import GrowthClock
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.backend.session.treatment import Treatment
from sparser_ros.config.backend_config import AuditConfig
from sparser_ros.linalg.rotations import aligned_errors

PARTS = 20


@pytest.mark.parametrize('bad', [
    {}, {7: MEASUREMENTS}, {0: ODOMETRY}, {31: MEASUREMENTS}, {3: ODOMETRY, 4: MEASUREMENTS},
    {2: MEASUREMENTS, 17: MEASUREMENTS, 30: ODOMETRY}])
def test_exactly_the_culprits_are_found_at_the_level_that_helps(bad):
    calls = []

    def works(excluded):
        """Where every bad increment is left out at the level that it needs, at least."""
        calls.append(excluded)
        return all(excluded.get(sequence, 0) >= level for sequence, level in bad.items())

    assert culprits(range(32), {}, works) == bad
    assert len(calls) <= 3 + 9 * len(bad)
    # A defect of another kind blames no increment.
    assert culprits(range(32), {}, lambda excluded: False) is None


@pytest.mark.parametrize(('column', 'value'), [
    ('precision', np.inf), ('distance_m', np.nan), ('distance_m', 1e200)])
def test_a_poisoned_increment_costs_its_own_measurements_only(column, value):
    world = two_robots(2, steps=48)
    increments = world.increments(8)
    getattr(increments[5].ranges, column)[0] = value
    session = Session(config())
    assert all(solution.status.solved for solution in ticks(session, increments))
    solution = session.solve(True)
    named = [one for one in solution.findings if one.kind == 'quarantined']
    if value == 1e200 and not named:
        # Finite: where the solver survives it, the kernel must have rejected it.
        assert len(solution.rejected) >= 1
    else:
        assert [one.value for one in named] == [5.0] and 'A, B' in named[0].text
        assert [sequence for sequence, _ in solution.quarantined] == [5]
    assert np.max(world.errors_in_map(solution)) < 0.4
    assert len(solution.estimate.rotation) == 96


@pytest.mark.parametrize('alone', [(), (1, 3)])
def test_older_increments_are_merged_and_the_sum_stays(monkeypatch, alone):
    monkeypatch.setattr(graph_store, '_SEPARATE', 4)
    every = two_robots(2, steps=48).increments(16)
    increments = list(every)
    place = condense(increments, 0, 6, alone)
    place = condense(increments, place, 13, alone)
    # Of 0 to 3, 4 to 7 and 8 to 11 all are merged but those alone; the newest four stay.
    ends = [one.sequence for one in increments]
    assert ends == ([0, 1, 2, 3] if alone else [3]) + [7, 11, 12, 13, 14, 15]
    assert place == ends.index(11) + 1 and until(increments, 12) == ends.index(12) + 1
    apart, joined = GraphStore(2), GraphStore(2)
    for store, some in (apart, every), (joined, increments):
        for one in some:
            store.add(one, first=store.sequence + 1)
        store.treat(Treatment(quarantined=tuple((number, MEASUREMENTS) for number in (*alone, 14))))
    for name, table in apart.graph.tables().items():
        for column, values in vars(table).items():
            np.testing.assert_array_equal(values, getattr(joined.graph.tables()[name], column))
    assert apart.subjects() == joined.subjects() and set(apart.subjects().values()) == {'A, B'}
    for sequence in (7, 11, 12, 15):
        assert apart.rows_until(sequence) == joined.rows_until(sequence)
    # What is told to be bad only later goes with all that it was merged with.
    joined.treat(Treatment(quarantined=((9, MEASUREMENTS),)))
    rows = joined.rows_until(11)['ranges'] - joined.rows_until(7)['ranges']
    assert rows == 0 < joined.rows_until(7)['ranges']
    assert np.all(joined.graph.relative_poses.odometry) and len(joined.graph.poses) == 96


def every_second(world, steps):
    """Poses of the first steps, every second one but the first of each robot."""
    step = np.arange(len(world.names) * steps) // len(world.names)
    return (step % 2 == 1) & (step < steps - 1)


def renumbered(increment, to, n):
    """A later increment whose endpoints are those of the whole graph, as the front-end has it."""
    def new(end):
        old = to.pose[np.clip(end, 0, n - 1)]
        return np.where(end >= n, end - (n - len(to.kept)), np.where(end >= 0, old, end))

    return increment.replaced(measurements={name: table.replaced(
        **{column: new(getattr(table, column)) for column in table.endpoints()})
        for name, table in increment.tables().items()})


def driven(world, session, cut=None):
    """All increments one by one; thinned after number `cut`. Solutions of every tick."""
    increments, found, to, n = world.increments(PARTS), [], None, 0
    for number, one in enumerate(increments):
        session.add(one if to is None else renumbered(one, to, n))
        found.append(session.solve())
        if number == cut:
            n = session.whole.n_poses
            step = thinned(increments[:number + 1], every_second(world, n // 2), 1)
            to = step.renumbering
            session.thin(step.increment, to)
            found.append(session.solve(False))
    return found, to


@pytest.mark.parametrize('seed', range(3))
def test_the_map_stays_and_goes_on(seed):
    world = two_robots(steps=100, seed=seed)
    audit = AuditConfig(growth=3.0)
    found, to = driven(world, Session(config(audit=audit)), cut=12)
    before, after, last = found[12], found[13], found[-1]
    assert len(after.estimate.translation) == len(to.kept) < len(before.estimate.translation)
    moved = np.linalg.norm(
        after.estimate.translation - before.estimate.translation[to.kept], axis=1)
    # Half of the ranges of the old half are gone: less than twice the noise of one range.
    assert moved.max() < 0.1
    located = [one.location for one in before.robots]
    assert located == [Location.LOCATED] * 2 == [one.location for one in after.robots]
    assert after.epoch == before.epoch and after.sequence == before.sequence
    whole, _ = driven(world, Session(config(audit=audit)))
    kept = np.concatenate([to.kept, np.arange(
        len(before.estimate.translation), len(whole[-1].estimate.translation))])
    true = world.truth.translation
    error = aligned_errors(last.estimate.translation, true[kept])
    reference = aligned_errors(whole[-1].estimate.translation, true)[kept]
    assert np.sqrt(np.mean(error**2)) < 1.25 * np.sqrt(np.mean(reference**2)) + 0.01


def test_audits_after_a_thinning_go_on_and_agree():
    session = Session(config(audit=AuditConfig(growth=1.2)))
    found, _ = driven(two_robots(steps=100, seed=0), session, cut=10)
    assert found[-1].audited_sequence > 11
    assert all(one.location is Location.LOCATED for later in found[11:] for one in later.robots)


def test_counts_of_measurements_go_on_from_those_of_a_thinned_graph():
    """A graph that is thinned again and again never grows beyond what it had before."""
    attempts, clock = Attempts(), GrowthClock(1.25)
    retry = attempts.retries['failures'] = Retry()
    for count in range(1000, 10_001):
        clock.note(count, 0.01 * count)
        retry.due(True, count)
    attempts.exchanges['A', 'B'] = attempts.refused['radio_bias', 'A', 0] = 8000
    attempts.thinned(0.5)
    clock.thinned(0.5)
    assert (attempts.exchanges['A', 'B'], attempts.refused['radio_bias', 'A', 0]) == (4000, 4000)
    assert not retry.due(True, 5000)
    assert any(retry.due(True, count) for count in range(5000, 10_001))
    assert clock.seconds(100.0) == pytest.approx(20.0, abs=0.1)


def test_measurements_in_quarantine_go_and_odometry_in_quarantine_waits():
    world, n = two_robots(steps=100, seed=2), 2 * 50
    increments = world.increments(PARTS)[:10]
    assert possible([(3, 1)]) and not possible([(3, 2)])
    whole = thinned(increments, every_second(world, n // 2), 0)
    part = thinned(increments, every_second(world, n // 2), 0, [(3, 1)])
    lost = len(whole.increment.ranges) - len(part.increment.ranges)
    assert lost == len(increments[3].ranges)
    begin = sum(len(one.ranges) for one in increments[:3])
    assert np.all(part.renumbering.rows['ranges'][begin:begin + lost] == -1)
    assert len(part.increment.poses) == len(whole.increment.poses)
