"""The map of what is placed, from an estimate of a part of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...graph import Estimate
from .frame import Frame
from .incremental_map import IncrementalMap, can_be_incremental
from .tail import with_tail
from .whole_map import WholeMap

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

PlacedMap = IncrementalMap | WholeMap


def placed_map(
    frame: Frame, names: Sequence[str], estimate: Estimate, config: SparserConfig
) -> PlacedMap:
    """A map of the frame's whole graph in which what is named is placed.

    The estimate may cover the first poses and landmarks only.
    """
    placed = frame.named(names)
    placed[len(frame.segments):] |= frame.graph.landmarks.fixed
    guess = with_tail(
        frame.graph, frame.segments, placed, estimate, config, frame.anchored)
    kind = IncrementalMap if can_be_incremental(config) else WholeMap
    return kind(frame, placed, guess, config)
