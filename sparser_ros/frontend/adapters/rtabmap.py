"""RTAB-Map: `rtabmap_msgs/MapData`; the graph is sent whole every time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...config.inputs_config import ClosureInput
from ..decode import ClosureSample, Refused, Sample, covariance, point, quaternion
from .keyframe_ids import NO_COVARIANCE, KeyframeIds

CLOSURES = (1, 2, 3, 4)
"""Global, local in space, local in time, by the user."""


class RtabMap:
    """Links refer to node ids; nodes carry their time. Information is translation first."""

    def __init__(self, options: ClosureInput, robots: Sequence[str]) -> None:
        self._ids = KeyframeIds(options, robots)

    def __call__(self, msg: Any, received_ns: int, robot: str = '') -> Iterator[Sample]:
        """Remember the nodes; yield the closures that were not told before."""
        ids = self._ids
        for node in getattr(msg, 'nodes', ()):
            ids.announce(robot, int(node.id), round(float(node.stamp) * 1e9))
        for link in getattr(msg, 'graph', msg).links:
            start, end = int(link.from_id), int(link.to_id)
            if int(link.type) not in CLOSURES or min(start, end) <= 0:
                continue
            identity = (robot, min(start, end), max(start, end))
            if not ids.new(identity):
                continue
            from_ns, to_ns = ids.stamp(robot, start), ids.stamp(robot, end)
            if not from_ns or not to_ns:
                ids.forget(identity)
                yield Refused('closures', 'unknown_keyframe')
                continue
            yield ClosureSample(
                robot, from_ns, robot, to_ns, received_ns, point(link.transform.translation),
                quaternion(link.transform.rotation), _inverse(link.information), float('nan'),
                'rtabmap')


def _inverse(information: Any) -> np.ndarray:
    """Covariance of an information matrix; zeros (= configured) where it has none."""
    matrix = covariance(information)
    try:
        result = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return NO_COVARIANCE
    return result if np.all(np.isfinite(result)) else NO_COVARIANCE
