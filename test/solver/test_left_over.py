"""What a solve has allocated is free when it ends, not when the garbage collector comes by."""

import pytest
from cycles import nothing_left_over
from helpers import world

from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.solver import solve


@pytest.mark.parametrize('options', [
    {}, {'init': 'random'}, {'certify': True}, {'formulation': 'original'},
    {'robust': RobustConfig(kernel='gm', gnc=True)}],
    ids=['default', 'random', 'certified', 'original', 'robust'])
@pytest.mark.parametrize('kind', [{}, {'ranges': 0}], ids=['ranges', 'pose graph'])
def test_a_solve_leaves_no_cycles(kind, options):
    graph = world(1, noise=1.0, **kind)
    solver = SolverConfig(**options)
    solve(graph, solver)
    with nothing_left_over():
        solve(graph, solver)
