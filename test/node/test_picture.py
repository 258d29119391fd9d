"""What is published of a solution, from arrays alone."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sparser_ros.backend.session.rulings import Ruling, Rulings
from sparser_ros.backend.session.solution import (
    NETWORK,
    Covariances,
    Fix,
    Location,
    Rejected,
    RobotLocation,
    Solution,
)
from sparser_ros.config.node_config import PublishConfig
from sparser_ros.graph import Estimate, Graph, Landmarks, Poses, Ranges, RelativePoses, Sightings
from sparser_ros.linalg.rotations import angle_to_matrix
from sparser_ros.node import markers, picture
from sparser_ros.solver.result import SolveStats, SolveStatus

RNG = np.random.default_rng(5)
TRUE_MAP_ODOM = {'A': picture.lifted(angle_to_matrix(0.7), np.array([3.0, -1.0])),
                 'B': picture.lifted(angle_to_matrix(-2.0), np.array([-4.0, 2.0]))}
ROBOT = np.array([0, 1, 0, 1, 1, 1, 0])
"""Whose keyframes they are."""


@pytest.fixture
def scene():
    """Two robots' keyframes mixed, and an estimate that is their odometry moved rigidly."""
    n = len(ROBOT)
    poses = Poses(ROBOT, np.arange(n), np.arange(n) * 10**9,
                  angle_to_matrix(RNG.uniform(-3, 3, n)), RNG.normal(size=(n, 2)))
    graph = Graph(2, ('A', 'B'), poses, Landmarks(
        ('L0', 'L1'), np.full((2, 2), np.nan), np.zeros(2, dtype=bool)))
    moved = [
        TRUE_MAP_ODOM['AB'[robot]] @ picture.lifted(poses.rotation[row], poses.translation[row])
        for row, robot in enumerate(ROBOT)]
    estimate = Estimate(
        np.array([m[:2, :2] for m in moved]), np.array([m[:2, 3] for m in moved]),
        np.array([[5.0, 6.0], [7.0, 8.0]]))
    solution = Solution(
        1, estimate, (RobotLocation('A', Location.LOCATED), RobotLocation('B', Location.LOCATED)),
        np.array([True, False]), SolveStatus.CONVERGED, '',
        SolveStats(2, 'none', 'explicit', 'cpu', 'none'), False)
    return graph, solution


def drawn(solution, graph, rulings=None, **publish):
    return markers.scene_markers(
        solution, graph, rulings or Rulings(), PublishConfig(**publish), solution.laid())


def relocated(solution, b, b_pose=None):
    """The solution with B in a state; with covariances where its own is given, (3, 3)."""
    covariances = None if b_pose is None else Covariances(
        ('A', 'B'), np.stack([np.eye(3), b_pose]), np.zeros((2, 2, 2)), NETWORK, 1.0)
    return dataclasses.replace(solution, covariances=covariances, robots=(
        RobotLocation('A', Location.LOCATED), RobotLocation('B', b)))


@pytest.mark.parametrize('state', [
    Location.POSITION_ONLY, Location.AMBIGUOUS, Location.UNLOCATED])
@pytest.mark.parametrize('variance', [0.04, np.inf, None])
def test_a_pose_is_stated_where_its_covariance_is_finite(scene, state, variance):
    graph, solution = scene
    known = variance is not None and np.isfinite(variance)
    found = relocated(
        solution, state, None if variance is None else np.diag(np.full(3, variance)))
    wanted = {'A': 6, 'B': 5} if known else {'A': 6}
    assert picture.newest_rows(found, graph, Fix.FLOAT) == wanted
    assert picture.newest_rows(found, graph) == {'A': 6}, 'located are the same as before'
    assert found.fixes == {'A': Fix.FIXED, 'B': Fix.FLOAT if known else Fix.NONE}
    stated = picture.map_to_odom(found, graph)
    assert set(stated) == set(wanted)
    for robot in wanted:
        np.testing.assert_allclose(stated[robot], TRUE_MAP_ODOM[robot], atol=1e-12)


def test_corrections_measure_the_jump(scene):
    graph, solution = scene
    before = picture.map_to_odom(solution, graph)
    shift = picture.lifted(np.eye(2), np.array([0.3, 0.4]))
    after = {'A': shift @ before['A'], 'C': before['B']}
    moved = picture.corrections(before, after, lambda _: (0, np.eye(2), np.array([9.0, 1.0])))
    assert moved == {'A': pytest.approx(0.5)}


def test_thinned_trajectory_keeps_its_ends(scene):
    graph, solution = scene
    stamps, positions, quats = picture.trajectory(solution, graph, 'B', 100)
    assert len(stamps) == 4 and positions.shape == (4, 3) and quats.shape == (4, 4)
    thin = picture.trajectory(solution, graph, 'B', 2)
    np.testing.assert_array_equal(thin[1], positions[[0, -1]])


def test_position_only_robots_are_shown_as_points(scene):
    graph, solution = scene
    sent = markers.beacon_markers(relocated(solution, Location.POSITION_ONLY), graph, 0.3)
    shown = {(m.namespace, m.text) for m in sent}
    assert ('position_only', 'B') in shown and ('beacons', 'L0') in shown
    assert not any(text in ('A', 'L1') for _, text in shown)
    point = next(m for m in sent if m.namespace == 'position_only')
    np.testing.assert_allclose(point.position_xyz[:2], solution.estimate.translation[5])


def test_beacons_that_are_located_no_longer_leave_the_picture(scene):
    graph, solution = scene
    before = markers.beacon_markers(solution, graph, 0.3)
    other = dataclasses.replace(solution, landmark_located=np.array([False, True]))
    sent = markers.replacing(before, markers.beacon_markers(other, graph, 0.3))
    gone = {(m.namespace, m.id) for m in sent if m.action == markers.DELETE}
    assert gone == {('beacons', 0), ('beacons_names', 0)}
    assert ('beacons', 1) in {(m.namespace, m.id) for m in sent if m.action != markers.DELETE}


def test_what_is_rejected_or_ignored_stands_out(scene):
    """What the operator ignores is grey, whatever the kernel says of it."""
    graph, solution = scene
    ranges = Ranges(
        np.array([0, 1, 2, 6, 3, 6]), np.array([-1, -1, 3, -1, -1, -2]),
        np.tile([0.5, 0.0], (6, 1)), np.zeros((6, 2)), np.ones(6), np.ones(6),
        np.zeros(6, dtype=np.int64))
    seen = Sightings(np.array([0, 1, 2]), np.array([-1, -1, -2]), np.zeros((3, 2)), np.ones(3),
                     np.zeros(3, dtype=np.int64))
    relative = RelativePoses(
        np.array([0, 0, 1, 2]), np.array([2, 3, 4, 5]), angle_to_matrix(np.zeros(4)),
        np.zeros((4, 2)), np.ones(4), np.ones(4), np.array([True, False, False, False]),
        np.zeros(4, dtype=np.int64))
    graph = graph.replaced(ranges=ranges, sightings=seen, relative_poses=relative)
    solution = dataclasses.replace(solution, rejected=tuple(
        Rejected(row, kind, 'A0', 'L0', 0.01, 9.0) for row, kind in (
            (0, 'ranges'), (2, 'ranges'), (0, 'sightings'), (3, 'relative_poses'))))
    rulings = Rulings()
    for one in (Ruling('ignore', 'pair', ('L0', 'A')), Ruling('doubt', 'radio', ('B',)),
                Ruling('ignore', 'closure', ('B',), 4 * 10**9, 4 * 10**9)):
        rulings = rulings.with_ruling(one)
    lines = {m.namespace: m.points for m in drawn(solution, graph, rulings)
             if m.points is not None and m.namespace != 'trajectories'}
    sizes = {name: len(points) // 2 for name, points in lines.items()}
    # The last range ends at a beacon that is not located.
    assert sizes == {'ranges': 2, 'ranges_rejected': 1, 'ranges_ignored': 2, 'sightings': 1,
                     'sightings_rejected': 1, 'closures': 1, 'closures_rejected': 1,
                     'closures_ignored': 1}
    points = solution.estimate.translation
    antennas = points + solution.estimate.rotation @ np.array([0.5, 0.0])
    np.testing.assert_allclose(lines['ranges_ignored'][[0, 2], :2], antennas[[0, 6]])
    np.testing.assert_allclose(lines['ranges'][0:4:2, :2], antennas[[1, 3]])
    np.testing.assert_allclose(
        lines['ranges'][1::2, :2], np.tile(solution.estimate.landmarks[0], (2, 1)))
    np.testing.assert_allclose(lines['closures_ignored'][:, :2], points[[1, 4]])
    everything = rulings.with_ruling(Ruling('ignore', 'beacon', ('L0',)))
    names = {m.namespace for m in drawn(solution, graph, everything)}
    assert 'sightings_ignored' in names and not names & {'sightings', 'sightings_rejected'}


def test_robots_are_arrows_with_names_on_their_trajectories(scene):
    graph, solution = scene
    sent = drawn(solution, graph)
    assert len({(m.namespace, m.id) for m in sent}) == len(sent)
    arrows = {m.text: m for m in sent if m.namespace == 'robots'}
    assert set(arrows) == {'A', 'B'} and {m.type for m in arrows.values()} == {markers.ARROW}
    for robot, row in picture.newest_rows(solution, graph).items():
        arrow, turn = arrows[robot], solution.estimate.rotation[row]
        np.testing.assert_allclose(arrow.position_xyz[:2], solution.estimate.translation[row])
        heading = 2 * np.arctan2(arrow.quat_xyzw[2], arrow.quat_xyzw[3])
        np.testing.assert_allclose([np.cos(heading), np.sin(heading)], turn[:, 0], atol=1e-12)
    tracks = [m for m in sent if m.namespace == 'trajectories']
    assert sorted(len(m.points) for m in tracks) == [4, 6]


def test_a_robot_that_is_not_located_is_faint_and_has_its_ellipse_while_that_fits_the_map(scene):
    graph, solution = scene

    def of_b(state, sigma_m):
        pose = np.diag([sigma_m**2, sigma_m**2, 0.1])
        return {m.namespace: m for m in drawn(relocated(solution, state, pose), graph)
                if m.text == 'B' or (m.id % 1000 == 1 and (
                    m.namespace in ('trajectories', 'robot_uncertainty')))}

    sure, faint = (of_b(state, 0.5) for state in (Location.LOCATED, Location.UNLOCATED))
    assert sure['robots'].color[3] == 1 and faint['robots'].color[3] < 0.5
    assert sure['robots'].color[:3] == faint['robots'].color[:3]
    assert faint['robot_uncertainty'].scale == pytest.approx(
        sure['robot_uncertainty'].scale), 'the ellipse is as large'
    assert 'robot_uncertainty' not in of_b(Location.UNLOCATED, 1e4)
    assert 'robots' in of_b(Location.UNLOCATED, 1e4)
    assert 'robots' not in of_b(Location.POSITION_ONLY, 0.5), 'an arrow would be a lie'


def test_robots_that_are_not_located_are_told_below_the_map_with_the_reason(scene):
    graph, solution = scene
    far = 'no range or closure ties it to the robots or beacons located in map'
    lost = dataclasses.replace(solution, robots=(
        RobotLocation('A', Location.LOCATED),
        RobotLocation('B', Location.UNLOCATED, 'position uncertain by 0.5 m: a; b'),
        RobotLocation('C', Location.AMBIGUOUS, far), RobotLocation('D', Location.UNLOCATED)))
    notices = [m for m in drawn(lost, graph) if m.namespace == 'not_located']
    assert [m.text for m in notices] == [
        'B: not located\nposition uncertain by 0.5 m: a',
        'C: ambiguous\nno range or closure ties it to the robots or beacons located in map',
        'D: not located']
    heights = [m.position_xyz[1] for m in notices]
    shown = lost.estimate.points[picture.drawable(lost, graph)]
    assert heights == sorted(heights, reverse=True) and heights[0] < np.min(shown[:, 1])
    assert len({m.id for m in notices}) == 3 and {m.type for m in notices} == {markers.TEXT}


def test_markers_grow_with_the_map(scene):
    graph, solution = scene
    wide = dataclasses.replace(solution, estimate=dataclasses.replace(
        solution.estimate, translation=1000 * solution.estimate.translation))
    radius = {}
    for name, one in (('small', solution), ('wide', wide)):
        shown = picture.drawable(one, graph)
        radius[name] = markers.marker_size(one, shown, PublishConfig(beacon_size_m=0.2))
        extent = np.linalg.norm(np.ptp(one.estimate.points[shown], axis=0))
        assert radius[name] == pytest.approx(max(0.2, 0.01 * extent))
    assert radius['small'] == 0.2 < radius['wide']


def random_covariances(size, seed=0):
    """Of robot A, at random; B has none."""
    random = np.random.default_rng(seed)
    root = random.normal(size=(size, size))
    poses = np.stack([root @ root.T, np.diag(np.full(size, np.inf))])
    d = 2 if size == 3 else 3
    return Covariances(('A', 'B'), poses, np.zeros((0, d, d)), 'known positions', 1.0)


@pytest.mark.parametrize('size', [3, 6])
def test_an_offset_carries_the_rotation_into_the_position(size):
    known = random_covariances(size)
    offset = np.array([3.0, -2.0, 0.0 if size == 3 else 1.0])
    actual = picture.message_covariance(known, 'A', offset)
    axes = [0, 1, 5] if size == 3 else list(range(6))
    # By samples: t + offset turned by w, and w.
    noise = np.zeros((200_000, 6))
    root = np.linalg.cholesky(known.poses[0])
    noise[:, axes] = 1e-3 * np.random.default_rng(1).normal(size=(len(noise), size)) @ root.T
    noise[:, :3] += np.cross(noise[:, 3:], offset)
    np.testing.assert_allclose(
        actual, np.cov(noise.T) * 1e6, atol=0.02 * np.abs(actual).max())
    assert np.all(actual[2] == 0) == (size == 3)


def test_what_is_not_known_is_infinite():
    for size, robot in ((3, 'B'), (3, 'C'), (6, 'B')):
        known = random_covariances(size)
        found = picture.message_covariance(known, robot, np.zeros(3))
        assert np.isinf(found[0, 0]) and np.isinf(found[5, 5]) and found[0, 1] == 0
        assert picture.sigmas(known, robot) == (np.inf, np.inf)
    assert np.all(np.isinf(np.diag(picture.message_covariance(None, 'A', np.zeros(3)))))


def test_an_ellipsoid_holds_95_percent_of_the_samples(d):
    random = np.random.default_rng(2)
    turn = Rotation.from_rotvec([0.4, -1.0, 0.3] if d == 3 else [0, 0, 1.1]).as_matrix()[:d, :d]
    covariance = turn @ np.diag([1.0, 9.0, 0.25][:d]) @ turn.T
    diameters, quat = picture.ellipsoid(covariance)
    axes = Rotation.from_quat(quat).as_matrix()[:d, :d]
    samples = random.multivariate_normal(np.zeros(d), covariance, 20_000) @ axes
    inside = np.sum((2 * samples / diameters[:d])**2, axis=1) < 1
    assert np.mean(inside) == pytest.approx(0.95, abs=0.01)
