"""Ground truth sparser than keyframes: filled in along odometry, and what is left out is said."""

import numpy as np
import pytest
from frontend_world import SECOND

from sparser_ros.backend.replay.truth import TruthTrack, uncovered
from sparser_ros.frontend.record import RecordedOdometry
from sparser_ros.graph import Graph
from sparser_ros.linalg.rotations import angle_to_matrix, matrix_to_quat, rotvec_to_matrix

RADIUS_M, SPEED = 2.0, 1.0
START_NS = 1_700_000_000 * SECOND


def pose(seconds, dimension):
    """A circle in the plane, or one that climbs; (n, d, d) and (n, d)."""
    angle = np.asarray(seconds) * SPEED / RADIUS_M
    where = RADIUS_M * np.stack([np.sin(angle), 1 - np.cos(angle)], axis=1)
    if dimension == 2:
        return angle_to_matrix(angle), where
    return rotvec_to_matrix(np.outer(angle, [0.0, 0.0, 1.0])), np.column_stack(
        [where, 0.5 * np.sin(0.7 * np.asarray(seconds))])


def odometry(dimension, seconds=40.0, split=None):
    """10 Hz in a frame of its own, which turns by 3 degrees a minute; `split`: begins anew."""
    t = np.arange(0, seconds, 0.1)
    rotation, where = pose(t, dimension)
    frame = np.eye(3)
    frame[:2, :2] = angle_to_matrix(np.array([0.8]))[0]
    frame = frame[:dimension, :dimension]
    drift = np.tile(np.eye(dimension), (len(t), 1, 1))
    drift[:, :2, :2] = angle_to_matrix(np.deg2rad(3.0) * t / 60)
    steps = np.diff(where, axis=0, prepend=where[:1])
    where = np.cumsum((frame @ drift @ steps[:, :, None])[:, :, 0], axis=0) + 5.0
    rotation = frame @ drift @ rotation
    poses = np.column_stack([where, np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])]) \
        if dimension == 2 else np.column_stack([where, matrix_to_quat(rotation)])
    stamps = START_NS + np.round(t * SECOND).astype(np.int64)
    segments = np.zeros(len(t), dtype=np.int64) if split is None else (t >= split).astype(np.int64)
    return RecordedOdometry(stamps, segments, poses, stamps[::5], poses[::5], segments[::5])


def track(dimension, times):
    rotation, where = pose(times, dimension)
    result = TruthTrack([], [], [])
    for t, R, place in zip(times, rotation, where, strict=True):
        full = np.eye(3)
        full[:dimension, :dimension] = R
        result.stamps_ns.append(START_NS + round(t * SECOND))
        result.positions_xyz.append(np.array([*place, 0.0][:3]))
        result.quats_xyzw.append(matrix_to_quat(full[None])[0])
    return result


KEYFRAMES = np.arange(0.25, 38.0, 0.5)
STAMPS = START_NS + np.round(KEYFRAMES * SECOND).astype(np.int64)


@pytest.mark.parametrize('dimension', [2, 3])
@pytest.mark.parametrize(('period_s', 'straight_m'), [(1.0, 0.04), (3.0, 0.4)])
def test_between_sparse_truth_the_way_is_that_of_the_odometry(dimension, period_s, straight_m):
    """Straight lines cut the corners: by 5 cm at 1 Hz and by half a metre at a third of it."""
    truth = track(dimension, np.arange(0.0, 40.0, period_s))
    rotation, where, inside = truth.at(STAMPS, dimension, odometry(dimension))
    turned, right = pose(KEYFRAMES, dimension)
    assert inside.sum() == len(STAMPS)
    assert np.linalg.norm(where - right, axis=1).max() < 0.03
    assert np.linalg.norm(rotation - turned, axis=(1, 2)).max() < 0.05
    times = np.arange(0.0, 40.0, period_s)
    straight = np.stack([np.interp(KEYFRAMES, times, axis)
                         for axis in pose(times, dimension)[1].T], axis=1)
    assert np.linalg.norm(straight - right, axis=1).max() > straight_m


def test_without_odometry_of_one_frame_and_beyond_the_longest_gap_nothing_is_filled_in():
    times = np.array([0.0, 3.0, 6.0, 9.0, 12.0, 22.0, 22.4])
    truth = track(2, times)
    inside = truth.at(STAMPS, 2, odometry(2, split=7.0))[2]
    covered = (KEYFRAMES < 6) | ((KEYFRAMES > 9) & (KEYFRAMES < 12)) \
        | ((KEYFRAMES > 22) & (KEYFRAMES < 22.9))
    assert np.array_equal(inside, covered)
    assert truth.at(STAMPS, 2)[2].sum() == 2


def test_what_is_not_compared_is_said():
    builder = Graph.builder(2)
    n = len(STAMPS)
    builder.add_odometry(
        'A', np.ones((n, 2)), np.zeros(n), sigma_m=0.1, sigma_rad=0.1, stamp_ns=STAMPS)
    graph = builder.build()
    record = {'A': odometry(2)}
    assert uncovered(graph, {'A': track(2, np.arange(0.0, 40.0, 3.0))}, record) == []
    (text,) = uncovered(graph, {'A': track(2, np.arange(0.0, 40.0, 6.0))}, record)
    assert 'of A' in text and '77 of 77' in text and '6.0 s' in text and '5 s' in text
    (text,) = uncovered(graph, {'A': TruthTrack([], [], [])}, record)
    assert 'no message' in text
