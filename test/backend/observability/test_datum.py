"""The datum, and what known beacons, fixes and priors fix of the frame."""

import numpy as np
import pytest
from backend_world import World
from graphs import exponential

from sparser_ros.backend.observability import datum
from sparser_ros.graph import PosePriors, Ranges, empty
from sparser_ros.linalg.rotations import align

NONE, POSITION, MIRRORED = 'no known beacon', 'a position only', 'its mirror image'
PLANE = [[0, 0], [5, 0], [9, 0], [3, 7]]
SPACE = [[0, 0, 0], [5, 0, 0], [0, 5, 0], [1, 2, 6]]


def places(dimension, count=6):
    """A pose's place, the points of a datum, and a small rotation vector."""
    random = np.random.default_rng(dimension)
    points = random.normal(scale=5.0, size=(count + 1, dimension)) + 100.0
    return points[0], points[1:], 1e-5 * random.normal(size=1 if dimension == 2 else 3)


def test_what_is_left_is_that_of_an_alignment(dimension):
    place, points, turn = places(dimension)
    random = np.random.default_rng(7)
    before = np.vstack([place, points])
    moved = before @ exponential(turn).T + 1e-3 + 1e-4 * random.normal(size=before.shape)
    rotation, shift = align(moved[1:], points)
    moves = datum.relative_to(place, points) @ (moved - before)[1:].ravel()
    np.testing.assert_allclose(
        (moved - before)[0] - moves[:dimension], rotation @ moved[0] + shift - place, atol=2e-7)
    np.testing.assert_allclose(exponential(-moves[dimension:]), rotation, atol=1e-8)


def test_too_few_points_leave_a_rotation_open(dimension):
    _, points, _ = places(dimension)
    line = 100.0 + np.outer(np.arange(4.0), np.ones(dimension))
    alike = np.full((4, dimension), 3.0)
    for few in (points[:0], points[:1], points[:dimension - 1], alike):
        assert not datum.spans(few) and datum.relative_to(points[-1], few) is None
    assert datum.spans(line) is (dimension == 2)
    assert (datum.relative_to(points[-1], line) is None) is (dimension == 3)
    enough = points[:dimension]
    assert datum.spans(enough) and datum.relative_to(points[-1], enough) is not None


def heard(beacons, known, dimension=2):
    start = [[1.0, 1.0, 1.0][:dimension]]
    world = World(['curved'], start, beacons=beacons, known=known, dimension=dimension, steps=6)
    return world.graph()


@pytest.mark.parametrize(('beacons', 'known', 'missing'), [
    (PLANE, (), NONE), (PLANE, (0,), POSITION), (PLANE, (0,), 'heading is unobservable'),
    (PLANE, (0, 1), MIRRORED), (PLANE, (0, 1, 2), MIRRORED), (PLANE, (0, 1, 3), ''),
    (SPACE, (0, 1), POSITION), (SPACE, (0, 1, 2), MIRRORED), (SPACE, (0, 1, 2, 3), '')])
def test_known_beacons_fix_the_frame_by_the_space_that_they_span(beacons, known, missing):
    words = datum.frame_missing(heard(beacons, known, len(beacons[0])))
    assert missing in words and bool(words) == bool(missing)
    assert not words or all(f'L{k}' in words for k in known)


@pytest.mark.parametrize(('points', 'levelled', 'missing'), [
    (SPACE[:2], False, 2), (SPACE[:2], True, 1), (SPACE[:3], False, 1), (SPACE[:3], True, 0),
    # One above the other: the heading is open.
    ([[0, 0, 0], [0, 0, 4]], True, 2), (SPACE[:1], True, 2), ([], True, 3),
    (PLANE[:2], False, 1), ([[0, 0], [0.004, 0]], False, 2)])
def test_where_the_vertical_is_known_two_places_beside_each_other_fix_the_frame(
        points, levelled, missing):
    d = len(points[0]) if points else 3
    assert datum.directions_open(np.reshape(points, (-1, d)), levelled) == missing


def test_a_prior_on_a_pose_fixes_the_frame_and_beacons_that_are_not_heard_do_not():
    silent = heard([[0, 0], [5, 0]], (0, 1)).replaced(ranges=empty(Ranges, 2))
    assert NONE in datum.frame_missing(silent)
    assert datum.frame_missing(heard([[0, 0]], ()).replaced(pose_priors=PosePriors(
        np.array([0]), np.eye(2)[None], np.zeros((1, 2)), np.ones(1), np.ones(1),
        np.zeros(1, dtype=np.int64)))) == ''


def test_an_upright_datum_takes_off_no_tilt():
    rng = np.random.default_rng(0)
    points, place = rng.normal(size=(5, 3)), np.array([3.0, -2.0, 1.0])
    turn, shift = np.array([0.0, 0.0, 1e-3]), np.array([0.2, -0.1, 0.0])
    nothing, vertical, height = datum.Outside
    for outside, tilt in ((nothing, 1e-3), (vertical, 0.0), (height, 0.0)):
        w = turn + np.array([tilt, 0, 0])
        moved_by = (shift + np.cross(w, points)).ravel()
        relative = datum.relative_to(place, points, outside) @ moved_by
        np.testing.assert_allclose(relative, [*(shift + np.cross(w, place)), *w], atol=1e-12)
    lift = np.tile([0.0, 0.0, 1.0], 5)
    np.testing.assert_allclose(datum.relative_to(place, points, height) @ lift, 0, atol=1e-12)
    assert datum.spans(points[:2], vertical)
    assert not datum.spans(points[:2])
    assert not datum.spans(np.array([[0, 0, 0], [0, 0, 4.0]]), vertical)
    assert datum.motions(points, height).shape == (15, 6)
