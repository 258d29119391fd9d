"""A calibration as parameters of the node, and a configuration with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..array_types import Array
from ..config.inputs_config import RadioSpec
from ..config.sparser import SparserConfig
from .antennas_and_clocks import SIGNIFICANT
from .lever_arms import LeverRow
from .self_calibration import SelfCalibration

_DIGITS = 4
"""Decimals of lengths in metres: a tenth of a millimetre."""


def radio_settings(
    config: SparserConfig, found: SelfCalibration, *, noise: bool,
    levers: Sequence[LeverRow] = (),
) -> dict[str, dict[str, Any]]:
    """`radios` and `ranges` as they are to be, on top of what `config` says already.

    The ranges of `found` were made with `config`: corrected by alpha r - b they are
    alpha (s d - c) - b of the raw distance d, scale s and bias c. `noise`: sigmas as well. All
    radios of one robot get the same values, since the graph does not tell them apart, and what is
    significant and plausible of `levers` is added to the lever arm of each.
    """
    wrong = {one.robot: np.array(one.error_m) for one in levers
             if one.to_move(SIGNIFICANT)}
    alpha = found.parameters.scale
    heard = set(np.concatenate([found.ends.first, found.ends.second]).tolist())
    used = found.noise if noise else None
    specs = config.radio_specs()
    radios: dict[str, dict[str, Any]] = {
        name: dict(config.radios[name]) for name in config.radios}
    robots = len(found.graph.robots)
    for number, name in enumerate(found.ends.names):
        if number not in heard:
            continue
        kind = 'robot' if number < robots else 'beacon'
        for radio in radios_of(specs, kind, name):
            entry = radios.setdefault(radio, {kind: name})
            before = specs[radio].bias_m if radio in specs else 0.0
            entry['bias_m'] = round(
                alpha * before + float(found.parameters.bias_m[number]), _DIGITS)
            if kind == 'robot' and name in wrong:
                entry['lever_arm'] = moved_lever_arm(entry.get('lever_arm', []), wrong[name])
            if used is not None and used.known[number]:
                entry['range_sigma_m'] = round(
                    max(float(np.sqrt(used.radio_variance[number])), 10.0**-_DIGITS), _DIGITS)
    ranges: dict[str, Any] = {
        'scale': float(alpha * config.ranges.scale), 'bias_m': alpha * config.ranges.bias_m}
    if used is not None:
        ranges['sigma_per_m'] = round(used.sigma_per_m, 6)
    return {'radios': radios, 'ranges': ranges}


def radios_of(specs: Mapping[str, RadioSpec], kind: str, name: str) -> list[str]:
    """The configured radios of a 'robot' or 'beacon'; else the one that bears its name."""
    return [radio for radio, spec in specs.items() if getattr(spec, kind) == name] or [name]


def moved_lever_arm(lever_arm: list[float], error_m: Array) -> list[float]:
    """A lever arm with an error added to its first coordinates; [] is the origin of the robot."""
    place = np.zeros(max(len(lever_arm), len(error_m)))
    place[: len(lever_arm)] = lever_arm
    place[: len(error_m)] += error_m
    return [round(float(value), _DIGITS) for value in place]


def calibrated_config(
    config: SparserConfig, found: SelfCalibration, *, noise: bool,
    levers: Sequence[LeverRow] = (),
) -> SparserConfig:
    """The configuration with the calibration in it."""
    settings = radio_settings(config, found, noise=noise, levers=levers)
    radios: Mapping[str, Any] = settings['radios']
    return replace(
        config, radios=dict(radios), ranges=replace(config.ranges, **settings['ranges']))
