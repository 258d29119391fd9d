"""The factor graph: poses of robots, landmarks and the measurements between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import GraphError
from .keys import point_index
from .measurements import (
    PointPriors,
    PosePriors,
    Ranges,
    RelativePoses,
    Sightings,
    Table,
    empty,
)


@dataclass(frozen=True)
class Poses(Table):
    """Pose variables, in any order of robots; values are truth, reference or initial guess."""

    robot: Index
    """(n,): position in `Graph.robots`."""
    index: Index
    """(n,): number of the pose within its robot, increasing in time."""
    stamp_ns: Index
    """(n,): 0 = unknown."""
    rotation: Array
    """(n, d, d): R_map_body."""
    translation: Array
    """(n, d): body in map, metres."""


@dataclass(frozen=True)
class Landmarks:
    """Points without heading: beacons and landmarks."""

    names: tuple[str, ...]
    position: Array
    """(m, d): metres in map."""
    fixed: Mask
    """(m,): true where the position is known exactly and is no variable."""

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Graph:
    """All variables and measurements of one problem."""

    dimension: int
    robots: tuple[str, ...]
    poses: Poses
    landmarks: Landmarks
    relative_poses: RelativePoses
    sightings: Sightings
    ranges: Ranges
    pose_priors: PosePriors
    point_priors: PointPriors
    name: str = field(default='', compare=False)
    free_scale: tuple[int, ...] = ()
    """Poses whose sightings are right up to one unknown factor per pose (paper, table I, row 3)."""

    @property
    def n_poses(self) -> int:
        return len(self.poses)

    @property
    def n_landmarks(self) -> int:
        return len(self.landmarks)

    @property
    def anchored(self) -> bool:
        """True when something absolute fixes the map frame."""
        return bool(
            len(self.pose_priors) or len(self.point_priors) or np.any(self.landmarks.fixed)
        )

    def replaced(self, **parts: object) -> Graph:
        """A copy with some parts replaced."""
        return replace(self, **parts)  # type: ignore[arg-type]

    def validate(self) -> Graph:
        """Return self, or raise GraphError naming table, row and column of the first fault."""
        n, m = self.n_poses, self.n_landmarks
        for name, table in self.tables().items():
            for column, values in vars(table).items():
                if values.dtype.kind == 'f' and not np.all(np.isfinite(values)):
                    row = int(np.argwhere(~np.isfinite(values))[0, 0])
                    raise GraphError(f'{name}[{row}].{column} is not finite')
                if column in ('tau', 'precision') and np.any(values <= 0):
                    row = int(np.argmax(values <= 0))
                    raise GraphError(f'{name}[{row}].{column} = {values[row]} is not positive')
                if column in ('i', 'j', 'point', 'source', 'target') and len(values):
                    low = -m if column in ('point', 'source', 'target') else 0
                    if values.min() < low or values.max() >= n:
                        row = int(np.argmax((values < low) | (values >= n)))
                        raise GraphError(f'{name}[{row}].{column} names no variable')
        self._validate_scales()
        distance = self.ranges.distance_m
        if np.any(distance <= 0):
            row = int(np.argmax(distance <= 0))
            raise GraphError(f'ranges[{row}].distance_m = {distance[row]} is not positive')
        return self

    def _validate_scales(self) -> None:
        free = np.asarray(self.free_scale, dtype=np.int64)
        if not len(free):
            return
        if free.min() < 0 or free.max() >= self.n_poses or len(np.unique(free)) == self.n_poses:
            raise GraphError(
                'free_scale names no pose, or all of them: one pose at least must give the scale')
        turned = {
            'relative_poses': np.concatenate([self.relative_poses.i, self.relative_poses.j]),
            'pose_priors': self.pose_priors.i,
            'ranges': np.concatenate([self.ranges.source, self.ranges.target]),
            'point_priors': self.point_priors.point,
        }
        for name, poses in turned.items():
            if np.any(np.isin(poses, free)):
                raise GraphError(
                    f'{name}: a pose of free_scale can have sightings only, its rotation is known '
                    'up to that factor')

    def tables(self) -> dict[str, Table]:
        """The measurement tables by name, in their fixed order."""
        return {
            'relative_poses': self.relative_poses,
            'sightings': self.sightings,
            'ranges': self.ranges,
            'pose_priors': self.pose_priors,
            'point_priors': self.point_priors,
        }

    def points(self, endpoint: Index) -> Index:
        """Rows of endpoints in the stacked positions [pose translations; landmarks]."""
        return point_index(endpoint, self.n_poses)

    def endpoint_name(self, endpoint: int) -> str:
        """Human name of an endpoint: robot and pose number, or landmark name."""
        if endpoint < 0:
            return self.landmarks.names[~endpoint]
        return f'{self.robots[self.poses.robot[endpoint]]}{self.poses.index[endpoint]}'


def empty_graph(dimension: int, robots: tuple[str, ...] = ()) -> Graph:
    """A graph without variables or measurements."""
    d = dimension
    if d not in (2, 3):
        raise GraphError(f'dimension must be 2 or 3, not {d}')
    zero = np.zeros(0, dtype=np.int64)
    return Graph(
        d,
        robots,
        Poses(zero, zero, zero, np.zeros((0, d, d)), np.zeros((0, d))),
        Landmarks((), np.zeros((0, d)), np.zeros(0, dtype=bool)),
        empty(RelativePoses, d),
        empty(Sightings, d),
        empty(Ranges, d),
        empty(PosePriors, d),
        empty(PointPriors, d),
    )
