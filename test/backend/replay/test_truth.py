"""Ground truth sparser than keyframes: filled in, and what is left out is said."""

from types import SimpleNamespace as M

import numpy as np
from frontend_world import SECOND

from sparser_ros.backend.replay.truth import TruthTrack, uncovered
from sparser_ros.graph import Graph
from sparser_ros.linalg.rotations import angle_to_matrix, matrix_to_quat, rotvec_to_matrix

RADIUS_M, SPEED = 2.0, 1.0
START_NS = 1_700_000_000 * SECOND
KEYFRAMES = np.arange(0.25, 38.0, 0.5)
STAMPS = START_NS + np.round(KEYFRAMES * SECOND).astype(np.int64)


def pose(seconds, dimension):
    """A circle in the plane, or one that climbs; (n, d, d) and (n, d)."""
    angle = np.asarray(seconds) * SPEED / RADIUS_M
    where = RADIUS_M * np.stack([np.sin(angle), 1 - np.cos(angle)], axis=1)
    if dimension == 2:
        return angle_to_matrix(angle), where
    return rotvec_to_matrix(np.outer(angle, [0.0, 0.0, 1.0])), np.column_stack(
        [where, 0.5 * np.sin(0.7 * np.asarray(seconds))])


def track(dimension, times):
    rotation, where = pose(times, dimension)
    full = np.tile(np.eye(3), (len(times), 1, 1))
    full[:, :dimension, :dimension] = rotation
    return TruthTrack(
        [START_NS + round(t * SECOND) for t in times],
        list(np.column_stack([where, 0 * times])[:, :3]), list(matrix_to_quat(full)))


def test_between_sparse_truth_the_way_is_a_curve(dimension):
    """Straight lines cut the corners, by 5 cm at 1 Hz."""
    truth = track(dimension, np.arange(0.0, 40.0))
    rotation, where, inside = truth.curve(dimension)(STAMPS)
    turned, right = pose(KEYFRAMES, dimension)
    assert inside.sum() == len(STAMPS)
    assert np.linalg.norm(where - right, axis=1)[2:].max() < 0.03
    assert np.linalg.norm(rotation - turned, axis=(1, 2)).max() < 0.05


def test_longer_gaps_are_not_filled_in():
    covered = track(2, np.array([0.0, 1.0, 2.0, 6.0, 7.0, 22.0, 22.4])).curve(2)(STAMPS)[2]
    assert np.array_equal(covered, (KEYFRAMES < 2) | ((KEYFRAMES > 6) & (KEYFRAMES < 7)) | (
        (KEYFRAMES > 22) & (KEYFRAMES < 22.4)))


def test_what_is_not_compared_is_said():
    builder = Graph.builder(2)
    n = len(STAMPS)
    builder.add_odometry(
        'A', np.ones((n, 2)), np.zeros(n), sigma_m=0.1, sigma_rad=0.1, stamp_ns=STAMPS)
    graph = builder.build()
    assert uncovered(graph, {'A': track(2, np.arange(0.0, 40.0))}) == []
    (text,) = uncovered(graph, {'A': track(2, np.arange(0.0, 40.0, 6.0))})
    assert 'of A' in text and '77 of 77' in text and '6.0 s' in text and '1.5 s' in text
    (text,) = uncovered(graph, {'A': TruthTrack([], [], [])})
    assert 'no message' in text


def test_what_tracking_systems_send_is_read_and_left_out_where_they_see_nothing():
    """Vicon bridges send transforms; NaN stands for a hidden robot."""
    place, quat = M(x=1.0, y=2.0, z=3.0), M(x=0.0, y=0.0, z=0.0, w=1.0)
    hidden = M(x=np.nan, y=np.nan, z=np.nan)
    seen = TruthTrack([], [], [])
    for k in range(20):
        head, where = M(stamp=M(sec=1 + k, nanosec=0)), hidden if 5 <= k < 8 else place
        seen.add(M(header=head, transform=M(translation=where, rotation=quat)) if k % 2 else
                 M(header=head, pose=M(position=where, orientation=quat)), 0)
    stamps = np.arange(1.0, 20.0, 0.25)
    _, position, inside = seen.curve(3)((stamps * SECOND).astype(np.int64))
    assert np.array_equal(inside, (stamps <= 5) | (stamps > 9))
    np.testing.assert_allclose(position[inside], np.tile([1.0, 2.0, 3.0], (inside.sum(), 1)))
