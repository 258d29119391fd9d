"""Odometry that fails for a while is found by the ranges, left out, and its robot placed anew."""


import numpy as np
import pytest
from backend_world import ROBUST, config, longer, of_robot, ticks, two_robots

from sparser_ros.backend.integrity.faults import FAILED
from sparser_ros.backend.session.graph_store import thinned
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.config.backend_config import AuditConfig, IntegrityConfig
from sparser_ros.graph.parts import find_segments

STEPS, PARTS = 160, 40
FROM, TO = 60, 80
"""Steps of half a second in which the odometry of B stands while B drives."""


def world_of(seed=3, stuck=True):
    """Two robots; the odometry of B repeats its pose for ten seconds, and goes on from there."""
    world = two_robots(steps=STEPS, seed=seed)
    if stuck:
        turns, moves, frames, places = world.odometry[1]
        turns[FROM:TO], moves[FROM:TO] = np.eye(2), 0.0
        for k in range(FROM, STEPS - 1):
            places[k + 1] = places[k] + frames[k] @ moves[k]
            frames[k + 1] = frames[k] @ turns[k]
    return world


def errors(world, solution):
    """(n,): distance of poses from the truth in the frame of the gauge robot."""
    turn = world.truth.rotation[0] @ solution.estimate.rotation[0].T
    at = solution.estimate.translation - solution.estimate.translation[0]
    count = len(at)
    return np.linalg.norm(
        at @ turn.T + world.truth.translation[0] - world.truth.translation[:count], axis=1)


def driven(world, **backend):
    """The session after all increments, and its solutions, one for each increment."""
    session, found = Session(
        config(solver=ROBUST, audit=AuditConfig(growth=1.1), **backend)), []
    for one in world.increments(PARTS):
        session.add(one)
        found.append(session.solve())
    return session, found


def wrong_seconds(world, found):
    """Seconds that B is located more than a metre from where it is."""
    wrong = [
        one.robots[1].location is Location.LOCATED and errors(world, one)[-1] > 1.0
        for one in found]
    return sum(wrong) * STEPS / PARTS / 2


@pytest.mark.parametrize('seed', range(3))
def test_wheels_that_slip_are_found_and_the_robot_is_placed_anew(seed):
    world = world_of(seed)
    session, found = driven(world)
    assert wrong_seconds(world, found) <= 3.0
    last = found[-1]
    words = [one.text for one in last.findings if one.kind == 'odometry_failed']
    assert len(words) == 1 and words[0].startswith('the odometry of B does not hold from')
    verdict = session.auditor.audit()
    data = session.auditor._store.treated(verdict.treatment)
    ends = data.whole.relative_poses.j[data.left_out('relative_poses')]
    steps = ends // 2
    assert np.all(ends % 2 == 1)
    # One interval, in which nothing holds: no odometry, and no range that it would have to carry.
    assert np.all((steps > FROM - 3) & (steps < TO + 3))
    assert len(steps) > (TO - FROM) / 2 and np.all(np.diff(np.sort(steps)) == 1)
    ranges = data.whole.ranges
    measured = np.maximum(ranges.source, ranges.target)[of_robot(ranges, 1)] // 2
    assert np.all(np.isin(np.flatnonzero(of_robot(ranges, 1))[
        (measured > FROM + 2) & (measured < np.max(steps))], data.left_out('ranges')))
    # Poses of which nothing tells where they are stay near those before.
    assert np.max(errors(world, last)) < 0.5 * (TO - FROM) + 1.0
    assert last.robots[0].location is Location.LOCATED
    assert last.robots[1].location in (Location.LOCATED, Location.POSITION_ONLY)
    assert np.max(errors(world, last)[-20:]) < 0.5
    assert len(find_segments(session.graph)) > 2


def test_it_is_only_reported_where_nothing_is_to_be_left_out():
    world = world_of()
    session, found = driven(world, integrity=IntegrityConfig(doubt_odometry=False))
    assert not session.auditor.audit().treatment.of(FAILED)
    assert wrong_seconds(world, found) <= 3.0
    # Ranges since then hold it where it is, and the bend stays in its past.
    assert errors(world, found[-1])[-1] < 0.5


@pytest.mark.parametrize('seed', range(3))
def test_honest_odometry_stays_with_faulty_ranges(seed):
    """A fifth of all ranges is false, and all of B are 4 m too long for ten seconds."""
    world, rng, made = world_of(seed, stuck=False), np.random.default_rng(seed), []
    for one in world.increments(PARTS):
        step, far = np.maximum(one.ranges.source, one.ranges.target) // 2, rng.random(
            len(one.ranges)) < 0.2
        of_b = of_robot(one.ranges, 1) & (step >= FROM) & (step < TO)
        made.append(longer(one, 4.0 * of_b + far * rng.uniform(2, 20, len(far))))
    session = Session(config(solver=ROBUST, audit=AuditConfig(growth=1.1)))
    *_, last = ticks(session, made)
    assert not session.auditor.audit().treatment.of(FAILED)
    assert [one.location for one in last.robots] == [Location.LOCATED] * 2
    assert np.max(errors(world, last)) < 0.5


def test_what_is_left_out_stays_left_out_of_a_thinned_graph():
    world = world_of()
    session, found = driven(world)
    session.auditor.audit()
    before = session.auditor._store.now.left_out('relative_poses')
    drop = np.zeros(2 * STEPS, dtype=bool)
    for step in range(1, STEPS - 21, 2):
        drop[2 * step:2 * step + 2] = True
    step = thinned(world.increments(PARTS), drop, 4)
    session.thin(step.increment, step.renumbering)
    after = session.solve(False)
    assert [one.location for one in after.robots] == [Location.LOCATED] * 2
    store = session.auditor._store
    old, rel = graph_edges(world, before), store.whole.relative_poses
    stamps, left_out = store.whole.poses.stamp_ns, store.now.left_out('relative_poses')
    for row in left_out:
        span = stamps[rel.i[row]], stamps[rel.j[row]]
        assert np.any((old[:, 0] >= span[0]) & (old[:, 1] <= span[1]))
    covered = [np.any((stamps[rel.i[left_out]] <= a)
                      & (stamps[rel.j[left_out]] >= b)) for a, b in old]
    assert np.all(covered)
    again = session.solve(True)
    assert again.robots[1].location.placed
    assert np.max(np.abs(after.estimate.translation[-4:] - found[-1].estimate.translation[-4:])
                  ) < 0.3


def graph_edges(world, rows):
    """(k, 2): stamps of the ends of relative poses of all increments."""
    poses = np.concatenate([one.poses.stamp_ns for one in world.increments(PARTS)])
    i = np.concatenate([one.relative_poses.i for one in world.increments(PARTS)])[rows]
    j = np.concatenate([one.relative_poses.j for one in world.increments(PARTS)])[rows]
    return np.stack([poses[i], poses[j]], axis=1)
