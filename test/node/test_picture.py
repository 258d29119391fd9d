"""What is published of a solution, from arrays alone."""

import dataclasses

import numpy as np
import pytest

from sparser_ros.backend.session.solution import (
    NETWORK,
    Covariances,
    Fix,
    Location,
    Rejected,
    RobotLocation,
    Solution,
)
from sparser_ros.backend.session.treatment import Ruling, Rulings
from sparser_ros.config.node_config import PublishConfig
from sparser_ros.graph import Estimate, Increment, Landmarks, Poses, Ranges, empty
from sparser_ros.graph.measurements import PointPriors, PosePriors, RelativePoses, Sightings
from sparser_ros.linalg.rotations import angle_to_matrix
from sparser_ros.node.markers import (
    ARROW,
    MAX_POINTS,
    TEXT,
    beacon_markers,
    line_list,
    marker_size,
    scene_markers,
)
from sparser_ros.node.picture import (
    corrections,
    drawable,
    lifted,
    map_to_odom,
    newest,
    newest_rows,
    trajectory,
)
from sparser_ros.node.pipeline import GrowingArray, HandedOver, Keyframes
from sparser_ros.solver.result import SolveStats, SolveStatus

RNG = np.random.default_rng(5)
TRUE_MAP_ODOM = {'A': lifted(angle_to_matrix(0.7), np.array([3.0, -1.0])),
                 'B': lifted(angle_to_matrix(-2.0), np.array([-4.0, 2.0]))}


def increment(sequence, robot, first, ranges=None, landmarks=()):
    """One increment with a few keyframes of robots given by number."""
    robot = np.array(robot, dtype=np.int64)
    n = len(robot)
    return Increment(
        sequence, ('A', 'B'),
        Poses(robot, np.arange(n), (first + np.arange(n)) * 10**9,
              angle_to_matrix(RNG.uniform(-3, 3, n)), RNG.normal(size=(n, 2))),
        Landmarks(landmarks, np.full((len(landmarks), 2), np.nan),
                  np.zeros(len(landmarks), dtype=bool)),
        empty(RelativePoses, 2), empty(Sightings, 2),
        empty(Ranges, 2) if ranges is None else ranges, empty(PosePriors, 2),
        empty(PointPriors, 2))


@pytest.fixture
def scene():
    """Two robots' keyframes mixed, and an estimate that is their odometry moved rigidly."""
    parts = [increment(0, [0, 1, 0, 1], 0, landmarks=('L0', 'L1')), increment(1, [1, 1, 0], 4)]
    keyframes = Keyframes(2)
    for part in parts:
        keyframes.append(part)
    robots = np.concatenate([part.poses.robot for part in parts])
    moved = []
    for row, robot in enumerate(robots):
        moved.append(TRUE_MAP_ODOM['AB'[robot]] @ lifted(*keyframes.odometry(row)))
    estimate = Estimate(
        np.array([m.rotation[:2, :2] for m in moved]),
        np.array([m.translation[:2] for m in moved]), np.array([[5.0, 6.0], [7.0, 8.0]]))
    solution = Solution(
        1, estimate, (RobotLocation('A', Location.LOCATED), RobotLocation('B', Location.LOCATED)),
        np.array([True, False]), SolveStatus.CONVERGED, '',
        SolveStats(2, 'none', 'explicit', 'cpu', 'none'), False)
    return keyframes, solution


def handed_over(keyframes, **tables):
    """Keyframes and (tables, rows so far) by the kind of measurement."""
    handed = HandedOver(2)
    handed.keyframes = keyframes
    for kind, (newest_tables, count) in tables.items():
        setattr(handed, kind, newest_tables)
        setattr(handed.counts, kind, count)
    return handed


def relocated(solution, **states):
    robots = tuple(RobotLocation(name, state) for name, state in states.items())
    return dataclasses.replace(solution, robots=robots)


def test_rows_of_a_robot(scene):
    keyframes, _ = scene
    assert keyframes.rows('A', 7).tolist() == [0, 2, 6]
    assert keyframes.rows('B', 7).tolist() == [1, 3, 4, 5]
    assert keyframes.rows('B', 4).tolist() == [1, 3]
    assert keyframes.rows('nobody', 7).tolist() == []


def test_growing_array_keeps_everything():
    grown, parts = GrowingArray((2,), float), []
    for size in (0, 1, 300, 5, 2000):
        parts.append(RNG.normal(size=(size, 2)))
        grown.append(parts[-1])
    np.testing.assert_array_equal(grown.values, np.concatenate(parts))


def test_map_to_odom_is_the_motion_between_the_frames(scene):
    keyframes, solution = scene
    transforms = map_to_odom(solution, keyframes)
    for robot, true in TRUE_MAP_ODOM.items():
        np.testing.assert_allclose(transforms[robot].rotation, true.rotation, atol=1e-12)
        np.testing.assert_allclose(transforms[robot].translation, true.translation, atol=1e-12)


@pytest.mark.parametrize('state', [Location.POSITION_ONLY, Location.UNLOCATED])
def test_only_located_robots_have_transforms_without_covariances(scene, state):
    keyframes, solution = scene
    only = map_to_odom(relocated(solution, A=Location.LOCATED, B=state), keyframes)
    assert list(only) == ['A']


@pytest.mark.parametrize('state', [
    Location.POSITION_ONLY, Location.AMBIGUOUS, Location.UNLOCATED])
@pytest.mark.parametrize('variance', [0.04, np.inf])
def test_a_pose_is_stated_where_its_covariance_is_finite(scene, state, variance):
    keyframes, solution = scene
    poses = np.stack([np.eye(3), np.diag(np.full(3, variance))])
    doubtful = dataclasses.replace(
        relocated(solution, A=Location.LOCATED, B=state),
        covariances=Covariances(('A', 'B'), poses, np.zeros((2, 2, 2)), NETWORK, 1.0))
    wanted = {'A': 6, 'B': 5} if np.isfinite(variance) else {'A': 6}
    assert newest_rows(doubtful, keyframes, Fix.FLOAT) == wanted
    assert newest_rows(doubtful, keyframes) == {'A': 6}, 'located are the same as before'
    assert doubtful.fixes == {
        'A': Fix.FIXED, 'B': Fix.FLOAT if np.isfinite(variance) else Fix.NONE}
    stated = map_to_odom(doubtful, keyframes)
    assert set(stated) == set(wanted)
    for robot in wanted:
        np.testing.assert_allclose(
            stated[robot].translation, TRUE_MAP_ODOM[robot].translation, atol=1e-12)


def test_a_robot_without_keyframes_has_no_stated_pose(scene):
    keyframes, solution = scene
    new = dataclasses.replace(
        relocated(solution, A=Location.LOCATED, C=Location.UNLOCATED), covariances=Covariances(
            ('A', 'C'), np.tile(np.eye(3), (2, 1, 1)), np.zeros((2, 2, 2)), NETWORK, 1.0))
    assert newest_rows(new, keyframes, Fix.FLOAT) == {'A': 6}


def test_corrections_measure_the_jump(scene):
    keyframes, solution = scene
    before = map_to_odom(solution, keyframes)
    shift = lifted(np.eye(2), np.array([0.3, 0.4]))
    after = {'A': shift @ before['A'], 'C': before['B']}
    moved = corrections(before, after, lambda _: (0, np.eye(2), np.array([9.0, 1.0])))
    assert moved == {'A': pytest.approx(0.5)}


def test_thinned_trajectory_keeps_its_ends(scene):
    keyframes, solution = scene
    whole = trajectory(solution, keyframes, 'B', 100)
    thin = trajectory(solution, keyframes, 'B', 2)
    assert len(whole.stamps_ns) == 4
    np.testing.assert_array_equal(thin.positions_xyz, whole.positions_xyz[[0, -1]])
    assert whole.positions_xyz.shape == (4, 3) and whole.quats_xyzw.shape == (4, 4)


def test_newest_tables_hold_enough():
    tables = [[0] * size for size in (5, 3, 2, 4)]
    assert [len(t) for t in newest(tables, 5)] == [2, 4]
    assert newest(tables, 0) == []
    assert len(newest(tables, 100)) == 4


def test_position_only_robots_are_shown_as_points(scene):
    keyframes, solution = scene
    markers = beacon_markers(
        relocated(solution, A=Location.LOCATED, B=Location.POSITION_ONLY), keyframes, 0.3)
    shown = {(m.namespace, m.text) for m in markers}
    assert ('position_only', 'B') in shown and ('beacons', 'L0') in shown
    assert not any(text in ('A', 'L1') for _, text in shown)
    point = next(m for m in markers if m.namespace == 'position_only')
    np.testing.assert_allclose(point.position_xyz[:2], solution.estimate.translation[5])


def test_ranges_are_lines_between_antennas_and_rejected_ones_stand_out(scene):
    keyframes, solution = scene
    table = Ranges(
        np.array([0, 1, 2, 6]), np.array([-1, -1, 3, -2]), np.full((4, 2), 0.5),
        np.zeros((4, 2)), np.ones(4), np.ones(4), np.zeros(4, dtype=np.int64))
    solution = dataclasses.replace(
        solution, rejected=(Rejected(11, 'ranges', 'B0', 'L0', 0.01, 9.0),))
    markers = scene_markers(
        solution, handed_over(keyframes, ranges=([table], 14)), Rulings(), PublishConfig())
    lines = {m.namespace: m.points for m in markers if m.points is not None}
    # Row 3 ends at a beacon that is not located; row 1 is number 11 of all 14.
    assert len(lines['ranges']) == 4 and len(lines['ranges_rejected']) == 2
    estimate = solution.estimate
    antenna = estimate.translation[0] + estimate.rotation[0] @ [0.5, 0.5]
    np.testing.assert_allclose(lines['ranges'][0, :2], antenna)
    np.testing.assert_allclose(lines['ranges'][1, :2], estimate.landmarks[0])


def test_what_the_operator_ignores_is_grey_whatever_the_kernel_says_of_it(scene):
    keyframes, solution = scene
    table = Ranges(
        np.array([0, 1, 2, 6]), np.array([-1, -1, 3, -1]), np.zeros((4, 2)), np.zeros((4, 2)),
        np.ones(4), np.ones(4), np.zeros(4, dtype=np.int64))
    seen = Sightings(np.array([0, 1, 2]), np.array([-1, -1, -2]), np.zeros((3, 2)), np.ones(3),
                     np.zeros(3, dtype=np.int64))
    closures = RelativePoses(
        np.array([0, 1]), np.array([3, 4]), angle_to_matrix(np.zeros(2)), np.zeros((2, 2)),
        np.ones(2), np.ones(2), np.zeros(2, dtype=bool), np.zeros(2, dtype=np.int64))
    solution = dataclasses.replace(solution, rejected=(
        Rejected(0, 'ranges', 'A0', 'L0', 0.01, 9.0),
        Rejected(2, 'ranges', 'A2', 'B3', 0.01, 9.0),
        Rejected(0, 'sightings', 'A0', 'L0', 0.01, 9.0)))
    rulings = Rulings()
    for one in (Ruling('ignore', 'pair', ('L0', 'A')), Ruling('doubt', 'radio', ('B',)),
                Ruling('ignore', 'closure', ('B',), 4 * 10**9)):
        rulings = rulings.with_ruling(one)
    handed = handed_over(
        keyframes, ranges=([table], 4), closures=([closures], 2), sightings=([seen], 3))
    markers = scene_markers(solution, handed, rulings, PublishConfig())
    lines = {m.namespace: m.points for m in markers
             if m.points is not None and m.namespace != 'trajectories'}
    sizes = {name: len(points) // 2 for name, points in lines.items()}
    assert sizes == {'ranges': 1, 'ranges_rejected': 1, 'ranges_ignored': 2, 'sightings': 1,
                     'sightings_rejected': 1, 'closures': 1, 'closures_ignored': 1}
    points = solution.estimate.translation
    np.testing.assert_allclose(lines['ranges_ignored'][[0, 2], :2], points[[0, 6]])
    np.testing.assert_allclose(lines['closures_ignored'][:, :2], points[[1, 4]])
    everything = rulings.with_ruling(Ruling('ignore', 'beacon', ('L0',)))
    markers = scene_markers(solution, handed, everything, PublishConfig())
    names = {m.namespace for m in markers}
    assert 'sightings_ignored' in names and not names & {'sightings', 'sightings_rejected'}


def test_robots_are_arrows_with_names_on_their_trajectories(scene):
    keyframes, solution = scene
    markers = scene_markers(solution, handed_over(keyframes), Rulings(), PublishConfig())
    assert len({(m.namespace, m.id) for m in markers}) == len(markers)
    arrows = {m.text: m for m in markers if m.namespace == 'robots'}
    assert set(arrows) == {'A', 'B'} and {m.type for m in arrows.values()} == {ARROW}
    for robot, row in newest_rows(solution, keyframes).items():
        arrow, turn = arrows[robot], solution.estimate.rotation[row]
        np.testing.assert_allclose(arrow.position_xyz[:2], solution.estimate.translation[row])
        heading = 2 * np.arctan2(arrow.quat_xyzw[2], arrow.quat_xyzw[3])
        np.testing.assert_allclose([np.cos(heading), np.sin(heading)], turn[:, 0], atol=1e-12)
    tracks = [m for m in markers if m.namespace == 'trajectories']
    assert sorted(len(m.points) for m in tracks) == [4, 6]


def test_a_robot_that_is_not_located_is_faint_and_has_its_ellipse_while_that_fits_the_map(scene):
    keyframes, solution = scene

    def drawn(state, sigma_m):
        poses = np.stack([np.eye(3), np.diag([sigma_m**2, sigma_m**2, 0.1])])
        markers = scene_markers(dataclasses.replace(
            relocated(solution, A=Location.LOCATED, B=state),
            covariances=Covariances(('A', 'B'), poses, np.zeros((2, 2, 2)), NETWORK, 1.0)),
            handed_over(keyframes), Rulings(), PublishConfig())
        return {m.namespace: m for m in markers if m.text == 'B' or (m.id % 1000 == 1 and (
            m.namespace in ('trajectories', 'robot_uncertainty')))}

    sure, doubtful = (drawn(state, 0.5) for state in (Location.LOCATED, Location.UNLOCATED))
    assert sure['robots'].color[3] == 1 and doubtful['robots'].color[3] < 0.5
    assert sure['robots'].color[:3] == doubtful['robots'].color[:3]
    assert doubtful['robot_uncertainty'].scale == pytest.approx(
        sure['robot_uncertainty'].scale), 'the ellipse is as large'
    assert 'robot_uncertainty' not in drawn(Location.UNLOCATED, 1e4)
    assert 'robots' in drawn(Location.UNLOCATED, 1e4)
    assert 'robots' not in drawn(Location.POSITION_ONLY, 0.5), 'an arrow would be a lie'


def test_robots_that_are_not_located_are_told_below_the_map_with_the_reason(scene):
    keyframes, solution = scene
    far = 'no range or closure ties it to the robots or beacons located in map'
    lost = dataclasses.replace(solution, robots=(
        RobotLocation('A', Location.LOCATED),
        RobotLocation('B', Location.UNLOCATED, 'position uncertain by 0.5 m: a; b'),
        RobotLocation('C', Location.AMBIGUOUS, far), RobotLocation('D', Location.UNLOCATED)))
    notices = [m for m in scene_markers(lost, handed_over(keyframes), Rulings(), PublishConfig())
               if m.namespace == 'not_located']
    assert [m.text for m in notices] == [
        'B: not located\nposition uncertain by 0.5 m: a',
        'C: ambiguous\nno range or closure ties it to the robots or beacons located in map',
        'D: not located']
    heights = [m.position_xyz[1] for m in notices]
    shown = lost.estimate.points[drawable(lost, keyframes)]
    assert heights == sorted(heights, reverse=True) and heights[0] < np.min(shown[:, 1])
    assert len({m.id for m in notices}) == 3 and {m.type for m in notices} == {TEXT}
    nobody = dataclasses.replace(lost, robots=lost.robots[1:3])
    markers = scene_markers(nobody, handed_over(keyframes), Rulings(), PublishConfig())
    texts = [m.text for m in markers]
    assert sum(text.startswith(('B: ', 'C: ')) for text in texts) == 2


def test_markers_grow_with_the_map(scene):
    keyframes, solution = scene
    wide = dataclasses.replace(solution, estimate=dataclasses.replace(
        solution.estimate, translation=1000 * solution.estimate.translation))
    radius = {}
    for name, one in (('small', solution), ('wide', wide)):
        shown = drawable(one, keyframes)
        radius[name] = marker_size(one, shown, PublishConfig(beacon_size_m=0.2))
        extent = np.linalg.norm(np.ptp(one.estimate.points[shown], axis=0))
        assert radius[name] == pytest.approx(max(0.2, 0.01 * extent))
    assert radius['small'] == 0.2 < radius['wide']
    assert marker_size(wide, drawable(wide, keyframes), PublishConfig(marker_share=0.0)) == 0.3


def test_long_line_lists_are_cut_for_rviz():
    pieces = line_list('ranges', np.zeros((MAX_POINTS // 2 + 3, 2, 3)), (1, 1, 1, 1), 0.1)
    assert [len(piece.points) for piece in pieces] == [MAX_POINTS, 6]
    assert [piece.id for piece in pieces] == [0, 1]
