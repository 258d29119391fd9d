"""Options of the simulation: robots that roam a field, odometry that drifts, UWB ranges."""

from __future__ import annotations

from dataclasses import dataclass

from .option import option


@dataclass(frozen=True)
class SimulationConfig:
    """What `sparser simulate` makes; defaults resemble the Outfinite recordings."""

    robots: int = option(3, 'number of robots', lower=1, upper=50)
    beacons: int = option(6, 'number of fixed beacons', lower=0, upper=1000)
    known_beacons: int = option(0, 'so many of them have a known position', lower=0, upper=1000)
    minutes: float = option(10.0, 'duration', unit='min', lower=0.01, upper=1440.0)
    seed: int = option(0, 'seed of all randomness', lower=0)
    dimension: int = option(2, 'plane (2) or space (3)', choices=(2, 3))
    outliers: float = option(
        0.05, 'share of ranges without line of sight, which come out too long',
        lower=0.0, upper=1.0)
    odometry_rate: float = option(10.0, 'odometry messages per robot', unit='Hz',
                                  lower=0.1, upper=1000.0)
    range_rate: float = option(4.0, 'range exchanges started by each robot', unit='Hz',
                               lower=0.0, upper=1000.0)
    truth_rate: float = option(2.0, 'ground truth messages per robot', unit='Hz',
                               lower=0.0, upper=1000.0)
    closures: int = option(0, 'loop closures, within and between robots', lower=0, upper=100000)
    false_closures: float = option(0.0, 'share of them that are wrong', lower=0.0, upper=1.0)
    radius: float = option(60.0, 'size of the field: beacons stand about this far from its '
                           'centre', unit='m', lower=1.0, upper=1e5)
    speed: float = option(1.2, 'mean speed', unit='m/s', lower=0.01, upper=100.0)
    max_range: float = option(150.0, 'radios hear each other up to this distance', unit='m',
                              lower=1.0, upper=1e5)
    range_sigma: float = option(0.10, 'range noise close by', unit='m', lower=1e-3, upper=100.0)
    range_sigma_per_m: float = option(
        0.01, 'range noise per metre of distance, in quadrature', lower=0.0, upper=1.0)
    outlier_bias: float = option(8.0, 'mean excess of ranges without line of sight', unit='m',
                                 lower=0.0, upper=1e4)
    drift_m: float = option(
        0.02, 'odometry translation noise', unit='m/sqrt(m)', lower=1e-6, upper=10.0)
    drift_rad: float = option(
        0.003, 'odometry heading noise', unit='rad/sqrt(m)', lower=1e-6, upper=10.0)
    no_gravity: bool = option(
        False, '3D: the odometry does not know where up is; its roll and pitch drift like its '
        'heading')
    no_altimeter: bool = option(False, '3D: no robot measures its height')
    imu: bool = option(False, '3D: every robot has an IMU with roll and pitch')
    tilt_sigma: float = option(
        0.00873, '3D: error of roll and pitch by gravity (0.5 degrees)', unit='rad', lower=1e-6,
        upper=1.0)
    height_sigma: float = option(
        0.1, '3D: error of altimeters', unit='m', lower=1e-4, upper=100.0)
    lever_arm: float = option(
        0.0, 'antennas stand this far ahead of the body origin', unit='m', lower=-10.0, upper=10.0)

    @property
    def gravity(self) -> bool:
        """Whether roll and pitch of the odometry are measured against gravity."""
        return self.dimension == 3 and not self.no_gravity
