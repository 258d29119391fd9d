"""Names of poses and ranges, which stay the same while a graph grows."""

from __future__ import annotations

import numpy as np

from ...array_types import Array, Index


def take_known(to: Array, names: Index, values: Array, known: Index) -> None:
    """Copy into rows `to` of `names` the rows `values` of the same of the ascending `known`."""
    at = np.searchsorted(known, names)
    same = at < len(known)
    same[same] = known[at[same]] == names[same]
    to[same] = values[at[same]]
