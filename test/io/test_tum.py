"""TUM files: exact stamps, unit quaternions with w >= 0, names that are safe."""

import numpy as np
import pytest
from evo.tools import file_interface
from graphs import random_graph

from sparser_ros.graph import estimate_of
from sparser_ros.io import tum
from sparser_ros.linalg.rotations import quat_to_matrix


@pytest.mark.parametrize('d', [2, 3])
def test_written_trajectories(tmp_path, d):
    graph = random_graph(1, d)
    paths = tum.write(tmp_path / 'new', graph, estimate_of(graph), graph.poses.stamp_ns)
    assert [p.name for p in paths] == ['A.tum', 'B.tum']
    rows = np.flatnonzero(graph.poses.robot == 1)
    lines = paths[1].read_text().splitlines()
    assert lines[0].split()[0] == '1.123456796'
    values = np.array([[float(x) for x in line.split()] for line in lines])
    np.testing.assert_allclose(values[:, 1:1 + d], graph.poses.translation[rows], atol=1e-9)
    np.testing.assert_allclose(
        quat_to_matrix(values[:, 4:])[:, :d, :d], graph.poses.rotation[rows], atol=1e-8)
    assert np.all(values[:, 7] >= 0)
    assert file_interface.read_tum_trajectory_file(paths[1]).num_poses == len(rows)


def test_numbers_stand_in_for_missing_times(tmp_path):
    graph = random_graph(2)
    path, _ = tum.write(
        tmp_path, graph, estimate_of(graph), np.zeros(graph.n_poses, dtype=np.int64))
    stamps = [line.split()[0] for line in path.read_text().splitlines()]
    assert stamps == [f'{k}.000000000' for k in range(5)]


def test_names_stay_in_the_folder_and_two_robots_never_share_a_file(tmp_path):
    graph = random_graph(3, robots=('/fleet/one', '..'))
    tum.write(tmp_path, graph, estimate_of(graph), graph.poses.stamp_ns)
    assert {p.name for p in tmp_path.iterdir()} == {'fleet_one.tum', '...tum'}
    names = tum.safe_names(['A_B', 'A/B', '/A/B', 'A_B~2'])
    assert len(set(names)) == 4 and names[0] == 'A_B'
    assert not any('/' in name for name in names)
