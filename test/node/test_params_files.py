"""Parameter files as ROS does not tell: those of other nodes, and names as they were written."""

import sys

import pytest

pytest.importorskip('rclpy', reason='needs rclpy')
pytest.importorskip('sparser_ros.msg', reason='needs the built messages')

import rclpy
from rclpy.context import Context
from rclpy.node import Node

from sparser_ros.config import ConfigError, walk
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.node.parameters import Parameters, read_files

OPTIONS = {option.name: option for option in walk(SparserConfig)}


def read(path, node='/sparser'):
    return read_files(
        ['node', '--ros-args', '--params-file', str(path)], node, OPTIONS)


@pytest.mark.parametrize(('name', 'fits'), [
    ('/**', True), ('sparser', False), ('/fleet/sparser', True), ('/*/sparser', True),
    ('/**/sparser', True), ('/*', False), ('sparser_node', False), ('/fleet/*', True)])
def test_names_and_wildcards(tmp_path, name, fits):
    """Our parameters under the name of no node of ours are an error, not a run on defaults."""
    file = tmp_path / 'p.yaml'
    file.write_text(f'{name}: {{ros__parameters: {{dimension: 3}}}}\n')
    if fits:
        assert read(file, '/fleet/sparser').written == {'dimension': 3}
        return
    with pytest.raises(ConfigError, match=name.strip('/').replace('*', r'\*')) as error:
        read(file, '/fleet/sparser')
    assert '/fleet/sparser' in str(error.value)


def test_nested_names_and_files_of_several_nodes(tmp_path):
    file = tmp_path / 'p.yaml'
    file.write_text('fleet: {sparser: {ros__parameters: {a: 1}}}\nrviz: {ros__parameters: {b: 1}}')
    assert read(file, '/fleet/sparser').written == {'a': 1}
    hint, = read(file).hints
    assert 'fleet/sparser, /rviz' in hint


@pytest.mark.parametrize('block', [
    'slam_toolbox: {ros__parameters: {use_sim_time: true, odom_frame: odom, mode: mapping}}\n',
    'fleet: {ros__parameters: {robots: [A], rate: 1.0, base: x}}\n',
    'rviz: {ros__parameters: {use_sim_time: true}}\n', ''])
def test_files_of_other_nodes_leave_the_defaults(tmp_path, block):
    file = tmp_path / 'p.yaml'
    file.write_text(block)
    files = read(file)
    assert not files.written and len(files.hints) == bool(block)


def test_what_ros_reads_silently_is_refused(tmp_path):
    file = tmp_path / 'p.yaml'
    file.write_text('/**:\n  ros__parameters:\n    dimension: 3\n    dimension: 2\n')
    with pytest.raises(ConfigError, match=r'p.yaml:3: .dimension. stands there twice.*3.*4'):
        read(file)


def test_names_stay_as_written_in_the_node(tmp_path, monkeypatch):
    """The parser of ROS reads 0x6958 as 26968, 010 as 8, n as false and 1e52 as a float."""
    file = tmp_path / 'p.yaml'
    file.write_text(
        '/**:\n  ros__parameters:\n    robots: [010, 17]\n    backend:\n      gauge_robot: 17\n'
        '    radios:\n      81:00:\n        robot: 17\n        lever_arm: [0.0, 0.0, 0.25]\n'
        '      0x6958:\n        beacon: 0x6958\n        position: [1.0, 2.0]\n'
        '      1e52:\n        beacon: 1e52\n      n:\n        beacon: n\n'
        '      10.0.0.7:\n        beacon: 10.0.0.7\n')
    arguments = ['--ros-args', '--params-file', str(file)]
    monkeypatch.setattr(sys, 'argv', ['node', *arguments])
    context = Context()
    rclpy.init(args=arguments, context=context)
    node = Node('sparser', context=context, start_parameter_services=False)
    try:
        config = Parameters(node).config
        assert node.get_parameter('robots').value == ['010', '17']
    finally:
        node.destroy_node()
        context.try_shutdown()
    assert config.robots == ['010', '17'] and config.backend.gauge_robot == '17'
    specs = config.radio_specs()
    assert {name: spec.beacon for name, spec in specs.items() if spec.beacon} == {
        name: name for name in ('0x6958', '1e52', 'n', '10.0.0.7')}
    assert specs['81:00'].robot == '17' and specs['0x6958'].position == [1.0, 2.0]
    assert config == SparserConfig.from_yaml(file)


def test_a_number_of_the_command_line_is_refused_with_both_spellings():
    context = Context()
    rclpy.init(args=['--ros-args', '-p', 'radios.a.beacon:=0x6958'], context=context)
    node = Node('sparser', context=context, start_parameter_services=False)
    try:
        with pytest.raises(ConfigError, match=r'radios\.a\.beacon: .*26968.*0x6958.*quotes'):
            Parameters(node)
    finally:
        node.destroy_node()
        context.try_shutdown()
