"""Graph to bag to front-end: with the written parameters the front-end rebuilds the graph."""

import numpy as np
import pytest
from graphs import random_graph

from sparser_ros.cli.main import main
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.frontend import decode
from sparser_ros.frontend.frontend import Frontend
from sparser_ros.graph import (
    Estimate,
    empty_graph,
    estimate_of,
    extended,
    squared_residuals,
)
from sparser_ros.io import pyfg
from sparser_ros.io.bag import BagReader
from sparser_ros.io.graph_bag import pose_stamps, range_stamps

LENGTH = 30


def rebuilt(bag, config):
    """The graph that the front-end makes of a bag, and its counters."""
    frontend = Frontend(config)
    for message in BagReader(bag):
        time, robot = message.bag_time_ns, message.topic.split('/')[1]
        if message.topic == '/uwb/ranges':
            frontend.add(decode.uwb_range(message.msg, time))
        elif message.topic == '/landmark_sightings':
            frontend.add(decode.landmark_sighting(message.msg, time))
        elif message.topic == '/loop_closures':
            frontend.add(decode.loop_closure(message.msg, time))
        elif message.topic.endswith('/odom'):
            frontend.add(decode.odometry(message.msg, time, robot))
        else:
            frontend.add(decode.fix(message.msg, time, robot))
    increment = frontend.take(flush=True)
    return extended(empty_graph(config.dimension), increment), frontend.counters.as_dict()


@pytest.mark.parametrize(('d', 'levers'), [(2, False), (2, True), (3, False)])
def test_frontend_gives_the_graph_back(tmp_path, d, levers):
    graph = random_graph(d, d, length=LENGTH, levers=False, ranges=80, closures=6)
    table = graph.ranges
    keep = ~range_stamps(graph, pose_stamps(graph)).wrong_pose
    if levers:
        arm = np.array([0.3, -0.2])
        table = table.replaced(
            lever_source=np.where((table.source >= 0)[:, None], arm, 0),
            lever_target=np.where((table.target >= 0)[:, None], arm, 0))
    graph = graph.replaced(
        ranges=table.take(keep), sightings=graph.sightings.take(
            graph.sightings.point < 0)).validate()
    assert len(graph.sightings) == 4
    # A heading known to worse than a turn or so is no heading to the front-end.
    priors = graph.pose_priors
    graph = graph.replaced(pose_priors=priors.replaced(kappa=np.maximum(priors.kappa, 0.1)))
    # Ranges between two poses of one robot have no message.
    ends = graph.ranges.source, graph.ranges.target
    own = np.all([e >= 0 for e in ends], axis=0) & (ends[0] // LENGTH == ends[1] // LENGTH)
    graph = graph.replaced(ranges=graph.ranges.take(~own))
    paths = [str(tmp_path / name) for name in ('g.pyfg', 'bag', 'c.yaml')]
    pyfg.write(paths[0], graph)
    assert main(['bag', paths[0], '-o', paths[1], '--config', paths[2]]) == 0
    back, counters = rebuilt(paths[1], SparserConfig.from_yaml(paths[2]))
    for kind in ('odometry', 'ranges', 'sightings', 'closures', 'fixes'):
        assert counters[kind]['dropped'] == {} and counters[kind]['merged'] == 0, kind
    # The front-end numbers poses in order of time, landmarks in order of appearance.
    place = np.empty(back.n_poses, dtype=int)
    for number, robot in enumerate(back.robots):
        rows = np.flatnonzero(back.poses.robot == number)
        place[rows] = graph.robots.index(robot) * LENGTH + np.arange(len(rows))
    marks = [graph.landmarks.names.index(name) for name in back.landmarks.names]
    truth = estimate_of(graph)
    moved = Estimate(
        truth.rotation[place], truth.translation[place], truth.landmarks[marks])
    wanted, found = squared_residuals(graph, truth), squared_residuals(back, moved)
    for name in wanted:
        np.testing.assert_allclose(
            np.sort(found[name]), np.sort(wanted[name]), rtol=1e-9, atol=1e-9, err_msg=name)


def test_every_measurement_of_a_file_comes_back(data_dir, tmp_path):
    """Five robots, some of which pause for longer than a message usually waits."""
    paths = [str(data_dir / 'pyfg' / 'mrclam5a.pyfg'),
             *(str(tmp_path / name) for name in ('bag', 'c.yaml'))]
    assert main(['bag', paths[0], '-o', paths[1], '--config', paths[2]]) == 0
    graph = pyfg.read(paths[0])
    back, counters = rebuilt(paths[1], SparserConfig.from_yaml(paths[2]))
    assert counters['sightings']['accepted'] == len(graph.sightings) == 1127
    assert counters['ranges']['accepted'] == len(graph.ranges) == 316
    place = np.empty(back.n_poses, dtype=int)
    for number, robot in enumerate(back.robots):
        mine = np.flatnonzero(graph.poses.robot == graph.robots.index(robot))
        place[back.poses.robot == number] = mine[np.argsort(graph.poses.index[mine])]
    marks = [graph.landmarks.names.index(name) for name in back.landmarks.names]
    truth = estimate_of(graph)
    moved = Estimate(truth.rotation[place], truth.translation[place], truth.landmarks[marks])
    wanted, found = squared_residuals(graph, truth), squared_residuals(back, moved)
    for name in wanted:
        assert np.sum(found[name]) == pytest.approx(np.sum(wanted[name]), rel=1e-6), name
