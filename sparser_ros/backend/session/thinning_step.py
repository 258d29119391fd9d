"""One thinning of everything handed over so far: pure data in and out, for a thread of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...array_types import Mask
from ...graph import Graph, Increment
from ...graph.thinning import RELATIVE, Renumbering, Thinned, thin
from . import quarantine
from .graph_store import GraphStore
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
    return all(level < quarantine.ODOMETRY for _, level in quarantined)


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
    for one in increments:
        store.add(one, first=begin)
        begin = one.sequence + 1
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
