"""What came after an estimate: solved in short pieces, never composed over minutes."""

import numpy as np
import pytest
from backend_world import World, config, graph_of

from sparser_ros.backend.session.contest import continued, run, with_tail
from sparser_ros.backend.session.frame import frame_of
from sparser_ros.backend.session.maps import placed_map
from sparser_ros.graph import Estimate, cost
from sparser_ros.linalg.rotations import angle_to_matrix

BEACONS = [[3, 7], [-14, 11], [16, -13], [-9, -16]]
STEPS, TURN = 240, 0.03


def drifting(seed):
    """Two robots whose odometry turns TURN radians too far at every step, as it says it may."""
    world = World(
        ['curved', 'curved'], [[0, 0], [5, 2]], beacons=BEACONS, steps=STEPS, seed=seed)
    for number, (turns, moves, _, _) in enumerate(world.odometry):
        turns = turns @ angle_to_matrix(np.array(TURN))
        frame_r, frame_t = [np.eye(2)], [np.zeros(2)]
        for turn, move in zip(turns, moves, strict=True):
            frame_t.append(frame_t[-1] + frame_r[-1] @ move)
            frame_r.append(frame_r[-1] @ turn)
        world.odometry[number] = turns, moves, np.array(frame_r), np.array(frame_t)
    graph = graph_of(world.increments(12, every=6))
    edges = graph.relative_poses
    graph = graph.replaced(relative_poses=edges.replaced(
        kappa=np.full(len(edges), 1 / (1.5 * TURN)**2)))
    best = run(graph, config(), world.true_in_map()).estimate
    return graph, best


def first_poses(estimate, count):
    return Estimate(
        estimate.rotation[:count], estimate.translation[:count], estimate.landmarks)


def everything(frame):
    return sorted(frame.names(frame.mask))


def ended(frame, estimate):
    """Cost after the ticks that follow."""
    solved = placed_map(frame, everything(frame), estimate, config())
    for _ in range(5):
        solved.update(frame.graph)
    return solved.cost


@pytest.mark.parametrize('seed', range(4))
def test_a_tail_ends_in_the_basin_of_the_map_where_composed_odometry_does_not(seed):
    graph, best = drifting(seed)
    frame, least = frame_of(graph, config()), cost(graph, best)
    for share in (0.5, 0.8):
        known = first_poses(best, int(share * graph.n_poses))
        tail = with_tail(graph, frame.segments, frame.mask, known, config(), frame.anchored)
        assert np.array_equal(tail.translation[:len(known.translation)], known.translation)
        assert ended(frame, tail) == pytest.approx(least, rel=1e-3)
    composed = continued(graph, frame.segments, first_poses(best, graph.n_poses // 2))
    solved = run(graph, config(), composed).estimate
    assert cost(graph, solved) > 2 * least, 'composed odometry is good enough: this shows nothing'


def test_what_is_not_placed_is_composed_and_other_poses_do_not_feel_it():
    graph, best = drifting(0)
    frame = frame_of(graph, config())
    known = first_poses(best, graph.n_poses // 2)
    placed = frame.mask.copy()
    placed[1] = False
    tail = with_tail(graph, frame.segments, placed, known, config(), frame.anchored)
    rows = np.flatnonzero(frame.segments.of_pose == 1)
    composed = continued(graph, frame.segments, known)
    assert np.allclose(tail.translation[rows], composed.translation[rows])
    others = np.flatnonzero(frame.segments.of_pose == 0)
    assert np.abs(tail.translation[others] - best.translation[others]).max() < 0.5


def test_a_range_that_no_solve_survives_leaves_the_tail_finite():
    graph, best = drifting(0)
    frame = frame_of(graph, config())
    known = first_poses(best, graph.n_poses // 2)
    distance = graph.ranges.distance_m.copy()
    distance[-1] = np.inf
    broken = graph.replaced(ranges=graph.ranges.replaced(distance_m=distance))
    tail = with_tail(broken, frame.segments, frame.mask, known, config(), frame.anchored)
    assert np.all(np.isfinite(tail.translation)) and np.all(np.isfinite(tail.rotation))


def test_nothing_new_is_nothing_to_do():
    graph, best = drifting(0)
    frame = frame_of(graph, config())
    same = with_tail(graph, frame.segments, frame.mask, best, config(), frame.anchored)
    assert np.array_equal(same.translation, best.translation)
