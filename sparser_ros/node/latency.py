"""How long data wait for a trajectory that contains them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

_SAMPLES_PER_SECOND = 32
"""Data stamps per second of wall time at which the wait is taken."""
_OTHER_CLOCK_S = 3600.0
"""Wait of every solution from which stamps are of another clock, not old."""
FULL_SIZE_SHARE = 0.2
"""Share of the data, the last, at which the graph counts as being of full size."""


def latencies(published: Sequence[tuple[float, float]], rate: float) -> dict[str, float | None]:
    """Wall seconds from data to the first solution that contains them, data evenly in time.

    `published` lists (time of publication, newest stamp in the solution) in seconds of the data's
    clock, which runs `rate` times as fast as the wall's. Data between the newest stamps of two
    solutions wait for the second one. Where stamps are of another clock, such as that of a robot
    which nobody synchronised, the quickest solution counts as one without a wait.
    """
    least = min((at - newest for at, newest in published), default=0.0)
    if least > _OTHER_CLOCK_S:
        published = [(at - least, newest) for at, newest in published]
    stamp, wait = [np.zeros(0)], [np.zeros(0)]
    for (_, before), (at, newest) in pairwise(published):
        if newest > before:
            # As many samples per second of data everywhere.
            samples = int(_SAMPLES_PER_SECOND * (newest - before) / rate)
            data = np.linspace(before, newest, max(2, samples))
            stamp.append(data)
            wait.append((at - data) / rate)
    stamps, waits = np.concatenate(stamp), np.concatenate(wait)
    if not len(waits):
        return {'p50': None, 'p95': None, 'max': None, 'p95_full_size': None}
    late = stamps >= stamps[-1] - FULL_SIZE_SHARE * (stamps[-1] - stamps[0])
    p50, p95 = np.percentile(waits, [50, 95])
    return {
        'p50': round(float(p50), 3), 'p95': round(float(p95), 3),
        'max': round(float(waits.max()), 3),
        'p95_full_size': round(float(np.percentile(waits[late], 95)), 3),
    }
