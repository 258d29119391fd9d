"""Parameters come from the dataclasses: declared, described, checked, live where that is said."""

import contextlib
import sys

import pytest
import rclpy
import yaml
from node_world import World, parameters
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter

from sparser_ros.config import ConfigError, walk
from sparser_ros.config.option import nested
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.io.atomic import write_parameters
from sparser_ros.node.node import SparserNode
from sparser_ros.node.parameters import Parameters, read_files

QUIET = {'backend.worker': 'thread'}
OPTIONS = {option.name: option for option in walk(SparserConfig)}


@contextlib.contextmanager
def started(*arguments):
    """A node of that command line, without parameters of ours yet."""
    context = Context()
    rclpy.init(args=list(arguments), context=context)
    node = Node('sparser', context=context, start_parameter_services=False)
    try:
        yield node
    finally:
        node.destroy_node()
        context.try_shutdown()


@pytest.fixture(scope='module')
def node():
    with World(QUIET) as world:
        yield world.node


def test_every_option_is_declared_with_its_description(node):
    for option in walk(SparserConfig):
        if getattr(option.type, '__origin__', option.type) is dict:
            continue
        about = node.describe_parameter(option.name)
        assert about.description.startswith(option.info.doc), option.name
        assert about.read_only is not option.info.live
        if option.type is float and option.info.lower is not None:
            assert about.floating_point_range[0].from_value == option.info.lower


@pytest.mark.parametrize(('overrides', 'words'), [
    ({'node.solve_perod_s': 1.0}, ['node.solve_perod_s', 'node.solve_period_s']),
    ({'node.solve_period_s': 1}, ['node.solve_period_s', '1.0']),
    ({'node.solve_period_s': -1.0}, ['node.solve_period_s', 'below']),
    ({'radios.17.robt': 'A'}, ['radios.17', 'robt']),
    ({'ranges.inputs.mine.topic': '/x', 'ranges.inputs.mine.adapter': 'fields',
      'ranges.inputs.mine.type': 'no_such_package/msg/Thing',
      'ranges.inputs.mine.fields.source': 'a', 'ranges.inputs.mine.fields.target': 'b',
      'ranges.inputs.mine.fields.range': 'c'}, ['no_such_package']),
])
def test_wrong_parameters_are_refused_by_name(overrides, words):
    with pytest.raises(ConfigError) as caught:
        World(QUIET | overrides)
    for word in words:
        assert word in str(caught.value)


def test_robots_that_would_share_topics_are_refused():
    context = Context()
    rclpy.init(context=context)
    try:
        with pytest.raises(ConfigError, match=r"robots: .*'tug-3', 'tug_3'.*same topics"):
            SparserNode(context=context, parameter_overrides=parameters(
                QUIET | {'robots': ['tug-3', 'tug_3']}))
    finally:
        context.try_shutdown()


def test_live_options_change_and_others_do_not(node):
    (good,) = node.set_parameters([Parameter('node.solve_period_s', value=0.7)])
    assert good.successful, good.reason
    assert node.parameters.config.node.solve_period_s == 0.7
    assert node.pipeline.config.node.solve_period_s == 0.7
    for name, value in (('node.solve_period_s', -3.0), ('dimension', 3),
                        ('node.save_directory', '/elsewhere'),
                        ('solver.robust.kernel', 'nonsense'), ('node.solve_period_s', 'fast')):
        (bad,) = node.set_parameters([Parameter(name, value=value)])
        assert not bad.successful and bad.reason, name
    assert node.parameters.config.node.solve_period_s == 0.7
    assert node.parameters.config.solver.robust.kernel != 'nonsense'


def test_a_dump_can_be_loaded_again(tmp_path):
    """Values as `ros2 param dump` writes them, read by the parser of rcl; null is no value."""
    given = {'radios.17.robot': 'A', 'radios.17.lever_arm': [0.5, 0.0, 0.25],
             'ranges.time_offsets.A': 0.25, 'dimension': 3,
             'fixes.datum': None, 'fixes.lever_arms.A': [1.0, 0.0, 0.0],
             'ranges.inputs.mine.topic': '/x', 'ranges.inputs.mine.adapter': 'uwb_range'}
    with World(QUIET | given) as world:
        node, wanted = world.node, world.node.parameters.config
        values = {name: one.value for name, one in node.get_parameters_by_prefix('').items()}
    dump = nested({name: list(value) if hasattr(value, 'tolist') else value
                   for name, value in values.items()})
    assert dump['ranges']['inputs']['mine']['topic'] == '/x' and wanted.fixes.datum == []
    file = tmp_path / 'dump.yaml'
    file.write_text(yaml.safe_dump({'/sparser': {'ros__parameters': dump}}))
    with started('--ros-args', '--params-file', str(file)) as again:
        assert Parameters(again).config == wanted


def test_files_that_we_write_have_no_empty_groups(tmp_path):
    """The parser of rcl fails at `radios: {}`, as of a graph without beacons."""
    file = tmp_path / 'p.yaml'
    write_parameters(file, {
        'radios': {}, 'odometry': {'time_offsets': {}}, 'robots': ['A', 'B'], 'dimension': 3})
    with started('--ros-args', '--params-file', str(file)) as node:
        assert Parameters(node).config == SparserConfig.from_yaml(file)


def read(path, node='/sparser'):
    return read_files(
        ['node', '--ros-args', '--params-file', str(path)], node, OPTIONS)


@pytest.mark.parametrize(('name', 'fits'), [
    ('/**', True), ('sparser', False), ('/*/sparser', True), ('/*', False), ('/fleet/*', True)])
def test_names_and_wildcards(tmp_path, name, fits):
    """Our parameters under the name of no node of ours are an error, not a run on defaults."""
    file = tmp_path / 'p.yaml'
    file.write_text(f'{name}: {{ros__parameters: {{dimension: 3}}}}\n')
    if fits:
        assert read(file, '/fleet/sparser')[0] == {'dimension': 3}
        return
    with pytest.raises(ConfigError, match=name.strip('/').replace('*', r'\*')) as error:
        read(file, '/fleet/sparser')
    assert '/fleet/sparser' in str(error.value)


@pytest.mark.parametrize(('block', 'hints'), [
    ('slam_toolbox: {ros__parameters: {use_sim_time: true, odom_frame: odom, mode: mapping}}\n',
     ['slam_toolbox']),
    ('fleet: {sparser: {ros__parameters: {a: 1}}}\nrviz: {ros__parameters: {b: 1}}',
     ['fleet/sparser, /rviz']), ('', [])])
def test_files_of_other_nodes_leave_the_defaults(tmp_path, block, hints):
    file = tmp_path / 'p.yaml'
    file.write_text(block)
    written, told = read(file)
    assert not written
    assert all(words in hint for words, hint in zip(hints, told, strict=True))


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
    with started(*arguments) as node:
        config = Parameters(node).config
        assert node.get_parameter('robots').value == ['010', '17']
    assert config.robots == ['010', '17'] and config.backend.gauge_robot == '17'
    specs = config.radio_specs()
    assert {name: spec.beacon for name, spec in specs.items() if spec.beacon} == {
        name: name for name in ('0x6958', '1e52', 'n', '10.0.0.7')}
    assert specs['81:00'].robot == '17' and specs['0x6958'].position == [1.0, 2.0]
    assert config == SparserConfig.from_yaml(file)


def test_a_number_of_the_command_line_is_refused_with_both_spellings():
    with started('--ros-args', '-p', 'radios.a.beacon:=0x6958') as node, pytest.raises(
            ConfigError, match=r'radios\.a\.beacon: .*26968.*0x6958.*quotes'):
        Parameters(node)
