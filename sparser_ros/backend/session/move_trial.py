"""Whether the map goes on with a beacon where it was moved to, without its ranges from before.

The known place of a beacon goes with these ranges. Where the frame of map or the place of a robot
rests on it, it stays, and what the beacon measures since stays left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...graph.finding import Finding
from .contest import Contest
from .graph_store import GraphStore
from .judgement import Judgement
from .moved_beacons import Move
from .odometry_faults import Again
from .range_doubts import RangeDoubt, explained, of_sources
from .solution import Location


@dataclass(frozen=True)
class MoveTrial:
    """Solves with a beacon at its new place; each changes the store."""

    store: GraphStore
    doubt: Callable[[list[RangeDoubt]], bool]
    """Leave these groups of ranges out of the store; whether that changes it."""
    again: Again
    judge: Callable[[Contest], Judgement]

    def at_new_place(
        self, one: RangeDoubt, move: Move, words: Finding, believed: list[RangeDoubt],
        contest: Contest, judgement: Judgement,
    ) -> tuple[Contest, Judgement] | None:
        """The contest with the beacon of a group where its ranges since the move have it.

        `believed` are the other groups. None where most of these ranges do not fit that map, or
        where it places less than the present one.
        """
        graph, name = self.store.unbiased, words.subject
        own = of_sources(graph, (name,), 0)
        earlier = RangeDoubt(
            words, own[own < one.rows[0]], one.begin_s(graph), open=False, moved=True)
        self.doubt([earlier, *(
            old for old in believed if not (old.moved and old.finding.subject == name))])
        other = self.again(contest, move.of(contest.best.whole))
        if other is None or not explained(one, graph, other.best.whole):
            return None
        found = self.judge(other)
        if name in self.store.released and not (
                other.frame.anchored == contest.frame.anchored
                and located_segments(found) >= located_segments(judgement)):
            return None
        return other, found


def located_segments(found: Judgement) -> set[int]:
    """First rows of segments that are located."""
    return {one.first for one in found.segments if one.location is Location.LOCATED}
