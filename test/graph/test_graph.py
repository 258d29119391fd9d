"""Graphs say what they hold, what is wrong with them, and what nothing ties to the rest."""

import numpy as np
import pytest
from graphs import random_graph, with_landmarks, world

from sparser_ros.config import GraphError
from sparser_ros.graph import empty_graph, estimate_of, range_lever_derivatives, range_residuals
from sparser_ros.graph.parts import components, thinly_measured, undetermined


def test_faults_are_named():
    graph = random_graph(1, 2)
    with pytest.raises(GraphError, match=r'ranges\[1\]\.distance_m = -1\.0 is not positive'):
        distance = graph.ranges.distance_m.copy()
        distance[1] = -1.0
        graph.replaced(ranges=graph.ranges.replaced(distance_m=distance)).validate()
    with pytest.raises(GraphError, match=r'sightings\[0\]\.i names no variable'):
        graph.replaced(sightings=graph.sightings.replaced(
            i=np.array([-1, *graph.sightings.i[1:]]))).validate()
    with pytest.raises(TypeError, match='no measurement type'):
        graph.replaced(rangez=graph.ranges)
    with pytest.raises(AttributeError, match='rangez'):
        _ = graph.rangez


def test_a_graph_says_what_it_holds():
    graph = world(5, 2, landmarks=3, noise=0.2)
    text = str(graph)
    assert text.startswith(f'2D, {graph.n_poses} poses, ')
    assert f'{len(graph.ranges)} ranges' in text and f' m, {len(graph.robots)} robot' in text
    shown = str(estimate_of(graph))
    assert shown.startswith(f'2D, {graph.n_poses} poses, {graph.n_landmarks} landmarks, ')
    assert shown.endswith(' m in size')
    assert str(empty_graph(2)) == '2D, 0 poses'


def test_newest_poses_do_not_depend_on_the_order_of_rows():
    poses = random_graph(1, 2, robots=('A', 'B', 'C')).poses
    poses = poses.take(np.random.default_rng(0).permutation(len(poses)))
    poses = poses.take(poses.robot != 1)
    newest = poses.newest(4)
    assert newest[1] == newest[3] == -1
    for robot in (0, 2):
        assert poses.robot[newest[robot]] == robot
        assert poses.index[newest[robot]] == poses.index[poses.robot == robot].max()


def test_derivatives_of_ranges_by_lever_arms(dimension):
    made = world(1, dimension, noise=0.3)
    truth, step = estimate_of(made), 1e-6
    by_end = range_lever_derivatives(made, truth)
    assert np.any(made.ranges.target < 0)
    for lever, endpoint, found in zip(
            ('lever_source', 'lever_target'), (made.ranges.source, made.ranges.target), by_end,
            strict=True):
        assert not np.any(found[endpoint < 0])
        for axis, shift in enumerate(step * np.eye(dimension)):
            arms = (getattr(made.ranges, lever) + way for way in (shift, -shift))
            more, less = (range_residuals(made.replaced(
                ranges=made.ranges.replaced(**{lever: arm})), truth) for arm in arms)
            np.testing.assert_allclose(found[:, axis], (more - less) / (2 * step), atol=1e-8)


def two_robots():
    """Two robots and three beacons; ranges between all of them, no absolute measurement."""
    graph = random_graph(3, length=10, ranges=120, levers=False, absolute=False, sightings=0)
    table = graph.relative_poses.take(graph.relative_poses.odometry)
    return with_landmarks(graph, fixed=np.zeros(3, dtype=bool)).replaced(relative_poses=table)


def test_parts_that_nothing_ties_to_the_rest_are_named():
    graph = two_robots()
    assert not components(graph).any()
    assert undetermined(graph) == () and thinly_measured(graph) == ()
    apart = graph.replaced(ranges=graph.ranges.take(slice(0, 0)))
    texts = [one.text for one in undetermined(apart)]
    assert len(texts) == 2 and graph.landmarks.names[0] in texts[0]
    assert f'{graph.n_landmarks} landmarks without any measurement' in texts[0]
    assert texts[1] == 'robot B: no measurement to the rest of the graph'
    known = np.ones(3, dtype=bool)
    assert undetermined(with_landmarks(graph, fixed=known)) == ()
    assert len(undetermined(with_landmarks(apart, fixed=known))) == 2


def test_too_few_ranges_for_one_position():
    graph = two_robots()
    ends = graph.ranges.source, graph.ranges.target
    touches = np.any([end == ~0 for end in ends], axis=0)
    rows = np.concatenate([np.flatnonzero(~touches), np.flatnonzero(touches)[:2]])
    (found,) = thinly_measured(graph.replaced(ranges=graph.ranges.take(rows)))
    assert found.subject == graph.landmarks.names[0]
    assert 'has 2 ranges: 3 at least' in found.text
