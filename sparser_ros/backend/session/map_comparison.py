"""Which of two maps fits the data that a map was made of: the tracker's, or an audit's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...graph import Estimate
from .contest import SAME_COST
from .frame import Frame
from .map_costs import costs_of
from .tracked_map import TrackedMap
from .warm_start import continued

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

SAME_CHI_SQUARE = 1.0
"""Chi-square by which a map may fit worse: less than one standard deviation."""
RowsUntil = Callable[[int], Mapping[str, int]]
"""Rows by table that a graph had at an increment."""


def is_worse(
    frame: Frame, tracked: TrackedMap | None, best: Estimate, rows_until: RowsUntil,
    config: SparserConfig,
) -> bool:
    """Whether the tracker's map fits its own data worse than the best candidate does.

    The tracker's data alone are compared: what came since moves the best candidate, and will
    move the tracker's map.
    """
    if tracked is None or tracked.anchored != frame.anchored:
        return True
    mine, least = _costs(frame, tracked, tracked.estimate, best, rows_until, config)
    return not mine <= least + max(SAME_COST * least, SAME_CHI_SQUARE)


def has_left(
    frame: Frame, tracked: TrackedMap, audited: TrackedMap | None, rows_until: RowsUntil,
    config: SparserConfig,
) -> bool:
    """Whether the tracker's map fits the data of the last audit much worse than its map did.

    It has left that map: a better one came too late for the newest data, or these pulled it
    away. Data that came since move the optimum of the older ones by less.
    """
    if audited is None or audited.anchored != tracked.anchored:
        return False
    older = audited if audited.sequence <= tracked.sequence else tracked
    mine, least = _costs(frame, older, tracked.estimate, audited.estimate, rows_until, config)
    return mine - least > config.backend.observability.flip_cost


def _costs(
    frame: Frame, known: TrackedMap, first: Estimate, second: Estimate, rows_until: RowsUntil,
    config: SparserConfig,
) -> tuple[float, float]:
    """Robust costs of two estimates of what `known` has placed, by the data that it knew."""
    poses, landmarks = len(known.estimate.translation), len(known.estimate.landmarks)
    mine, other = costs_of(frame, known.placed, (
        continued(frame.graph, frame.segments, Estimate(
            one.rotation[:poses], one.translation[:poses], one.landmarks[:landmarks]))
        for one in (first, second)), config, rows_until(known.sequence))
    return mine, other
