"""A graph, played as sensor messages through the front-end, comes back as the same graph."""

from pathlib import Path

import numpy as np
import pytest
from frontend_world import feed, graph_of
from graphs import random_graph

from sparser_ros.config import SparserConfig
from sparser_ros.frontend import Frontend, Inputs
from sparser_ros.graph import Estimate, estimate_of, squared_residuals
from sparser_ros.io import bag, graph_bag, pyfg

CONFIG = Path(__file__).parents[2] / 'config'


def replayed(graph, path, config=None):
    """(graph, counters) through a bag and the front-end, in increments."""
    config = config or SparserConfig.from_mapping(graph_bag.node_config(graph))
    graph_bag.write(path, graph)
    frontend, inputs, result = Frontend(config), Inputs(config), None
    for number, message in enumerate(bag.BagReader(path)):
        route = inputs.match(message.topic, message.msgtype)
        if route is not None:
            feed(frontend, route, message.msg, message.bag_time_ns)
        if number % 97 == 0:
            result = graph_of(frontend, flush=False, graph=result)
    result = graph_of(frontend, graph=result)
    assert not [found for found in frontend.findings if found.kind == 'configuration']
    return result, frontend.counters


def assert_same(graph, back, counters):
    """The same measurements, told by their residuals at the vertices of the graph."""
    assert back.n_poses == graph.n_poses
    assert sorted(back.landmarks.names) == sorted(graph.landmarks.names)
    for kind in ('odometry', 'ranges', 'sightings', 'closures', 'fixes'):
        count = counters[kind]
        assert count.received == count.accepted and not count.warnings, kind
    # The front-end numbers poses in order of time, landmarks in order of appearance.
    place = np.empty(back.n_poses, dtype=int)
    for number, robot in enumerate(back.robots):
        place[back.poses.robot == number] = graph.pose_rows(graph.robots.index(robot))
    marks = [graph.landmarks.names.index(name) for name in back.landmarks.names]
    known = estimate_of(graph)
    moved = Estimate(known.rotation[place], known.translation[place], known.landmarks[marks])
    wanted, found = squared_residuals(graph, known), squared_residuals(back, moved)
    for name, squares in wanted.items():
        np.testing.assert_allclose(
            np.sort(found[name]), np.sort(squares), rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(('name', 'config'), [
    ('outfinite', 'outfinite.yaml'), ('plaza2', ''), ('single_drone', ''), ('mrclam5a', '')])
def test_data_sets_come_back(tmp_path, data_dir, name, config):
    """Of mrclam5a some robots pause for longer than a message usually waits."""
    graph = pyfg.read(data_dir / 'pyfg' / f'{name}.pyfg')
    back, counters = replayed(
        graph, tmp_path / 'bag', SparserConfig.from_yaml(CONFIG / config) if config else None)
    assert_same(graph, back, counters)


def test_ranges_between_poses_that_no_instant_is_nearest_to_come_back_as_well(tmp_path, data_dir):
    graph = pyfg.read(data_dir / 'pyfg' / 'tiers.pyfg')
    back, _ = replayed(graph, tmp_path / 'bag')
    assert (back.n_poses, len(back.ranges)) == (graph.n_poses, len(graph.ranges))


@pytest.mark.parametrize(('d', 'levers'), [(2, False), (2, True), (3, False)])
def test_every_kind_of_measurement_comes_back(tmp_path, d, levers):
    graph = random_graph(
        d, d, ('A', 'team/B'), length=30, levers=False, ranges=80, closures=6)
    ranges = graph.ranges
    if levers:
        arm = np.array([0.3, -0.2])
        ranges = ranges.replaced(
            lever_source=np.where((ranges.source >= 0)[:, None], arm, 0),
            lever_target=np.where((ranges.target >= 0)[:, None], arm, 0))
    # Two poses of one robot, or two that no single instant is nearest to, have no message.
    ends = ranges.source, ranges.target
    own = np.all([e >= 0 for e in ends], axis=0) & (ends[0] // 30 == ends[1] // 30)
    _, apart = graph_bag.range_stamps(graph, graph_bag.pose_stamps(graph))
    # A heading known to worse than a turn or so is no heading to the front-end.
    priors, points, closures = graph.pose_priors, graph.point_priors, graph.relative_poses
    seen = graph.sightings.take(graph.sightings.point < 0)
    # What a file says twice of the same poses and beacons counts twice.
    graph = graph.replaced(
        ranges=ranges.take(~own & ~apart),
        relative_poses=closures.append(closures.take(~closures.odometry)),
        pose_priors=priors.replaced(kappa=np.maximum(priors.kappa, 0.1)),
        point_priors=points.append(points.take(np.flatnonzero(points.point >= 0))),
        sightings=seen.append(seen)).validate()
    assert len(graph.sightings) == 8
    assert_same(graph, *replayed(graph, tmp_path / 'bag'))
