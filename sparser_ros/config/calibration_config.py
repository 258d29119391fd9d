"""Options of the calibration of radios against the map."""

from __future__ import annotations

from dataclasses import dataclass

from .option import option


@dataclass(frozen=True)
class CalibrationConfig:
    """What is estimated of the radios, from which priors, and when it is applied."""

    mode: str = option(
        'none', 'biases of radios, and antennas that stand elsewhere than configured, are only '
        'reported (report), or applied (apply), where they are significant. `sparser replay` '
        'estimates them with the map of a first run and applies them in a second one; the running '
        'node does so while it runs, with `calibration.live`',
        choices=('none', 'report', 'apply'))
    live: bool = option(
        False, 'the running node calibrates its radios in the auditor process, with a tenth of '
        'its time; biases, lever arms and late stamps that are significant are reported in '
        '~/status, biases and lever arms written by ~/save, and applied to all ranges where '
        '`calibration.mode` is apply', live=True)
    type_bias_sigma_m: float = option(
        0.5, 'prior standard deviation of the bias that all radios of one type share, about their '
        'configured bias_m (antenna delays that nobody calibrated are off by some 0.5 m)',
        unit='m', lower=0.0, upper=100.0)
    bias_sigma_m: float = option(
        0.2, 'prior standard deviation of the bias of one radio about that of its type', unit='m',
        lower=0.0, upper=100.0)
    radio_bias_sigma_m: dict[str, float] = option(
        {}, 'the same for single radios, by the names of robots and beacons; 0 = the bias of this '
        'radio is known, and it belongs to no type', unit='m', lower=0.0, upper=100.0)
    radio_types: dict[str, str] = option(
        {}, 'type of single radios, by the names of robots and beacons; all others are of one '
        'type')
    scale_sigma: float = option(
        0.0, 'prior standard deviation of a common factor on all ranges about 1; 0 = ranges have '
        'no error of scale (time of flight has none, crystals differ by 1e-5)', lower=0.0,
        upper=1.0)
    odometry_scale_sigma: float = option(
        0.01, 'standard deviation of the scale of an odometry about 1 (wheels and floors, depths '
        'of cameras: about 1 %); radios are judged whatever the scale is within that, 0 = the '
        'odometry gives the size of the map', lower=0.0, upper=1.0)
    false_alarm: float = option(
        0.001, 'a calibration is applied when radios without bias would give one as large with '
        'less than this probability', lower=1e-12, upper=0.5)
    information_gain: float = option(
        4.0, 'a combination of biases counts as observable when the data alone determine its '
        'variance so many times better than the prior (4 = half the standard deviation)',
        lower=0.1, upper=1e6)
    bias_floor_m: float = option(
        0.02, 'biases that are all smaller are not applied (four ticks of a UWB radio)', unit='m',
        lower=0.0, upper=10.0)
    sigma: str = option(
        'keep', 'standard deviations of ranges and of odometry: as claimed, or as found in the '
        'residuals (estimate)', choices=('keep', 'estimate'))
    rounds: int = option(
        20, 'most turns of estimating the radios and solving the map again', lower=1, upper=100)
