"""Odometry that fails for a while is found by the ranges, left out, and its robot placed anew."""

import numpy as np
import pytest
from backend_world import (
    ROBUST,
    World,
    config,
    heard,
    in_force,
    longer,
    of_robot,
    two_robots,
)

from sparser_ros.backend.integrity.faults import FAILED
from sparser_ros.backend.session.graph_store import thinned
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph.parts import find_segments

STEPS, PARTS = 160, 20
FROM, TO = 60, 80
"""Steps of half a second in which the odometry of B stands while B drives."""


def world_of(seed=3, stuck=True, alone=False):
    """Two robots; the odometry of B repeats its pose for ten seconds, and goes on from there."""
    world = World(['curved'] * 2, [(-8, 0), (8, 3)], steps=STEPS, seed=seed) if alone else (
        two_robots(steps=STEPS, seed=seed))
    if stuck:
        turns, moves, *_ = world.odometry[1]
        turns[FROM:TO], moves[FROM:TO] = np.eye(2), 0.0
        world.add_up_odometry()
    return world


def wrong_seconds(world, found):
    wrong = [
        one.robots[1].location is Location.LOCATED and world.errors_in_map(one)[-1] > 1.0
        for one in found]
    return sum(wrong) * STEPS / PARTS / 2


@pytest.mark.parametrize('seed', range(3))
def test_wheels_that_slip_are_found_and_the_robot_is_placed_anew(seed):
    world = world_of(seed)
    session, found = heard(world.increments(PARTS))
    assert wrong_seconds(world, found) <= 3.0
    last = found[-1]
    words = [one.text for one in last.findings if one.kind == 'odometry_failed']
    assert len(words) == 1 and words[0].startswith('the odometry of B does not hold from')
    data = in_force(session)
    ends = data.whole.relative_poses.j[data.left_out('relative_poses')]
    steps = ends // 2
    assert np.all(ends % 2 == 1)
    # One interval, in which nothing holds: no odometry, and no range that it would have to carry.
    assert np.all((steps > FROM - 3) & (steps < TO + 3))
    assert len(steps) > (TO - FROM) / 2 and np.all(np.diff(np.sort(steps)) == 1)
    measured = of_robot(data.whole.ranges, 1, begin=FROM + 3, end=np.max(steps))
    assert np.all(np.isin(np.flatnonzero(measured), data.left_out('ranges')))
    # Poses of which nothing tells where they are stay near those before.
    error = world.errors_in_map(last)
    assert np.max(error) < 0.5 * (TO - FROM) + 1.0 and np.max(error[-20:]) < 0.5
    assert last.robots[0].location is Location.LOCATED
    assert last.robots[1].location in (Location.LOCATED, Location.POSITION_ONLY)
    assert len(find_segments(session.graph)) > 2


@pytest.mark.parametrize('seed', range(3))
def test_a_robot_that_its_ranges_deny_is_stated_as_far_off_as_they_say(seed):
    """While the wheels of B slip: its pose is float, and a filter may weigh it."""
    world, ratios = world_of(seed), []
    session = Session(config(solver=ROBUST, integrity=IntegrityConfig(doubt_odometry=False)))
    for one in world.increments(PARTS):
        session.add(one)
        solution = session.solve()
        if 'newest measurements of B do not fit' in solution.robots[1].missing:
            covariance = solution.covariances.of('B')[:2, :2]
            error = world.errors_in_map(solution)[-1]
            ratios.append(error / np.sqrt(np.trace(covariance)))
    assert len(ratios) > 3 and np.max(ratios) < 4.0 and np.median(ratios) < 2.0


@pytest.mark.parametrize(('seed', 'blamed'), [(0, 'A'), (1, 'B')])
def test_ranges_between_two_robots_alone_do_not_tell_whose_odometry_failed(seed, blamed):
    """By chance it seems to be the one or the other: both are withdrawn."""
    world, other = world_of(seed, alone=True), 'AB'.replace(blamed, '')
    session, found = heard(world.increments(PARTS))
    assert [fault.subject for fault in in_force(session).treatment.of(FAILED)] == [blamed]
    assert wrong_seconds(world, found) <= 5.0
    assert [one.location for one in found[-1].robots] == [Location.AMBIGUOUS] * 2
    assert any(f'the odometry of {other} fails instead of that of {blamed} fits as well'
               in one.missing for one in found[-1].robots)


def test_it_is_only_reported_where_nothing_is_to_be_left_out():
    world = world_of()
    session, found = heard(
        world.increments(PARTS), integrity=IntegrityConfig(doubt_odometry=False))
    assert not in_force(session).treatment.of(FAILED)
    assert wrong_seconds(world, found) <= 3.0
    # Ranges since then may hold it where it is, and the bend stays in its past.
    assert found[-1].robots[1].location is not Location.LOCATED or (
        world.errors_in_map(found[-1])[-1] < 1.0)


@pytest.mark.parametrize('seed', range(3))
def test_honest_odometry_stays_with_faulty_ranges(seed):
    world, rng, made = world_of(seed, stuck=False), np.random.default_rng(seed), []
    for one in world.increments(PARTS):
        far = rng.random(len(one.ranges)) < 0.2
        of_b = of_robot(one.ranges, 1, begin=FROM, end=TO)
        made.append(longer(one, 4.0 * of_b + far * rng.uniform(2, 20, len(far))))
    session, (*_, last) = heard(made)
    assert not in_force(session).treatment.of(FAILED)
    assert [one.location for one in last.robots] == [Location.LOCATED] * 2
    assert np.max(world.errors_in_map(last)) < 0.5


def test_what_is_left_out_stays_left_out_of_a_thinned_graph():
    world = world_of()
    session, found = heard(world.increments(PARTS))
    store = session.auditor._store
    before, edges = store.now.left_out('relative_poses'), store.whole.relative_poses
    old = store.whole.poses.stamp_ns[np.stack([edges.i[before], edges.j[before]], axis=1)]
    row = np.arange(2 * STEPS) // 2
    drop = (row % 2 == 1) & (row < STEPS - 21)
    step = thinned(world.increments(PARTS), drop, 4)
    session.thin(step.increment, step.renumbering)
    after = session.solve(False)
    assert [one.location for one in after.robots] == [Location.LOCATED] * 2
    rel, stamps = store.whole.relative_poses, store.whole.poses.stamp_ns
    left_out = store.now.left_out('relative_poses')
    for row in left_out:
        span = stamps[rel.i[row]], stamps[rel.j[row]]
        assert np.any((old[:, 0] >= span[0]) & (old[:, 1] <= span[1]))
    covered = [np.any((stamps[rel.i[left_out]] <= a)
                      & (stamps[rel.j[left_out]] >= b)) for a, b in old]
    assert np.all(covered)
    assert session.solve(True).robots[1].location.placed
    moved = after.estimate.translation[-4:] - found[-1].estimate.translation[-4:]
    assert np.max(np.abs(moved)) < 0.3
