"""PyFG files: what is read, what survives writing, and what malformed files say."""

import json
from pathlib import Path

import numpy as np
import pytest
from graphs import flying_graph, random_graph, with_landmarks
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.generators import sensor_network
from sparser_ros.config import FormatError, GraphError
from sparser_ros.graph import cost, estimate_of, with_estimate
from sparser_ros.io import pyfg

SMALL = """\
VERTEX_SE2 0.000000000 A0 0.0 0.0 0.0
VERTEX_SE2 1.500000000 A1 1.0 0.0 1.5707963267948966
VERTEX_SE2 2.000000000 B0 5.0 5.0 -0.0
VERTEX_XY L14 11.0 19.0
EDGE_SE2 1.5 A0 A1 1.0 0.5 1.5707963267948966 0.25 0.0 -0.0 0.75 0.0 0.01
EDGE_SE2 1.5 A1 B0 1.0 0.0 0.0 1.0 0.0 0.0 1.0 0.0 1.0
EDGE_SE2_XY 1.5 A1 L14 2.0 3.0 0.1 0.0 0.3
EDGE_RANGE 0.0 A1 L14 21.5 0.25
EDGE_RANGE 7.0 A0 B0 7.0 4.0
VERTEX_SE2:PRIOR 0.0 A0 0.5 0.6 0.7 0.01 0.0 0.0 0.03 0.0 0.5
VERTEX_XY:PRIOR 1665936917.000000000 L14 11.0 19.0 0.2 0.0 0.2
"""

SPACE = """\
VERTEX_SE3:QUAT 1.0 A0 0 0 0 0 0 0 1
VERTEX_SE3:QUAT 2.0 A1 1 0 0 0 0 0.7071067811865476 0.7071067811865476
VERTEX_XYZ L0 1 2 3
EDGE_SE3:QUAT 2.0 A0 A1 1 0 0 0 0 1 1 {cov}
EDGE_SE3_XYZ 2.0 A1 L0 1 1 1 0.1 0 0 0.2 0 0.3
EDGE_RANGE 2.0 A0 L0 3.0 0.01
""".format(cov='0.1 0 0 0 0 0 0.2 0 0 0 0 0.3 0 0 0 0.01 0 0 0.02 0 0.03')


def write(folder: Path, text: str) -> Path:
    path = folder / 'graph.pyfg'
    path.write_text(text)
    return path


def assert_same(one, two):
    """Equal to a few units in the last place, and exactly in everything that is no float."""
    assert (one.robots, one.landmarks.names) == (two.robots, two.landmarks.names)
    np.testing.assert_array_equal(one.landmarks.fixed, two.landmarks.fixed)
    np.testing.assert_array_equal(one.landmarks.position, two.landmarks.position)
    for name in ('poses', *one.tables()):
        table, other = getattr(one, name), getattr(two, name)
        assert len(table) == len(other)
        for column, values in vars(table).items():
            few_units = 1e-14 if values.dtype.kind == 'f' else 0
            np.testing.assert_allclose(values, getattr(other, column), rtol=few_units,
                                       atol=few_units, err_msg=f'{name}.{column}')


def sorted_like_a_file(graph):
    """The order in which the writer puts rows: offset ranges last, fixes of poses last."""
    def order(table, key):
        return table.take(np.argsort(key, kind='stable'))

    ranges, point = graph.ranges, graph.point_priors
    offset = np.any(np.hstack([ranges.lever_source, ranges.lever_target]) != 0, axis=1)
    return graph.replaced(
        ranges=order(ranges, offset), point_priors=order(point, point.point >= 0))


def test_every_plane_record_in_any_order(tmp_path):
    graph = pyfg.read(write(tmp_path, SMALL)).validate()
    assert graph.dimension == 2 and graph.robots == ('A', 'B') and graph.name == 'graph'
    np.testing.assert_array_equal(graph.poses.stamp_ns, [0, 1_500_000_000, 2_000_000_000])
    np.testing.assert_array_equal(graph.poses.index, [0, 1, 0])
    np.testing.assert_allclose(graph.poses.rotation[1], [[0, -1], [1, 0]], atol=1e-15)
    assert graph.landmarks.names == ('L14',) and not graph.landmarks.fixed[0]
    relative = graph.relative_poses
    np.testing.assert_array_equal(relative.odometry, [True, False])
    np.testing.assert_allclose(relative.kappa, [100, 1])
    np.testing.assert_allclose(relative.tau, [2, 1])
    np.testing.assert_array_equal(graph.sightings.point, [~0])
    np.testing.assert_allclose(graph.sightings.tau, [5])
    np.testing.assert_allclose(graph.ranges.precision, [4, 0.25])
    # A range without time takes that of its pose.
    np.testing.assert_array_equal(graph.ranges.stamp_ns, [1_500_000_000, 7_000_000_000])
    np.testing.assert_allclose(graph.pose_priors.kappa, [2])
    np.testing.assert_allclose(graph.pose_priors.tau, [50])
    np.testing.assert_array_equal(graph.point_priors.point, [~0])
    np.testing.assert_array_equal(graph.point_priors.stamp_ns, [1665936917 * 10**9])
    other = pyfg.read(write(tmp_path, '\n'.join(SMALL.splitlines()[::-1])))
    assert other.n_poses == graph.n_poses
    assert cost(other, estimate_of(other)) == pytest.approx(
        cost(graph, estimate_of(graph)), rel=1e-13)


def test_odometry_written_backwards(tmp_path):
    noise = '1 0 0 1 0 1'
    text = ''.join(f'VERTEX_SE2 {k} A{k} {k} 0 0\n' for k in range(5))
    graph = pyfg.read(write(tmp_path, text + f"""\
EDGE_SE2 1 A1 A0 0 1 -1.5707963267948966 {noise}
EDGE_SE2 2 A1 A2 1 0 0 {noise}
EDGE_SE2 2 A2 A1 -1 0 0 {noise}
EDGE_SE2:LOOP 3 A3 A2 -1 0 0 {noise}
EDGE_SE2:LOOP 3 A3 A4 1 0 0 {noise}
EDGE_SE2 4 A4 A3 -1 0 0 {noise}
"""))
    table = graph.relative_poses
    assert list(zip(table.i.tolist(), table.j.tolist(), table.odometry, strict=True)) == [
        (0, 1, True), (1, 2, True), (2, 1, False), (4, 3, False), (3, 2, False), (3, 4, False)]
    np.testing.assert_allclose(table.translation[0], [1, 0], atol=1e-15)
    np.testing.assert_allclose(table.rotation[0], [[0, -1], [1, 0]], atol=1e-15)
    pyfg.write(tmp_path / 'again.pyfg', graph)
    again = pyfg.read(tmp_path / 'again.pyfg').relative_poses
    assert sorted(zip(again.i.tolist(), again.j.tolist(), again.odometry, strict=True)) == sorted(
        zip(table.i.tolist(), table.j.tolist(), table.odometry, strict=True))


def test_every_space_record(tmp_path):
    graph = pyfg.read(write(tmp_path, SPACE)).validate()
    np.testing.assert_allclose(graph.relative_poses.tau, [3 / 0.6])
    np.testing.assert_allclose(graph.relative_poses.kappa, [3 / (2 * 0.06)])
    np.testing.assert_allclose(
        graph.relative_poses.rotation[0], [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-15)
    np.testing.assert_allclose(graph.sightings.tau, [5])


@pytest.mark.parametrize(('text', 'stamp_ns'), [
    ('1730477379787663104.000000000', 1730477379787663104),
    ('1671300425.310699463', 1671300425310699463),
    ('1671300425.3106994639', 1671300425310699463),
    ('0.000000000', 0), ('-0.0', 0), ('3', 3_000_000_000), ('2.', 2_000_000_000),
    ('1.7e9', 1_700_000_000_000_000_000), ('-1.25', -1_250_000_000),
])
def test_stamps_are_exact(tmp_path, text, stamp_ns):
    graph = pyfg.read(write(tmp_path, f'VERTEX_SE2 {text} A0 0 0 0\n'))
    assert graph.poses.stamp_ns.tolist() == [stamp_ns]


BAD = {
    'unknown record': ('EDGE_BEARING 0 A0 A1 0 0 1 1', 'expected one of EDGE_RANGE'),
    'number of fields': ('EDGE_RANGE 0 A0 A1 3.0', 'expected 6 fields'),
    'no number': ('EDGE_RANGE 0 A0 A1 far 1.0', "expected a number for range, got 'far'"),
    'more than a double holds': (
        'EDGE_RANGE 0 A0 A1 1e400 1', "expected a finite number for range, got '1e400'"),
    'squares that no double holds': (
        'EDGE_RANGE 0 A0 A1 1e200 1', "expected a number below 1e+11 for range, got '1e200'"),
    'negative range': ('EDGE_RANGE 0 A0 A1 -3.0 1.0', 'expected a range > 0'),
    'weight that no double holds': ('EDGE_RANGE 0 A0 A1 3 1e-320', 'expected a variance > 0'),
    'bad stamp': ('EDGE_RANGE soon A0 A1 3.0 1.0', "expected a time in seconds for ts, got 'soon'"),
    'stamp that no Decimal holds': ('EDGE_RANGE 1e9999999 A0 A1 3 1', 'expected a time in seconds'),
    'stamp near the end of 64 bits': (
        f'EDGE_RANGE {2**63 - 1} A0 A1 3 1', 'expected a time in seconds'),
    'unknown variable': ('EDGE_RANGE 0 A0 A9 3.0 1.0', "VERTEX line for B, got 'A9'"),
    'self range': ('EDGE_RANGE 0 A0 A0 3.0 1.0', 'expected two different variables'),
    'landmark in odometry': (
        'EDGE_SE2 0 A0 L14 1 0 0 1 0 0 1 0 1', "expected a pose for TO, got 'L14'"),
    'edge to itself': ('EDGE_SE2 0 A0 A0 1 0 0 1 0 0 1 0 1', 'expected two different poses'),
    'zero covariance': ('EDGE_SE2 0 A1 A0 1 0 0 0 0 0 0 0 1', 'translation covariance'),
    'negative covariance': ('EDGE_SE2 0 A1 A0 1 0 0 1 0 0 1 0 -1', 'rotation covariance'),
    'indefinite covariance': (
        'EDGE_SE2 0 A1 A0 1 0 0 1 2 0 1 0 1', 'a negative variance in some direction'),
    'bad name': ('VERTEX_SE2 0 17 1 2 3', 'a letter and a number'),
    'pose twice': ('VERTEX_SE2 0 A1 1 2 3', 'expected every variable once, got A1 again'),
    'other dimension': ('VERTEX_XYZ L2 1 2 3', 'got 2D and 3D records'),
    'prior of nothing': (
        'VERTEX_XY:PRIOR 0 A0 1 1 1 0 1', "expected a landmark for NAME, got 'A0'"),
    'fixed nothing': ('VERTEX_XY:FIX L99 1 1', "got 'L99'"),
    'vertical of no length': ('VERTEX_SE2:VERTICAL 0 A0 0 0 1', 'got one of norm 0'),
    'height of no precision': ('VERTEX_XY:HEIGHT 0 L14 2 0', 'expected a variance > 0'),
    'lever of a landmark': ('EDGE_RANGE:OFFSET 0 A0 L14 3 1 0 0 1 0', 'no lever arm'),
}


@pytest.mark.parametrize(('line', 'message'), BAD.values(), ids=BAD)
def test_malformed_line_is_named(tmp_path, line, message):
    path = write(tmp_path, SMALL + line + '\n')
    with pytest.raises(FormatError) as caught:
        pyfg.read(path)
    assert caught.value.line == 12
    assert str(caught.value).startswith(f'{path}:12: ')
    assert message in str(caught.value)


def test_a_beacon_has_one_known_position(tmp_path):
    path = write(tmp_path, SMALL + 'VERTEX_XY:FIX L14 1 1\nVERTEX_XY:FIX L14 5 1\n')
    with pytest.raises(FormatError, match=r':13: VERTEX_XY:FIX: .*L14 has another line'):
        pyfg.read(path)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), d=st.sampled_from([2, 3]), levers=st.booleans(),
    absolute=st.booleans(), landmarks=st.integers(0, 4), length=st.integers(1, 6))
def test_round_trip(tmp_path_factory, seed, d, levers, absolute, landmarks, length):
    graph = random_graph(
        seed, d, length=length, landmarks=landmarks, levers=levers, absolute=absolute)
    path = tmp_path_factory.mktemp('pyfg') / 'g.pyfg'
    pyfg.write(path, graph)
    back = pyfg.read(path)
    assert_same(sorted_like_a_file(graph), back)
    assert cost(back, estimate_of(back)) == pytest.approx(
        cost(graph, estimate_of(graph)), rel=1e-12)


def test_verticals_and_heights_survive(tmp_path):
    graph, _ = flying_graph()
    graph = graph.replaced(heights=graph.heights.take(
        np.argsort(graph.heights.point >= 0, kind='stable')))
    assert len(graph.verticals) and graph.heights.point[0] < 0
    pyfg.write(tmp_path / 'g.pyfg', graph)
    assert_same(graph, pyfg.read(tmp_path / 'g.pyfg'))


def test_thinned_keyframes_are_numbered_anew(tmp_path):
    graph = random_graph(6)
    graph = graph.replaced(poses=graph.poses.replaced(index=graph.poses.index * 10))
    pyfg.write(tmp_path / 'g.pyfg', graph)
    back = pyfg.read(tmp_path / 'g.pyfg')
    np.testing.assert_array_equal(back.poses.index, graph.poses.index // 10)
    assert back.relative_poses.odometry.sum() == graph.relative_poses.odometry.sum()


def test_long_names_go_beside_the_file(tmp_path):
    graph = with_landmarks(
        random_graph(7, robots=('husky_1', 'L')), names=('dock', 'gate', 'mast'))
    path = tmp_path / 'g.pyfg'
    pyfg.write(path, graph)
    assert 'husky' not in path.read_text()
    assert json.loads((tmp_path / 'g.pyfg.names.json').read_text())['robots'] == {
        'A': 'husky_1', 'B': 'L'}
    back = pyfg.read(path)
    assert_same(sorted_like_a_file(graph), back)
    pyfg.rewrite_vertices(path, tmp_path / 'h.pyfg', back)
    assert_same(back, pyfg.read(tmp_path / 'h.pyfg'))
    pyfg.write(path, random_graph(7))
    assert pyfg.read(path).robots == ('A', 'B')


def test_a_heading_less_prior_is_a_position_fix(tmp_path):
    graph = random_graph(8)
    graph = graph.replaced(pose_priors=graph.pose_priors.replaced(kappa=np.zeros(1)))
    pyfg.write(tmp_path / 'g.pyfg', graph)
    back = pyfg.read(tmp_path / 'g.pyfg')
    assert len(back.pose_priors) == 0
    assert cost(back, estimate_of(back)) == pytest.approx(
        cost(graph, estimate_of(graph)), rel=1e-12)


def test_rewritten_vertices_keep_every_other_byte(tmp_path, d):
    graph = random_graph(9, d)
    source, target = tmp_path / 'a.pyfg', tmp_path / 'b.pyfg'
    pyfg.write(source, graph)
    source.write_text('# header\n' + source.read_text())
    graph = pyfg.read(source)
    solved = estimate_of(random_graph(10, d))
    pyfg.rewrite_vertices(source, target, with_estimate(graph, solved))
    back = pyfg.read(target)
    np.testing.assert_allclose(back.poses.translation, solved.translation, rtol=0, atol=0)
    # A known beacon stays where its FIX record says.
    free = ~graph.landmarks.fixed
    np.testing.assert_array_equal(back.landmarks.position[free], solved.landmarks[free])
    old, new = source.read_text().splitlines(), target.read_text().splitlines()
    assert len(old) == len(new)
    vertices = ('VERTEX_SE2 ', 'VERTEX_XY ', 'VERTEX_SE3:QUAT ', 'VERTEX_XYZ ')
    for a, b in zip(old, new, strict=True):
        assert a == b or (a.startswith(vertices) and a.split()[:2] == b.split()[:2])


NETWORK = """\
VERTEX_XY L0 0 0
VERTEX_XY L1 3 0
VERTEX_XY L2 0 4
VERTEX_XY:FIX L0 0 0
EDGE_RANGE 0.0 L0 L1 3.0 0.01
EDGE_RANGE 5.0 L1 L2 5.0 0.04
"""


def test_a_sensor_network_has_no_poses(tmp_path):
    graph = pyfg.read(write(tmp_path, NETWORK)).validate()
    assert (graph.dimension, graph.n_poses, graph.robots) == (2, 0, ())
    assert graph.landmarks.fixed.tolist() == [True, False, False]
    assert graph.ranges.source.tolist() == [-1, -2] and graph.ranges.target.tolist() == [-2, -3]
    assert graph.ranges.stamp_ns.tolist() == [0, 5 * 10**9]
    assert cost(graph, estimate_of(graph)) == pytest.approx(0)
    assert_same(pyfg.read(write(tmp_path, NETWORK)), graph)
    pyfg.write(tmp_path / 'again.pyfg', graph)
    assert_same(pyfg.read(tmp_path / 'again.pyfg'), graph)
    for kind in (2, 3):
        network = sensor_network(20, anchors=kind + 1, dimension=kind, radius_m=6.0)
        pyfg.write(tmp_path / 'network.pyfg', network)
        assert_same(pyfg.read(tmp_path / 'network.pyfg'), network)


def test_another_graph_is_refused(tmp_path):
    path = write(tmp_path, SMALL)
    with pytest.raises(GraphError, match='was not read from'):
        pyfg.rewrite_vertices(path, tmp_path / 'out.pyfg', random_graph(1))
    assert not (tmp_path / 'out.pyfg').exists()


REFERENCE = {
    'outfinite': (13511, 6, 13508, 0, 7617), 'tiers': (9768, 1, 9764, 0, 7789),
    'plaza2': (3866, 4, 3865, 0, 1703), 'single_drone': (1754, 1, 1753, 0, 1754),
    'goats_14': (679, 4, 678, 0, 1558), 'mrclam5a': (1080, 15, 1075, 1127, 316),
    'marine': (1000, 56, 999, 0, 56),
}


@pytest.mark.parametrize(('name', 'counts'), REFERENCE.items(), ids=REFERENCE)
def test_data_sets(data_dir, tmp_path, name, counts):
    path = data_dir / 'pyfg' / f'{name}.pyfg'
    graph = pyfg.read(path).validate()
    assert counts == (
        graph.n_poses, graph.n_landmarks, len(graph.relative_poses), len(graph.sightings),
        len(graph.ranges))
    assert np.all(graph.relative_poses.odometry)
    pyfg.write(tmp_path / 'g.pyfg', graph)
    back = pyfg.read(tmp_path / 'g.pyfg')
    assert cost(back, estimate_of(back)) == pytest.approx(
        cost(graph, estimate_of(graph)), rel=1e-12)
