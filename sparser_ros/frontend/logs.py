"""A graph from the arrays of logs: poses of odometry, distances to anchors, both by their time."""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..array_types import Array
from ..config import GraphError, SparserConfig
from ..config.errors import SolveWarning
from ..graph import Graph, empty_graph, extended
from .frontend import Frontend
from .samples import OdometrySample, RangeSample

COLUMNS = {2: ('t, x, y, yaw', 4), 3: ('t, x, y, z, qx, qy, qz, qw', 8)}
"""Columns of odometry in the plane and in space (TUM)."""
_SECOND = 1_000_000_000


def from_logs(
    odometry: Mapping[str, ArrayLike],
    ranges: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]], *,
    beacons: Mapping[str, ArrayLike] | None = None,
    lever_arms: Mapping[str, ArrayLike] | None = None,
    range_sigma_m: float | None = None,
    config: SparserConfig | None = None,
) -> Graph:
    """The graph of logged odometry and ranges, to be solved by `solve`.

    odometry       by robot: an array (k, 4) of t, x, y, yaw; in space (k, 8) of t, x, y, z,
                   qx, qy, qz, qw. Seconds, metres, radians; the pose in a frame of its own that
                   drifts, as wheels or a camera give it.
    ranges         by robot: times (k,) in seconds, names of anchors or other robots (k,) or one
                   name, distances (k,) in metres. All times are of one clock.
    beacons        known positions (d,) in metres of some anchors, or of none: the others are found.
    lever_arms     by robot: its antenna (d,) in its own frame, metres, x ahead and y to the left.
    range_sigma_m  standard deviation of a distance (default: that of `config`, 0.15 m).
    config         further parameters by name, those of the node: noise of the odometry,
                   keyframes, bounds; its robots, radios and dimension are set from the arguments.

    The node's own front-end does it: a pose of the graph every 0.5 m, 0.35 rad or 5 s, ranges
    attached to the nearest with the odometry in between, implausible data left out. What is left
    out is told by a SolveWarning. GraphError names an array that has the wrong shape.
    """
    logs = {str(name): _table(str(name), rows) for name, rows in odometry.items()}
    widths = {rows.shape[1] for rows in logs.values()}
    if len(widths) != 1:
        raise GraphError('odometry: expected arrays of one robot or more, all with '
                         f'{" or all with ".join(text for text, _ in COLUMNS.values())}')
    dimension = 2 if widths == {4} else 3
    heard = {str(name): _columns(str(name), *columns) for name, columns in ranges.items()}
    known = {str(name): where for name, where in (beacons or {}).items()}
    arms = {str(name): arm for name, arm in (lever_arms or {}).items()}
    unknown = [name for name in (*heard, *arms) if name not in logs]
    if unknown:
        raise GraphError(f'ranges: no odometry of robot {unknown[0]!r}; there is that of '
                         f'{", ".join(logs)}')
    anchors = {name for _, names, _ in heard.values() for name in names}
    config = config or SparserConfig()
    config = replace(
        config, dimension=dimension, robots=list(logs),
        ranges=config.ranges if range_sigma_m is None else replace(
            config.ranges, sigma_m=float(range_sigma_m)),
        radios={
            **{name: {'beacon': name} for name in sorted(anchors - set(logs))},
            **{name: {'beacon': name, 'position': np.asarray(where, dtype=float).tolist()}
               for name, where in known.items()},
            **{name: {'robot': name, 'lever_arm': np.asarray(arm, dtype=float).tolist()}
               for name, arm in arms.items()}})
    # A stamp of zero would be an unknown one.
    starts = [rows[0, 0] for rows in logs.values()] + [t[0] for t, _, _ in heard.values() if len(t)]
    offset_ns = max(0, 1 - int(np.floor(min(starts)))) * _SECOND
    frontend = Frontend(config)
    samples: list[Iterator[OdometrySample | RangeSample]] = [
        *(_odometry(name, rows, offset_ns, config) for name, rows in logs.items()),
        *(_ranges(name, columns, offset_ns) for name, columns in heard.items())]
    for sample in heapq.merge(*samples, key=lambda sample: sample.stamp_ns):
        frontend.add(sample)
    increment = frontend.take(flush=True)
    # Warn of what was left out, and of what looks wrong.
    texts = [f'{counts.dropped.total()} of {counts.received} rows of {kind} left out: ' + ', '.join(
        f'{reason} {count}' for reason, count in sorted(counts.dropped.items()))
        for kind in ('odometry', 'ranges') if (counts := frontend.counters[kind]).dropped]
    texts += [finding.text for finding in (
        *frontend.findings, *(finding for _, finding in frontend.events))]
    for text in dict.fromkeys(texts):
        warnings.warn(text, SolveWarning, stacklevel=2)
    if increment is None:
        raise GraphError('odometry: no row of it can be used')
    graph = extended(empty_graph(dimension), increment)
    graph = graph.replaced(
        poses=graph.poses.replaced(stamp_ns=graph.poses.stamp_ns - offset_ns),
        **{name: table.replaced(stamp_ns=table.stamp_ns - np.where(table.stamp_ns, offset_ns, 0))
           for name, table in graph.tables().items() if hasattr(table, 'stamp_ns')},
        landmarks=replace(graph.landmarks, position=np.nan_to_num(graph.landmarks.position)))
    return graph.validate()


def _table(name: str, rows: ArrayLike) -> Array:
    """(k, 4) or (k, 8), in the order of time."""
    values = np.asarray(rows, dtype=float)
    expected = ' or '.join(f'(k, {width}) of {text}' for text, width in COLUMNS.values())
    if values.ndim != 2 or values.shape[1] not in (4, 8) or not len(values):
        raise GraphError(f'odometry of {name}: expected an array {expected}, got one of shape '
                         f'{values.shape}')
    _finite(f'odometry of {name}', values)
    return values[np.argsort(values[:, 0], kind='stable')]


def _columns(name: str, times: ArrayLike, anchors: Any, distances: ArrayLike) -> tuple[
        Array, list[str], Array]:
    """Times, anchors and distances of a robot's ranges, in the order of time."""
    t, distance = (np.atleast_1d(np.asarray(column, dtype=float)) for column in (times, distances))
    names = np.atleast_1d(np.asarray(anchors)).astype(str)
    if names.shape == (1,):
        names = np.repeat(names, len(t))
    if not t.shape == distance.shape == names.shape or t.ndim != 1:
        raise GraphError(
            f'ranges of {name}: expected as many times, anchors and distances, got arrays of the '
            f'shapes {t.shape}, {names.shape} and {distance.shape}')
    _finite(f'ranges of {name}', np.stack([t, distance], axis=1))
    order = np.argsort(t, kind='stable')
    return t[order], names[order].tolist(), distance[order]


def _finite(what: str, values: Array) -> None:
    bad = np.flatnonzero(~np.all(np.isfinite(values), axis=1))
    if len(bad):
        raise GraphError(f'{what}: row {bad[0]} is not finite: {values[bad[0]].tolist()}')


def _odometry(
    name: str, rows: Array, offset_ns: int, config: SparserConfig
) -> Iterator[OdometrySample]:
    zero = np.zeros((6, 6))
    frame, base = (config.topic(template, name)
                   for template in (config.frames.odom, config.frames.base))
    for row in rows:
        stamp_ns = round(row[0] * _SECOND) + offset_ns
        if len(row) == 4:
            position, half = np.array([row[1], row[2], 0.0]), 0.5 * row[3]
            quat = np.array([0.0, 0.0, np.sin(half), np.cos(half)])
        else:
            position, quat = row[1:4], row[4:8]
        yield OdometrySample(name, stamp_ns, stamp_ns, position, quat, zero, zero, frame, base)


def _ranges(
    name: str, columns: tuple[Array, list[str], Array], offset_ns: int
) -> Iterator[RangeSample]:
    for t, anchor, distance in zip(*columns, strict=True):
        stamp_ns = round(t * _SECOND) + offset_ns
        yield RangeSample(name, anchor, stamp_ns, stamp_ns, float(distance), 0.0)
