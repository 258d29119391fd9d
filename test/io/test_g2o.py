"""g2o files: weights, landmarks, priors, FIX, files of other systems; round trips; bad files."""

import numpy as np
import pytest
from graphs import flying_graph, random_graph, with_landmarks
from hypothesis import given, settings
from hypothesis import strategies as st

import sparser_ros
from sparser_ros.config import FormatError, GraphError
from sparser_ros.graph import cost, empty, estimate_of, with_estimate
from sparser_ros.graph.measurements import Ranges
from sparser_ros.io import g2o, graph_file, tum
from sparser_ros.io.graph_bag import pose_stamps
from sparser_ros.io.graph_text import read_lines
from sparser_ros.linalg.rotations import quat_to_matrix

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
IDENTITY_6 = '1 0 0 0 0 0 1 0 0 0 0 1 0 0 0 1 0 0 1 0 1'


def write(folder, text):
    path = folder / 'g.g2o'
    path.write_text(text)
    return path


def g2o_graph(seed, d, robots=('A',)):
    """A random graph; without ranges in 3D, where antennas are off the body."""
    graph = random_graph(seed, d, robots=robots, length=8, levers=d == 3)
    return with_landmarks(graph, names=('L100', 'L102', 'L104')).replaced(
        ranges=graph.ranges if d == 2 else empty(Ranges, d))


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
    fixed = g2o.read(write(tmp_path, PLANE.replace('FIX 0', 'FIX 5')))
    assert fixed.landmarks.fixed.tolist() == [True]
    graph_file.write(tmp_path / 'g.pyfg', fixed)
    back = graph_file.read(tmp_path / 'g.pyfg')
    assert cost(back, estimate_of(back)) == pytest.approx(
        cost(fixed, estimate_of(fixed)), rel=1e-12)


def test_offsets_of_sensors(tmp_path):
    half = float(np.sqrt(0.5))
    graph = g2o.read(write(tmp_path, f"""\
VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1
VERTEX_TRACKXYZ 1 1 3 0
PARAMS_SE3OFFSET 4 1 2 0 0 0 {half!r} {half!r}
EDGE_SE3_TRACKXYZ 0 1 4 1 0 0 1 0 0 1 0 1
EDGE_SE3_PRIOR 0 4 1 2 0 0 0 {half!r} {half!r} {IDENTITY_6}
EDGE_SE3_XYZ_PRIOR 0 4 1 2 0 1 0 0 1 0 1
"""))
    assert cost(graph, estimate_of(graph)) == pytest.approx(0, abs=1e-24)
    np.testing.assert_allclose(graph.sightings.translation, [[1, 3, 0]])
    np.testing.assert_allclose(graph.point_priors.lever, [[1, 2, 0]])
    np.testing.assert_allclose(
        graph.pose_priors.rotation[0], quat_to_matrix(np.array([0, 0, 0, 1.0])), atol=1e-15)


PAIR = """\
VERTEX_SE2 {a0} 0 0 0
VERTEX_SE2 {a1} 1 0 0
VERTEX_SE2 {b0} 5 0 0
VERTEX_SE2 {b1} 6 0 0
VERTEX_XY {l7} 3 3
EDGE_SE2 {a0} {a1} 1 0 0 1 0 0 1 0 1
EDGE_SE2 {a1} {b0} 4 0 0 1 0 0 1 0 1
EDGE_SE2 {b0} {b1} 1 0 0 1 0 0 1 0 1
EDGE_SE2_XY {b1} {l7} -3 3 1 0 1
"""


def key(letters, number):
    """A key as GTSAM makes it: one or two letters in the top bytes."""
    first, second = (*letters, '\0')[:2]
    return ord(first) << 56 | ord(second) << 48 | number


@pytest.mark.parametrize(('robots', 'first'), [('ab', 0), ('ab', 3), (('xA', 'xB'), 0), ('yz', 0)])
def test_each_letter_of_a_key_is_a_robot(tmp_path, robots, first):
    a, b = robots
    text = PAIR.format(
        a0=key(a, first), a1=key(a, first + 1), b0=key(b, first), b1=key(b, first + 1),
        l7=key('l', 7))
    path = write(tmp_path, text)
    graph = g2o.read(path)
    assert graph.robots == (a, b) and graph.landmarks.names == ('l7',) and not graph.remarks
    assert graph.poses.robot.tolist() == [0, 0, 1, 1]
    assert graph.poses.index.tolist() == [first, first + 1] * 2
    assert graph.relative_poses.odometry.tolist() == [True, False, True]
    g2o.rewrite_vertices(path, tmp_path / 'out.g2o', graph)
    ids = [line.split()[:3] for line in (tmp_path / 'out.g2o').read_text().splitlines()]
    assert [words[:2] for words in ids[:5]] == [x.split()[:2] for x in text.splitlines()[:5]]
    assert ids[5:] == [x.split()[:3] for x in text.splitlines()[5:]]


def test_ids_that_are_no_keys(tmp_path):
    stamps = PAIR.format(a0=0, a1=17 * 10**17, b0=18 * 10**17, b1=19 * 10**17, l7=5)
    graph = g2o.read(write(tmp_path, stamps))
    assert graph.robots == ('A',) and np.all(graph.relative_poses.odometry)
    path, = tum.write(tmp_path, graph, estimate_of(graph), graph.poses.stamp_ns)
    assert [line.split()[0] for line in path.read_text().splitlines()] == [
        '0.000000000', '1700000000.000000000', '1800000000.000000000', '1900000000.000000000']
    assert np.all(np.diff(pose_stamps(graph)) > 0)
    mixed = PAIR.format(a0=0, a1=1, b0=key('A', 0), b1=key('A', 1), l7=7)
    graph = g2o.read(write(tmp_path, mixed))
    assert graph.robots == ('B', 'A') and graph.landmarks.names == ('L7',)


def test_ranges_of_other_systems(tmp_path):
    path = write(tmp_path, """\
VERTEX_SE2 10 0 0 0
VERTEX_SE2 11 1 0 0
EDGE_SE2 10 11 1 0 0
EDGE_RANGE_SE2_XY 10 3 5.0
EDGE_RANGE_SE2_XY 11 3 4.5 25
EDGE_RANGE_SE2 10 11 1.1 4
EDGE_RANGE 11 4 2.0 16
""")
    graph = g2o.read(path).validate()
    assert graph.landmarks.names == ('L3', 'L4')
    np.testing.assert_allclose(graph.ranges.distance_m, [2, 1.1, 5, 4.5])
    np.testing.assert_allclose(graph.ranges.precision, [16, 4, 1, 25])
    assert [graph.endpoint_name(e) for e in graph.ranges.target] == ['L4', 'A11', 'L3', 'L3']
    np.testing.assert_allclose([graph.relative_poses.kappa[0], graph.relative_poses.tau[0]], 1)
    assert len(graph.remarks) == 3
    assert graph.remarks[0].startswith('2 landmarks without a VERTEX line')
    assert graph.remarks[1].startswith('line 3, EDGE_SE2, is without an information matrix')
    assert graph.remarks[2].startswith('line 4, EDGE_RANGE_SE2_XY, is without')
    g2o.rewrite_vertices(
        path, tmp_path / 'out.g2o', with_landmarks(graph, position=np.array([[1.0, 2], [4, 3]])))
    back = g2o.read(tmp_path / 'out.g2o')
    assert dict(zip(back.landmarks.names, back.landmarks.position.tolist(), strict=True)) == {
        'L4': [4, 3], 'L3': [1, 2]}
    assert (tmp_path / 'out.g2o').read_text().splitlines()[-5:] == path.read_text().splitlines()[2:]


@pytest.mark.parametrize('line', [
    'PARAMS_SE2OFFSET 0 0 0 0', 'ROBOTLASER1 0 -1.57 3.14 0.017 81.9 host 0', 'VERTEX_SWITCH 9 1',
    'EDGE_SE2_CALIB 0 2 5 1 2', 'VERTEX_PLANE 9 0 0 1 0 0.2 0.2 0.2\nFIX 9'])
def test_lines_that_are_not_needed(tmp_path, line):
    whole = g2o.read(write(tmp_path, PLANE))
    path = write(tmp_path, f'{line}\n{PLANE}{line}\n')
    left_out = rf'2 lines {line.split()[0]} \(first: line 1\) are left out'
    with pytest.warns(UserWarning, match=f'g.g2o: {left_out}'):
        graph = sparser_ros.read(path)
    assert cost(graph, estimate_of(graph)) == cost(whole, estimate_of(whole))
    assert len(graph.remarks) == 1


def test_what_other_systems_measure(tmp_path):
    """Tags with a heading and fixes of RTAB-Map, fixes of hdl_graph_slam, switchable closures."""
    edges = [f'EDGE_SE3:QUAT {k} {k + 1} 1 0 0 0 0 0 1 {IDENTITY_6}' for k in (1, 2)]
    graph = g2o.read(write(tmp_path, '\n'.join([
        *(f'VERTEX_SE3:QUAT {k} {k} 0 0 0 0 0 1' for k in (4, 1, 2, 3)), *edges,
        f'EDGE_SE3 3 4 1 0 0 0 0 0 1 {IDENTITY_6}',
        'EDGE_SE3_PRIORXYZ 1 1 0 0 1 0 0 1 0 1', 'EDGE_POINTXYZ_PRIOR 2 2 0 0 4 0 0 4 0 4',
        f'EDGE_SE3_SWITCHABLE 1 3 77 2 0 0 0 0 0 1 {IDENTITY_6}', ''])))
    assert graph.robots == ('A', 'tag') and graph.poses.robot.tolist() == [0, 0, 0, 1]
    table = graph.relative_poses
    assert sorted(zip(table.i.tolist(), table.j.tolist(), table.odometry, strict=True)) == [
        (0, 1, True), (0, 2, False), (1, 2, True), (2, 3, False)]
    assert graph.point_priors.point.tolist() == [0, 1]
    assert graph.point_priors.precision.tolist() == [1, 4]
    assert cost(graph, estimate_of(graph)) == pytest.approx(0, abs=1e-24)


def test_odometry_written_backwards(tmp_path):
    back, forward = 'EDGE_SE2 1 0 0 1 -1.5707963267948966', 'EDGE_SE2 0 1 1 0 1.5707963267948966'
    for lines, odometry in (([back], [True]), ([forward, back], [True, False])):
        table = g2o.read(write(
            tmp_path, ''.join(f'{line} 1 0 0 1 0 1\n' for line in lines))).relative_poses
        assert (table.i[0], table.j[0], table.odometry.tolist()) == (0, 1, odometry)
        np.testing.assert_allclose(table.translation[0], [1, 0], atol=1e-15)
        np.testing.assert_allclose(table.rotation[0], [[0, -1], [1, 0]], atol=1e-15)


TEXTS = {
    'byte order mark': lambda text: b'\xef\xbb\xbf' + text.encode(),
    'UTF-16': lambda text: text.encode('utf-16'),
    'CRLF': lambda text: text.replace('\n', '\r\n').encode(),
    'tabs': lambda text: text.replace(' ', '\t').encode(),
    'Latin-1 in comments': lambda text: (
        text.replace('\n', '  # R\xe4ume \x85\n').encode('latin-1')),
    'comments': lambda text: ('# one\n' + text.replace('\n', ' # two\n')).encode(),
    'blank lines': lambda text: text.replace('\n', ' \t \n\n').encode(),
    'no end of the last line': lambda text: text.rstrip('\n').encode(),
}


@pytest.mark.parametrize('change', TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize('suffix', ['.g2o', '.pyfg'])
def test_layouts_of_text_files(tmp_path, suffix, change):
    plain, path = tmp_path / f'plain{suffix}', tmp_path / f'g{suffix}'
    graph_file.write(plain, g2o_graph(2, 2))
    path.write_bytes(change(plain.read_text()))
    graph, same = graph_file.read(path), graph_file.read(plain)
    np.testing.assert_array_equal(graph.poses.translation, same.poses.translation)
    assert cost(graph, estimate_of(graph)) == cost(same, estimate_of(same))
    graph_file.rewrite_vertices(path, tmp_path / f'out{suffix}', graph)
    back = graph_file.read(tmp_path / f'out{suffix}')
    assert cost(back, estimate_of(back)) == pytest.approx(cost(same, estimate_of(same)), rel=1e-12)
    out = read_lines(tmp_path / f'out{suffix}')
    assert ''.join(out).count('#') == ''.join(read_lines(path)).count('#')


BAD = {
    'no id': ('EDGE_SE2 0 1.5 1 0 0 1 0 0 1 0 1', "expected an integer for j, got '1.5'"),
    'huge id': (f'EDGE_SE2 0 {2**63} 1 0 0 1 0 0 1 0 1', 'expected an integer below 2^63'),
    'weight that no double holds': (
        'EDGE_SE2 0 2 1 0 0 1e-320 0 0 1 0 1', 'expected standard deviations from 1e-12 to'),
    'range to nothing': ('EDGE_RANGE_SE2 0 9 3 1', 'expected the id of a pose for j'),
    'short information': ('EDGE_SE2 0 2 1 0 0 1 0', 'expected 12 fields'),
    'landmark as pose': ('EDGE_SE2_XY 5 5 1 0 1 0 1', 'expected the id of a pose for i'),
    'pose as landmark': ('EDGE_SE2_XY 0 2 1 0 1 0 1', 'expected the id of a landmark'),
    'edge to itself': ('EDGE_SE2 2 2 1 0 0 1 0 0 1 0 1', 'two different poses'),
    'indefinite': ('EDGE_SE2 0 2 1 0 0 1 2 0 1 0 1', 'positive definite translation'),
    'no rotation': ('EDGE_SE2 0 2 1 0 0 1 0 0 1 0 0', 'positive definite rotation'),
    'twice': ('VERTEX_SE2 2 0 0 0', 'expected every id once, got 2 again'),
    'pose and landmark': ('VERTEX_XY 2 0 0', 'for a pose and a landmark'),
    'fixed nothing': ('FIX 99', "FIX: expected ids of vertices, got '99'"),
    'two fixed poses': ('FIX 7', 'at most one fixed pose'),
    'dimension': ('VERTEX_TRACKXYZ 9 0 0 0', '2D and 3D records'),
}


@pytest.mark.parametrize(('line', 'message'), BAD.values(), ids=BAD)
def test_malformed_line_is_named(tmp_path, line, message):
    path = write(tmp_path, PLANE + line + '\n')
    with pytest.raises(FormatError) as caught:
        g2o.read(path)
    assert str(caught.value).startswith(f'{path}:11: ')
    assert message in str(caught.value)


@pytest.mark.parametrize(('name', 'content', 'message'), [
    ('g.g2o', b'# nothing\n', 'expected a pose graph'),
    ('g.g2o', b'VERTEX_XY 0 1 1\n', 'expected a pose graph'),
    ('g.g2o', b'VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1\nEDGE_SE3_XYZ_PRIOR 0 4 1 2 0 1 0 0 1 0 1\n',
     r':2: .*PARAMS_SE3OFFSET line for paramId'),
    ('g.txt', PLANE.encode(), r'ending in \.pyfg or \.g2o'),
    ('g.pyfg', b'', 'expected a graph'), ('g.pyfg', b'\xff\xfe\x00', 'is not a text file'),
    ('g.pyfg', b'EDGE_SE2_XY 0 A0 L0 2 3 0.1 0 0.3\n',
     'expected at least one VERTEX_SE2 or VERTEX_XY line')])
def test_files_that_are_no_graph(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=message):
        graph_file.read(tmp_path / name)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), d=st.sampled_from([2, 3]),
    robots=st.sampled_from([('A',), ('b',), ('A', 'B', 'xA')]))
def test_round_trip(tmp_path_factory, seed, d, robots):
    graph = g2o_graph(seed, d, robots)
    path = tmp_path_factory.mktemp('g2o') / 'g.g2o'
    graph_file.write(path, graph)
    back = graph_file.read(path)
    assert cost(back, estimate_of(back)) == pytest.approx(
        cost(graph, estimate_of(graph)), rel=1e-12)
    assert (back.robots, back.landmarks.names) == (graph.robots, graph.landmarks.names)
    np.testing.assert_array_equal(back.poses.index, graph.poses.index)
    assert back.landmarks.fixed.tolist() == graph.landmarks.fixed.tolist()
    for name, table in graph.tables().items():
        assert len(table) == len(back.tables()[name])
    np.testing.assert_array_equal(back.relative_poses.odometry, graph.relative_poses.odometry)
    solved = with_estimate(back, estimate_of(g2o_graph(seed + 1, d, robots)))
    again = path.with_name('solved.g2o')
    graph_file.rewrite_vertices(path, again, solved)
    third = graph_file.read(again)
    assert cost(third, estimate_of(third)) == pytest.approx(
        cost(solved, estimate_of(solved)), rel=1e-12)


def test_what_g2o_cannot_hold(tmp_path):
    with pytest.raises(GraphError, match='cannot hold ranges'):
        g2o.write(tmp_path / 'g.g2o', random_graph(1, robots=('A',)))
    with pytest.raises(GraphError, match='cannot hold verticals and heights'):
        g2o.write(tmp_path / 'g.g2o', flying_graph()[0].replaced(ranges=empty(Ranges, 3)))
    several = random_graph(1)
    with pytest.raises(GraphError, match='names robots by letters'):
        g2o.write(tmp_path / 'g.g2o', several.replaced(
            ranges=empty(Ranges, 2), robots=('rover', 'B')))
    assert not (tmp_path / 'g.g2o').exists()
