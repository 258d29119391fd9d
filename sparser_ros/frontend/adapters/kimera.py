"""Kimera and Kimera-Multi: `pose_graph_tools_msgs` PoseGraph, LoopClosures and PoseGraphEdge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...config.inputs_config import ClosureInput
from ..decode import ClosureSample, Refused, Sample, point, quaternion, stamp
from .keyframe_ids import KeyframeIds

LOOP_CLOSURE = 1


class Kimera:
    """Edges refer to keyframe ids, whose stamps stand in the nodes of the pose graphs.

    Covariances are in the order of GTSAM (rotation first), zeros where they were not filled in.
    """

    def __init__(self, options: ClosureInput, robots: Sequence[str]) -> None:
        self._ids = KeyframeIds(options, robots)

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """Remember the nodes; yield the loop closures that were not told before."""
        for node in getattr(msg, 'nodes', ()):
            self._ids.announce(self._ids.robot(int(node.robot_id)), int(node.key),
                               stamp(node.header.stamp))
        edges = getattr(msg, 'edges', None)
        if edges is None:
            edges = [msg] if hasattr(msg, 'key_from') else []
        for edge in edges:
            if int(edge.type) == LOOP_CLOSURE:
                yield from self._closure(edge, received_ns)

    def _closure(self, edge: Any, received_ns: int) -> Iterator[Sample]:
        ids = self._ids
        start, end = ids.robot(int(edge.robot_from)), ids.robot(int(edge.robot_to))
        identity = (start, int(edge.key_from), end, int(edge.key_to))
        if not ids.new(identity):
            return
        from_ns, to_ns = ids.stamp(start, identity[1]), ids.stamp(end, identity[3])
        if not from_ns or not to_ns:
            ids.forget(identity)
            yield Refused('closures', 'unknown_keyframe')
            return
        yield ClosureSample(
            start, from_ns, end, to_ns, received_ns, point(edge.pose.position),
            quaternion(edge.pose.orientation), ids.covariance(edge.covariance, True),
            float('nan'), 'kimera')
