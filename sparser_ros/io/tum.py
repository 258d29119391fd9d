"""TUM trajectories: `stamp x y z qx qy qz qw`, one file per robot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..array_types import Array, Index
from ..graph import Estimate, Graph
from ..linalg.rotations import matrix_to_angle, matrix_to_quat
from . import atomic
from .stamp_text import NANOSECONDS_ABOVE, SECOND, format_stamp


def write(
    directory: Path | str, graph: Graph, estimate: Estimate, stamps: Index,
    remarks: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write `<robot>.tum` for every robot that has poses; returns the paths.

    `stamps` (n,) are int nanoseconds per pose; for a robot whose stamps do not increase (no
    times in the file) the pose's number stands in, as seconds. `remarks`: robot -> what the first
    line of its file says, as a comment. Files are written atomically.
    """
    names = safe_names(graph.robots)
    paths = []
    for number in range(len(graph.robots)):
        rows = graph.pose_rows(number)
        if not len(rows):
            continue
        times = np.asarray(stamps)[rows].tolist()
        if any(later <= earlier for earlier, later in pairwise(times)):
            # Some systems number poses by nanoseconds; as seconds they would exceed 64 bits.
            times = [k if k > NANOSECONDS_ABOVE else k * SECOND
                     for k in graph.poses.index[rows].tolist()]
        path = Path(directory) / f'{names[number]}.tum'
        write_one(path, times, estimate.rotation[rows], estimate.translation[rows],
                  (remarks or {}).get(graph.robots[number], ''))
        paths.append(path)
    return paths


def write_one(path: Path, stamps_ns: Sequence[int], rotation: Array, translation: Array,
              remark: str = '') -> None:
    """Write one trajectory atomically: stamps (k,), rotations (k, d, d), positions (k, d) in m.

    `remark`: a first line that begins with #, as readers of TUM files skip it.
    """
    values = np.column_stack([xyz(translation), quats(rotation)])
    lines = [f'# {" ".join(remark.split())}'] if remark else []
    lines += [
        f'{format_stamp(stamp)} ' + ' '.join(f'{x:.9f}' for x in row)
        for stamp, row in zip(stamps_ns, values.tolist(), strict=True)
    ]
    atomic.write_text(path, '\n'.join(lines) + '\n')


def xyz(points: Array) -> Array:
    """Points (..., 2) of the plane at z = 0, or points (..., 3) as they are."""
    if points.shape[-1] == 3:
        return points
    return np.concatenate([points, np.zeros((*points.shape[:-1], 1))], axis=-1)


def quats(rotation: Array) -> Array:
    """Quaternions x y z w (n, 4), w >= 0, of rotations of the plane (about z) or of space."""
    if rotation.shape[-1] == 3:
        return matrix_to_quat(rotation)
    half = matrix_to_angle(rotation) / 2
    zero = np.zeros_like(half)
    return np.column_stack([zero, zero, np.sin(half), np.cos(half)])


def safe_names(robots: Sequence[str]) -> list[str]:
    """File names of all robots; `A/B` beside `A_B` becomes `A_B~2`."""
    names: list[str] = []
    for robot in robots:
        name, number = safe_name(robot), 2
        while name in names or (number > 2 and name in robots):  # '~2' may be a robot as well
            name, number = f'{safe_name(robot)}~{number}', number + 1
        names.append(name)
    return names


def safe_name(name: str) -> str:
    """A robot's name as a file name: namespaces must not become folders."""
    return name.strip('/').replace('/', '_') or '_'
