"""The pose graph on a sphere of g2o's create_sphere, of any size (paper, scalability sweep)."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from ...graph import Graph, Poses, RelativePoses, empty_graph

RADIUS_M, LAP = 100.0, 50
SIGMA_M, SIGMA_QUATERNION = 0.01, 0.005


def sphere(laps: int = 50, seed: int = 0) -> Graph:
    """laps * 50 poses that spiral from pole to pole, each seen from three of the next lap.

    Noise is that of create_sphere: 0.01 m per axis, 0.005 per imaginary part of the quaternion.
    """
    random = np.random.default_rng(seed)
    n = laps * LAP
    pose = np.arange(n)
    longitude = -np.pi + 2 * np.pi * (pose % LAP) / LAP
    latitude = -np.pi / 2 + np.pi * pose / n
    rotation = Rotation.from_euler('ZY', np.column_stack([longitude, latitude])).as_matrix()
    translation = RADIUS_M * rotation[:, :, 0]
    lap, place, side = (
        a.ravel() for a in np.meshgrid(
            np.arange(1, laps), np.arange(LAP), (-1, 0, 1), indexing='ij'))
    inside = (place + side >= 0) & (place + side < LAP) & ~((lap == laps - 1) & (side == 1))
    i = np.concatenate([pose[:-1], ((lap - 1) * LAP + place)[inside]])
    j = np.concatenate([pose[1:], (lap * LAP + place + side)[inside]])
    m = len(i)
    vector = random.normal(0, SIGMA_QUATERNION, (m, 3))
    scalar = np.maximum(1 - np.linalg.norm(vector, axis=1), 0)
    turn = np.swapaxes(rotation[i], 1, 2) @ rotation[j]
    move = np.einsum('kji,kj->ki', rotation[i], translation[j] - translation[i])
    move += np.einsum('kij,kj->ki', turn, random.normal(0, SIGMA_M, (m, 3)))
    zero = np.zeros(n, dtype=np.int64)
    return empty_graph(3, ('A',)).replaced(
        poses=Poses(zero, pose, zero, rotation, translation),
        relative_poses=RelativePoses(
            i, j, turn @ Rotation.from_quat(np.column_stack([vector, scalar])).as_matrix(), move,
            np.full(m, 1 / (2 * SIGMA_QUATERNION**2)), np.full(m, SIGMA_M**-2),
            np.arange(m) < n - 1, np.zeros(m, dtype=np.int64)),
        name=f'sphere{n}')
