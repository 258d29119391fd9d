"""By how much ranges that are all long by the same length are too long, and how sure that is.

The length and the map have to be told apart by the same data, so the length is a score estimate
with the map free (linear_model.py). Its ranges then share one error, which no weights of single
ranges can say. Their variance is multiplied by 1 + bare / information, where `bare` is what they
would say of the length in a known map and `information` what they say beside a free one. In the
direction that the length pulls at the map, such weights claim at most twice the information that
is there; where length and map cannot be told apart, the ranges count for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from ...array_types import Array, Index
from ...graph import Graph
from ..integrity.hypotheses import odometry_scales
from ..integrity.linear_model import LinearModel, linear_model
from ..integrity.selection import DETERMINED
from .contest import Contest


def common_length(contest: Contest, rows: Index, factor: float) -> tuple[float, float] | None:
    """(metres by which ranges are still too long, factor of their variance) at the best map.

    `rows` are ranges of the contest's subgraph, whose variance is `factor` times the claimed one
    there. None where the map leaves nothing to tell of the length.
    """
    subgraph, best = contest.frame.subgraph, contest.best
    graph, weights = subgraph.graph, best.result.stats.weights
    model = linear_model(graph, subgraph.of(best.whole), weights)
    scores = model.scores(_columns(model, graph, weights, [rows]))
    information, bare = float(scores.information[0, 0]), float(scores.bare[0])
    if not information > DETERMINED * bare > 0:
        return None
    # With all of their weight they would say more of the length, and pull the map as much more.
    return -float(scores.score[0]) / information, 2.0 + factor * (bare / information - 1.0)


def lengths_left(
    contest: Contest, groups: Sequence[Index], scale_sigma: float
) -> tuple[Array, Array] | None:
    """(k,), (k,): metres by which k groups of ranges are still too long, standard deviations.

    At the best map of a contest, each length beside the others; rows of its subgraph. The odometry
    of each robot may be too long or too short by `scale_sigma`: it gives the map its size where no
    known places do. None where the map leaves nothing to tell of the lengths.
    """
    subgraph, best = contest.frame.subgraph, contest.best
    graph, weights = subgraph.graph, best.result.stats.weights
    estimate = subgraph.of(best.whole)
    model = linear_model(graph, estimate, weights)
    scales = odometry_scales(graph, estimate, weights, model)
    columns = _columns(model, graph, weights, groups)
    scores = model.scores(sp.hstack([columns, scales], format='csc'))
    k, information, score = len(groups), scores.information.copy(), scores.score
    information[range(k, len(score)), range(k, len(score))] += scale_sigma ** -2.0
    rest = np.linalg.solve(information[k:, k:], np.column_stack([information[k:, :k], score[k:]]))
    own = information[:k, :k] - information[:k, k:] @ rest[:, :k]
    if not np.linalg.eigvalsh(own)[0] > DETERMINED * np.min(scores.bare[:k]) > 0:
        return None
    covariance = np.linalg.inv(own)
    return (-covariance @ (score[:k] - information[:k, k:] @ rest[:, k]),
            np.sqrt(np.diag(covariance)))


def _columns(
    model: LinearModel, graph: Graph, weights: Mapping[str, Array], groups: Sequence[Index]
) -> sp.csc_matrix:
    """By one length for each group of ranges, under robust weights."""
    precision = graph.ranges.precision
    if 'ranges' in weights:
        precision = precision * weights['ranges']
    rows = np.concatenate(groups)
    owner = np.repeat(np.arange(len(groups)), [len(own) for own in groups])
    return sp.csc_matrix(
        (np.sqrt(precision[rows]), (model.starts['ranges'] + rows, owner)),
        shape=(len(model.residual), len(groups)))
