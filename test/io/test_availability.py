"""How long robots had a fix, and how good their poses were."""

import numpy as np
import pytest

from sparser_ros.graph import Poses, empty_graph
from sparser_ros.io.availability import (
    Availability,
    StatedPose,
    accuracy_lines,
    positions_of,
    share_text,
)
from sparser_ros.linalg.rotations import angle_to_matrix

SECOND = 10**9


def track(positions, seconds):
    """A graph of the poses of robot A."""
    count = len(positions)
    return empty_graph(2).replaced(robots=('A',), poses=Poses(
        np.zeros(count, dtype=np.int64), np.arange(count), np.asarray(seconds) * SECOND,
        np.tile(np.eye(2), (count, 1, 1)), np.asarray(positions, dtype=float)))


def test_shares_are_of_data_time_and_hold_until_the_next_state():
    seen = Availability()
    assert seen.shares == {}
    for now, fixes in ((5.0, {'A': 0}), (7.0, {'A': 1, 'B': 0}), (10.0, {'A': 2, 'B': 2}),
                       (15.0, {'A': 2, 'B': 1}), (15.0, {'A': 0, 'B': 1})):
        seen.note(now, fixes)
    assert seen.shares['A'] == {'none': 0.2, 'float': 0.3, 'fixed': 0.5}
    assert seen.shares['B'] == pytest.approx({'none': 3 / 8, 'float': 0.0, 'fixed': 5 / 8})
    assert share_text(seen.shares['B']) == 'fixed 62 %, none 38 %'


def test_each_map_is_laid_on_the_truth_by_itself_and_fixes_are_told_apart():
    random, truth = np.random.default_rng(3), np.zeros((2000, 2))
    truth[:] = np.cumsum(random.normal(size=truth.shape), axis=0)
    stamps, seen, sigma = np.arange(len(truth)) * SECOND, Availability(), 0.05
    for count in range(1000, 2001):
        turn, shift = angle_to_matrix(count / 50), np.array([count, -3.0])
        path = truth[:count] @ turn.T + shift
        fix = 2 if count % 2 else 1
        error = random.normal(scale=sigma, size=2) * (1 if fix == 2 else 3)
        seen.draw({'A': (stamps[:count], path)}, [
            StatedPose('A', fix, int(stamps[count - 1]), path[-1] + error, np.eye(2) * sigma**2)])
    found = seen.accuracy(positions_of(track(truth, np.arange(len(truth)))))
    assert found['fixed']['rmse_m'] == pytest.approx(sigma * 2**0.5, rel=0.1)
    assert found['float']['rmse_m'] == pytest.approx(3 * sigma * 2**0.5, rel=0.1)
    assert found['fixed']['poses'] == 500 and found['float']['poses'] == 501
    assert found['fixed']['inside_95'] == pytest.approx(0.95, abs=0.03)
    assert found['float']['inside_95'] < 0.5
    assert accuracy_lines(found)[0].startswith('fixed poses as published: RMSE 0.07')


def test_a_map_is_laid_on_the_truth_by_robots_that_are_fixed():
    """A robot that is 30 m off must not make a right one look wrong."""
    truth, stamps = np.column_stack([np.arange(20.0), np.arange(20.0)**2 / 20]), np.arange(20)
    both = track(truth, stamps)
    known = positions_of(both)
    seen, far = Availability(), truth @ angle_to_matrix(2.0).T + 30.0
    path = stamps * SECOND
    seen.draw({'A': (path, truth), 'B': (path, far)}, [
        StatedPose('A', 2, int(path[-1]), truth[-1], np.eye(2)),
        StatedPose('B', 1, int(path[-1]), far[-1], np.eye(2))])
    found = seen.accuracy(lambda _, at: known('A', at))
    assert found['fixed']['rmse_m'] < 1e-9 < 20 < found['float']['rmse_m']


def test_what_the_truth_does_not_know_is_not_compared():
    truth = positions_of(track([[k, k**2] for k in range(5)], range(5)))
    assert np.isnan(truth('A', np.array([5 * SECOND]))).all()
    assert np.isnan(truth('B', np.array([SECOND]))).all()
    np.testing.assert_allclose(truth('A', np.array([SECOND + SECOND // 2])), [[1.5, 2.5]])
    seen = Availability()
    path = np.arange(5) * SECOND, np.arange(10.0).reshape(5, 2)
    seen.draw({'B': path}, [StatedPose('B', 2, 0, np.zeros(2), np.eye(2))])
    seen.draw({}, [])
    assert seen.accuracy(truth) == {}
