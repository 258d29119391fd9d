"""Verticals and heights in the rigid problem, in placements and in the datum."""

import numpy as np
import pytest
from flying_world import flying_graph

from sparser_ros.backend.observability.pieces import cut
from sparser_ros.backend.observability.registration import candidates, evidence_of
from sparser_ros.backend.observability.rigid_model import rigid_problem
from sparser_ros.backend.observability.uncertainty import uncertainty
from sparser_ros.backend.session.frame import at_heights, at_origin
from sparser_ros.graph import Estimate
from sparser_ros.graph.parts import find_segments
from sparser_ros.linalg.rotations import rotvec_to_matrix


def test_a_turn_about_the_vertical_and_a_shift_in_the_plane_are_free_and_no_more():
    graph, truth = flying_graph(3, steps=15, known=False)
    pieces = cut(graph, truth, find_segments(graph), 0.03)
    problem = rigid_problem(graph, truth, pieces.parts, 0.1, joints=pieces.joints)
    normal, _ = problem.normal_equations(problem.identity())
    values, vectors = np.linalg.eigh(normal)
    assert values[2] < 1e-6 * values[3]
    held = problem.held(0)
    assert len(held) == 3
    # What is held takes all of that: the rest is determined.
    assert np.linalg.svd(vectors[held, :3], compute_uv=False)[-1] > 1e-3


def test_a_body_is_placed_by_three_places_of_which_six_would_be_needed_without():
    graph, truth = flying_graph(4, robots=1, steps=8, beacons=3, noise=0.0, known=True)
    segments = find_segments(graph)
    problem = rigid_problem(graph, truth, segments, 0.0)
    evidence = evidence_of(problem, 0, np.zeros(0, dtype=np.int64))
    turn = rotvec_to_matrix(np.array([[0.0, 0.0, 2.0]]))[0]
    found = candidates(evidence, True)
    assert found.cost[0] == pytest.approx(0.0, abs=1e-3)
    np.testing.assert_allclose(found.rotation[0], np.eye(3), atol=1e-3)
    np.testing.assert_allclose(found.position[0], problem.centers[0], atol=1e-2)
    # All minima are level: the search is one over headings.
    few = found.rotation[found.cost < 10]
    np.testing.assert_allclose(few[:, 2, 2], 1.0, atol=1e-3)
    assert not np.allclose(turn, np.eye(3))


def test_the_origin_takes_heading_and_place_and_leaves_the_vertical():
    graph, truth = flying_graph(5, steps=6)
    tilted = rotvec_to_matrix(np.array([[0.2, -0.1, 0.7]]))[0]
    own = at_origin(truth, 3, (tilted, np.array([1.0, 2.0, 3.0])), graph)
    change = own.rotation @ np.swapaxes(truth.rotation, 1, 2)
    np.testing.assert_allclose(change[:, 2], np.tile([0, 0, 1.0], (len(change), 1)), atol=1e-12)
    np.testing.assert_allclose(own.translation[3, :2], [1.0, 2.0])
    assert own.translation[3, 2] == truth.translation[3, 2]
    lifted = Estimate(
        truth.rotation, truth.translation + np.array([0, 0, 9.0]), truth.landmarks)
    back = at_heights(lifted, graph, np.ones(graph.n_poses, dtype=bool))
    np.testing.assert_allclose(back.translation, truth.translation, atol=0.1)


def test_the_gauge_robot_is_sure_of_its_own_path_although_others_know_each_other():
    graph, truth = flying_graph(6, robots=3, steps=15)
    ranges, robot = graph.ranges, graph.poses.robot
    of_a = [(end >= 0) & (robot[np.maximum(end, 0)] == 0)
            for end in (ranges.source, ranges.target)]
    rows = np.flatnonzero(of_a[0] | of_a[1])
    graph = graph.replaced(ranges=ranges.take(np.setdiff1d(np.arange(len(ranges)), rows[1:])))
    segments = find_segments(graph)
    pieces = cut(graph, truth, segments, 0.03)
    problem = rigid_problem(graph, truth, pieces.parts, 0.1, joints=pieces.joints)
    sigma = uncertainty(problem, pieces, truth, segments, 0, 0.4)
    assert np.all(sigma.position < 0.4)
    assert np.sum(sigma.landmark < 0.4) == len(sigma.landmark)
