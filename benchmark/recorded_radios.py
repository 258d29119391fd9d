"""Radios of a recording: what its map says of them against what its reference says, and when.

Biases by the map and by a reference trajectory (motion capture) come from the same ranges, so their
differences have the covariance C_map - C_reference (the reference adds data: law of total
variance), and the chi-square of the differences follows.
`python -m benchmark.recorded_radios BAG --config C.yaml [--picture P.png]`; the reference is
`truth_topics` of the configuration. The picture shows errors and sigmas of pairs over the time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import chi2

from sparser_ros.array_types import Array, Mask
from sparser_ros.backend.replay import replay
from sparser_ros.calibrate.reference_trajectory import held_to
from sparser_ros.calibrate.self_calibration import SelfCalibration, self_calibrate
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import Graph
from sparser_ros.graph.subgraph import extract

from . import arguments
from .table import Table, run_main

REFERENCE_SIGMA_M = 0.02
"""Of a reference position, antenna against marker included, per axis."""
GAIN = 2.0
"""A combination of biases is compared where the reference at least halves its variance."""
PARTS = 8
"""Lengths of time that the picture has."""


def main(argv: list[str] | None = None) -> int:
    """Calibrate twice, compare, print, save."""
    made = arguments.parser('recorded_radios', __doc__ or '', seeds=1, timeout_s=600)
    made.add_argument('bag', type=Path)
    made.add_argument('--config', type=Path, required=True)
    made.add_argument('--picture', type=Path, metavar='P.png',
                      help='draw pairs over the time recorded instead')
    args = made.parse_args(argv)
    config = SparserConfig.from_yaml(args.config)
    graph, positions, known = recorded(args.bag, config)
    reference = calibrated(held_to(graph, positions, known, REFERENCE_SIGMA_M), config)
    if args.picture:
        draw(args.picture, args.bag.stem, graph, reference, config)
        return 0
    table = Table('recorded_radios', f'Radios of {args.bag.stem}: by its map, by its reference', {
        'radio': 'radio', 'map': 'map m', 'map_sigma': 'sigma', 'reference': 'reference m',
        'reference_sigma': 'sigma', 'off': 'difference m'}, args.out)
    found = calibrated(graph, config)
    for row in rows(found, reference):
        table.add(row)
    square, degrees = disagreement(found, reference)
    table.note(f'chi-square of the differences {square:.1f} with {degrees} degrees of freedom, '
               f'probability {chi2.sf(square, degrees):.2g}')
    print(table.notes[-1])
    return 0


def recorded(bag: Path, config: SparserConfig) -> tuple[Graph, Array, Mask]:
    """The graph of a bag, reference positions of its poses, and which of them there are."""
    state = replay.run(bag, config, None)
    if state.solution is None:
        raise SystemExit(f'{bag}: there is no map')
    graph = replay.heard_part(state.measured, state.solution)
    return graph, *replay.reference_positions(graph, state.tracks)


def calibrated(graph: Graph, config: SparserConfig) -> SelfCalibration:
    """As `sparser calibrate` does."""
    return self_calibrate(graph, None, replace(config.calibration, sigma='estimate'), config.solver)


def rows(found: SelfCalibration, reference: SelfCalibration) -> list[dict[str, object]]:
    """One for each radio."""
    spreads = [np.sqrt(np.diagonal(one.found.covariance)) for one in (found, reference)]
    return [{
        'radio': name, 'map': float(found.found.values[k]), 'map_sigma': float(spreads[0][k]),
        'reference': float(reference.found.values[k]), 'reference_sigma': float(spreads[1][k]),
        'off': float(found.found.values[k] - reference.found.values[k])}
        for k, name in enumerate(found.ends.names)]


def disagreement(found: SelfCalibration, reference: SelfCalibration) -> tuple[float, int]:
    """Chi-square of the differences and its degrees of freedom.

    Combinations that the reference knows hardly better than the map are not compared: there both
    repeat the prior, or the same noise.
    """
    size = len(found.ends.names)
    wide = found.found.covariance[:size, :size]
    off = found.found.values[:size] - reference.found.values[:size]
    L = np.linalg.cholesky(reference.found.covariance[:size, :size])
    ratio, direction = np.linalg.eigh(np.linalg.solve(L, np.linalg.solve(L, wide).T))
    used = ratio >= GAIN
    z = (direction.T @ np.linalg.solve(L, off))[used]
    return float(np.sum(z**2 / (ratio[used] - 1))), int(np.sum(used))


def draw(
    path: Path, title: str, graph: Graph, reference: SelfCalibration, config: SparserConfig
) -> None:
    """Root mean square over all pairs of difference and claimed sigma, of growing parts."""
    from matplotlib.figure import Figure

    start, end = int(graph.poses.stamp_ns.min()), int(graph.poses.stamp_ns.max())
    seconds = np.linspace(0, (end - start) * 1e-9, PARTS + 1)[1:]
    parts = [calibrated(until(graph, start, s), config) for s in seconds]
    off, spread = np.array([of_pairs(part, reference) for part in parts]).T
    applied = np.array([part.applied for part in parts])
    figure = Figure(figsize=(5.4, 3.6), layout='constrained')
    axis = figure.subplots()
    axis.semilogy(seconds, off, label='difference from the reference')
    axis.semilogy(seconds, spread, '--', label='claimed sigma')
    axis.semilogy(seconds[~applied], off[~applied], 'kx', label='says so and applies nothing')
    axis.set(title=title, xlabel='recorded [s]', ylabel='bias of a pair, rms of all pairs [m]')
    axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    for s, part, one, other in zip(seconds, parts, off, spread, strict=True):
        print(f'after {s:.1f} s: difference {one:.3f} m, claimed sigma {other:.3f} m, '
              f'{"applied" if part.applied else part.reason}')


def until(graph: Graph, start_ns: int, seconds: float) -> Graph:
    """The first part of a graph, with all its beacons."""
    early = graph.poses.stamp_ns <= start_ns + int(seconds * 1e9)
    return extract(graph, early, np.ones(graph.n_landmarks, dtype=bool)).graph


def of_pairs(found: SelfCalibration, reference: SelfCalibration) -> tuple[float, float]:
    """Root mean squares over the pairs of the reference: difference, standard deviation."""
    low, high, _ = reference.ends.pairs
    off = found.found.values[:-1] - reference.found.values[:-1]
    covariance = found.found.covariance
    variance = covariance[low, low] + covariance[high, high] + 2 * covariance[low, high]
    return float(np.sqrt(np.mean((off[low] + off[high]) ** 2))), float(np.sqrt(np.mean(variance)))


if __name__ == '__main__':
    run_main(main)
