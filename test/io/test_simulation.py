"""The simulation: deterministic, true to its noise, the bag and the graph tell the same."""

import dataclasses

import numpy as np
import pytest

from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.graph import estimate_of, range_residuals, squared_residuals
from sparser_ros.io import simulation
from sparser_ros.io.bag import BagReader
from sparser_ros.io.simulation import START_NS, Simulation

SHORT = SimulationConfig(minutes=1.0, outliers=0.0)


def changed(**options):
    return Simulation(dataclasses.replace(SHORT, **options))


def test_same_seed_same_data(tmp_path):
    raw = []
    for name in ('one', 'two'):
        simulation.write_bag(tmp_path / name, changed(outliers=0.1, closures=4))
        raw.append([(m.topic, m.bag_time_ns, bytes(m.raw)) for m in BagReader(tmp_path / name)])
    assert raw[0] == raw[1]
    other = changed(seed=1).tracks[0].translation
    assert not np.array_equal(changed().tracks[0].translation, other)


def test_noise_is_as_announced(d):
    run = changed(dimension=d, minutes=4.0, odometry_rate=20.0, closures=30)
    graph = simulation.graph_of(run).validate()
    squares = squared_residuals(graph, estimate_of(graph))
    odometry = graph.relative_poses.odometry
    # d axes of translation, and as many of rotation as kappa counts (twice one in 2D).
    freedom = {2: 2 + 2, 3: 3 + 3}[d]
    assert np.mean(squares['relative_poses'][odometry]) == pytest.approx(freedom, rel=0.05)
    assert np.mean(squares['relative_poses'][~odometry]) == pytest.approx(freedom, rel=0.5)
    assert np.mean(squares['ranges']) == pytest.approx(1, rel=0.1)


def test_outliers_are_too_long_and_false_closures_false():
    run = changed(outliers=0.3, minutes=5.0, closures=40, false_closures=0.25)
    graph = simulation.graph_of(run)
    excess = -range_residuals(graph, estimate_of(graph))
    wrong = run.exchanges.outlier
    assert np.mean(wrong) == pytest.approx(0.3, abs=0.05)
    assert np.mean(excess[wrong]) == pytest.approx(8.0, rel=0.25)
    assert abs(np.mean(excess[~wrong])) < 0.1
    squares = squared_residuals(graph, estimate_of(graph))['relative_poses']
    closures = squares[~graph.relative_poses.odometry]
    assert len(closures) == 40 and run.false_closures.sum() == 10
    assert np.array_equal(closures > 100, run.false_closures)


def test_lever_arms_are_in_the_ranges():
    run = changed(lever_arm=3.0)
    graph = simulation.graph_of(run)
    with_arms = squared_residuals(graph, estimate_of(graph))['ranges']
    without = graph.replaced(ranges=graph.ranges.replaced(
        lever_source=0 * graph.ranges.lever_source, lever_target=0 * graph.ranges.lever_target))
    assert np.mean(with_arms) < 1.5
    assert np.mean(squared_residuals(without, estimate_of(graph))['ranges']) > 3
    assert simulation.node_config(run)['radios']['A'] == {
        'robot': 'A', 'lever_arm': [3.0, 0.0, 0.0]}


def test_bag_matches_the_graph(tmp_path):
    run = changed(known_beacons=2, closures=3)
    counts = simulation.write_bag(tmp_path / 'bag.mcap', run)
    graph = simulation.graph_of(run)
    reader = BagReader(tmp_path / 'bag.mcap')
    assert counts['odometry'] == graph.n_poses == sum(
        reader.counts[f'/{robot}/odom'] for robot in 'ABC')
    assert counts['ranges'] == len(graph.ranges) == reader.counts['/uwb/ranges']
    assert reader.counts['/loop_closures'] == 3
    assert graph.landmarks.fixed.tolist() == [True] * 2 + [False] * 4
    assert reader.start_ns >= START_NS
    truth = next(iter(reader.messages(['/A/ground_truth']))).msg
    assert (truth.header.frame_id, truth.child_frame_id) == ('map', 'A/base_link')
    np.testing.assert_allclose(
        [truth.pose.pose.position.x, truth.pose.pose.position.y], graph.poses.translation[0])


def test_robots_in_space_know_the_vertical_and_their_height():
    run = changed(dimension=3, minutes=5.0)
    for track, level, motion in zip(run.tracks, run.levels, run.motions, strict=True):
        assert 0 < track.true_translation[:, 2].min() < 1.5
        assert 4.5 < track.true_translation[:, 2].max() < simulation.CEILING_M
        up, true = track.rotation[:, 2], track.true_rotation[:, 2]
        tilt = np.linalg.norm(up - true, axis=1) / np.sqrt(2)
        assert np.sqrt(np.mean(tilt**2)) == pytest.approx(run.config.tilt_sigma, rel=0.3)
        # It does not grow with the way, as that of the heading does.
        assert np.mean(tilt[-600:]) < 2 * np.mean(tilt)
        seconds = (level.height_stamp_ns - START_NS) / 1e9
        error = level.height_m - motion.poses(seconds)[1][:, 2]
        assert np.std(error) == pytest.approx(run.config.height_sigma, rel=0.2)
    low, high = simulation.BEACON_HEIGHTS_M
    assert np.all((run.beacons[:, 2] >= low) & (run.beacons[:, 2] <= high))
    config = simulation.node_config(run)
    assert config['odometry']['vertical'] == 'gravity'
    assert config['heights']['inputs']['altimeter']['sigma_m'] == run.config.height_sigma
    bare = changed(dimension=3, no_gravity=True, no_altimeter=True, imu=True)
    config = simulation.node_config(bare)
    assert config['odometry']['vertical'] == 'free'
    assert 'heights' not in config
    assert config['attitudes']['topic'] == '/{robot}/imu'
    np.testing.assert_allclose(bare.tracks[0].rotation[0], np.eye(3))
    assert len(bare.levels[0].attitude) and not len(bare.levels[0].height_m)
