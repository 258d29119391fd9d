"""Beacons that were moved, and known ones that never stood where they are configured.

Where another place explains ranges that no longer fit a beacon (integrity/places.py), they
count again and those from before the move are left out instead. The configured place of a known
beacon goes with these. Where the frame of map or the place of a robot rests on it, it stays, and
what the beacon measures since stays left out.

A configured place that the data deny from the beginning on bends the map while it counts. Without
it the ranges say where the beacon is, and whether labels were exchanged. Odometry in the plane
whose y points right drives the mirror image of a path, and known beacons seem to be elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...array_types import Array
from ...graph import Graph
from ...graph.finding import Finding
from ..integrity.faults import (
    BURST,
    MISPLACED,
    MOVED,
    MOVED_AWAY,
    Fault,
    seconds_of,
)
from ..integrity.places import (
    DENIED,
    Move,
    configured_place,
    fixed_by_beacons,
    frame_reason,
    known_names,
    move_of,
    place_findings,
    stands_still,
)
from .contest import Contest, run_from_scratch, value_of
from .fault_search import Candidate, FaultSearch
from .range_faults import GROWN, explained


def moved_beacons(search: FaultSearch) -> Iterator[Candidate]:
    """Maps in which a beacon is where its ranges have it since a burst began.

    Where those of a known beacon are needed to place the map or a robot, it keeps its place and
    the ranges of the group stay left out: only the words are new.
    """
    for fault in search.treatment.of(BURST, MOVED_AWAY):
        graph, rows, name = search.unbiased, fault.rows(search.whole), fault.subject
        key = 'move', name, fault.spans[0][0] if fault.spans else 0
        if not fault.open or len(rows) < GROWN * search.attempts.refused.get(key, 0):
            continue
        move = move_of(name, rows, graph, search.estimate, search.flip_cost)
        if move is None:
            search.attempts.refused[key] = len(rows)
            continue
        words = move.words(
            name, seconds_of(graph, fault.spans[0][0]), known=name in known_names(graph))
        candidate = _at_new_place(search, fault, move, words)
        if candidate is not None:
            yield candidate
            continue
        for what in ('move', 'length') if name in known_names(graph) else ('move',):
            search.attempts.refused[what, name, key[2]] = len(rows)
        if name in known_names(graph):
            yield from search.go_on(search.treatment.changed(fault, replace(
                fault, kind=MOVED_AWAY, size=(move.way_m,), words=words, known_ns=0)))


def _at_new_place(
    search: FaultSearch, fault: Fault, move: Move, words: str
) -> Candidate | None:
    """The map with a beacon where its ranges since the move have it.

    None where most of these ranges do not fit that map, or where a known beacon is needed at its
    place: the map would place less.
    """
    graph, name, rows = search.unbiased, fault.subject, fault.rows(search.whole)
    earlier = replace(
        Fault(MOVED, name, (move.way_m,), words=words), spans=fault.before().spans,
        end_ns=fault.spans[0][0])
    treatment = search.treatment.without([fault, *(
        fault for fault in search.treatment.of(MOVED) if fault.subject == name)])
    other = search.solved(treatment.beside(earlier), start=move.of(search.estimate))
    if other is None or not explained(rows, 0.0, graph, other.best.whole):
        return None
    judgement = search.judged(other)
    if name in known_names(graph) and not search.places_as_much(other, judgement):
        return None
    return Candidate(other, judgement=judgement)


def misplaced_beacons(search: FaultSearch) -> Iterator[Candidate]:
    """Maps without configured places that the data deny; not where they place less."""
    known = {fault.subject for fault in search.treatment.of(MISPLACED)}
    denied = [finding for finding in search.examination.findings if finding.kind in DENIED]
    every = known | {name for finding in denied for name in finding.subjects}
    suspects = [*denied, *(Finding(MISPLACED, name, name) for name in known)]
    if every == known or frame_reason(search.whole, suspects, np.inf):
        # The others would no longer fix the frame of map.
        return
    other = search.solved(search.treatment.beside(*(
        Fault(MISPLACED, name) for name in sorted(every - known))))
    if other is not None and search.better(Candidate(other, 1)):
        judgement = search.judged(other)
        if search.places_as_much(other, judgement):
            yield Candidate(other, 1, judgement=judgement)


def still_misplaced(fault: Fault, contest: Contest, graph: Graph, floor_m: float) -> bool:
    """Whether a beacon does not stand at its configured place after all, or is nowhere."""
    place = located_places((fault,), contest, graph).get(fault.subject)
    return fault.kind != MISPLACED or place is None or float(np.linalg.norm(
        place - configured_place(graph, graph.landmarks.names.index(fault.subject)))) > floor_m


def located_places(
    faults: tuple[Fault, ...], contest: Contest, graph: Graph
) -> dict[str, Array]:
    """(d,) of those misplaced beacons that a contest places, in map; `graph` has their numbers."""
    frame, whole = contest.frame, contest.best.whole
    placed = frame.mask[len(frame.segments):]
    return {name: whole.landmarks[number]
            for name in sorted(fault.subject for fault in faults if fault.kind == MISPLACED)
            if (number := graph.landmarks.names.index(name)) < len(placed) and placed[number]}


def told_places(faults: tuple[Fault, ...], graph: Graph) -> list[Finding]:
    """What the places say of beacons that bend the map no longer; a size is a place in map."""
    return place_findings(
        graph, {
            fault.subject: np.array(fault.size) for fault in faults
            if fault.kind == MISPLACED and fault.size})


def withhold_frame(search: FaultSearch) -> None:
    """The map is withdrawn where the known beacons left do not fix its frame, nor did before.

    A known beacon of which some ranges are left out, or count with a length taken off, fixes
    the frame by the others. Where one other place explains both, it never stood where it is
    configured, or another one did not.
    """
    graph, known = search.unbiased, known_names(search.whole)
    suspects = [
        fault for fault in search.treatment.of(BURST, MOVED, MOVED_AWAY) if fault.subject in known]
    reason = frame_reason(graph, [
        Finding(MISPLACED, fault.subject, f'all ranges of {fault.subject} fit one other place')
        for fault in suspects], math.inf)
    if not reason or not search.integrity.gate:
        return
    for fault in suspects:
        every = Fault(fault.kind, fault.subject)
        other = search.solved(search.treatment.changed(fault, every))
        if other is None or stands_still(
                fault.subject, fault.rows(graph), graph, other.best.whole, search.flip_cost):
            search.withdraw((('', reason),))
            return


def withhold_mirrored(search: FaultSearch) -> None:
    """The map is withdrawn where mirrored odometry without any fault fits as well as the faults do.

    All robots have the same driver. Of fewer known beacons a mirrored map is no worse.
    """
    if search.whole.dimension != 2 or not search.integrity.gate or not fixed_by_beacons(
            search.whole):
        return
    treatment = search.treatment
    wrong = bool(treatment.faults or treatment.exchanged or search.examination.findings)
    if search.due('mirrored odometry', wrong):
        plain = search.solved(replace(treatment, faults=(), exchanged=()))
        if plain is not None:
            mirrored = _mirrored(plain.frame.subgraph.graph)
            cost = value_of(run_from_scratch(mirrored, search.config, 0))
            search.attempts.mirrored = cost < search.contest.best.value + search.flip_cost
    if wrong and search.attempts.mirrored:
        search.withdraw((('', (
            'all data fit if y of the odometry points right: make it point left (ROS REP 103); '
            'NED must be turned to ENU')),))


def _mirrored(graph: Graph) -> Graph:
    """A graph of the plane with y and headings of odometry the other way round."""
    rel = graph.relative_poses
    odometry = rel.odometry[:, None]
    return graph.replaced(relative_poses=rel.replaced(
        translation=np.where(odometry, rel.translation * [1.0, -1.0], rel.translation),
        rotation=np.where(odometry[:, :, None], np.swapaxes(rel.rotation, 1, 2), rel.rotation)))
