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
from .line_records import LARGEST, LONGEST_M, read_lines

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
    lines = read_lines(Path(path))
    try:
        n, m, k = (int(token) for token in ''.join(lines[:1]).split())
        if min(n, m, k) < 1:
            raise ValueError
    except ValueError:
        raise FormatError(
            path, 1, 'expected `cameras points observations`, three whole numbers > 0') from None
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
    with np.errstate(all='ignore'):  # of absurd cameras, which are judged afterwards
        ray = undistorted(pixel / camera[i, 6:7], camera[i, 7], camera[i, 8])
        view = depth[:, None] * np.column_stack([ray, -np.ones(len(ray))])
        weight = (camera[i, 6] / (SIGMA_PIXEL * depth)) ** 2
    bad = ~(np.abs(view).max(axis=1) < LONGEST_M) | ~((weight > 1 / LARGEST) & (weight < LARGEST))
    if np.any(bad):
        row = int(np.flatnonzero(ahead)[np.argmax(bad)])
        raise FormatError(
            path, row + 2, f'no direction: camera {observed[row, 0]:.0f} has no focal length or '
            'distortion of a camera')
    zero = np.zeros(n, dtype=np.int64)
    return empty_graph(3, ('A',)).replaced(
        poses=Poses(
            zero, np.arange(n), zero, rotation, -np.einsum('kij,kj->ki', rotation, shift)),
        landmarks=Landmarks(
            tuple(f'P{q}' for q in range(m)), position, np.zeros(m, dtype=bool)),
        sightings=Sightings(
            i, ~p, view, weight, np.zeros(len(i), dtype=np.int64)),
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
    values = np.empty((count, width))
    for row, line in enumerate(tokens):
        if len(line) != width:
            raise FormatError(
                path, start + row + 1, f'expected {meaning}, got {len(line)} numbers')
        try:
            values[row] = [float(word) for word in line]
        except ValueError as error:
            raise FormatError(path, start + row + 1, f'expected {meaning}: {error}') from None
    good = np.all(np.abs(values) < LONGEST_M, axis=1)
    if not np.all(good):
        raise FormatError(
            path, start + 1 + int(np.argmin(good)),
            f'expected {meaning}, finite and below {LONGEST_M:g}')
    return values
