"""Verdicts as bytes: the layout of `codec`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from ...graph.finding import Finding
from ...solver.result import SolveStatus
from ..integrity.noise import Noise
from ..integrity.odometry_errors import OdometryErrors
from ..integrity.undetected import HiddenFaults
from ..session.radio_errors import RadioErrors
from ..session.range_corrections import RangeCorrections
from ..session.rulings import Rulings
from ..session.solution import Location
from ..session.verdict import SegmentVerdict, Verdict, VerdictKind
from .codec import (
    Packet,
    encode,
    estimate_arrays,
    estimate_from,
    stats_arrays,
    stats_from,
    stats_values,
)
from .protocol import VERDICT, Answer

_PLAIN = (
    'sequence', 'request', 'newest_stamp_ns', 'anchored', 'gauge_name', 'message', 'withheld',
    'odometry_factors', 'variance', 'final', 'seconds')

_HIDDEN_NAMES = ('robots', 'landmarks', 'causes')
_CORRECTED = ('rows', 'length_m', 'factor')
_HIDDEN_ARRAYS = (
    'position', 'common', 'added', 'owner', 'shift', 'lone', 'lone_shift', 'later', 'later_shift',
    'stamp_ns', 'evidence', 'keyframes', 'solved')


def encode_verdict(verdict: Verdict, answer: Answer) -> bytes:
    """A verdict with everything in it, and what it answers."""
    values: dict[str, Any] = {name: getattr(verdict, name) for name in _PLAIN}
    values.update({
        'answer': asdict(answer),
        'kind': verdict.kind.value,
        'placed': list(verdict.placed),
        'segments': [
            [one.first, one.robot, one.location.value, one.missing, one.rejected_share,
             one.apart_m, one.sigma_m, one.sigma_rad] for one in verdict.segments],
        'status': verdict.status.value,
        'stats': stats_values(verdict.stats),
        'findings': [list(vars(one).values()) for one in verdict.findings],
        'gate_reasons': list(verdict.gate_reasons),
        'gate_robots': [list(one) for one in verdict.gate_robots],
        'held_sources': list(verdict.held_sources),
        'held_lengths': {name: list(pair) for name, pair in verdict.held_lengths.items()},
        'quarantined': [list(one) for one in verdict.quarantined],
        'radio_errors': verdict.radio_errors.values(),
        'released': list(verdict.released),
        'noise': verdict.noise.values(),
        'odometry_errors': verdict.odometry_errors.values(),
        'rulings': verdict.rulings.values(),
    })
    arrays = estimate_arrays(verdict.estimate)
    arrays['landmark_located'] = verdict.landmark_located
    arrays['doubted_ranges'] = verdict.doubted_ranges
    arrays['left_out_odometry'] = verdict.left_out_odometry
    arrays.update({
        f'corrected.{name}': getattr(verdict.corrections, name) for name in _CORRECTED})
    arrays.update(stats_arrays(verdict.stats))
    hidden = verdict.undetected
    if hidden is not None:
        values['hidden'] = {name: list(getattr(hidden, name)) for name in _HIDDEN_NAMES}
        arrays.update({f'hidden.{name}': getattr(hidden, name) for name in _HIDDEN_ARRAYS})
    return encode(VERDICT, values, arrays)


def decode_verdict(packet: Packet) -> Verdict:
    """The verdict of a packet of kind `verdict`."""
    values, arrays = packet.values, packet.arrays
    return Verdict(
        kind=VerdictKind(values['kind']),
        estimate=estimate_from(arrays),
        placed=tuple(values['placed']),
        segments=tuple(
            SegmentVerdict(first, robot, Location(where), *rest)
            for first, robot, where, *rest in values['segments']),
        undetected=_hidden(packet),
        landmark_located=arrays['landmark_located'],
        doubted_ranges=arrays['doubted_ranges'],
        # Verdicts written before odometry was left out have none.
        left_out_odometry=arrays.get('left_out_odometry', np.zeros(0, dtype=np.int64)),
        corrections=_corrections(packet),
        status=SolveStatus(values['status']),
        stats=stats_from(values['stats'], arrays),
        findings=tuple(Finding(*row) for row in values['findings']),
        gate_reasons=tuple(values['gate_reasons']),
        gate_robots=tuple((robot, reason) for robot, reason in values['gate_robots']),
        held_sources=tuple(values['held_sources']),
        held_lengths={
            name: (length, factor)
            for name, (length, factor) in values.get('held_lengths', {}).items()},
        quarantined=tuple((sequence, level) for sequence, level in values['quarantined']),
        radio_errors=_radio_errors(values),
        released=tuple(values.get('released', ())),
        # Verdicts written before noise was estimated have none.
        noise=Noise.from_values(values.get('noise')),
        odometry_errors=OdometryErrors.from_values(values.get('odometry_errors')),
        rulings=Rulings.from_values(values.get('rulings')),
        **{name: values[name] for name in _PLAIN if name in values})


def _radio_errors(values: dict[str, Any]) -> RadioErrors:
    if 'radio_errors' not in values:
        # Written before places of antennas were corrected.
        return RadioErrors(values.get('biases', {}))
    return RadioErrors.from_values(values['radio_errors'])


def _corrections(packet: Packet) -> RangeCorrections:
    arrays = packet.arrays
    if 'corrected.rows' not in arrays:
        # Written before ranges were corrected.
        return RangeCorrections()
    return RangeCorrections(*(arrays[f'corrected.{name}'] for name in _CORRECTED))


def _hidden(packet: Packet) -> HiddenFaults | None:
    names = packet.values.get('hidden')
    if names is None or 'hidden.solved' not in packet.arrays:
        # None, or written before faults were solved for.
        return None
    robots, landmarks, causes = (tuple(names[name]) for name in _HIDDEN_NAMES)
    return HiddenFaults(
        robots, landmarks, causes=causes,
        **{name: packet.arrays[f'hidden.{name}'] for name in _HIDDEN_ARRAYS})
