"""Parts of a graph that nothing ties to the rest are found and named."""

import numpy as np
from graphs import random_graph

from sparser_ros.graph import Landmarks
from sparser_ros.graph.parts import components, thinly_measured, undetermined

LENGTH = 10


def two_robots():
    """Two robots and three beacons; ranges between all of them, no absolute measurement."""
    graph = random_graph(3, length=LENGTH, ranges=60, levers=False, absolute=False, sightings=0)
    table, landmarks = graph.relative_poses, graph.landmarks
    return graph.replaced(
        relative_poses=table.take(table.odometry), landmarks=Landmarks(
            landmarks.names, landmarks.position, np.zeros(len(landmarks), dtype=bool)))


def test_parts_that_nothing_ties_to_the_rest_are_named():
    graph = two_robots()
    assert not components(graph).any()
    assert undetermined(graph) == () and thinly_measured(graph) == ()
    apart = graph.replaced(ranges=graph.ranges.take(slice(0, 0)))
    texts = [one.text for one in undetermined(apart)]
    assert len(texts) == 2 and graph.landmarks.names[0] in texts[0]
    assert f'{graph.n_landmarks} landmarks without any measurement' in texts[0]
    assert texts[1] == 'robot B: no measurement to the rest of the graph'
    known = Landmarks(graph.landmarks.names, graph.landmarks.position, np.ones(3, dtype=bool))
    assert undetermined(graph.replaced(landmarks=known)) == ()
    assert len(undetermined(apart.replaced(landmarks=known))) == 2


def test_a_break_in_the_odometry_names_the_pose():
    graph = two_robots()
    table = graph.relative_poses
    own = np.flatnonzero(graph.poses.robot == 0)
    cut = own[len(own) // 2]
    kept = graph.replaced(
        relative_poses=table.take(table.j != cut), ranges=graph.ranges.take(slice(0, 0)))
    texts = [one.text for one in undetermined(kept)]
    index = graph.poses.index[cut]
    assert any(f'poses of robot A from A{index} on' in text for text in texts), texts


def test_too_few_ranges_for_one_position():
    graph = two_robots()
    ends = graph.ranges.source, graph.ranges.target
    touches = np.any([end == ~0 for end in ends], axis=0)
    rows = np.concatenate([np.flatnonzero(~touches), np.flatnonzero(touches)[:2]])
    (found,) = thinly_measured(graph.replaced(ranges=graph.ranges.take(rows)))
    assert found.subject == graph.landmarks.names[0]
    assert 'has 2 ranges: 3 at least' in found.text
