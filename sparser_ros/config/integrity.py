"""Options of the integrity monitors: false alarms, and what size of fault is worth a word."""

from __future__ import annotations

from dataclasses import dataclass

from .option import option


@dataclass(frozen=True)
class IntegrityConfig:
    """Tests of measurements against the map; thresholds follow from the false-alarm rate."""

    false_alarms_per_hour: float = option(
        0.01, 'all tests together may raise so many false alarms in an hour of data; every '
        'threshold is the quantile of its law (normal, chi-square, binomial) that follows',
        unit='1/h', lower=1e-9, upper=1e3, live=True)
    risk: float = option(
        1e-5, 'integrity risk: probability that the error of a position exceeds its protection '
        'level', lower=1e-12, upper=0.5, live=True)
    fault_probability: float = option(
        0.01, 'probability that a source (a radio, a known beacon, the odometry of a robot) is at '
        'fault at any time, for protection levels: faults that nobody has found weigh by it',
        lower=1e-9, upper=1.0, live=True)
    fault_size: float = option(
        10.0, 'how much larger the errors of a source at fault are than those of a sound one, for '
        'protection levels: standard deviation of its bias, place, share or rate, over what the '
        'floor of that fault gives (10 of a bias floor of 0.1 m = 0.6 m)', lower=2.0, upper=1e4,
        live=True)
    window_s: float = option(
        30.0, 'statistics in time use windows of this length; tests of two windows count as '
        'independent', unit='s', lower=1.0, upper=3600.0, live=True)
    memory_s: float = option(
        120.0, 'a fault of limited duration stays a finding for so long after its end (data time)',
        unit='s', lower=0.0, upper=1e6, live=True)
    bias_floor_m: float = option(
        0.1, 'biases of radios and misplaced beacons below this are no fault (multipath and '
        'surveys are not better)', unit='m', lower=0.0, upper=100.0, live=True)
    scale_floor: float = option(
        0.02, 'odometry whose scale is wrong by less than this share is no fault', lower=0.0,
        upper=1.0, live=True)
    turn_floor_rad_s: float = option(
        0.001, 'a steady error of the odometry in turning below this rate is no fault '
        '(0.001 rad/s = 3.4 degrees a minute)', unit='rad/s', lower=0.0, upper=1.0, live=True)
    variance_floor: float = option(
        2.0, 'noise whose variance is below this multiple of the claimed one is no fault',
        lower=1.0, upper=1e6, live=True)
    gate: bool = option(
        True, 'robots whose newest data do not fit the map are withdrawn; false: only '
        'reported', live=True)
    doubt_ranges: bool = option(
        True, 'ranges of one source that are faulty together for a while are left out, or count '
        'with the length taken off that all of them are too long; so do all ranges of a radio, or '
        'of all radios, that are long all the time, and those of a robot whose antenna stands '
        'elsewhere than configured count from there; false: only reported', live=True)
    doubt_odometry: bool = option(
        True, 'odometry that the ranges deny for a while, as when wheels slip, is left out there, '
        'and its robot placed anew; false: only reported', live=True)
    solve_odometry: bool = option(
        True, 'the map is solved with the share by which odometry is too long, and the rate by '
        'which it turns, where these are likely; false: only reported', live=True)
    gate_variance: float = option(
        9.0, 'the gate withdraws a robot whose residuals have more than this multiple '
        'of their claimed variance (9 = three times the standard deviation), with 95 % confidence',
        lower=1.0, upper=1e9, live=True)
    gate_rejected: float = option(
        0.5, 'the gate withdraws a robot of whose newest ranges more than this share '
        'is rejected, with 95 % confidence: with half of the data wrong, robust estimates lose '
        'their guarantee', lower=0.0, upper=1.0, live=True)
