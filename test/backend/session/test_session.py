"""The session on simulated runs: truth, warm starts, gauge, anchors, changed pictures."""

import dataclasses
import gc
from functools import cache

import numpy as np
import pytest
from backend_world import MARKS, STEP_NS, World, config, filled, ticks
from frontend_world import Robot, drive, range_sample
from graphs import with_landmarks

from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import NETWORK, Location
from sparser_ros.config import ConfigError, RobustConfig, SolverConfig, SparserError
from sparser_ros.config.backend_config import AuditConfig
from sparser_ros.frontend import Frontend
from sparser_ros.linalg.rotations import matrix_to_angle

LOCATED = Location.LOCATED


def run(session, increments):
    return ticks(session, increments)[-1]


def locations(solution):
    return {robot.robot: robot.location for robot in solution.robots}


@pytest.fixture
def world():
    return World(
        ['curved', 'curved', 'still'], [[0, 0], [5, 2], [2, -4]], beacons=[[3, 7], [-4, 1]],
        steps=40)


def test_the_truth_is_found_from_ranges_and_odometry_alone(world):
    solution = run(Session(config(robots=world.names)), world.increments(1))
    assert np.max(world.errors_in_map(solution)) < 0.2
    landmarks = world.true_in_map().landmarks
    assert np.max(np.linalg.norm(solution.estimate.landmarks - landmarks, axis=1)) < 0.2
    assert locations(solution) == {
        'A': LOCATED, 'B': LOCATED, 'C': Location.POSITION_ONLY}
    assert np.all(solution.landmark_located)
    assert solution.full and solution.status.solved
    assert solution.sequence == 0
    assert solution.newest_stamp_ns == 1_000_000_000 + 39 * STEP_NS


def test_the_gauge_robot_starts_at_its_configured_pose(world):
    pose = [3.0, -2.0, 0.7]
    solution = run(
        Session(config(robots=world.names, gauge_robot='B', gauge_initial_pose=pose)),
        world.increments(3))
    row = world.row(1, 0)
    np.testing.assert_allclose(solution.estimate.translation[row], pose[:2], atol=1e-12)
    assert matrix_to_angle(solution.estimate.rotation[row]) == pytest.approx(0.7)
    relative = world.truth.rotation[row].T @ world.truth.rotation[0]
    found = solution.estimate.rotation[row].T @ solution.estimate.rotation[0]
    assert np.linalg.norm(relative - found) < 0.2
    with pytest.raises(ConfigError, match='gauge_initial_pose: expected 3 numbers'):
        Session(config(gauge_initial_pose=[1.0, 2.0]))


def test_the_first_robot_of_the_list_is_waited_for_and_the_gauge_does_not_change_hands():
    world = World(['curved', 'curved'], [[0, 0], [5, 2]], steps=60)
    whole = world.increments(6)
    session = Session(config(robots=('Z', 'A', 'B'), gauge_wait_s=12.0))
    waiting = run(session, whole[:1])
    assert not waiting.status.solved
    assert 'gauge' in waiting.message
    solution = run(session, whole[1:])
    assert locations(solution) == {
        'A': LOCATED, 'B': LOCATED, 'Z': Location.UNLOCATED}
    np.testing.assert_allclose(solution.estimate.translation[0], 0, atol=1e-12)


def test_the_gauge_frame_is_not_published_as_map_where_known_beacons_are_awaited():
    world = World(
        ['curved', 'curved'], [[10, 20], [14, 22]],
        beacons=[[13, 26], [18, 16], [5, 23]], known=(0, 1, 2), steps=60)
    increments = world.increments(6)
    ranges = increments[0].ranges
    session = Session(dataclasses.replace(config(), radios={
        f'L{k}': {'beacon': f'L{k}', 'position': place}
        for k, place in enumerate(world.beacons.tolist())}))
    solution = run(session, [increments[0].replaced(ranges=ranges.take(ranges.target >= -1))])
    assert set(locations(solution).values()) == {Location.UNLOCATED}
    assert all('L0' in one.missing and 'L1' in one.missing for one in solution.robots)
    assert not np.any(solution.landmark_located)
    before = solution.epoch
    solution = run(session, increments[1:])
    assert locations(solution) == {'A': LOCATED, 'B': LOCATED}
    assert solution.epoch > before and solution.anchored
    error = np.linalg.norm(solution.estimate.translation - world.truth.translation, axis=1)
    assert np.max(error) < 0.3


def test_a_robot_that_nothing_ties_is_not_solved_and_said_to_be_untied():
    world = World(['curved', 'curved', 'curved'], [[0, 0], [5, 2], [9, 9]], pairs=[(0, 1)])
    solution = run(Session(config(robots=world.names)), world.increments(2))
    assert locations(solution) == {
        'A': LOCATED, 'B': LOCATED, 'C': Location.UNLOCATED}
    assert 'ties' in solution.robots[2].missing
    rows = np.arange(2, 3 * world.steps, 3)
    np.testing.assert_allclose(
        solution.estimate.translation[rows], world.odometry[2][3], atol=1e-9)


@pytest.mark.parametrize('robots', [1, 2])
def test_one_keyframe_and_one_range_are_no_failure(robots):
    """The pose that holds map has no measurement that counts yet, and stays where it is."""
    names = ['A', 'B'][:robots]
    frontend, session = Frontend(config(robots=names)), Session(config(robots=names))
    for number, name in enumerate(names):
        drive(frontend, [Robot(name, 2, 1)], 3.0 * number, period=1.0)
    frontend.add(range_sample('A', 'door', 0.0, 5.0, variance=0.01))
    session.add(frontend.take(flush=True))
    for full in (None, True, None):
        solution = session.solve(full)
        assert solution.status.solved, solution.message
        assert locations(solution)['A'] is LOCATED and np.all(
            solution.estimate.translation[0] == 0)
    assert not np.any(solution.landmark_located)


def test_a_robot_that_becomes_connected_triggers_a_solve_from_scratch():
    world = World(['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 7]], steps=40)
    increments = world.increments(4)
    apart = increments[0].ranges
    increments[0] = increments[0].replaced(
        ranges=apart.take((apart.source % 2 == 0) & (apart.target < 0)))
    found = ticks(Session(config(audit=AuditConfig(growth=10.0))), increments[:3])
    assert [locations(one)['B'] is LOCATED for one in found[:2]] == [False, True]
    assert [one.full for one in found[1:]] == [True, False]


def test_what_is_restored_is_tracked_and_located_after_the_next_audit(world):
    increments = world.increments(4)
    before = run(Session(config(robots=world.names)), increments[:3])
    session = filled(Session(config(robots=world.names)), increments[:3])
    session.restore(before.estimate)
    solution, = ticks(session, increments[3:], False)
    assert not solution.full and solution.sequence == 3
    assert np.max(world.errors_in_map(solution)) < 0.3
    assert set(locations(solution).values()) == {Location.UNLOCATED}
    assert locations(session.solve()) == locations(before)
    with pytest.raises(SparserError, match='more variables'):
        Session(config(robots=world.names)).restore(before.estimate)


def test_a_failing_solver_keeps_the_estimate(world, monkeypatch):
    increments = world.increments(2)
    session = Session(config(robots=world.names))
    before = run(session, increments[:1])

    def broken(*_, **__):
        raise SparserError('weights differ too much')

    monkeypatch.setattr('sparser_ros.backend.session.contest.solve', broken)
    monkeypatch.setattr('sparser_ros.solver.incremental.IncrementalSolver.update', broken)
    solution = run(session, increments[1:])
    assert not solution.status.solved
    assert 'weights' in solution.message
    n = len(before.estimate.translation)
    np.testing.assert_allclose(
        solution.estimate.translation[:n], before.estimate.translation, atol=1e-9)
    monkeypatch.undo()
    assert session.solve().status.solved


def test_no_data_is_said(world):
    solution = Session(config(robots=world.names)).solve()
    assert not solution.status.solved
    assert locations(solution) == dict.fromkeys('ABC', Location.UNLOCATED)


@pytest.mark.parametrize('kernel', ['none', 'gm'])
def test_ticks_leave_no_cycles(world, kernel):
    """Nothing of them is left that only the garbage collector would free."""
    increments = world.increments(8)
    session = Session(config(
        robots=world.names, solver=SolverConfig(robust=RobustConfig(kernel=kernel))))
    run(session, increments[:2])
    gc.disable()
    # What was there before is set aside, which spares the collector a second each time.
    gc.freeze()
    try:
        run(session, increments[2:])
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = {type(one).__qualname__ for one in gc.garbage
                if type(one).__module__.startswith(('sparser_ros', 'numpy', 'scipy'))}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
    assert not left


ROBUST = SolverConfig(robust=RobustConfig(kernel='gm'))


@cache
def placed_among_beacons():
    """Increments, the second beacon being heard late, and the solutions after each of them."""
    world = World(['curved', 'curved'], [[0, 0], [5, 2]], beacons=MARKS[:, :2], seed=6, steps=60)
    increments = tuple(
        one if number >= 6 else one.replaced(ranges=one.ranges.take(one.ranges.target != -2))
        for number, one in enumerate(world.increments(12)))
    return increments, ticks(Session(config(solver=ROBUST)), increments)


@pytest.mark.parametrize('configured', [True, False], ids=['by its radio', 'by the front-end'])
def test_a_single_known_beacon_keeps_nobody_waiting(configured):
    """It fixes no frame: robots are placed as without it, and the map is put there once, later."""
    (first, *later), free = placed_among_beacons()
    known = {'L1': {'beacon': 'L1', 'position': [-40.0, 10.0, 0.0]}} if configured else {}
    if not configured:
        fixed = np.arange(4) == 1
        first = with_landmarks(
            first, position=np.where(fixed[:, None], [-40, 10], np.nan), fixed=fixed)
    put = ticks(Session(dataclasses.replace(config(solver=ROBUST), radios=known)), [first, *later])
    assert [locations(one) for one in put] == [locations(one) for one in free]
    assert all(state is LOCATED for state in locations(put[5]).values())
    assert 'once one of them is located' in ' '.join(one.text for one in put[5].findings)
    np.testing.assert_allclose(put[5].estimate.translation, free[5].estimate.translation)
    assert [one.epoch for one in put][5::6] == [0, 1] and not free[-1].epoch
    np.testing.assert_allclose(put[-1].estimate.landmarks[1], [-40, 10], atol=1e-9)
    np.testing.assert_allclose(put[-1].estimate.rotation[0], np.eye(2), atol=1e-9)
    said, = [one.text for one in put[-1].findings if one.kind == 'map_heading_free']
    assert 'L1' in said and 'heading' in said
    shift = put[-1].estimate.translation - free[-1].estimate.translation
    np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-9)
    # The datum is the network still.
    assert put[-1].covariances.gauge == NETWORK
    for one, other in zip(*(
            (made[-1].covariances.poses, made[-1].covariances.landmarks)
            for made in (put, free)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6 * other.max())
