"""A calibration as rows, as words, and as parameters of the node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ...config.sparser import SparserConfig
from ...graph import range_residuals
from ..integrity.noise import MOVES, TURNS
from .antennas_and_clocks import SIGNIFICANT, LeverRow
from .self_calibration import SelfCalibration

BLOCKED_BELOW = 0.1
"""Robust weight under which a range counts as blocked."""
_HELD = 1e-5
"""Prior standard deviation under which a scale is held."""
_DIGITS = 4
"""Decimals of lengths in metres: a tenth of a millimetre."""
_LEAST_SHARE = 0.25
"""Of the mean variance of radios, that one has at least."""


@dataclass(frozen=True)
class RadioRow:
    """What was found of one radio."""

    name: str
    ranges: int
    bias_m: float
    bias_sigma_m: float
    determined: bool
    """The standard deviation is below half of what the prior leaves when all others are known."""
    sigma_m: float | None
    """Its share of the noise of a range (variances add up); None = too few ranges."""

    @property
    def significant(self) -> bool:
        """Whether the bias is more than its standard deviation."""
        return abs(self.bias_m) > self.bias_sigma_m


@dataclass(frozen=True)
class PairRow:
    """What was found of the ranges between two radios."""

    first: str
    second: str
    ranges: int
    bias_m: float
    bias_sigma_m: float
    claimed_sigma_m: float
    """Median of what the ranges claim."""
    sigma_m: float | None
    blocked: float
    """Share of the ranges that are rejected, 0 to 1."""
    residual_m: float
    """Median residual (predicted minus corrected) that is left."""


@dataclass(frozen=True)
class OdometryRow:
    """Scale and noise of a robot's odometry, found beside the radios."""

    robot: str
    scale: float
    """Its lengths times this are true."""
    scale_sigma: float
    determined: bool
    """The standard deviation of the scale is below half of that before the data."""
    translation_sigma_factor: float
    """Found over claimed standard deviation; 1 where the claim is not contradicted."""
    rotation_sigma_factor: float


def odometry_rows(calibration: SelfCalibration) -> list[OdometryRow]:
    """All robots; none where scales are taken as right and no claimed noise is contradicted."""
    first, names = len(calibration.ends.names) + 1, calibration.ends.names[:calibration.ends.robots]
    prior, spread = (
        np.sqrt(np.diagonal(matrix)[first:])
        for matrix in (calibration.posterior.prior, calibration.posterior.covariance))
    noise = calibration.odometry_noise.noise
    return [
        OdometryRow(name, 1 + float(calibration.posterior.values[first + k]), float(spread[k]),
                    bool(2 * spread[k] <= prior[k]) and not calibration.doubted,
                    *(float(np.sqrt(noise.factor(part, name))) for part in (MOVES, TURNS)))
        for k, name in enumerate(names)
        if prior[k] > _HELD or any(robot == name for _, robot in noise.log_factor)]


def radio_rows(calibration: SelfCalibration) -> list[RadioRow]:
    """All radios that have ranges."""
    ends, values = calibration.ends, calibration.posterior.values
    count = np.bincount(
        np.concatenate([ends.first, ends.second]), minlength=len(ends.names))
    spread = np.sqrt(np.diagonal(calibration.posterior.covariance))
    prior = 1 / np.sqrt(np.diagonal(np.linalg.inv(calibration.posterior.prior)))
    noise = calibration.noise
    return [
        RadioRow(
            ends.names[k], int(count[k]), float(values[k]), float(spread[k]),
            bool(2 * spread[k] <= prior[k]) and not calibration.doubted,
            None if noise is None or not noise.known[k]
            else float(np.sqrt(noise.radio_variance[k])))
        for k in np.flatnonzero(count)]


def pair_rows(calibration: SelfCalibration) -> list[PairRow]:
    """All pairs that have ranges."""
    low, high, number = calibration.ends.pairs
    covariance, values = calibration.posterior.covariance, calibration.posterior.values
    residual = range_residuals(calibration.graph, calibration.estimate)
    claimed = 1 / np.sqrt(calibration.measured.ranges.precision)
    weights = calibration.weights.get('ranges', np.ones(len(residual)))
    known, noise = np.zeros(len(claimed), dtype=bool), claimed
    if calibration.noise is not None:
        known = calibration.noise.of_known(calibration.ends)
        noise = np.sqrt(calibration.noise.variance(calibration.ends, calibration.measured.ranges))
    rows = []
    for pair, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        own = number == pair
        variance = covariance[a, a] + covariance[b, b] + 2 * covariance[a, b]
        rows.append(PairRow(
            calibration.ends.names[a], calibration.ends.names[b], int(np.sum(own)),
            float(values[a] + values[b]), float(np.sqrt(max(variance, 0.0))),
            float(np.median(claimed[own])),
            float(np.sqrt(np.mean(noise[own] ** 2))) if np.all(known[own]) else None,
            float(np.mean(weights[own] < BLOCKED_BELOW)), float(np.median(residual[own]))))
    return rows


def scale_found(calibration: SelfCalibration) -> tuple[float, float]:
    """Factor on ranges, and its standard deviation."""
    at, posterior = len(calibration.ends.names), calibration.posterior
    return 1 + float(posterior.values[at]), float(np.sqrt(posterior.covariance[at, at]))


def scale_determined(calibration: SelfCalibration) -> bool | None:
    """Whether the scale of ranges is known to half of what was known before; None = not sought."""
    at = len(calibration.ends.names)
    prior = float(np.sqrt(calibration.posterior.prior[at, at]))
    if prior <= _HELD:
        return None
    return 2 * scale_found(calibration)[1] <= prior and not calibration.doubted


def as_dict(calibration: SelfCalibration) -> dict[str, Any]:
    """For reports: lengths in metres."""
    noise, (scale, spread) = calibration.noise, scale_found(calibration)
    return {
        'applied': calibration.applied, 'reason': calibration.reason, 'rounds': calibration.rounds,
        'scale': scale, 'scale_sigma': spread,
        'sigma_per_m': None if noise is None else noise.sigma_per_m,
        'sharing': calibration.inflation[1],
        'odometry': [asdict(row) for row in odometry_rows(calibration)],
        'radios': [asdict(row) for row in radio_rows(calibration)],
        'pairs': [asdict(row) for row in pair_rows(calibration)],
        'undetermined': list(advice(calibration)),
    }


def advice(calibration: SelfCalibration) -> tuple[str, ...]:
    """What could not be determined, and what to drive for it, in words."""
    texts = []
    rows = radio_rows(calibration)
    alone = [row.name for row in rows if not row.determined]
    if not rows:
        return ('there are no ranges: nothing can be calibrated',)
    if len(alone) == len(rows):
        texts.append(
            'no bias is determined: drive curves around the beacons or robots, so that ranges '
            'come from all sides and at different distances; or survey beacons and give their '
            'positions')
    elif alone:
        texts.append(
            f'the bias of {", ".join(alone)} is not determined by itself: let a robot drive '
            'around it, near and far, or survey its position')
    if scale_determined(calibration) is False:
        texts.append(
            'the scale of ranges is not determined: it looks like another size of the map, which '
            'only the odometry knows; survey two beacons or more')
    unknown = [f'{row.first}-{row.second}' for row in pair_rows(calibration) if row.sigma_m is None]
    if unknown:
        texts.append(
            f'the noise of {", ".join(unknown)} is not determined (fewer than 20 ranges, or the '
            'map follows them): it stays as claimed; stand still for a minute within range')
    texts += _wrong_sigmas(calibration) + _wrong_odometry(calibration)
    if calibration.inflation[1] > 4:
        texts.append(
            f'neighbouring ranges share their errors (information of one in '
            f'{calibration.inflation[1]:.0f}): multipath or a wrong odometry; standard deviations '
            'of biases account for it')
    return tuple(texts)


def _wrong_sigmas(calibration: SelfCalibration) -> list[str]:
    """A word where claimed sigmas are off by a factor of two: weights are then off by four."""
    rows = [row for row in pair_rows(calibration) if row.sigma_m is not None]
    if not rows:
        return []
    ratio = np.array([row.claimed_sigma_m / (row.sigma_m or 1.0) for row in rows])
    factor = float(np.exp(np.average(np.log(ratio), weights=[row.ranges for row in rows])))
    if 0.5 < factor < 2:
        return []
    sigma = float(np.median([row.sigma_m for row in rows if row.sigma_m is not None]))
    return [f'claimed sigmas of ranges look {_times_too(factor)} (residuals say '
            f'{sigma:.3g} m): set ranges.sigma_m, or calibration.sigma to estimate']


def _wrong_odometry(calibration: SelfCalibration) -> list[str]:
    """A word for every source of odometry whose claimed noise is contradicted."""
    noise, spread = calibration.odometry_noise.noise, calibration.odometry_noise.log_sigma
    return [
        f'odometry of {name}: claimed sigmas of {part} look {_times_too(np.exp(-log / 2))} (within '
        f'a factor of {np.exp(spread[part, name] / 2):.2f}): set its covariances or '
        'odometry.sigma_*, or calibration.sigma to estimate'
        for (part, name), log in noise.log_factor.items()]


def _times_too(factor: float) -> str:
    """By claimed over found sigma."""
    return f'{factor:.2g} times too large' if factor > 1 else f'{1 / factor:.2g} times too small'


def lines(calibration: SelfCalibration) -> list[str]:
    """A table for the terminal."""
    state = 'applied' if calibration.applied else 'not applied'
    text = [f'calibration: {state}: {calibration.reason}']
    if (scale := scale_determined(calibration)) is not None:
        text.append('  scale {:.5f} +- {:.5f}'.format(*scale_found(calibration))
                    + ('' if scale else ' (not determined)'))
    for row in radio_rows(calibration):
        sigma = '' if row.sigma_m is None else f', sigma {row.sigma_m:.3f} m'
        known = ('' if row.determined and row.significant else
                 ' (not significant)' if row.determined else ' (not determined)')
        text.append(f'  radio {row.name}: bias {row.bias_m:+.3f} +- {row.bias_sigma_m:.3f} m'
                    f'{known}{sigma}, {row.ranges} ranges')
    text += [f'  odometry of {row.robot}: scale {row.scale:.4f} +- {row.scale_sigma:.4f}'
             for row in odometry_rows(calibration) if row.determined]
    return text + [f'  {words}' for words in advice(calibration)]


def radio_settings(
    config: SparserConfig, calibration: SelfCalibration, *, noise: bool,
    levers: Sequence[LeverRow] = (),
) -> dict[str, dict[str, Any]]:
    """`radios` and `ranges` as they are to be, on top of what `config` says already.

    The ranges of `calibration` were made with `config`: corrected by alpha r - b they are
    alpha (s d - c) - b of the raw distance d, scale s and bias c. `noise`: sigmas as well. All
    radios of one robot get the same values, since the graph does not tell them apart, and what is
    significant and plausible of `levers` is added to the lever arm of each.
    """
    wrong = {lever.robot: lever.error_m for lever in levers if lever.to_move(SIGNIFICANT)}
    alpha = calibration.parameters.scale
    heard = np.unique(np.concatenate([calibration.ends.first, calibration.ends.second])).tolist()
    names = {number: calibration.ends.names[number] for number in heard}
    used = calibration.noise if noise else None
    shares = {} if used is None else {
        name: float(used.radio_variance[number])
        for number, name in names.items() if used.known[number]}
    # Of two radios one may bear all the noise of their ranges: two such others would have none.
    least = max(_LEAST_SHARE * float(np.mean(list(shares.values()) or [0.0])), 10.0**(-2 * _DIGITS))
    sigma_m = {name: float(np.sqrt(max(share, least))) for name, share in shares.items()}
    radios = corrected_radios(
        config, calibration.graph.robots,
        {name: float(calibration.parameters.bias_m[number]) for number, name in names.items()},
        {name: error for name, error in wrong.items() if name in names.values()},
        sigma_m, alpha)
    ranges: dict[str, Any] = {
        'scale': float(alpha * config.ranges.scale), 'bias_m': alpha * config.ranges.bias_m}
    if used is not None:
        ranges['sigma_per_m'] = round(used.sigma_per_m, 6)
    return {'radios': radios, 'ranges': ranges}


def corrected_radios(
    config: SparserConfig, robots: Collection[str], bias_m: Mapping[str, float],
    error_m: Mapping[str, Sequence[float]], sigma_m: Mapping[str, float], scale: float = 1.0,
) -> dict[str, dict[str, Any]]:
    """The configured radios with what was found on top, by the names of robots and beacons.

    Biases, in addition to those configured times `scale`; errors of lever arms; `sigma_m` are
    shares of the noise. Where no radio is configured, the one that bears the name is new.
    """
    specs = config.radio_specs()
    radios = {name: dict(radio) for name, radio in config.radios.items()}
    for name in {**bias_m, **error_m}:
        kind = 'robot' if name in robots else 'beacon'
        own = [radio for radio, spec in specs.items() if getattr(spec, kind) == name] or [name]
        for radio in own:
            entry = radios.setdefault(radio, {kind: name})
            if name in bias_m:
                before = specs[radio].bias_m if radio in specs else 0.0
                entry['bias_m'] = round(scale * before + bias_m[name], _DIGITS)
            if name in error_m:
                entry['lever_arm'] = _moved(entry.get('lever_arm', []), error_m[name])
            if name in sigma_m:
                entry['range_sigma_m'] = round(sigma_m[name], _DIGITS)
    return radios


def _moved(lever_arm: list[float], error_m: Sequence[float]) -> list[float]:
    """A lever arm with an error added to its first coordinates; [] is the origin of the robot."""
    place = np.zeros(max(len(lever_arm), len(error_m)))
    place[: len(lever_arm)] = lever_arm
    place[: len(error_m)] += error_m
    return [round(float(value), _DIGITS) for value in place]


def calibrated_config(
    config: SparserConfig, calibration: SelfCalibration, *, noise: bool,
    levers: Sequence[LeverRow] = (),
) -> SparserConfig:
    """The configuration with the calibration in it."""
    settings = radio_settings(config, calibration, noise=noise, levers=levers)
    radios: Mapping[str, Any] = settings['radios']
    return replace(
        config, radios=dict(radios), ranges=replace(config.ranges, **settings['ranges']))
