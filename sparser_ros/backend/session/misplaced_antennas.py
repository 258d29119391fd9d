"""Robots whose antenna stands elsewhere than configured: their ranges are moved there.

Who forgets a lever arm has ranges that are too long on one side of the robot and too short on the
other: the map bends, and its beacons or its odometry seem to be at fault. As with a length that all
ranges of a radio share (lasting_biases.py), the error must be known: nothing else explains the
ranges about as well, and a robot that turns enough determines it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.linalg import block_diag

from ...array_types import Array
from ...calibrate.radio_words import antenna_moved, doubt
from ...graph.finding import Finding
from ...graph.range_ends import range_ends
from ..integrity.doubts import FAR_SIGMA
from ..integrity.hypotheses import ANTENNA, antenna_places, odometry_scales
from ..integrity.linear_model import linear_model
from ..integrity.undetected import stands_out
from .contest import Contest
from .graph_store import GraphStore
from .judgement import Judgement
from .odometry_faults import Again
from .radio_errors import ANTENNA_AXES
from .range_doubts import as_others_fit, of_sources
from .retry import Retry
from .taken_lengths import TakenLengths

if TYPE_CHECKING:
    from ...config.backend_config import IntegrityConfig
    from ...config.sparser import SparserConfig

_ROUNDS = 3
"""Solves that find a place: ranges that were rejected at the first count again at the next."""

_TOLD_M = 0.01
"""Axes along which an antenna is moved by less are not told."""


class MisplacedAntennas:
    """Looks for antennas that stand elsewhere, and measures the known ones again."""

    def __init__(self, store: GraphStore, taken: TakenLengths) -> None:
        self._store = store
        self._taken = taken
        self._retries: dict[str, Retry] = {}

    def thinned(self, store: GraphStore) -> None:
        """Go on with the store of a thinned graph."""
        self._store = store

    def forget(self) -> bool:
        """Antennas stand where they are configured; whether that changes the graph."""
        self._retries = {}
        return self._taken.move({})

    def renewed(self, contest: Contest, again: Again, config: SparserConfig) -> Contest | None:
        """The contest with the antennas where all data say; None where that is the same.

        What no longer explains the ranges of its robot is where it is configured again.
        """
        kept = {name: np.array(place) for name, place in self._taken.antennas.items()
                if self._fits(name, contest)}
        for name, (more, covariance) in _left(contest, kept, config.backend.integrity).items():
            if np.linalg.norm(kept[name] + more) < config.backend.integrity.bias_floor_m:
                del kept[name]
            elif more @ np.linalg.solve(covariance, more) > len(more):
                kept[name] += more
        if not self._taken.move({name: tuple(one.tolist()) for name, one in kept.items()}):
            return None
        return again(contest, contest.best.whole)

    def with_another(
        self, contest: Contest, judgement: Judgement, again: Again, config: SparserConfig
    ) -> Contest | None:
        """The contest with one more antenna moved; None where none is known to stand elsewhere."""
        flip_cost = config.backend.observability.flip_cost
        for finding in judgement.findings:
            name = finding.subject
            if (finding.kind != ANTENNA or name in self._taken.antennas
                    or not stands_out(judgement.undetected, f'{ANTENNA} of {name}', flip_cost)
                    or not self._retries.setdefault(name, Retry()).due(
                        True, self._store.n_measurements)):
                continue
            before = dict(self._taken.antennas)
            other = self._moved(name, contest, again, config)
            if other is not None and contest.best.value - other.best.value > flip_cost:
                return other
            self._taken.move(before)
        return None

    def findings(self) -> tuple[Finding, ...]:
        """Each antenna that is moved, an axis each, for an operator."""
        return tuple(
            Finding(ANTENNA_AXES[axis], name,
                    f'{antenna_moved(name, axis, error)}: that is allowed for; '
                    + (doubt(self._store.radio_errors.antenna_m[name]) or 'set its lever_arm'),
                    error, 'm')
            for name in self._taken.antennas
            for axis, error in enumerate(self._store.radio_errors.antenna_m[name])
            if abs(error) >= _TOLD_M)

    def _moved(
        self, name: str, contest: Contest, again: Again, config: SparserConfig
    ) -> Contest | None:
        """The contest with the antenna of a robot where its ranges fit best; None if not known."""
        before, integrity = dict(self._taken.antennas), config.backend.integrity
        place = np.zeros(self._store.whole.dimension)
        for _ in range(_ROUNDS):
            left = _left(contest, (name,), integrity)
            if name not in left:
                return None
            place = place + left[name][0]
            self._taken.move({**before, name: tuple(place.tolist())})
            other = again(contest, contest.best.whole)
            if other is None:
                return None
            contest = other
        left = _left(contest, (name,), integrity)
        if name not in left or not self._fits(name, contest):
            return None
        # The axis that is known least: a robot that hardly turns shows one of them only.
        sigma = float(np.sqrt(np.linalg.eigvalsh(left[name][1])[-1]))
        size = float(np.linalg.norm(place))
        known = size > FAR_SIGMA * sigma and size >= integrity.bias_floor_m
        return contest if known else None

    def _fits(self, name: str, contest: Contest) -> bool:
        return as_others_fit(
            of_sources(self._store.whole, (name,), 0), self._store.unbiased, contest.best.whole)


def _left(
    contest: Contest, robots: Collection[str], config: IntegrityConfig
) -> dict[str, tuple[Array, Array]]:
    """By how much antennas stand elsewhere still, (d,) m in the frame of the robot; covariance.

    At the best map of a contest, each beside the others. Each has the prior of a source at fault,
    so that a direction that the map absorbs stays as it is; the odometry of each robot may be too
    long or too short by `scale_floor`. Of robots without ranges in the contest, nothing.
    """
    if not robots:
        return {}
    subgraph, best = contest.frame.subgraph, contest.best
    graph, weights = subgraph.graph, best.result.stats.weights
    estimate = subgraph.of(best.whole)
    model = linear_model(graph, estimate, weights)
    places = antenna_places(graph, estimate, weights, model, range_ends(graph))
    names = [name for name in robots if name in places]
    if not names:
        return {}
    scales = odometry_scales(graph, estimate, weights, model)
    scores = model.scores(sp.hstack([*(places[name] for name in names), scales], format='csc'))
    d = graph.dimension
    precision = (d + 2) / (config.fault_size * config.bias_floor_m) ** 2
    prior = block_diag(precision * np.eye(d * len(names)),
                       config.scale_floor ** -2.0 * np.eye(scales.shape[1]))
    covariance = np.linalg.inv(scores.information + prior)
    value = -covariance @ scores.score
    return {name: (value[k * d:(k + 1) * d], covariance[k * d:(k + 1) * d, k * d:(k + 1) * d])
            for k, name in enumerate(names)}
