"""In space, with beacons at known positions: the map frame is theirs."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs rclpy')
pytest.importorskip('sparser_ros.msg', reason='needs the built messages')
pytest.importorskip('tf2_msgs', reason='needs tf2_msgs')

from dataclasses import replace

from node_world import SCENE, START_S, Scene, World, transform_of

from sparser_ros.io.simulation import node_config
from sparser_ros.node.messages import stamp_ns

pytestmark = pytest.mark.timeout(2 * START_S)


def test_known_beacons_fix_the_map_in_space():
    scene = Scene(replace(SCENE, dimension=3, beacons=8, known_beacons=8))
    radios = {
        f'radios.{name}.{field}': value
        for name, spec in node_config(scene.run)['radios'].items()
        for field, value in spec.items()}
    with World({'dimension': 3, **radios}) as world:
        world.play(scene.events)
        world.solved()
        world.located()
        world.spin(0.5)
        for robot in 'AB':
            poses = world.heard[f'/sparser/path/{robot}'][-1].poses
            truth = scene.truth(robot)
            seen = np.array([[p.pose.position.x, p.pose.position.y, p.pose.position.z]
                             for p in poses])
            true = np.array([truth[stamp_ns(p.header.stamp)] for p in poses])
            assert np.median(np.linalg.norm(seen - true, axis=1)) < 0.3
            odometry = scene.odometry[robot, stamp_ns(poses[-1].header.stamp)]
            T_map_odom = next(t for _, frame, t in reversed(world.transforms())
                              if frame == f'{robot}/odom')
            np.testing.assert_allclose(
                (T_map_odom @ transform_of(odometry.pose.pose)).translation, seen[-1], atol=1e-6)
