"""Other placements are compared once they have come to rest."""

import time

import numpy as np
import pytest

from benchmark.geometry import field
from sparser_ros.backend.observability.alternatives import (
    MOST_STARTS,
    _distinct,
    compare,
    proposals,
)
from sparser_ros.backend.observability.pieces import cut
from sparser_ros.backend.observability.rigid_model import RobustWeights, rigid_problem
from sparser_ros.backend.observability.rigid_problem import WIDTH
from sparser_ros.graph.parts import find_segments

APART_M, FLOOR_M = 1.0, 0.1


@pytest.mark.parametrize(('seed', 'seconds'), [(501, 40), (503, 40), (505, 80)])
def test_a_rival_is_a_minimum_and_no_stop_on_the_way_back(seed, seconds):
    """Robots that see few beacons: in two of the worlds a dozen steps leave a rival on a slope."""
    now = field(2, 0, 'curved', seed, sightings=True).until(seconds)
    graph, gauge = now.graph, 0
    turn = now.truth.rotation[0].T
    truth = now.truth.moved(turn, -turn @ now.truth.translation[0])
    segments = find_segments(graph)
    believed = RobustWeights({}, 0.1)
    pieces = cut(graph, truth, segments, FLOOR_M)
    whole = rigid_problem(graph, truth, segments, FLOOR_M, believed)
    fine = rigid_problem(graph, truth, pieces.parts, FLOOR_M, believed, pieces.joints)
    starts = proposals(whole, [1], list(range(2, whole.variables)), APART_M)
    compared = compare(whole, fine, pieces, starts, gauge, 1.0, APART_M)
    assert compared.rivals
    every = np.ones(fine.unknowns, dtype=bool)
    for rival in compared.rivals:
        if rival.gap < 100.0:
            at_rest = fine.relaxed(rival.placement, every, 300, WIDTH)
            left = fine.cost(rival.placement, WIDTH) - fine.cost(at_rest, WIDTH)
            assert left < 0.5, rival.mirror


def test_hundreds_of_segments_are_compared_in_seconds():
    """Where odometry breaks off at every false fix: pairs of 100 segments were 5000 starts, each
    compared with all others."""
    now = field(3, 2, 'straight', 3).until(40)
    graph = now.graph
    graph = graph.replaced(relative_poses=graph.relative_poses.take(
        ~graph.relative_poses.odometry))
    segments = find_segments(graph)
    assert len(segments) > 100
    whole = rigid_problem(graph, now.truth, segments, FLOOR_M, RobustWeights({}, 0.1))
    movable = list(range(1, len(segments)))
    begin = time.monotonic()
    starts = proposals(whole, movable, [], APART_M)
    kept = _distinct(whole, starts, 0, APART_M, MOST_STARTS)
    assert len(starts) < 10 * len(segments) and len(kept) == MOST_STARTS
    assert time.monotonic() - begin < 20.0
