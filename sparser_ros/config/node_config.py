"""Options of the ROS node: rates, publishing, queues, files. Nothing here changes the estimate."""

from __future__ import annotations

from dataclasses import dataclass

from .option import option


@dataclass(frozen=True)
class QosConfig:
    """Depth, history and reliability of one topic are set by `qos_overrides`."""

    reliability: str = option(
        'auto',
        'of odometry, ranges and sightings: best_effort hears every publisher but may lose '
        'messages, reliable hears reliable publishers only, auto follows the publishers',
        choices=('auto', 'best_effort', 'reliable'))


@dataclass(frozen=True)
class PublishConfig:
    """What is published."""

    tf: bool = option(True, 'publish map -> odom of every located robot on /tf', live=True)
    tf_float: bool = option(
        False, 'map -> odom and ~/odometry also of robots that have a pose but are not located '
        '(`robot_fix` 1 of ~/status): look at their covariances', live=True)
    beacon_size_m: float = option(
        0.3, 'radius of a beacon in ~/beacons, and the least one in ~/markers', unit='m',
        lower=0.001, upper=100.0, live=True,
    )


@dataclass(frozen=True)
class JournalConfig:
    """What the node writes down to survive a crash."""

    directory: str = option(
        '', 'folder to which every message is written before it counts, to go on after a crash; '
        'the node makes one of its full name in it; empty = none (the launch file sets one)')
    resume: bool = option(
        False, 'go on with the newest session in the journal: same map frame, same graph')
    segment_mb: float = option(
        64.0, 'after so many messages all keyframes and the state of the front-end are written, '
        'and older messages deleted', unit='MB', lower=0.1, upper=1e5)
    max_mb: float = option(
        2048.0, 'older sessions are deleted beyond this size', unit='MB', lower=0.0, upper=1e6)


@dataclass(frozen=True)
class NodeConfig:
    """Rates, tolerances, switches and directories of the ROS node."""

    solve_period_s: float = option(
        0.5, 'a solve is requested this often, on the steady clock', unit='s',
        lower=0.02, upper=3600.0, live=True,
    )
    tf_rate_hz: float = option(20.0, 'rate of map -> odom', unit='Hz', lower=0.1, upper=200.0)
    tf_tolerance_s: float = option(
        0.1, 'map -> odom is stamped this far ahead of now, so that consumers need not wait',
        unit='s', lower=0.0, upper=10.0, live=True,
    )
    status_period_s: float = option(
        1.0, 'period of ~/status and /diagnostics', unit='s', lower=0.05, upper=60.0,
    )
    flush_after_s: float = option(
        2.0, 'after this long without new data what waits in the reorder window is resolved',
        unit='s', lower=0.1, upper=3600.0, live=True,
    )
    no_data_warning_s: float = option(
        10.0, 'warn about inputs silent for this long (wall time)', unit='s',
        lower=0.5, upper=3600.0, live=True,
    )
    reset_on_time_jump: bool = option(
        True, 'reset when the clock jumps back (a bag that starts over)', live=True,
    )
    stale_after_s: float = option(
        5.0,
        'map -> odom of a robot stops when its odometry has been silent for this long (wall '
        'time), all of them when all data or the solver have; 0 = never', unit='s', lower=0.0,
        upper=3600.0, live=True)
    start_paused: bool = option(False, 'start paused: data are kept, nothing is solved')
    save_directory: str = option(
        'sparser_maps',
        '~/save writes a new folder under this one; read-only while the node runs')
    map_file: str = option(
        '', 'map to start in: a folder that ~/save has written, or its beacons.yaml; its '
        'beacons are known to their standard deviations')
    journal: JournalConfig = JournalConfig()
    publish: PublishConfig = PublishConfig()
    qos: QosConfig = QosConfig()
