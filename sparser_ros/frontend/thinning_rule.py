"""Which keyframes go when there are too many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..array_types import Mask
from ..config import SparserConfig
from ..graph.thinning import surplus
from .odometry import OdometryTrack
from .stamps import nanoseconds

_LEFT = 0.75
"""Share of the limit that a thinning leaves: the whole graph is handed over anew each time, so it
should be rare, and a finer step than every second keyframe everywhere keeps the density smooth."""


class ThinningRule:
    """Counts keyframes; old ones go where there are more than `keyframes.max_count`."""

    def __init__(self, config: SparserConfig) -> None:
        self._most = config.keyframes.max_count
        # Newer keyframes are still to be attached to, by raw odometry.
        self._settled_ns = nanoseconds(config.odometry.history_s)
        self._next = self._most
        self.count = self.gone = 0
        """Thinnings so far, and keyframes that went."""

    def surplus(
        self, tracks: Sequence[OdometryTrack], n_poses: int
    ) -> Mask | None:
        """(n,): poses that go, in the rows of all of them; None = there are not too many."""
        if not self._most or n_poses <= self._next:
            return None
        stamp, chain = np.zeros(n_poses, dtype=np.int64), np.zeros(n_poses, dtype=np.int64)
        first = 0
        for track in tracks:
            stamp[track.rows] = track.keyframe_stamps
            chain[track.rows] = first + track.chains
            first += len(track.segments)
        drop = surplus(
            stamp, chain, int(_LEFT * self._most), int(stamp.max()) - self._settled_ns)
        # Where few may go (young ones, ends of odometry), the next try waits for new ones.
        left = n_poses - int(np.sum(drop))
        self._next = max(self._most, left + int((1 - _LEFT) * self._most))
        if not np.any(drop):
            return None
        self.count += 1
        self.gone += n_poses - left
        return drop
