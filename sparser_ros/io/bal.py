"""Bundle adjustment in the large (BAL) files, read as structure from motion with known depths.

A line `camera point x y` per observation, then nine numbers per camera (rotation vector,
translation, f, k1, k2), then three per point, one number per line. A camera looks along its -z
axis: P = R X + t, p = -P_xy / P_z, pixel = f (1 + k1 |p|^2 + k2 |p|^4) p.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from ..array_types import Array
from ..config import FormatError
from ..graph import Graph, Landmarks, Poses, Sightings, empty_graph

SIGMA_PIXEL = 1.0
"""Noise of an observation per image axis, pixels."""
_CAMERA_NUMBERS, _POINT_NUMBERS = 9, 3
_NEWTON_STEPS = 30
"""Steps of Newton's method that invert the distortion of a pixel's radius."""


def read(path: Path | str) -> Graph:
    """A graph of cameras and points; FormatError names file and line of the first fault.

    Vertices hold the file's cameras and points. A sighting is the observed pixel's ray times the
    depth that these give, its weight that of a pixel's error at that depth.
    """
    lines = Path(path).read_text().split('\n')
    try:
        n, m, k = (int(token) for token in lines[0].split())
    except ValueError as error:
        raise FormatError(
            path, 1, 'expected `cameras points observations`, three whole numbers') from error
    observed = _numbers(path, lines, 1, k, 4, 'camera point x y')
    rest = _numbers(
        path, lines, 1 + k, _CAMERA_NUMBERS * n + _POINT_NUMBERS * m, 1,
        'one number of a camera or point')
    camera = rest[: _CAMERA_NUMBERS * n].reshape(n, _CAMERA_NUMBERS)
    position = rest[_CAMERA_NUMBERS * n :].reshape(m, _POINT_NUMBERS)
    i, p = observed[:, 0].astype(np.int64), observed[:, 1].astype(np.int64)
    bad = (i < 0) | (i >= n) | (p < 0) | (p >= m)
    if np.any(bad):
        row = int(np.argmax(bad))
        raise FormatError(path, row + 2, f'camera {i[row]} or point {p[row]} is not in the file')
    turn, shift = Rotation.from_rotvec(camera[:, :3]).as_matrix(), camera[:, 3:6]
    rotation = np.swapaxes(turn, 1, 2)
    depth = -(np.einsum('kij,kj->ki', turn[i], position[p]) + shift[i])[:, 2]
    ahead = depth > 0
    i, p, depth, pixel = i[ahead], p[ahead], depth[ahead], observed[ahead, 2:]
    ray = undistorted(pixel / camera[i, 6:7], camera[i, 7], camera[i, 8])
    view = depth[:, None] * np.column_stack([ray, -np.ones(len(ray))])
    zero = np.zeros(n, dtype=np.int64)
    return empty_graph(3, ('A',)).replaced(
        poses=Poses(
            zero, np.arange(n), zero, rotation, -np.einsum('kij,kj->ki', rotation, shift)),
        landmarks=Landmarks(
            tuple(f'P{q}' for q in range(m)), position, np.zeros(m, dtype=bool)),
        sightings=Sightings(
            i, ~p, view, (camera[i, 6] / (SIGMA_PIXEL * depth)) ** 2,
            np.zeros(len(i), dtype=np.int64)),
        name=Path(path).stem)


def undistorted(image: Array, k1: Array, k2: Array) -> Array:
    """(k, 2): p with (1 + k1 |p|^2 + k2 |p|^4) p = image, by Newton's method on |p|."""
    target = np.linalg.norm(image, axis=1)
    radius = target.copy()
    for _ in range(_NEWTON_STEPS):
        square = radius**2
        value = radius * (1 + k1 * square + k2 * square**2) - target
        slope = 1 + 3 * k1 * square + 5 * k2 * square**2
        radius = np.maximum(radius - value / np.where(slope > 0.1, slope, 0.1), 0)
    return image * (radius / np.where(target > 0, target, 1))[:, None]


def _numbers(
    path: Path | str, lines: list[str], start: int, count: int, width: int, meaning: str
) -> Array:
    """(count, width) numbers of lines start, start + 1, …; empty lines only at the end."""
    if len(lines) < start + count:
        raise FormatError(path, len(lines), f'expected {meaning}, the file ends')
    tokens = [line.split() for line in lines[start : start + count]]
    for row, line in enumerate(tokens):
        if len(line) != width:
            raise FormatError(
                path, start + row + 1, f'expected {meaning}, got {len(line)} numbers')
    try:
        return np.asarray(tokens, dtype=float).reshape(count, width)
    except ValueError as error:
        raise FormatError(path, start + 1, f'expected {meaning}: {error}') from error
