"""Graphs of a small world whose radios have biases, a scale, wrong sigmas and blocked bursts."""

import numpy as np
from faulty_world import graph, world

from benchmark.calibration import RadioWorld
from sparser_ros.graph.ends import range_ends


def radio_world(seed, known=(), scaled=False, dimension=2, steps=240, sigma_factor=None,
                biased=True, blocked=0.1):
    """Three robots among six beacons for two minutes.

    Biases 0 to 0.6 m per radio, scale 0.99 to 1.01, claimed sigma wrong by a factor of 0.2 to 5,
    10 % of the ranges in bursts of 5 s per pair that are 0.3 to 3 m too long.
    """
    place = world(seed, dimension, known, steps)
    clean = graph(place, seed, share=0.0)
    rng = np.random.default_rng(500 + seed)
    ends = range_ends(clean)
    bias = rng.uniform(0, 0.6, len(ends.names)) * biased
    scale = float(rng.uniform(0.99, 1.01)) if scaled else 1.0
    factor = float(5 ** rng.uniform(-1, 1)) if sigma_factor is None else sigma_factor
    ranges = clean.ranges
    _, _, pair = ends.pairs
    window = (ends.seconds // 5.0).astype(int)
    late = rng.random((pair.max() + 1, window.max() + 1)) < blocked
    late = np.where(late, rng.uniform(0.3, 3.0, late.shape), 0.0)[pair, window]
    # alpha d - b_i - b_j is the corrected range.
    true = ranges.distance_m + late
    measured = (true + bias[ends.first] + bias[ends.second]) / scale
    return RadioWorld(
        clean.replaced(ranges=ranges.replaced(
            distance_m=measured, precision=ranges.precision / factor**2)),
        clean.replaced(ranges=ranges.replaced(distance_m=true)),
        place.truth, bias, scale)
