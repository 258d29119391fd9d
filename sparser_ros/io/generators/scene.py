"""Structure from motion: cameras around points, each sight line scaled by its measured depth."""

from __future__ import annotations

import numpy as np

from ...array_types import Array
from ...graph import Graph, Landmarks, Poses, Sightings, empty_graph

_FIELD_OF_VIEW = 0.6
"""Tangent of half the opening angle."""


def scene(
    cameras: int = 30, points: int = 600, *, views: int = 6, sigma_share: float = 0.01,
    scales: bool = False, seed: int = 0,
) -> Graph:
    """Cameras on a dome of 10 m look at points in a cube of 6 m (z is the optical axis).

    Every point is seen by up to `views` cameras; the noise of a sight line is a share of its
    length per axis, as pixels and relative depth have it. Points seen once are left out, and so
    are cameras that see fewer than three. With `scales` the depths of every camera but the first
    are right up to a factor of its own only, between 1/2 and 2.
    """
    random = np.random.default_rng(seed)
    azimuth, height = random.uniform(0, 2 * np.pi, cameras), random.uniform(0.1, 0.8, cameras)
    flat = np.sqrt(1 - height**2)
    centre = 10 * np.column_stack([flat * np.cos(azimuth), flat * np.sin(azimuth), height])
    rotation = _towards(random.normal(0, 0.5, (cameras, 3)) - centre)
    position = random.uniform(-3, 3, (points, 3))
    inside = np.einsum('cji,cpj->cpi', rotation, position[None] - centre[:, None])
    seen = np.all(np.abs(inside[..., :2]) < _FIELD_OF_VIEW * inside[..., 2:], axis=-1)
    # Of the cameras that see a point, a random few.
    rank = np.argsort(np.argsort(np.where(seen, random.random(seen.shape), 2), axis=0), axis=0)
    seen &= rank < views
    for _ in range(3):
        seen[:, seen.sum(axis=0) < 2] = False
        seen[seen.sum(axis=1) < 3] = False
    camera, point = (
        np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0)))
    seen, inside = seen[camera][:, point], inside[camera][:, point]
    i, p = np.nonzero(seen)
    view = inside[i, p]
    sigma = sigma_share * np.linalg.norm(view, axis=1)
    view = view + sigma[:, None] * random.normal(size=view.shape)
    if scales:
        factor = np.r_[1, 2 ** random.uniform(-1, 1, len(camera) - 1)]
        view = view / factor[i, None]
    n, zero = len(camera), np.zeros(len(camera), dtype=np.int64)
    return empty_graph(3, ('A',)).replaced(
        poses=Poses(zero, np.arange(n), zero, rotation[camera], centre[camera]),
        landmarks=Landmarks(
            tuple(f'P{k}' for k in range(len(point))), position[point],
            np.zeros(len(point), dtype=bool)),
        sightings=Sightings(i, ~p, view, sigma**-2, np.zeros(len(i), dtype=np.int64)),
        name=f'scene{n}x{len(point)}', free_scale=tuple(range(1, n)) if scales else ())


def _towards(axis: Array) -> Array:
    """(n, 3, 3): rotations whose z axis points along `axis`, x axis level."""
    z = axis / np.linalg.norm(axis, axis=1, keepdims=True)
    x = np.cross(z, [0.0, 0.0, 1.0])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack([x, np.cross(z, x), z], axis=2)
