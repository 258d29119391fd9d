"""Newest poses beside their datum, and who is located beside whom."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from sparser_ros.backend.observability.datum import Outside
from sparser_ros.backend.session.belief import without_the_doubtful
from sparser_ros.backend.session.scene import Scene, landmarks_beside_each_other, view_of
from sparser_ros.backend.session.solution import Location, RobotLocation
from sparser_ros.config.backend_config import BackendConfig

NAMES = ('A', 'B', 'L0', 'L1', 'L2', 'L3')


def scene(dimension, located=NAMES[2:], owners='AAAABBBB', joint=None, anchored=False):
    """Robots A and B, four landmarks, keyframes of `owners`; by default of random covariance."""
    random = np.random.default_rng(dimension)
    bodies, size = len(NAMES) + len(owners), dimension + (1 if dimension == 2 else 3)
    if joint is None:
        root = random.normal(size=(bodies * size, bodies * size))
        joint = 1e-3 * root @ root.T
    return Scene(
        tuple(RobotLocation(name, Location.LOCATED, '') for name in 'AB'), NAMES,
        random.normal(scale=5.0, size=(bodies, dimension)), located, np.arange(bodies), joint, {},
        anchored, tuple(owners))


def withdrawn(place, *names):
    """The scene in which these robots are not located."""
    return dataclasses.replace(place, robots=tuple(
        dataclasses.replace(state, location=Location.UNLOCATED) if state.robot in names else state
        for state in place.robots))


@pytest.mark.parametrize('dimension', [2, 3])
def test_too_few_beacons_make_keyframes_the_datum(dimension):
    """Those of the path of the first robot, or of another reference."""
    place = withdrawn(scene(dimension, ()), 'A', 'B')
    assert place.gauge == 'A'
    assert place.datum('A').tolist() == [6, 7, 8, 9]
    assert place.datum('B').tolist() == [6, 7, 8, 9]
    beside = dataclasses.replace(place, reference='B')
    assert beside.datum('A').tolist() == beside.datum('B').tolist() == [10, 11, 12, 13]
    alone = withdrawn(scene(dimension, (), owners='BBBB'), 'A', 'B')
    assert alone.datum('A').tolist() == alone.datum('B').tolist() == [6, 7, 8, 9]
    # Of three beacons two are enough in the plane only.
    few = withdrawn(scene(dimension, NAMES[2:4]), 'A', 'B')
    assert (few.datum('A').tolist() == [2, 3]) is (dimension == 2)


def test_without_anything_to_refer_to_no_pose_is_known():
    place = withdrawn(scene(2, (), owners=''), 'A', 'B')
    assert view_of('A', place, None) is None
    assert np.all(np.isinf(np.diagonal(landmarks_beside_each_other(place, 4), axis1=1, axis2=2)))
    place = scene(2)
    assert view_of('nobody', place, None) is None
    unknown = dataclasses.replace(place, place=np.where(np.arange(14) == 0, -1, np.arange(14)))
    assert view_of('A', unknown, None) is None and view_of('B', unknown, None) is not None
    broken = place.joint.copy()
    broken[0, 0] = np.nan
    assert view_of('A', dataclasses.replace(place, joint=broken), None) is None


@pytest.mark.parametrize('dimension', [2, 3])
@pytest.mark.parametrize('located', [NAMES[2:], ()])
def test_sizes_that_the_map_is_solved_with_add_to_the_noise_beside_the_datum(dimension, located):
    place = scene(dimension, located)
    solved = np.zeros((14, dimension, 2))
    solved[0, 0, 0], solved[:, :, 1] = 2.0, 1.0
    hidden = SimpleNamespace(
        place=lambda name: NAMES.index(name), bodies=6, keyframes=np.arange(8), solved=solved)
    alone, view = view_of('A', place, None), view_of('A', place, hidden)
    added = np.zeros_like(alone.pose)
    # The second moves everything alike, which is no error.
    added[0, 0] = 4.0
    np.testing.assert_allclose(view.pose - alone.pose, added, atol=1e-9)
    np.testing.assert_allclose(view.noise, view.pose[:dimension, :dimension])
    assert view.rows.tolist() == [0, *place.datum('A').tolist()]


ROBOTS = ('A', 'B', 'C')


def located(together, sigma, outside):
    """Of three robots with three keyframes each, of which `together` move as one by sigma (m)."""
    owners = tuple('AAABBBCCC')
    position = np.random.default_rng(1).uniform(-20, 20, (12, 3))
    shared = np.zeros((12, 6))
    shared[[k for k, name in enumerate([*ROBOTS, *owners]) if name in together], 0] = sigma
    joint = np.outer(shared.ravel(), shared.ravel()) + 1e-4 * np.eye(72)
    place = Scene(
        tuple(RobotLocation(name, Location.LOCATED) for name in ROBOTS), ROBOTS, position, (),
        np.arange(12), joint, {}, False, owners, outside)
    seen, _ = without_the_doubtful(place, None, BackendConfig())
    return ''.join(one.robot for one in seen.robots if one.location is Location.LOCATED)


@pytest.mark.parametrize('outside', Outside)
@pytest.mark.parametrize(('together', 'apart'), [
    ('BC', 'BC'), ('A', 'BC'), ('AC', 'AC'), ('B', 'AC'), ('ABC', 'ABC')])
def test_whoever_is_apart_from_two_that_know_each_other_is_not_located(together, apart, outside):
    assert located(together, 2.0, outside) == apart
    assert located(together, 0.05, outside) == 'ABC'
