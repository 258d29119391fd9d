"""What a bag made from a graph holds; that it comes back tells test/frontend."""

import numpy as np
import pytest
from graphs import random_graph

from benchmark.synthetic import plain_ranges
from sparser_ros.config import GraphError
from sparser_ros.graph import Graph, Landmarks, empty
from sparser_ros.graph.measurements import Ranges
from sparser_ros.io import graph_bag
from sparser_ros.io.graph_bag import node_config, pose_stamps, range_stamps


def test_configuration_fits_the_graph_and_what_a_bag_cannot_hold_is_refused(tmp_path):
    graph = random_graph(6, levers=False)
    config = node_config(graph)
    assert config['robots'] == ['A', 'B'] and config['odometry_noise'] == 'pose_increment'
    assert 'solver' not in config, 'false measurements of a file are as many as those of a robot'
    fixed = config['radios'][graph.landmarks.names[2]]
    np.testing.assert_array_equal(fixed['position'], graph.landmarks.position[2])
    assert fixed['sigma_m'] == 0.0
    (point,) = np.flatnonzero(graph.point_priors.point < 0)
    prior = graph.point_priors.take([point])
    both = graph.replaced(point_priors=prior.append(prior.replaced(
        position=prior.position + 3.0, precision=2 * prior.precision)))
    mean = node_config(both)['radios'][graph.landmarks.names[0]]
    np.testing.assert_allclose(mean['position'], prior.position[0] + 2.0)
    assert mean['sigma_m'] == pytest.approx((3 * prior.precision[0]) ** -0.5)
    assert config['ranges']['max_m'] >= graph.ranges.distance_m.max()
    with pytest.raises(GraphError, match='different lever arms'):
        node_config(random_graph(7, ranges=200))
    marks = graph.landmarks
    for name, levers in (('B', False), ('A_0', True)):
        named = random_graph(6, levers=levers).replaced(landmarks=Landmarks(
            (name, *marks.names[1:]), marks.position, marks.fixed))
        with pytest.raises(GraphError, match=f'{name}: two radios'):
            graph_bag.write(tmp_path / 'bag', named)
    late = graph.poses.replaced(stamp_ns=graph.poses.stamp_ns + 2**31 * 10**9)
    with pytest.raises(GraphError, match='B4: its stamp of 2147483653 s is past'):
        graph_bag.write(tmp_path / 'bag', graph.replaced(poses=late))
    with pytest.raises(GraphError, match='needs robots with odometry'):
        graph_bag.write(tmp_path / 'bag', Graph.builder(2).build())
    table = graph.relative_poses
    with pytest.raises(GraphError, match='no odometry between A0 and A1'):
        graph_bag.write(tmp_path / 'bag', graph.replaced(
            relative_poses=table.take(np.arange(len(table)) > 0), ranges=empty(Ranges, 2)))


@pytest.mark.filterwarnings('error')
def test_stamps_where_a_file_has_none():
    graph = random_graph(9)

    def stamped(stamp):
        return graph.replaced(poses=graph.poses.replaced(stamp_ns=np.asarray(stamp)))

    none = pose_stamps(stamped(np.zeros(10, dtype=int)))
    np.testing.assert_array_equal(np.diff(none[:5]), 10**8)
    numbered = pose_stamps(stamped(graph.poses.index * 10**9))
    np.testing.assert_array_equal(numbered, (graph.poses.index + 1) * 10**9)
    backwards = pose_stamps(stamped(graph.poses.stamp_ns[::-1]))
    assert np.all(np.diff(backwards[:5]) > 0)
    alone = pose_stamps(random_graph(9, length=1, closures=0))
    assert len(np.unique(alone)) == 2


def test_ranges_of_one_pair_have_stamps_of_their_own():
    graph = random_graph(11, length=20, levers=False, ranges=0)
    rows = np.array([3, 3, 3, 9])
    graph = graph.replaced(ranges=plain_ranges(
        2, rows, np.full(4, -1), np.full(4, 5.0), 1.0, graph.poses.stamp_ns[rows]))
    stamps, wrong = range_stamps(graph, graph.poses.stamp_ns)
    assert not np.any(wrong) and len(np.unique(stamps)) == 4
    for row, stamp in zip(rows, stamps, strict=True):
        assert np.argmin(np.abs(graph.poses.stamp_ns[:20] - stamp)) == row
