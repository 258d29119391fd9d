"""Options of the back-end: solver process, solve policy, gauge, observability, integrity."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .option import option


@dataclass(frozen=True)
class WatchdogConfig:
    """When the solver process counts as dead or hung, and how it is brought back."""

    hang_timeout_s: float = option(
        60.0, 'a solver process that is silent for this long is killed and started again '
        '(a factorisation of a huge graph is silent while it runs)', unit='s',
        lower=1.0, upper=3600.0)
    start_timeout_s: float = option(
        120.0, 'longest start of the solver process (it may compile kernels)', unit='s',
        lower=5.0, upper=3600.0)


@dataclass(frozen=True)
class AuditConfig:
    """When the map is solved from scratch beside the ticks, and how thoroughly."""

    growth: float = option(
        1.25, 'the map is audited whenever its measurements have grown by this factor',
        lower=1.0, upper=1e3, live=True)
    growth_unlocated: float = option(
        1.1, 'and whenever those of a robot or beacon that is not located have grown by this '
        'factor', lower=1.0, upper=1e3, live=True)
    period_s: float = option(
        2.0, 'in the running node new data are audited at least this often, wall time; 0 = by '
        'growth only', unit='s', lower=0.0, upper=3600.0, live=True)
    starts: int = option(
        3, 'most starts from scratch of one audit; two that end at the same cost settle it',
        lower=1, upper=100, live=True)
    limit_s: float = option(
        30.0, 'longest search from scratch in the running node; 0 = no limit, as in `sparser '
        'replay`', unit='s', lower=0.0, upper=3600.0, live=True)
    stale_s: float = option(
        60.0, 'a robot is no longer located when measurements wait for an audit and data are newer '
        'by this, in data time, than the newest one; half of it makes an audit due', unit='s',
        lower=1.0, upper=1e6, live=True)
    niceness: int = option(
        3, 'scheduling priority of the auditor process: it yields to the tracker; the larger, the '
        'later robots are located beside processes that keep every core busy', lower=0, upper=19)


@dataclass(frozen=True)
class ObservabilityConfig:
    """When a robot or beacon counts as determined by the measurements."""

    heading_sigma_rad: float = option(
        0.2, 'a robot is located only if the standard deviation of its heading is below this',
        unit='rad', lower=1e-3, upper=3.0, live=True)
    alert_limit_m: float = option(
        1.0, 'an error of a position that must not go unnoticed: a robot is located where its '
        'error is below this with all but `integrity_risk` of the probability; placements '
        'that differ by less count as the same', unit='m', lower=1e-3, upper=1e4, live=True)
    integrity_risk: float = option(
        0.05, 'a robot is located only if the probability that its position is off by more than '
        '`alert_limit_m`, by noise or by faults, is below this', lower=1e-6, upper=0.5, live=True)
    flip_cost: float = option(
        25.0, 'another placement must fit worse by this much in chi-square to count as excluded '
        '(a wrong one leads a right one by as much with probability 4e-6)', lower=0.0, upper=1e6,
        live=True)
    range_sigma_floor_m: float = option(
        0.1, 'ranges count with at least this standard deviation when it is decided what they '
        'determine (biases do not average out)', unit='m', lower=0.0, upper=10.0, live=True)

    @property
    def position_sigma_m(self) -> float:
        """Standard deviation, in metres, of a position in the plane that is just located."""
        return self.alert_limit_m / math.sqrt(-2 * math.log(self.integrity_risk))


@dataclass(frozen=True)
class IntegrityConfig:
    """Tests of measurements against the map; thresholds follow from the false-alarm rate."""

    false_alarms_per_hour: float = option(
        0.01, 'all tests together may raise so many false alarms in an hour of data; every '
        'threshold follows from it', unit='1/h', lower=1e-9, upper=1e3, live=True)
    risk: float = option(
        1e-5, 'integrity risk: probability that the error of a position exceeds its protection '
        'level', lower=1e-12, upper=0.5, live=True)
    fault_probability: float = option(
        0.01,
        'probability that a source (a radio, a known beacon, the odometry of a robot) is at '
        'fault at any time', lower=1e-9, upper=1.0, live=True)
    fault_size: float = option(
        10.0, 'errors of a source at fault over those of a sound one (10 of a bias floor of '
        '0.1 m = 0.6 m)', lower=2.0, upper=1e4, live=True)
    window_s: float = option(
        30.0, 'statistics in time use windows of this length; tests of two windows count as '
        'independent', unit='s', lower=1.0, upper=3600.0, live=True)
    memory_s: float = option(
        120.0, 'a fault of limited duration stays a finding for so long after its end (data time)',
        unit='s', lower=0.0, upper=1e6, live=True)
    bias_floor_m: float = option(
        0.1, 'biases of radios and misplaced beacons below this are no fault (multipath and '
        'surveys are not better)', unit='m', lower=1e-6, upper=100.0, live=True)
    scale_floor: float = option(
        0.02, 'odometry whose scale is wrong by less than this share is no fault', lower=1e-7,
        upper=1.0, live=True)
    turn_floor_rad_s: float = option(
        0.001, 'a steady error of the odometry in turning below this rate is no fault '
        '(0.001 rad/s = 3.4 degrees a minute)', unit='rad/s', lower=1e-8, upper=1.0, live=True)
    gate: bool = option(
        True, 'robots whose newest data do not fit the map are withdrawn; false: only '
        'reported', live=True)
    doubt_ranges: bool = option(
        True,
        'ranges that are faulty together are left out, or their common length is taken off; '
        'antennas that stand elsewhere than configured count from there; false: only '
        'reported', live=True)
    doubt_odometry: bool = option(
        True, 'odometry that the ranges deny for a while, as when wheels slip, is left out there, '
        'and its robot placed anew; false: only reported', live=True)
    solve_odometry: bool = option(
        True, 'the map is solved with the share by which odometry is too long, the rate by which '
        'it turns, its jumps, and the drift of altimeters, where these are likely; false: only '
        'reported', live=True)


@dataclass(frozen=True)
class BackendConfig:
    """When and where to solve, and what `map` is."""

    worker: str = option(
        'process', 'where the solver runs: a process of its own, or a thread (for debugging: '
        'the solver holds the interpreter lock)', choices=('process', 'thread'))
    gauge_robot: str = option(
        '', 'robot whose first pose is the origin of map where no absolute data fix it; '
        'empty = the first in `robots`')
    gauge_wait_s: float = option(
        20.0, 'without `gauge_robot`: wait this long, in data time, for the first robot of '
        '`robots` before the first one seen becomes the gauge', unit='s', lower=0.0, upper=1e6)
    gauge_initial_pose: list[float] = option(
        [], 'initial pose of the gauge robot in map: x y yaw (2D) or x y z roll pitch yaw (3D); '
        'empty = zero', unit='m, rad')
    incremental_tolerance: float = option(
        0.01, 'a tick has settled when what is left to gain is less than this, and than 1e-5 of '
        'the cost; its square root bounds how many standard deviations any coordinate is '
        'from its optimum', unit='sigma^2', lower=1e-9, upper=1.0, live=True)
    map_change_m: float = option(
        1.0, 'a better map that moves a robot farther than this is announced', unit='m',
        lower=0.0, upper=1e6, live=True)
    rejected_weight: float = option(
        0.1, 'measurements below this robust weight are reported as rejected', lower=0.0,
        upper=1.0, live=True)
    replay_solve_period_s: float = option(
        10.0, '`sparser replay` solves every so many seconds of data time', unit='s',
        lower=0.05, upper=3600.0)
    truth_topics: dict[str, str] = option(
        {}, '`sparser replay` compares robots with these ground-truth topics '
        '(robot: PoseStamped, PoseWithCovarianceStamped, Odometry or TransformStamped topic)')
    audit: AuditConfig = AuditConfig()
    observability: ObservabilityConfig = ObservabilityConfig()
    integrity: IntegrityConfig = IntegrityConfig()
    watchdog: WatchdogConfig = WatchdogConfig()
