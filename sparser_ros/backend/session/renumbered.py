"""What names rows of a graph, after that graph was thinned (graph/thinning.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ...graph import Estimate
from ...graph.thinning import Renumbering
from .frame import segment_name
from .tracked_map import TrackedMap
from .verdict import Verdict

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
            replace(one, first=int(to.next_pose[one.first])) for one in verdict.segments),
        undetected=None if verdict.undetected is None else replace(
            verdict.undetected, keyframes=to.next_pose[verdict.undetected.keyframes]))


def kept_of(verdict: Verdict, to: Renumbering, sequence: int) -> Verdict:
    """The verdict for who begins with the thinned graph as one increment, of `sequence`.

    What is older than the verdict cannot be told apart there: all of that increment counts as known
    to it, and not as contradicting it. It stands for no audit of that.
    """
    found = verdict_of(verdict, to)
    return replace(found, sequence=max(found.sequence, sequence), final=False)


def _map_of(one: _Map, to: Renumbering) -> _Map:
    return replace(
        one, estimate=estimate_of(one.estimate, to), placed=names_of(one.placed, to))
