"""Quaternions x, y, z, w and 4x4 matrices, as in the package of this name, over transforms3d."""

import numpy as np
import transforms3d


def _wxyz(quaternion):
    x, y, z, w = quaternion
    return np.array([w, x, y, z], float)


def _xyzw(quaternion):
    w, x, y, z = quaternion
    return np.array([x, y, z, w], float)


def quaternion_from_euler(ai, aj, ak, axes='sxyz'):
    """Quaternion of three Euler angles (rad)."""
    return _xyzw(transforms3d.euler.euler2quat(ai, aj, ak, axes=axes))


def euler_from_quaternion(quaternion, axes='sxyz'):
    """Three Euler angles (rad) of a quaternion."""
    return transforms3d.euler.quat2euler(_wxyz(quaternion), axes=axes)


def quaternion_matrix(quaternion):
    """Homogeneous 4x4 rotation matrix of a quaternion."""
    matrix = np.eye(4)
    matrix[:3, :3] = transforms3d.quaternions.quat2mat(_wxyz(quaternion))
    return matrix


def quaternion_from_matrix(matrix):
    """Quaternion of the rotation in a 4x4 matrix."""
    return _xyzw(transforms3d.quaternions.mat2quat(np.asarray(matrix)[:3, :3]))


def quaternion_multiply(quaternion1, quaternion0):
    """Product: the rotation `quaternion0` followed by `quaternion1`."""
    return _xyzw(transforms3d.quaternions.qmult(_wxyz(quaternion1), _wxyz(quaternion0)))


def quaternion_inverse(quaternion):
    """Inverse of a quaternion of any norm but zero."""
    return _xyzw(transforms3d.quaternions.qinverse(_wxyz(quaternion)))
