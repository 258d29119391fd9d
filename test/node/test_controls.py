"""What an operator says about measurements is followed, answered, listed, logged and told."""

import os

import numpy as np
import pytest
from node_world import Scene, World
from sparser_ros.srv import MapName, Measurements, Rejected

from sparser_ros.io.beacon_file import read


def test_what_is_ignored_leaves_the_map_survives_a_resume_and_is_revived(tmp_path):
    scene = Scene()
    journal = {'node.journal.directory': str(tmp_path)}
    half = len(scene.events) // 2
    with World(journal) as world:
        ask = world.asker(Measurements, 'measurements')
        early = ask(action='ignore', kind='pair', names=['A', 'B'])
        assert early.success and 'no map yet' in early.message
        world.map_of(scene.events[:half])
        assert world.node.pipeline.solution.ruled == 1
        assert any('ranges between A and B' in text for text in world.status.rulings)
        for wrong, word in (
            ({'action': 'forget', 'kind': 'radio', 'names': ['A']}, 'expected ignore'),
            ({'action': 'ignore', 'kind': 'radio', 'names': ['Z']}, "no radio 'Z'"),
            ({'action': 'ignore', 'kind': 'odometry', 'names': ['A']}, 'doubt it'),
            ({'action': 'revive', 'kind': 'pair', 'names': ['A', 'L0']}, 'not ignored'),
            ({'action': 'revive', 'kind': 'all', 'names': ['B']}, 'takes no names'),
        ):
            answer = ask(**wrong)
            assert not answer.success and word in answer.message, answer
        answer = ask(action='ignore', kind='robot', names=['B'])
        assert answer.success and answer.count > 50 and 'the map follows' in answer.message
        assert world.until(lambda: world.status.robots_located == 1)
        assert 'ignored by the operator: all of B but its odometry' in world.status.text
        # Nobody goes on seeing where it was.
        assert world.until(lambda: not world.heard['/sparser/path/B'][-1].poses)
        assert world.heard['/sparser/path/A'][-1].poses
    with World({**journal, 'node.journal.resume': True, 'frames.map': 'hall'}) as world:
        # What is told of other values holds for what is published, too.
        world.told("frames.map = 'map' (now 'hall')")
        assert world.status.header.frame_id == 'map'
        world.play(scene.events[half:])
        world.solved()
        assert world.until(lambda: world.status.robots_located == 1)
        assert len(world.status.rulings) == 2
        states = dict(zip(world.status.robot_names, world.status.robot_states, strict=True))
        assert states == {'A': 'located', 'B': 'unlocated'}
        listed = world.asker(Rejected, 'rejected')(name='B', most=7)
        assert listed.success and len(listed.measurements) == 7 < listed.total
        assert {one.reason for one in listed.measurements} == {'ignored by the operator'}
        answer = world.asker(Measurements, 'measurements')(
            action='revive', kind='robot', names=['B'])
        assert answer.success, answer
        world.located()
        assert [text for text in world.status.rulings if 'all of B' in text] == []


def test_rejected_ranges_are_listed():
    scene, wrong = Scene(), []
    half = len(scene.events) // 2
    for number, (_, topic, message) in enumerate(scene.events[:half]):
        if topic == '/uwb/ranges' and number % 10 == 0:
            message.range += 6.0
            wrong.append(message)
    with World() as world:
        world.map_of(scene.events[:half])
        unknown = world.asker(Rejected, 'rejected')(name='L17')
        assert not unknown.success and unknown.message == (
            "no robot, beacon or radio 'L17'; there are: A, B, L0, L1, L2, L3")
        answer = world.asker(Rejected, 'rejected')()
        assert answer.success and answer.total == len(answer.measurements), answer.message
        pairs = {(one.source, one.target) for one in wrong}
        residuals = np.array([one.residual for one in answer.measurements])
        assert len(residuals) >= 0.8 * len(wrong)
        assert np.median(residuals) == pytest.approx(-6.0, abs=0.5)
        for one in answer.measurements:
            assert one.kind == 'range' and one.weight < 0.1 and one.sigmas > 3
            assert {(one.source, one.target), (one.target, one.source)} & pairs
            assert one.stamp.sec > 0 and one.reason
        sigmas = [one.sigmas for one in answer.measurements]
        assert sigmas == sorted(sigmas, reverse=True)


def assert_beacons_at(places, world):
    pipeline = world.node.pipeline
    for name, place in zip(pipeline.graph.landmarks.names,
                           pipeline.solution.estimate.landmarks, strict=True):
        assert np.linalg.norm(place - places[name]) < 0.5


def test_a_map_is_saved_by_name_and_loaded_into_the_running_node(tmp_path):
    scene = Scene()
    half = len(scene.events) // 2
    folders = {'node.save_directory': str(tmp_path / 'maps'),
               'node.journal.directory': str(tmp_path / 'journal')}
    with World(folders) as world:
        save, load = world.asker(MapName, 'save_as'), world.asker(MapName, 'load')
        assert 'nothing to save' in save(name='hall').message
        assert 'cannot be read' in load(name='hall').message
        world.map_of(scene.events[:half])
        assert world.until(lambda: np.all(world.node.pipeline.solution.landmark_located))
        for name in ('../hall', '/tmp/hall', '', '.hall', 'a/b'):
            assert not save(name=name).success
        answer = save(name='hall')
        assert answer.success and answer.message == str(tmp_path / 'maps' / 'hall')
        again = save(name='hall')
        assert not again.success and 'exists already' in again.message
        before = world.status.map_epoch
        found = {name: radio['position'] for name, radio in read(answer.message, 2).items()}
        answer = load(name='hall')
        assert answer.success and '4 beacons are known' in answer.message
        assert world.until(lambda: world.status.keyframes == 0
                           and world.status.map_epoch > before)
        world.map_of(scene.events[half:])
        assert_beacons_at(found, world)
        epoch = world.status.map_epoch
    with World({**folders, 'node.journal.resume': True}) as world:
        world.solved()
        world.located()
        assert not [text for text in world.status.findings if 'goes on with' in text]
        assert world.status.map_epoch == epoch > 0
        assert_beacons_at(found, world)


def test_a_bad_map_changes_nothing_and_holds_up_nobody(tmp_path):
    """Maps are read in another process, and nothing that is no map is waited for."""
    scene, maps = Scene(), tmp_path / 'maps'
    for name, text in (
        ('nested', '[' * 20_000), ('short', '/**: {ros__parameters: {radios: {' + ', '.join(
            f'L{k}: {{position: [1.0, {k}]}}' for k in range(3000))),
    ):
        (maps / name).mkdir(parents=True)
        (maps / name / 'beacons.yaml').write_text(text)
    os.mkfifo(tmp_path / 'pipe')
    with World({'node.save_directory': str(maps)}) as world:
        world.map_of(scene.events)
        load, pipeline = world.asker(MapName, 'load'), world.node.pipeline
        keyframes = pipeline.graph.n_poses
        for name, reason in ((str(tmp_path / 'pipe'), 'pipe or socket'), ('nested', 'depth'),
                             ('short', 'not YAML')):
            before = len(world.heard['/tf'])
            answer = load(name=name)
            assert len(world.heard['/tf']) > before, f'TF stood still while {name} was read'
            assert not answer.success and 'nothing has changed' in answer.message
            assert reason in answer.message, answer.message
        assert pipeline.graph.n_poses >= keyframes
        world.located()
