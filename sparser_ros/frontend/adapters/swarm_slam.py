"""Swarm-SLAM: `cslam_common_interfaces` loop closures within and between robots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...config.inputs_config import ClosureInput
from ..decode import ClosureSample, Refused, Sample, point, quaternion, stamp
from .keyframe_ids import NO_COVARIANCE, KeyframeIds


class SwarmSlam:
    """Closures refer to keyframe ids; `KeyframeOdom` says when a keyframe was.

    Intra-robot closures and keyframes do not name their robot: the topic does.
    """

    def __init__(self, options: ClosureInput, robots: Sequence[str]) -> None:
        self._ids = KeyframeIds(options, robots)

    def __call__(self, msg: Any, received_ns: int, robot: str = '') -> Iterator[Sample]:
        """Remember a keyframe, or yield a closure."""
        if hasattr(msg, 'odom'):
            self._ids.announce(robot, int(msg.id), stamp(msg.odom.header.stamp))
            return
        if not msg.success:
            yield Refused('closures', 'not_successful')
            return
        ids = self._ids
        if hasattr(msg, 'robot0_id'):
            start, end = ids.robot(int(msg.robot0_id)), ids.robot(int(msg.robot1_id))
            keys = int(msg.robot0_keyframe_id), int(msg.robot1_keyframe_id)
        else:
            start = end = robot
            keys = int(msg.keyframe0_id), int(msg.keyframe1_id)
        from_ns, to_ns = ids.stamp(start, keys[0]), ids.stamp(end, keys[1])
        if not from_ns or not to_ns:
            yield Refused('closures', 'unknown_keyframe')
            return
        yield ClosureSample(
            start, from_ns, end, to_ns, received_ns, point(msg.transform.translation),
            quaternion(msg.transform.rotation), NO_COVARIANCE, float('nan'), 'swarm_slam')
