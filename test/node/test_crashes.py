"""A node that is killed goes on where it was, as a process of its own, with real ROS."""

import numpy as np
import pytest
from crash_world import CrashWorld, canonical, cost
from journal_world import Run

pytestmark = pytest.mark.timeout(600)


def test_a_node_that_is_killed_loses_nothing(tmp_path):
    """Once in its first half second, before any solver is ready, and once later on."""
    world = CrashWorld(tmp_path, seed=3)
    graph = world.run(kills=2)
    whole = Run(world.parameters).play(world.messages, flush=True).graph
    assert world.kills == 2
    assert canonical(graph) == canonical(whole)
    assert np.isclose(cost(graph), cost(whole), rtol=1e-6)
