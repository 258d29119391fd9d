"""A node that is killed goes on where it was, as a process of its own, with real ROS."""

import numpy as np
from crash_world import CrashWorld, canonical, cost
from journal_world import Run
from sparser_ros.srv import Measurements, Rejected

from sparser_ros.backend.session.rulings import Ruling


def test_a_node_that_is_killed_loses_nothing_nor_what_the_operator_has_said(tmp_path):
    """Once in its first half second, before any solver is ready, and once later on."""
    world = CrashWorld(tmp_path)
    half = len(world.messages) // 2
    later = world.messages[half:]
    with world.node() as process:
        world.play(world.messages, 0.4)
        world.kill(process)
    earlier = world.missing()[:-len(later)]
    with world.node() as process:
        assert world.play(earlier, 1e9)
        world.until(lambda: world.statuses and world.statuses[-1].received == half)
        answer = world.ask(Measurements, 'measurements', action='ignore', kind='pair',
                           names=['L0', 'A'])
        assert answer.success, answer.message
        world.play(later, 1.0)
        world.kill(process)
    rest = world.missing()
    assert 0 < len(rest) <= len(later)
    with world.node():
        world.until(lambda: world.statuses)
        assert ['ranges between L0 and A' in one for one in world.statuses[-1].rulings] == [True]
        world.finish(rest)
        world.until(lambda: world.statuses[-1].waiting == 0)
        listed = world.ask(Rejected, 'rejected', name='L0')
        ignored = [one for one in listed.measurements if one.reason == 'ignored by the operator']
    graph, whole = world.graph, Run(world.parameters).play(world.messages, flush=True).graph
    assert canonical(graph) == canonical(whole)
    assert np.isclose(cost(graph), cost(whole), rtol=1e-6)
    meant = Ruling('ignore', 'pair', ('L0', 'A')).rows(graph, 'ranges', graph.ranges)
    assert len(ignored) == np.count_nonzero(meant) >= answer.count > 0
    assert all({one.source, one.target} == {'A', 'L0'} for one in ignored)
