"""A map that was saved is the map of the next start."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from node_world import Scene, World

from sparser_ros.backend.session.solution import Fix, Location, RobotLocation
from sparser_ros.config import ConfigError, FormatError, SparserConfig, SparserError
from sparser_ros.graph.finding import Finding
from sparser_ros.io import atomic
from sparser_ros.io.beacon_file import read
from sparser_ros.node.saving import apart, found_map, found_radios, merged_radios, missing


def paths(world):
    """{(robot, stamp_ns): (2,)} of the newest solution."""
    solution = world.node.pipeline.solution
    graph = world.node.pipeline.store_of(solution.sequence).graph
    return {(graph.robots[robot], stamp): place for robot, stamp, place in zip(
        graph.poses.robot.tolist(), graph.poses.stamp_ns.tolist(), solution.estimate.translation,
        strict=True)}


def test_a_second_drive_is_located_in_the_map_of_the_first(tmp_path):
    scene = Scene()
    with World({'node.save_directory': str(tmp_path)}) as world:
        world.map_of(scene.events)
        answer = world.call('save')
        assert answer.success, answer.message
        first = paths(world)
    saved = read(answer.message, 2)
    assert len(saved) == 4 and all(0 < one['sigma_m'] < 1.0 for one in saved.values())
    half = scene.events[len(scene.events) // 2:]
    with World({'node.map_file': answer.message}) as world:
        world.map_of(half)
        second = paths(world)
    common = first.keys() & second.keys()
    errors = [np.linalg.norm(second[key] - first[key]) for key in common]
    assert len(common) > 50
    assert np.mean(errors) < 0.2, 'same data, same map: what differs is how much of them'


def test_another_process_says_why_it_failed(tmp_path):
    """An exception that does not unpickle, or a process that dies, was a broken pool."""
    (tmp_path / 'file').write_text('')
    place = tmp_path / 'file' / 'maps' / 'map'
    with pytest.raises(FormatError, match=r'map: cannot be written: Not a directory') as info:
        apart(atomic.write_text, place, '')
    assert (info.value.path, info.value.line) == (place, None)
    with pytest.raises(SparserError, match='was killed before the end'):
        apart(os._exit, 3)


def test_a_save_says_what_it_lacks():
    robots = (RobotLocation('A', Location.LOCATED),
              RobotLocation('B', Location.UNLOCATED, 'too few'))
    half = SimpleNamespace(robots=robots, landmark_located=np.array([True, False, False]),
                           fixes={'A': Fix.FIXED, 'B': Fix.NONE})
    assert missing(half, ['L0', 'L1', 'L2']) == [
        'no trajectory of B, which is unlocated (too few)',
        '2 of 3 beacons are not located: L1, L2']
    half.fixes['B'] = Fix.FLOAT
    assert missing(half, ['L0', 'L1', 'L2'])[0] == (
        'only an uncertain trajectory of B, which is unlocated (too few)')
    none = SimpleNamespace(robots=robots[:1], landmark_located=np.zeros(1, dtype=bool),
                           fixes={'A': Fix.FIXED})
    assert missing(none, ['L0']) == [
        'no beacon is located, so that no node can start in this map']


@pytest.mark.parametrize(('name', 'text', 'reason'), [
    ('/dev/zero', '', 'pipe or socket'), ('hall', '', 'there are: late, early'),
    ('', '', 'there are: late, early'), ('~nobody-of-this-name/x', '', 'no name of a map'),
    ('late', '&a [*a]', 'values'), ('late', '/**: {ros__parameters: {}}', 'the map has no beacon'),
    ('late', '/**: {ros__parameters: {radios: {A: {position: [1.0, 2.0]}}}}', "'A' is a robot")])
def test_a_map_that_is_none_is_refused_with_the_reason(tmp_path, name, text, reason):
    for number, folder in enumerate(('early', 'late')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'beacons.yaml').write_text(text)
        os.utime(tmp_path / folder, (number, number))
    config = SparserConfig.from_mapping(
        {'robots': ['A'], 'node': {'save_directory': str(tmp_path)}})
    with pytest.raises(SparserError, match=reason):
        found_map(config, name)


def test_configured_positions_stay():
    saved = {'L0': {'beacon': 'L0', 'position': [1.0, 1.0], 'sigma_m': 0.1},
             'L1': {'beacon': 'L1', 'position': [2.0, 2.0], 'sigma_m': 0.2}}
    radios = merged_radios(
        {'17': {'beacon': 'L0', 'bias_m': 0.3},
         'L1': {'beacon': 'L1', 'position': [5.0, 5.0]}}, saved)
    assert radios['17'] == {
        'beacon': 'L0', 'bias_m': 0.3, 'position': [1.0, 1.0], 'sigma_m': 0.1}
    assert radios['L1']['position'] == [5.0, 5.0] and len(radios) == 2
    # A name stands for one radio: that of the parameters is not overwritten.
    for owner in ({'robot': 'A'}, {'beacon': 'A'}):
        with pytest.raises(ConfigError, match=r'radios\.L0 is a radio of A, not beacon L0'):
            merged_radios({'L0': owner}, saved)


@pytest.mark.parametrize(('findings', 'saved'), [
    ([], {}),
    ([('radio_bias', 'A', 0.25), ('radio_bias', 'L0', -0.05), ('range_bias', 'L3', 1.0)], {
        '7': {'robot': 'A', 'bias_m': 0.35, 'lever_arm': [0.1, 0.0, 0.5]},
        '8': {'robot': 'A', 'bias_m': 0.25}, '9': {'beacon': 'L3'},
        'L0': {'beacon': 'L0', 'bias_m': -0.05}}),
    # A length of all is of those that have no bias of their own.
    ([('radio_bias', 'all radios', 0.15), ('radio_bias', 'B', 0.4)], {
        '7': {'robot': 'A', 'bias_m': 0.25, 'lever_arm': [0.1, 0.0, 0.5]},
        '8': {'robot': 'A', 'bias_m': 0.15}, '9': {'beacon': 'L3'},
        'B': {'robot': 'B', 'bias_m': 0.4}, 'L0': {'beacon': 'L0', 'bias_m': 0.15}}),
    ([('antenna_y', 'A', -0.3), ('antenna_x', 'B', 0.2)], {
        '7': {'robot': 'A', 'bias_m': 0.1, 'lever_arm': [0.1, -0.3, 0.5]},
        '8': {'robot': 'A', 'lever_arm': [0.0, -0.3]}, '9': {'beacon': 'L3'},
        'B': {'robot': 'B', 'lever_arm': [0.2, 0.0]}})])
def test_what_the_calibration_has_found_is_saved_on_top_of_what_is_configured(findings, saved):
    config = SparserConfig.from_mapping({'robots': ['A', 'B'], 'radios': {
        '7': {'robot': 'A', 'bias_m': 0.1, 'lever_arm': [0.1, 0.0, 0.5]}, '8': {'robot': 'A'},
        '9': {'beacon': 'L3'}}})
    graph = SimpleNamespace(
        robots=('A', 'B'), landmarks=SimpleNamespace(names=('L0',)), dimension=2)
    assert found_radios(config, graph, SimpleNamespace(findings=tuple(
        Finding(kind, subject, '', value, 'm') for kind, subject, value in findings))) == saved
