"""What else explains ranges that seem faulty together: a jump of odometry, or another radio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..integrity.examine import FaultyRanges
from .contest import Contest
from .length_trial import LengthTrial
from .range_doubts import RangeDoubt, faulty_together
from .runner import run, value_of

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_OPENED = 1e-6
"""Share of its precision that odometry keeps where it may have jumped: 0.05 m become 50 m."""


def other_causes(
    contest: Contest, without: float, count: int, bursts: Sequence[FaultyRanges],
    groups: Sequence[RangeDoubt], trial: LengthTrial, config: SparserConfig,
) -> tuple[tuple[str, str], ...]:
    """(robot or beacon, why) of sources that may be at fault instead of the ranges.

    The map without the ranges, `count` of them, has the robust cost `without`. Another cause is
    excluded where its map costs more than that by what honest ranges cannot explain. `groups` are
    the `bursts` in rows of the sum of all increments; the trial changes what the store leaves out.
    """
    def excluded(value: float) -> bool:
        return faulty_together(
            value - without, count, config.backend.observability.flip_cost)

    found = [
        (one.finding.subject, f'{one.finding.text}, or its odometry jumped')
        for one in bursts if not excluded(with_jump(contest, one.jump, config))]
    for group in groups:
        partner = trial.partner(group, contest.best.whole)
        if partner and not excluded(trial.value(partner, contest)):
            words = (f'{group.finding.text}, or those of radio {partner} are all too long or too '
                     'short')
            found += [(name, words) for name in (group.finding.subject, partner)]
    return tuple(found)


def with_jump(contest: Contest, edge: int | None, config: SparserConfig) -> float:
    """Robust cost of the best map if one relative pose of the solved subgraph says nothing."""
    if edge is None:
        return contest.best.value
    subgraph = contest.frame.subgraph
    rel = subgraph.graph.relative_poses
    trust = np.ones(len(rel))
    trust[edge] = _OPENED
    opened = subgraph.graph.replaced(
        relative_poses=rel.replaced(tau=rel.tau * trust, kappa=rel.kappa * trust))
    return value_of(run(opened, config, subgraph.of(contest.best.whole)))
