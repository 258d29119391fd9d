"""Known beacons that do not stand where they are configured: their places are taken for unknown.

A configured place that the data deny bends the map while it counts. Without it the ranges say where
the beacon is, and whether labels were exchanged.
"""

from __future__ import annotations

import numpy as np

from ...array_types import Array
from ...graph import Graph
from ...graph.finding import Finding
from ..integrity.known_beacons import configured_place, frame_reason, place_findings
from .contest import Contest
from .judgement import Judgement

_DENIED = ('beacon_misplaced', 'beacons_swapped')
"""Kinds of findings that deny a configured place."""
_AT_OTHER = 0.2
"""Share of the distance of two beacons within which each stands at the other's place."""


def denied(judgement: Judgement, graph: Graph, known: frozenset[str]) -> frozenset[str]:
    """Beacons whose configured place the data deny, those in `known` of it included.

    Only `known` where the others would no longer fix the frame of map.
    """
    found = [finding for finding in judgement.findings if finding.kind in _DENIED]
    every = known | {name for finding in found for name in finding.subject.split(' and ')}
    suspects = [*found, *(Finding('beacon_misplaced', name, name) for name in known)]
    return known if frame_reason(graph, suspects, np.inf) else every


def located_places(names: frozenset[str], contest: Contest, graph: Graph) -> dict[str, Array]:
    """(d,) of those of the beacons that a contest places, in map; `graph` has their numbers."""
    frame, whole = contest.frame, contest.best.whole
    placed = frame.mask[len(frame.segments):]
    return {name: whole.landmarks[number] for name in sorted(names)
            if (number := graph.landmarks.names.index(name)) < len(placed) and placed[number]}


def still_denied(
    names: frozenset[str], places: dict[str, Array], graph: Graph, floor_m: float
) -> frozenset[str]:
    """Those of the beacons that do not stand at their configured place after all."""
    return frozenset(
        name for name in names if name not in places or float(np.linalg.norm(
            places[name] - configured_place(graph, graph.landmarks.names.index(name)))) > floor_m)


def findings_of(places: dict[str, Array], graph: Graph) -> list[Finding]:
    """What the places of beacons say that bend the map no longer."""
    return place_findings(graph, places, _AT_OTHER)
