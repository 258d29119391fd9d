"""Robots that odometry alone carries, because none of their newest ranges fits.

Where all ranges of a robot fail at once, the fault may be that of its odometry: wheels that slip,
or a source that repeats its last pose. Nothing is left that could tell. Where one length explains
the ranges, that is taken off and they fit again; where a part of them fits as it is, that part
confirms the odometry.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import bdtrc

from ...array_types import Array, Index, Mask
from ...graph import Estimate, range_residuals
from ...graph.range_ends import range_ends
from ..integrity.doubts import FAR_SIGMA
from .graph_store import GraphStore

UNUSUAL = 1e-4
"""Probability of so many faulty measurements by chance: an alarm costs the seconds until the next
audit."""
_FITS_BY_CHANCE = 0.1
"""Share of faulty ranges that seem to fit."""
_CHANCE = 0.01
"""Probability from which on ranges that fit may do so by chance."""
_MOST = 200
"""So many of the newest ranges of a robot are looked at: the rest says nothing of now."""


def failed_ranges(store: GraphStore, estimate: Estimate, rows: Index, squares: Array) -> Mask:
    """(k,) of the sum of all increments: ranges that do not fit an estimate, left out or not.

    `rows` of the store's graph were solved, and have these squared residuals.
    """
    whole, out = store.whole, store.now.left_out('ranges')
    failed = np.zeros(len(whole.ranges), dtype=bool)
    apart = whole.ranges.take(out)
    error = range_residuals(whole.replaced(ranges=apart), estimate)
    failed[out] = apart.precision * error**2 > FAR_SIGMA**2
    failed[store.original('ranges', rows)] = squares > FAR_SIGMA**2
    return failed


def unconfirmed(store: GraphStore, failed: Mask, usual: Mapping[str, float]) -> dict[str, str]:
    """{robot: why its newest place is not confirmed}; `failed` as `failed_ranges` has it.

    `usual` is the share of a robot's ranges that fails at other times.
    """
    ends, found = range_ends(store.whole), {}
    for number, robot in enumerate(store.whole.robots):
        newest = failed[ends.at(number)][:-_MOST - 1:-1]
        count = int(_longest(newest, usual[robot]))
        if count:
            found[robot] = (
                f'{int(newest[:count].sum())} of the {count} newest ranges of {robot} do not fit: '
                'they or its odometry are wrong')
    return found


def _longest(newest: Mask, usual: float) -> int:
    """So many of the newest ranges have failed, but for what fits by chance; 0 = not even few.

    Fits beyond chance among the very newest end what was before.
    """
    count = np.arange(1, len(newest) + 1)
    out = np.cumsum(newest)
    unusual = bdtrc(out - 1, count, min(usual, 1.0)) < UNUSUAL
    fits = count - out
    by_chance = (fits == 0) | (bdtrc(fits - 1, count, _FITS_BY_CHANCE) > _CHANCE)
    return int(np.max(count[unusual & np.minimum.accumulate(by_chance)], initial=0))
