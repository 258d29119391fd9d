"""A node that is killed goes on where it was, as a process of its own, with real ROS."""

import numpy as np
from crash_world import CrashWorld, canonical, cost
from journal_world import Run
from sparser_ros.srv import Measurements, Rejected

from sparser_ros.backend.session.rulings import Ruling


def test_a_node_that_is_killed_loses_nothing(tmp_path):
    """Once in its first half second, before any solver is ready, and once later on."""
    world = CrashWorld(tmp_path, seed=3)
    graph = world.run(kills=2)
    whole = Run(world.parameters).play(world.messages, flush=True).graph
    assert world.kills == 2
    assert canonical(graph) == canonical(whole)
    assert np.isclose(cost(graph), cost(whole), rtol=1e-6)


def test_what_the_operator_has_said_outlasts_a_killed_node(tmp_path):
    world = CrashWorld(tmp_path, seed=4)
    half = world.messages[:len(world.messages) // 2]
    with world.node() as process:
        assert world.play(half, 1e9)
        world.until(lambda: world.statuses and world.statuses[-1].received == len(half))
        answer = world.ask(Measurements, 'measurements', action='ignore', kind='pair',
                           names=['L0', 'A'])
        assert answer.success, answer.message
        world.kill(process)
    rest = world.missing()
    assert len(rest) == len(world.messages) - len(half)
    with world.node():
        world.until(lambda: world.statuses)
        assert ['ranges between L0 and A' in one for one in world.statuses[-1].rulings] == [True]
        world.finish(rest)
        world.until(lambda: world.statuses[-1].waiting == 0)
        listed = world.ask(Rejected, 'rejected', name='L0')
        ignored = [one for one in listed.measurements if one.reason == 'ignored by the operator']
    graph = world.graph
    meant = Ruling('ignore', 'pair', ('L0', 'A')).rows(graph, 'ranges', graph.ranges)
    assert len(ignored) == np.count_nonzero(meant) >= answer.count > 0
    assert all({one.source, one.target} == {'A', 'L0'} for one in ignored)
