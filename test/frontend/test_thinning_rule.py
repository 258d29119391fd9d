"""A front-end that thins: what comes later is numbered and attached as if nothing were missing."""


import numpy as np
import pytest
from frontend_world import Robot, closure_sample, config, graph_of, range_sample, truth

from sparser_ros.frontend import Frontend
from sparser_ros.graph import empty_graph, range_residuals, squared_residuals
from sparser_ros.graph.thinning import thin

BEACON = np.array([3.0, -2.0, 0.0])


def setting(dimension, most=40, **values):
    robots = [Robot('A', dimension, 1), Robot('B', dimension, 2)]
    frontend = Frontend(config(
        dimension=dimension, radios={'L1': {'beacon': 'L1', 'position': BEACON.tolist()}},
        keyframes={'distance_m': float('inf'), 'angle_rad': float('inf'), 'time_s': 1.0,
                   'max_count': most}, odometry={
                       'history_s': 5.0, 'vertical': 'free'}, **values))
    return frontend, robots


def run(frontend, robots, seconds, graph=None, start=0.0):
    """Odometry, and a range of A now and then; the graph is thinned where the front-end says."""
    graph = empty_graph(frontend.config.dimension) if graph is None else graph
    sizes = []
    for step in range(round(start * 10), round(seconds * 10)):
        t = step / 10
        for robot in robots:
            frontend.add(robot.odometry(t))
        if step % 4 == 1:
            frontend.add(range_sample(
                'A', 'L1', t, np.linalg.norm(robots[0].antenna(t, np.zeros(3)) - BEACON)))
        if step % 10 == 9:
            graph = graph_of(frontend, flush=False, graph=graph)
            drop = frontend.thin()
            if drop is not None:
                graph = thin(graph, drop).graph
            sizes.append(graph.n_poses)
    return graph, sizes


@pytest.mark.parametrize('dimension', [2, 3])
def test_what_comes_after_a_thinning_is_exact(dimension):
    frontend, robots = setting(dimension)
    graph, sizes = run(frontend, robots, 120.0)
    assert max(sizes) <= 44 and frontend.thinnings > 5
    # A closure from now to long ago, where keyframes are far apart by now.
    for t in (20.43, 33.3, 61.07):
        assert frontend.add(closure_sample(robots[0], t, robots[1], 118.2))
    graph = graph_of(frontend, graph=graph).validate()
    estimate = truth(graph, robots, {'L1': BEACON})
    assert np.sum(~graph.relative_poses.odometry) == 3
    assert np.abs(range_residuals(graph, estimate)).max() < 1e-8
    for name, squares in squared_residuals(graph, estimate).items():
        assert np.max(squares, initial=0.0) < 1e-10, name
