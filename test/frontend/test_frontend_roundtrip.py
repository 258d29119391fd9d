"""A graph, played as sensor messages through the front-end, comes back as the same graph."""

from pathlib import Path

import numpy as np
import pytest

from sparser_ros.config import SparserConfig
from sparser_ros.frontend import Frontend, Inputs
from sparser_ros.graph import Graph, empty_graph, extended
from sparser_ros.io import bag, graph_bag, pyfg
from sparser_ros.linalg.rotations import matrix_to_rotvec

CONFIG = Path(__file__).parents[2] / 'config'


def replayed(graph: Graph, path: Path, config: SparserConfig) -> tuple[Graph, Frontend]:
    """Through a bag and the front-end, in increments."""
    graph_bag.write(path, graph)
    frontend, found = Frontend(config), Inputs(config)
    result = empty_graph(graph.dimension)
    for number, message in enumerate(bag.BagReader(path)):
        route = found.match(message.topic, message.msgtype)
        if route is not None:
            frontend.feed(route, message.msg, message.bag_time_ns)
        if number % 97 == 0 and (increment := frontend.take()) is not None:
            result = extended(result, increment)
    increment = frontend.take(flush=True)
    return (extended(result, increment) if increment else result), frontend


def canonical(graph: Graph) -> dict[str, np.ndarray]:
    """Measurements by the names of what they join, sorted."""
    order = np.lexsort((graph.poses.index, graph.poses.robot))
    place = np.empty(graph.n_poses, dtype=int)
    place[order] = np.arange(graph.n_poses)
    marks = np.argsort(np.argsort(graph.landmarks.names))

    def end(endpoint):
        return np.where(endpoint >= 0, place[np.maximum(endpoint, 0)],
                        -1 - marks[np.where(endpoint < 0, ~endpoint, 0)])

    relative, ranges = graph.relative_poses, graph.ranges
    rotation = relative.rotation
    if graph.dimension == 2:
        turn = np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])[:, None]
    else:
        turn = matrix_to_rotvec(rotation)
    tables = {
        'relative': np.column_stack([
            place[relative.i], place[relative.j], relative.odometry, relative.kappa,
            relative.tau, relative.translation, turn]),
        'ranges': np.column_stack([
            end(ranges.source), end(ranges.target), ranges.distance_m, ranges.precision,
            ranges.lever_source, ranges.lever_target]),
    }
    return {name: table[np.lexsort(table.T[2::-1])] for name, table in tables.items()}


def assert_same(graph: Graph, other: Graph) -> None:
    assert other.n_poses == graph.n_poses
    assert sorted(other.landmarks.names) == sorted(graph.landmarks.names)
    one, two = canonical(graph), canonical(other)
    for name, table in one.items():
        assert two[name].shape == table.shape
        assert np.allclose(two[name], table, rtol=1e-9, atol=1e-9), name


def test_outfinite_comes_back(tmp_path, data_dir):
    graph = pyfg.read(data_dir / 'pyfg' / 'outfinite.pyfg')
    result, frontend = replayed(
        graph, tmp_path / 'bag', SparserConfig.from_yaml(CONFIG / 'outfinite.yaml'))
    assert_same(graph, result)
    assert frontend.counters.odometry.as_dict() == {
        'received': 13511, 'accepted': 13511, 'merged': 0, 'waiting': 0, 'dropped': {},
        'warnings': {}}
    assert frontend.counters.ranges.accepted == 7617
    assert frontend.warnings == ()


@pytest.mark.parametrize('name', ['plaza2', 'single_drone', 'tiers'])
def test_other_graphs_come_back(tmp_path, data_dir, name):
    graph = pyfg.read(data_dir / 'pyfg' / f'{name}.pyfg')
    config = SparserConfig.from_mapping(graph_bag.node_config(graph))
    result, _ = replayed(graph, tmp_path / 'bag', config)
    if name == 'tiers':
        # A few of its ranges join poses that no single instant is nearest to.
        assert len(result.ranges) == len(graph.ranges)
        assert result.n_poses == graph.n_poses
    else:
        assert_same(graph, result)
