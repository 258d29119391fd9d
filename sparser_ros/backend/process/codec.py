"""Increments, solutions and notes as bytes: a JSON head and raw arrays, nothing pickled.

Layout: magic `SPR1`, length of the head (u32), head, arrays one after the other. The head names
kind, plain values and dtype and shape of every array. Used on the pipe and in the journal.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...config import SparserError
from ...graph import (
    Estimate,
    Increment,
    Landmarks,
    poses_from,
    tables_from,
    to_arrays,
)
from ...graph.finding import Finding
from ...solver.result import SolveStats, SolveStatus
from ..session.covariances import Covariances
from ..session.protection import Protection
from ..session.solution import Location, Rejected, RobotLocation, Solution

MAGIC = b'SPR1'
_HEAD = struct.Struct('<4sI')
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Packet:
    """One decoded message: its kind, plain values and arrays."""

    kind: str
    values: dict[str, Any]
    arrays: Arrays


def encode(kind: str, values: dict[str, Any] | None = None, arrays: Arrays | None = None) -> bytes:
    """Bytes of a message with JSON-able values and numeric or boolean arrays."""
    plain = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    head = json.dumps({
        'kind': kind,
        'values': values or {},
        'arrays': [[name, a.dtype.str, list(a.shape)] for name, a in plain.items()],
    }, default=lambda number: number.item()).encode()
    return b''.join([
        _HEAD.pack(MAGIC, len(head)), head, *(array.tobytes() for array in plain.values())])


def decode(data: bytes) -> Packet:
    """The message in `data`; raises SparserError when it is not one, or cut short."""
    try:
        magic, length = _HEAD.unpack_from(data)
        if magic != MAGIC:
            raise ValueError(f'starts with {magic!r}, not {MAGIC!r}')
        head = json.loads(data[_HEAD.size:_HEAD.size + length])
        offset = _HEAD.size + length
        arrays: Arrays = {}
        for name, dtype, shape in head['arrays']:
            kind = np.dtype(dtype)
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(data, kind, count, offset).reshape(shape)
            offset += count * kind.itemsize
        return Packet(head['kind'], head['values'], arrays)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise SparserError(f'not a message of the back-end: {error}') from error


def encode_increment(increment: Increment, first: int | None = None) -> bytes:
    """An increment; `first` is the first sequence it stands for when it is a merged one."""
    arrays: Arrays = {
        'landmarks.position': increment.landmarks.position,
        'landmarks.fixed': increment.landmarks.fixed,
    }
    arrays.update(to_arrays({'poses': increment.poses, **increment.tables()}))
    values = {
        'sequence': increment.sequence,
        'first': increment.sequence if first is None else first,
        'robots': list(increment.robots),
        'landmarks': list(increment.landmarks.names),
        'newest_stamp_ns': increment.newest_stamp_ns,
    }
    return encode('increment', values, arrays)


def decode_increment(packet: Packet) -> Increment:
    """The increment of a packet of kind `increment`."""
    arrays, values = packet.arrays, packet.values
    landmarks = Landmarks(
        tuple(values['landmarks']), arrays['landmarks.position'], arrays['landmarks.fixed'])
    return Increment(
        sequence=values['sequence'], robots=tuple(values['robots']), landmarks=landmarks,
        newest_stamp_ns=values['newest_stamp_ns'], poses=poses_from(arrays),
        measurements=tables_from(arrays))


def estimate_arrays(estimate: Estimate) -> Arrays:
    """The arrays of an estimate under their names."""
    return {
        'rotation': estimate.rotation,
        'translation': estimate.translation,
        'landmarks': estimate.landmarks,
    }


def estimate_from(arrays: Arrays) -> Estimate:
    """The estimate kept under `estimate_arrays`' names."""
    return Estimate(arrays['rotation'], arrays['translation'], arrays['landmarks'])


def stats_values(stats: SolveStats) -> dict[str, Any]:
    """The plain values of statistics."""
    return {f.name: getattr(stats, f.name) for f in fields(SolveStats) if f.name != 'weights'}


def stats_arrays(stats: SolveStats) -> Arrays:
    """The arrays of statistics: robust weights."""
    return {f'weights.{name}': array for name, array in stats.weights.items()}


def stats_from(values: dict[str, Any], arrays: Arrays) -> SolveStats:
    """The statistics of `stats_values` and `stats_arrays`."""
    weights = {
        name.split('.', 1)[1]: array
        for name, array in arrays.items() if name.startswith('weights.')}
    plain = {**values, 'trace': tuple((seconds, cost) for seconds, cost in values['trace'])}
    return SolveStats(weights=weights, **plain)


_PLAIN = (
    'sequence', 'message', 'full', 'newest_stamp_ns', 'seconds', 'extra', 'epoch',
    'audited_sequence', 'ruled', 'doubt', 'anchored')


def encode_solution(solution: Solution, answer: Any = None) -> bytes:
    """A solution with everything in it, and what it answers (`protocol.Answer`)."""
    values: dict[str, Any] = {name: getattr(solution, name) for name in _PLAIN}
    values.update({
        'answer': None if answer is None else asdict(answer),
        'robots': [[r.robot, r.location.value, r.missing] for r in solution.robots],
        'status': solution.status.value,
        'stats': stats_values(solution.stats),
        'rejected': [list(vars(one).values()) for one in solution.rejected],
        'findings': [list(vars(one).values()) for one in solution.findings],
        'placed': list(solution.placed),
        'quarantined': [list(one) for one in solution.quarantined],
    })
    arrays = estimate_arrays(solution.estimate)
    arrays['landmark_located'] = solution.landmark_located
    arrays.update(stats_arrays(solution.stats))
    known = solution.covariances
    if known is not None:
        values['covariances'] = [
            list(known.robots), known.gauge, known.variance_factor]
        arrays['covariances.poses'] = known.poses
        arrays['covariances.landmarks'] = known.landmarks
    if solution.protection is not None:
        values['protection'] = list(solution.protection.robots)
        arrays['protection.horizontal'] = solution.protection.horizontal_m
        arrays['protection.vertical'] = solution.protection.vertical_m
    return encode('solution', values, arrays)


def _covariances(packet: Packet) -> Covariances | None:
    if 'covariances' not in packet.values:
        return None
    robots, gauge, factor = packet.values['covariances']
    arrays = packet.arrays
    return Covariances(
        tuple(robots), arrays['covariances.poses'], arrays['covariances.landmarks'], gauge, factor)


def _protection(packet: Packet) -> Protection | None:
    if 'protection' not in packet.values:
        return None
    arrays = packet.arrays
    return Protection(
        tuple(packet.values['protection']), arrays['protection.horizontal'],
        arrays['protection.vertical'])


def decode_solution(packet: Packet) -> Solution:
    """The solution of a packet of kind `solution`."""
    values, arrays = packet.values, packet.arrays
    return Solution(
        estimate=estimate_from(arrays),
        robots=tuple(
            RobotLocation(name, Location(where), missing)
            for name, where, missing in values['robots']),
        landmark_located=arrays['landmark_located'],
        status=SolveStatus(values['status']),
        stats=stats_from(values['stats'], arrays),
        rejected=tuple(Rejected(*row) for row in values['rejected']),
        findings=tuple(Finding(*row) for row in values['findings']),
        placed=tuple(values['placed']),
        quarantined=tuple((sequence, level) for sequence, level in values['quarantined']),
        covariances=_covariances(packet), protection=_protection(packet),
        **{name: values[name] for name in _PLAIN})
