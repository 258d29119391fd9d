"""Where map is, from what a graph knows of the outside."""

import numpy as np
import pytest
from flying_world import flying_graph

from sparser_ros.backend.session.frame import at_heights
from sparser_ros.graph import Estimate


@pytest.mark.parametrize('beacons', [1, 7])
def test_a_map_stands_at_the_heights_of_its_poses(beacons):
    """At the first tick there may be fewer poses than beacons whose heights are known."""
    graph, truth = flying_graph(1, robots=1, steps=2, beacons=beacons, noise=0.0)
    heights = graph.heights
    graph = graph.replaced(heights=heights.append(heights.take(heights.point < 0).replaced(
        point=~np.array([beacons - 1]))))
    low = Estimate(truth.rotation, truth.translation - [0.0, 0.0, 5.0], truth.landmarks)
    moved = at_heights(low, graph, np.array([True, False]))
    np.testing.assert_allclose(moved.translation, truth.translation, atol=1e-9)
