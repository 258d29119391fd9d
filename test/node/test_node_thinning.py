"""A whole node whose keyframes are thinned while it drives: nobody who listens notices."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs rclpy')
pytest.importorskip('sparser_ros.msg', reason='needs the built messages')
pytest.importorskip('tf2_msgs', reason='needs tf2_msgs')

from node_world import START_S, Scene, World

from sparser_ros.io import pyfg
from sparser_ros.node.messages import stamp_ns

pytestmark = pytest.mark.timeout(2 * START_S)
MOST = 120


def test_located_robots_stay_located_while_keyframes_go(tmp_path):
    scene = Scene()
    cut = len(scene.events) // 4
    with World({'keyframes.max_count': MOST, 'odometry.history_s': 2.0,
                'node.save_directory': str(tmp_path / 'maps')}) as world:
        pipeline = world.node.pipeline
        world.play(scene.events[:cut])
        world.solved()
        world.located()
        before = len(world.heard['/sparser/status'])
        known = pipeline.frontend.thinnings
        for end in np.linspace(cut, len(scene.events), 11).astype(int)[1:].tolist():
            world.play(scene.events[cut:end])
            sent = sum('odom' in topic for _, topic, _ in scene.events[:end])
            assert world.until(lambda: world.counters()['odometry']['received'] == sent)  # noqa: B023
            world.solved()
            cut = end
        assert pipeline.frontend.thinnings >= known + 3
        later = world.heard['/sparser/status'][before:]
        assert {one.robots_located for one in later} == {2}
        assert len({one.map_epoch for one in later}) == 1
        assert later[-1].keyframes <= 1.3 * MOST
        for robot in 'AB':
            path = world.heard[f'/sparser/path/{robot}'][-1]
            stamps = [stamp_ns(one.header.stamp) for one in path.poses]
            assert np.all(np.diff(stamps) > 0)
            assert stamps[0] == min(
                stamp for name, stamp in scene.odometry if name == robot)
        answer = world.call('save')
        assert answer.success, answer.message
        graph = pyfg.read(f'{answer.message}/map.pyfg')
        assert graph.n_poses == len(pipeline.solution.estimate.translation)
