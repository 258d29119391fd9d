"""Options of the calibration of radios against the map."""

from __future__ import annotations

from dataclasses import dataclass

from .option import option


@dataclass(frozen=True)
class CalibrationConfig:
    """What is estimated of the radios, from which priors, and when it is applied."""

    mode: str = option(
        'none',
        'biases and misplaced antennas that are significant are reported, or applied to all '
        'ranges; in `sparser replay`, and in the running node with `calibration.live`',
        choices=('none', 'report', 'apply'))
    live: bool = option(
        False,
        'the running node calibrates its radios in the auditor process, tells in ~/status '
        'what is significant, and writes it with ~/save; `calibration.mode: apply` applies '
        'it as well', live=True)
    type_bias_sigma_m: float = option(
        0.5, 'prior standard deviation of the bias that all radios of one type share (antenna '
        'delays that nobody calibrated: 0.5 m)', unit='m', lower=0.0, upper=100.0)
    bias_sigma_m: float = option(
        0.2, 'prior standard deviation of the bias of one radio about that of its type', unit='m',
        lower=0.0, upper=100.0)
    radio_bias_sigma_m: dict[str, float] = option(
        {}, 'the same for single radios, by the names of robots and beacons; 0 = the bias is '
        'known', unit='m', lower=0.0, upper=100.0)
    radio_types: dict[str, str] = option(
        {}, 'type of single radios, by the names of robots and beacons; all others are of one '
        'type')
    scale_sigma: float = option(
        0.0, 'prior standard deviation of a common factor on all ranges about 1; 0 = none (time '
        'of flight has no error of scale)', lower=0.0, upper=1.0)
    odometry_scale_sigma: float = option(
        0.01,
        'standard deviation of the scale of an odometry about 1 (wheels and floors, depths '
        'of cameras: about 1 %); 0 = the odometry gives the size of the map', lower=0.0, upper=1.0)
    false_alarm: float = option(
        0.001, 'a calibration is applied when radios without bias would give one as large with '
        'less than this probability', lower=1e-12, upper=0.5)
    bias_floor_m: float = option(
        0.02, 'biases that are all smaller are not applied (four ticks of a UWB radio)', unit='m',
        lower=0.0, upper=10.0)
    sigma: str = option(
        'keep', 'standard deviations of ranges and of odometry: as claimed, or as found in the '
        'residuals (estimate)', choices=('keep', 'estimate'))
    rounds: int = option(
        20, 'most turns of estimating the radios and solving the map again', lower=1, upper=100)
