"""g2o files: weights, landmarks, priors, FIX; round trips; malformed files."""

import numpy as np
import pytest
from graphs import random_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.config import FormatError, GraphError
from sparser_ros.graph import cost, empty, estimate_of, with_estimate
from sparser_ros.graph.measurements import Ranges
from sparser_ros.io import g2o, graph_file
from sparser_ros.linalg.dense.rotations import quat_to_matrix

PLANE = """\
# comment
VERTEX_SE2 0 0 0 0
VERTEX_SE2 2 1 0 0
VERTEX_SE2 7 2 0 1.5
VERTEX_XY 5 4 4
EDGE_SE2 0 2 1 0 0 2 1 0 2 0 100
EDGE_SE2 2 7 1 0 1.5 2 0 0 4 0 50
EDGE_SE2 7 0 -2 0 -1.5 1 0 0 1 0 1
EDGE_SE2_XY 2 5 3 4 10 0 10
FIX 0
"""


def write(folder, text):
    path = folder / 'g.g2o'
    path.write_text(text)
    return path


def g2o_graph(seed, d):
    """A random graph of one robot without ranges."""
    graph = random_graph(seed, d, robots=('A',), length=8, levers=d == 3)
    return graph.replaced(ranges=empty(Ranges, d), landmarks=type(graph.landmarks)(
        ('L100', 'L102', 'L104'), graph.landmarks.position, graph.landmarks.fixed))


def test_plane(tmp_path):
    graph = g2o.read(write(tmp_path, PLANE)).validate()
    np.testing.assert_array_equal(graph.poses.index, [0, 2, 7])
    np.testing.assert_array_equal(graph.relative_poses.odometry, [True, True, False])
    assert graph.landmarks.names == ('L5',)
    # Conditional covariances: the inverse of the block, not the block of the inverse.
    np.testing.assert_allclose(graph.relative_poses.tau[0], 2 / np.trace(
        np.linalg.inv([[2, 1], [1, 2]])))
    np.testing.assert_allclose(graph.relative_poses.kappa, [100, 50, 1])
    np.testing.assert_allclose(graph.sightings.tau, [10])
    assert not graph.anchored


def test_poses_without_vertices(tmp_path):
    path = write(tmp_path, 'EDGE_SE2 3 4 1 0 0 1 0 0 1 0 1\nEDGE_SE2 4 5 1 0 0 1 0 0 1 0 1\n')
    graph = g2o.read(path)
    np.testing.assert_array_equal(graph.poses.index, [3, 4, 5])
    solved = graph.replaced(poses=graph.poses.replaced(
        translation=np.array([[0.0, 0], [1, 0], [2, 0]])))
    g2o.rewrite_vertices(path, tmp_path / 'out.g2o', solved)
    back = g2o.read(tmp_path / 'out.g2o')
    np.testing.assert_array_equal(back.poses.translation, solved.poses.translation)
    assert cost(back, estimate_of(back)) == pytest.approx(0, abs=1e-25)


def test_offsets_of_sensors(tmp_path):
    half = float(np.sqrt(0.5))
    graph = g2o.read(write(tmp_path, f"""\
VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1
VERTEX_TRACKXYZ 1 1 3 0
PARAMS_SE3OFFSET 4 1 2 0 0 0 {half!r} {half!r}
EDGE_SE3_TRACKXYZ 0 1 4 1 0 0 1 0 0 1 0 1
EDGE_SE3_PRIOR 0 4 1 2 0 0 0 {half!r} {half!r} {' '.join(map(str, upper_identity(6)))}
EDGE_SE3_XYZ_PRIOR 0 4 1 2 0 1 0 0 1 0 1
"""))
    assert cost(graph, estimate_of(graph)) == pytest.approx(0, abs=1e-24)
    np.testing.assert_allclose(graph.sightings.translation, [[1, 3, 0]])
    np.testing.assert_allclose(graph.point_priors.lever, [[1, 2, 0]])
    np.testing.assert_allclose(
        graph.pose_priors.rotation[0], quat_to_matrix(np.array([0, 0, 0, 1.0])), atol=1e-15)


def upper_identity(size):
    return [1 if r == c else 0 for r in range(size) for c in range(r, size)]


def test_fixed_landmark_is_known(tmp_path):
    graph = g2o.read(write(tmp_path, PLANE.replace('FIX 0', 'FIX 5')))
    assert graph.landmarks.fixed.tolist() == [True]


BAD = {
    'unknown record': ('EDGE_RANGE 0 2 3.0 1.0', 11, 'expected one of EDGE_PRIOR_SE2'),
    'fields': ('EDGE_SE2 0 2 1 0 0 1 0 0 1 0', 11, 'expected 12 fields'),
    'no number': ('EDGE_SE2 0 2 x 0 0 1 0 0 1 0 1', 11, "expected a number for dx, got 'x'"),
    'no id': ('EDGE_SE2 0 1.5 1 0 0 1 0 0 1 0 1', 11, "expected an integer for j, got '1.5'"),
    'negative id': ('EDGE_SE2 0 -2 1 0 0 1 0 0 1 0 1', 11, 'expected an integer >= 0'),
    'huge id': (f'EDGE_SE2 0 {2**70} 1 0 0 1 0 0 1 0 1', 11, 'expected an integer'),
    'landmark as pose': ('EDGE_SE2_XY 5 5 1 0 1 0 1', 11, 'expected the id of a pose for i'),
    'pose as landmark': ('EDGE_SE2_XY 0 2 1 0 1 0 1', 11, 'expected the id of a landmark'),
    'edge to itself': ('EDGE_SE2 2 2 1 0 0 1 0 0 1 0 1', 11, 'two different poses'),
    'indefinite': ('EDGE_SE2 0 2 1 0 0 1 2 0 1 0 1', 11, 'positive definite translation'),
    'no rotation': ('EDGE_SE2 0 2 1 0 0 1 0 0 1 0 0', 11, 'positive definite rotation'),
    'twice': ('VERTEX_SE2 2 0 0 0', 11, 'expected every id once, got 2 again'),
    'pose and landmark': ('VERTEX_XY 2 0 0', 11, 'for a pose and a landmark'),
    'fixed nothing': ('FIX 99', 11, "FIX: expected ids of vertices, got '99'"),
    'two fixed poses': ('FIX 7', 11, 'at most one fixed pose'),
    'dimension': ('VERTEX_TRACKXYZ 9 0 0 0', 11, '2D and 3D records'),
}


@pytest.mark.parametrize(('line', 'number', 'message'), BAD.values(), ids=BAD)
def test_malformed_line_is_named(tmp_path, line, number, message):
    path = write(tmp_path, PLANE + line + '\n')
    with pytest.raises(FormatError) as caught:
        g2o.read(path)
    assert str(caught.value).startswith(f'{path}:{number}: ')
    assert message in str(caught.value)


@pytest.mark.parametrize('content', ['', '# nothing\n', 'VERTEX_XY 0 1 1\n'])
def test_files_that_are_no_graph(tmp_path, content):
    with pytest.raises(FormatError, match='expected a pose graph'):
        g2o.read(write(tmp_path, content))


def test_missing_parameter(tmp_path):
    text = 'VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1\nEDGE_SE3_XYZ_PRIOR 0 4 1 2 0 1 0 0 1 0 1\n'
    with pytest.raises(FormatError, match=r':2: .*PARAMS_SE3OFFSET line for paramId'):
        g2o.read(write(tmp_path, text))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), d=st.sampled_from([2, 3]))
def test_round_trip(tmp_path_factory, seed, d):
    graph = g2o_graph(seed, d)
    path = tmp_path_factory.mktemp('g2o') / 'g.g2o'
    graph_file.write(path, graph)
    back = graph_file.read(path)
    assert cost(back, estimate_of(back)) == pytest.approx(
        cost(graph, estimate_of(graph)), rel=1e-12)
    assert back.landmarks.fixed.tolist() == graph.landmarks.fixed.tolist()
    for name, table in graph.tables().items():
        assert len(table) == len(back.tables()[name])
    np.testing.assert_array_equal(back.relative_poses.odometry, graph.relative_poses.odometry)
    solved = with_estimate(back, estimate_of(g2o_graph(seed + 1, d)))
    again = path.with_name('solved.g2o')
    graph_file.rewrite_vertices(path, again, solved)
    third = graph_file.read(again)
    assert cost(third, estimate_of(third)) == pytest.approx(
        cost(solved, estimate_of(solved)), rel=1e-12)


def test_what_g2o_cannot_hold(tmp_path):
    with pytest.raises(GraphError, match='cannot hold ranges'):
        g2o.write(tmp_path / 'g.g2o', random_graph(1, robots=('A',)))
    several = random_graph(1)
    with pytest.raises(GraphError, match='several robots'):
        g2o.write(tmp_path / 'g.g2o', several.replaced(ranges=empty(Ranges, 2)))
    assert not (tmp_path / 'g.g2o').exists()


def test_other_suffix(tmp_path):
    with pytest.raises(FormatError, match=r'ending in \.pyfg or \.g2o'):
        graph_file.read(tmp_path / 'graph.txt')


def test_pyfg_from_g2o(tmp_path):
    path = write(tmp_path, PLANE)
    graph = graph_file.read(path)
    graph_file.rewrite_vertices(path, tmp_path / 'g.pyfg', graph)
    back = graph_file.read(tmp_path / 'g.pyfg')
    assert cost(back, estimate_of(back)) == pytest.approx(
        cost(graph, estimate_of(graph)), rel=1e-12)


REFERENCE = {
    'MIT': (808, 827), 'intel': (1728, 2512), 'manhattan': (3500, 5453),
    'city10000': (10000, 20687), 'smallGrid3D': (125, 297), 'sphere2500': (2500, 4949),
    'torus3D': (5000, 9048), 'parking-garage': (1661, 6275),
}


@pytest.mark.parametrize(('name', 'counts'), REFERENCE.items(), ids=REFERENCE)
def test_data_sets(data_dir, name, counts):
    graph = g2o.read(data_dir / 'g2o' / f'{name}.g2o').validate()
    assert counts == (graph.n_poses, len(graph.relative_poses))
    assert np.count_nonzero(graph.relative_poses.odometry) == graph.n_poses - 1
