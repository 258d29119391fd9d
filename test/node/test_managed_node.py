"""A lifecycle manager configures, activates, deactivates and cleans up the real node."""

import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from lifecycle_msgs.srv import ChangeState, GetState
from node_world import THREAD, Scene, World
from std_srvs.srv import Trigger
from waiting import alive, ended, logged

from sparser_ros.demo.processes import Child, isolated_environment
from sparser_ros.node.node import ManagedSparserNode

ROOT = Path(__file__).resolve().parents[2]


class ManagedWorld(World):
    """A managed node, and the requests of its manager."""

    NODE = ManagedSparserNode

    def __enter__(self):
        self.change_state = self.asker(ChangeState, 'change_state')
        self.get_state = self.asker(GetState, 'get_state')
        return self

    def change(self, label):
        """Ask for a transition; (whether it succeeded, the state afterwards)."""
        request = ChangeState.Request()
        request.transition.label = label
        answer = self.change_state(transition=request.transition)
        return answer.success, self.get_state().current_state.label

    def heard_by(self):
        """How many subscriptions the odometry of A has."""
        return self.publishers['/A/odom'].get_subscription_count()


def map_to_odom(world):
    """The newest transform of each robot."""
    return {frame: one for _, frame, one in world.transforms()}


def test_the_map_outlasts_a_pause_and_the_journal_a_cleanup(tmp_path):
    scene = Scene()
    half = len(scene.events) // 2
    journal = {'node.journal.directory': str(tmp_path), 'node.journal.resume': True}
    with ManagedWorld(journal) as world:
        assert world.change('activate') == (False, 'unconfigured')
        assert world.change('configure') == (True, 'inactive')
        world.spin(1.0)
        assert world.heard_by() == 0 and not world.heard['/sparser/status']
        assert world.change('activate') == (True, 'active')
        assert world.until(world.heard_by)
        world.map_of(scene.events[:half])
        assert world.until(lambda: {'A/odom', 'B/odom'} == set(map_to_odom(world)))
        before = map_to_odom(world)

        assert world.change('deactivate') == (True, 'inactive')
        kept = world.node.pipeline.graph.n_poses
        assert kept > 50 and world.until(lambda: world.heard_by() == 0)
        world.heard['/tf'].clear()
        world.heard['/sparser/status'].clear()
        world.spin(1.0)
        assert not world.heard['/tf'] and not world.heard['/sparser/status']

        assert world.change('activate') == (True, 'active')
        assert world.until(world.heard_by)
        assert world.until(lambda: set(map_to_odom(world)) == set(before))
        for frame, one in map_to_odom(world).items():
            assert np.linalg.norm((one - before[frame])[:3, 3]) < 0.5
        world.play(scene.events[half:])
        assert world.until(
            lambda: world.counters()['odometry']['received'] == len(scene.odometry))
        world.solved()
        world.located()
        whole = world.node.pipeline.graph.n_poses
        assert whole > kept

        pids = [world.node.pipeline.worker.state.pid]
        epoch = world.status.map_epoch
        assert world.change('deactivate') == (True, 'inactive')
        assert world.change('cleanup') == (True, 'unconfigured')
        assert world.until(lambda: not any(map(alive, pids)))

        assert world.change('configure') == (True, 'inactive')
        world.heard['/sparser/status'].clear()
        assert world.change('activate') == (True, 'active')
        world.located()
        assert world.node.pipeline.graph.n_poses == whole
        assert world.status.map_epoch == epoch
        assert world.change('shutdown')[0]
        assert world.get_state().current_state.label == 'finalized'
        assert world.until(lambda: world.heard_by() == 0)


@pytest.mark.parametrize('label', ['deactivate', 'shutdown'])
def test_who_waits_for_a_service_is_answered_at_the_end(label):
    with ManagedWorld(THREAD) as world:
        assert world.change('configure')[0] and world.change('activate')[0]
        client = world.friend.create_client(Trigger, '/sparser/solve')
        assert world.until(client.service_is_ready)
        world.node.pipeline.release = lambda: False
        answer = client.call_async(Trigger.Request())
        world.spin(0.5)
        assert not answer.done() and world.change(label)[0]
        assert world.until(answer.done, 10.0)
        assert 'deactivated' in answer.result().message and not answer.result().success
        assert world.until(lambda: not client.service_is_ready())
        assert not world.node.times.errors


def test_what_cannot_be_configured_stays_unconfigured():
    with ManagedWorld({'node.map_file': '/nowhere/map'}) as world:
        assert world.change('configure') == (False, 'unconfigured')
        assert world.change('configure') == (False, 'unconfigured')
        assert world.heard_by() == 0


def test_the_executable_waits_for_a_manager_and_ends_as_it_is_told(tmp_path):
    command = [sys.executable, str(ROOT / 'scripts' / 'sparser_lifecycle_node')]
    with Child(command, tmp_path / 'log', isolated_environment()) as process:
        logged(process, 'waiting to be configured')
        process._signal(signal.SIGINT)
        assert ended(process) == 0, process.tail()
        assert 'Traceback' not in process.tail(100)
