"""An auditor that starts finds the kernels of its comparisons compiled."""

import os
import subprocess
import sys

import pytest

AUDITED = """
import sys
sys.path.insert(0, {support!r})
from sparser_ros.backend.observability.observability import warm_up
warm_up({dimension})
print('WARM', flush=True)
import numpy as np
from backend_world import World, graph_of
from sparser_ros.backend.observability.observability import observe
from sparser_ros.config.backend_config import ObservabilityConfig
from sparser_ros.graph.parts import find_segments
world = World(['curved', 'curved', 'straight'], np.eye(3)[:, :{dimension}] * 5,
              beacons=np.ones((2, {dimension})) * [[2], [-3]], dimension={dimension}, steps=40)
graph = graph_of(world.increments(1), {dimension})
observe(graph, world.truth, find_segments(graph), 0, ObservabilityConfig())
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize('dimension', [2, 3])
def test_a_comparison_compiles_nothing_after_the_warm_up(dimension):
    support = os.path.join(os.path.dirname(__file__), '..', '..', 'support')
    log = subprocess.run(
        [sys.executable, '-c', AUDITED.format(support=support, dimension=dimension)], text=True,
        check=True, capture_output=True, env={**os.environ, 'NUMBA_DEBUG_CACHE': '1'}).stdout
    before, after = log.split('WARM')
    for kernel in ('tie_cost', 'tie_normal_equations', 'add_joints', 'descended'):
        assert kernel in before
        assert kernel not in after
