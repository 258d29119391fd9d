"""Covariances as messages and RViz want them."""

import numpy as np
import pytest

from sparser_ros.backend.session.solution import Covariances
from sparser_ros.linalg.rotations import angle_to_matrix, hat, rotvec_to_matrix
from sparser_ros.node.markers import Marker, marker_array_bytes
from sparser_ros.node.picture import ellipsoid, message_covariance, sigmas


def covariances(size, seed=0):
    """Of robot A, at random; B has none."""
    random = np.random.default_rng(seed)
    root = random.normal(size=(size, size))
    poses = np.stack([root @ root.T, np.diag(np.full(size, np.inf))])
    d = 2 if size == 3 else 3
    return Covariances(('A', 'B'), poses, np.zeros((0, d, d)), 'known positions', 1.0)


@pytest.mark.parametrize('size', [3, 6])
def test_an_offset_carries_the_rotation_into_the_position(size):
    known = covariances(size)
    offset = np.array([3.0, -2.0, 0.0 if size == 3 else 1.0])
    actual = message_covariance(known, 'A', offset)
    axes = [0, 1, 5] if size == 3 else list(range(6))
    # By samples: t + offset turned by w, and w.
    noise = np.zeros((200_000, 6))
    root = np.linalg.cholesky(known.poses[0])
    noise[:, axes] = 1e-3 * np.random.default_rng(1).normal(size=(len(noise), size)) @ root.T
    noise[:, :3] += np.cross(noise[:, 3:], offset)
    np.testing.assert_allclose(
        actual, np.cov(noise.T) * 1e6, atol=0.02 * np.abs(actual).max())
    assert np.all(actual[2] == 0) == (size == 3)
    np.testing.assert_allclose(hat(offset[None])[0] @ [1, 2, 3], np.cross(offset, [1, 2, 3]))


def test_what_is_not_known_is_infinite():
    for known, robot in ((covariances(3), 'B'), (covariances(3), 'C'), (covariances(6), 'B')):
        found = message_covariance(known, robot, np.zeros(3))
        assert np.isinf(found[0, 0]) and np.isinf(found[5, 5]) and found[0, 1] == 0
        assert sigmas(known, robot) == (np.inf, np.inf)
    assert np.all(np.isinf(np.diag(message_covariance(None, 'A', np.zeros(3)))))


def test_sigmas_are_those_of_the_worst_direction():
    turn = angle_to_matrix(np.array(0.7))
    poses = np.zeros((1, 3, 3))
    poses[0, :2, :2] = turn @ np.diag([4.0, 0.01]) @ turn.T
    poses[0, 2, 2] = 0.09
    known = Covariances(('A',), poses, np.zeros((0, 2, 2)), '', 1.0)
    assert sigmas(known, 'A') == (pytest.approx(2.0), pytest.approx(0.3))


@pytest.mark.parametrize('d', [2, 3])
def test_an_ellipsoid_holds_95_percent_of_the_samples(d):
    random = np.random.default_rng(2)
    turn = angle_to_matrix(np.array(1.1)) if d == 2 else rotvec_to_matrix(
        np.array([[0.4, -1.0, 0.3]]))[0]
    covariance = turn @ np.diag([1.0, 9.0, 0.25][:d]) @ turn.T
    region = ellipsoid(covariance)
    x, y, z, w = region.quat_xyzw
    axes = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])[:d, :d]
    samples = random.multivariate_normal(np.zeros(d), covariance, 20_000) @ axes
    inside = np.sum((2 * samples / np.array(region.diameters[:d]))**2, axis=1) < 1
    assert np.mean(inside) == pytest.approx(0.95, abs=0.01)


def test_there_is_no_ellipsoid_of_what_is_exact_or_unknown():
    assert ellipsoid(np.zeros((2, 2))) is None
    assert ellipsoid(np.diag([np.inf, np.inf])) is None


def test_the_orientation_of_a_marker_is_in_its_message():
    from rclpy.serialization import deserialize_message
    from visualization_msgs.msg import MarkerArray

    marker = Marker('ns', 3, quat_xyzw=(0.0, 0.0, 0.6, 0.8), scale=(1.0, 2.0, 3.0))
    message = deserialize_message(marker_array_bytes(5, 'map', [marker]), MarkerArray)
    pose = message.markers[0].pose
    assert (pose.orientation.z, pose.orientation.w) == (0.6, 0.8)
    assert message.markers[0].scale.y == 2.0
