"""Quality of service, named once."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

try:
    from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
except ImportError:  # before Iron
    from rclpy.qos_event import PublisherEventCallbacks, SubscriptionEventCallbacks

__all__ = ['LATCHED', 'NO_EVENTS', 'STATUS', 'TRANSFORMS', 'SubscriptionEventCallbacks',
           'input_profile']


def input_profile(depth: int, *, reliable: bool) -> QoSProfile:
    """Sensor data in: a deep queue, because bursts come while a solve is published."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.VOLATILE,
    )


LATCHED = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
"""Paths, markers, beacons: late joiners get the newest one."""

STATUS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=10,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)

TRANSFORMS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=100,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
"""What tf2's own broadcaster uses."""

NO_EVENTS = PublisherEventCallbacks(use_default_callbacks=False)
"""rclpy's two default events of each publisher would be half of what its executor looks at in
every wake-up. They tell of subscribers with other wishes, which are told so themselves."""
