"""Derivatives of residuals against finite differences."""

import numpy as np
import pytest
from faulty_world import antenna_elsewhere, graph, world

from sparser_ros.graph import range_lever_derivatives, range_residuals


@pytest.mark.parametrize('dimension', [2, 3])
def test_ranges_by_lever_arms(dimension):
    place = world(1, dimension, steps=20)
    # Antennas off the robots' origins: the derivative is at any lever arm.
    made = antenna_elsewhere(graph(place, 1), 'A', np.arange(1, 1 + dimension) / 4)
    by_end, step = range_lever_derivatives(made, place.truth), 1e-6
    assert np.any(made.ranges.target < 0)
    for lever, endpoint, found in zip(
            ('lever_source', 'lever_target'), (made.ranges.source, made.ranges.target), by_end,
            strict=True):
        assert not np.any(found[endpoint < 0])
        for axis in range(dimension):
            moved = []
            for sign in (1, -1):
                arm = getattr(made.ranges, lever).copy()
                arm[:, axis] += sign * step
                moved.append(range_residuals(
                    made.replaced(ranges=made.ranges.replaced(**{lever: arm})), place.truth))
            np.testing.assert_allclose(
                found[:, axis], (moved[0] - moved[1]) / (2 * step), atol=1e-8)
