"""One thinning of everything handed over so far, and what names rows of poses after it.

Pure data in and out, for a thread of its own. Treatments name no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ...array_types import Mask
from ...graph import Estimate, Graph, Increment
from ...graph.thinning import RELATIVE, Renumbering, Thinned, thin
from .frame import segment_name
from .graph_store import ODOMETRY, GraphStore
from .solution import TrackedMap, Verdict
from .treatment import Treatment


@dataclass(frozen=True)
class ThinningStep:
    """What takes the place of the increments until `increment.sequence`, and the way to it."""

    increment: Increment
    """The thinned sum; it stands for all sequences from 0 on."""
    renumbering: Renumbering
    """From the rows of the sum to those of `increment`."""
    text: str
    """What happened, in words."""


def possible(quarantined: Iterable[tuple[int, int]]) -> bool:
    """Whether a graph can be thinned now: not while odometry in the middle of it is left out."""
    return all(level < ODOMETRY for _, level in quarantined)


def thinned(
    increments: Sequence[Increment], drop: Mask, per_pair: int,
    quarantined: Iterable[tuple[int, int]] = (),
) -> ThinningStep:
    """The sum of all increments without the poses of a mask; see `graph.thinning.thin`.

    What quarantined increments have measured is gone then, since within a merged one it could not
    be told apart any more; their odometry stays (`possible`).
    """
    store = GraphStore(increments[0].poses.translation.shape[1])
    begin = 0
    for increment in increments:
        store.add(increment, first=begin)
        begin = increment.sequence + 1
    store.treat(Treatment(quarantined=tuple(sorted(quarantined))))
    part = store.graph
    found = thin(part, drop, per_pair)
    rows = {}
    for name, table in store.whole.tables().items():
        rows[name] = np.full(len(table), -1, dtype=np.int64)
        rows[name][store.original(name, np.arange(len(getattr(part, name))))] = \
            found.renumbering.rows[name]
    graph = found.graph
    increment = Increment(
        store.sequence, graph.robots, graph.poses, graph.landmarks,
        newest_stamp_ns=store.newest_stamp_ns, unlevelled=store.unlevelled,
        measurements=graph.tables())
    edges = np.full(len(store.whole.relative_poses), -1, dtype=np.int64)
    edges[store.original(RELATIVE, np.arange(len(part.relative_poses)))] = (
        found.renumbering.next_edge)
    to = replace(found.renumbering, rows=rows, next_edge=edges)
    return ThinningStep(increment, to, _words(part, found))


def _words(before: Graph, found: Thinned) -> str:
    after = found.graph
    sigma = found.offset_sigma_m
    return (f'keyframes thinned from {before.n_poses} to {after.n_poses}, {found.dropped} of '
            f'{len(before.ranges)} ranges and other measurements dropped; the others moved by '
            f'odometry of {np.median(sigma):.3f} m standard deviation (at most {sigma.max():.3f})')


_Map = TypeVar('_Map', TrackedMap, Verdict)
_SEGMENT = segment_name(0).removesuffix('0')


def estimate_of(estimate: Estimate, to: Renumbering) -> Estimate:
    """The values of the poses that stay; the estimate may cover the first poses of the graph."""
    rows = to.until(len(estimate.translation))
    return Estimate(estimate.rotation[rows], estimate.translation[rows], estimate.landmarks.copy())


def name_of(name: str, to: Renumbering) -> str:
    """Of a segment or a landmark."""
    if not name.startswith(_SEGMENT):
        return name
    return segment_name(int(to.next_pose[int(name.removeprefix(_SEGMENT))]))


def names_of(names: tuple[str, ...], to: Renumbering) -> tuple[str, ...]:
    """The same segments and landmarks under their new names."""
    return tuple(sorted(name_of(name, to) for name in names))


def tracked_of(tracked: TrackedMap, to: Renumbering) -> TrackedMap:
    """The same map of fewer poses."""
    return replace(_map_of(tracked, to), quarantined=())


def verdict_of(verdict: Verdict, to: Renumbering) -> Verdict:
    """The same verdict on fewer poses, of the increments until the thinning."""
    return replace(
        _map_of(verdict, to), treatment=replace(verdict.treatment, quarantined=()),
        segments=tuple(
            replace(segment, first=int(to.next_pose[segment.first]))
            for segment in verdict.segments),
        undetected=None if verdict.undetected is None else replace(
            verdict.undetected, keyframes=to.next_pose[verdict.undetected.keyframes]))


def kept_of(verdict: Verdict, to: Renumbering, sequence: int) -> Verdict:
    """The verdict for who begins with the thinned graph as one increment, of `sequence`.

    What is older than the verdict cannot be told apart there: all of that increment counts as known
    to it, and not as contradicting it. It stands for no audit of that.
    """
    found = verdict_of(verdict, to)
    return replace(found, sequence=max(found.sequence, sequence), final=False)


def _map_of(known: _Map, to: Renumbering) -> _Map:
    return replace(
        known, estimate=estimate_of(known.estimate, to), placed=names_of(known.placed, to))
