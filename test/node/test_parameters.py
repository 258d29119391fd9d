"""Parameters come from the dataclasses: declared, described, checked, live where that is said."""

import pytest

pytest.importorskip('rclpy', reason='needs rclpy')
pytest.importorskip('sparser_ros.msg', reason='needs the built messages')

import rclpy
import yaml
from node_world import World
from rcl_interfaces.msg import ParameterType
from rclpy.context import Context
from rclpy.parameter import Parameter

from sparser_ros.config import ConfigError, walk
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.node.parameters import Parameters

pytestmark = pytest.mark.timeout(60)
QUIET = {'backend.worker': 'thread'}


@pytest.fixture(scope='module')
def node():
    with World(QUIET | {
        'radios.17.robot': 'A', 'radios.17.lever_arm': [0.5, 0.0, 0.25],
        'ranges.time_offsets.A': 0.25,
    }) as world:
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


def test_mappings_take_any_names(node):
    specs = node.parameters.config.radio_specs()
    assert specs['17'].robot == 'A' and specs['17'].lever_arm == [0.5, 0.0, 0.25]
    assert node.parameters.config.ranges.time_offsets == {'A': 0.25}
    assert node.describe_parameter('radios.17.robot').type == ParameterType.PARAMETER_STRING


@pytest.mark.parametrize(('overrides', 'words'), [
    ({'node.solve_perod_s': 1.0}, ['node.solve_perod_s', 'node.solve_period_s']),
    ({'node.solve_period_s': 1}, ['node.solve_period_s', '1.0']),
    ({'node.solve_period_s': -1.0}, ['node.solve_period_s', 'below']),
    ({'dimension': 4}, ['dimension', '2, 3']),
    ({'radios.17.robt': 'A'}, ['radios.17', 'robt']),
    ({'radios.17.robot': 'Z'}, ['radios.17.robot', 'Z']),
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


def test_what_a_dump_writes_for_no_value_is_no_value():
    """`ros2 param dump` writes null for options that have none."""
    with World(QUIET | {'fixes.datum': None, 'fixes.lever_arms.A': [1.0, 0.0]}) as world:
        assert world.node.parameters.config.fixes.datum == []


def test_live_options_change_and_others_do_not(node):
    (good,) = node.set_parameters([Parameter('node.solve_period_s', value=0.7)])
    assert good.successful, good.reason
    assert node.parameters.config.node.solve_period_s == 0.7
    assert node.pipeline.config.node.solve_period_s == 0.7
    for name, value in (('node.solve_period_s', -3.0), ('dimension', 3),
                        ('solver.robust.kernel', 'nonsense'), ('node.solve_period_s', 'fast')):
        (bad,) = node.set_parameters([Parameter(name, value=value)])
        assert not bad.successful and bad.reason, name
    assert node.parameters.config.node.solve_period_s == 0.7
    assert node.parameters.config.solver.robust.kernel != 'nonsense'


def test_a_dump_can_be_loaded_again(tmp_path):
    """Values as `ros2 param dump` writes them, read by the parser of rcl."""
    given = {'radios.17.robot': 'A', 'radios.17.lever_arm': [0.5, 0.0, 0.25],
             'ranges.time_offsets.A': 0.25, 'dimension': 3,
             'ranges.inputs.mine.topic': '/x', 'ranges.inputs.mine.adapter': 'uwb_range'}
    with World(QUIET | given) as world:
        node, wanted = world.node, world.node.parameters.config
        dump = {}
        for name in sorted(node.get_parameters_by_prefix('')):
            value, place = node.get_parameter(name).value, dump
            *path, last = name.split('.')
            for part in path:
                place = place.setdefault(part, {})
            place[last] = list(value) if hasattr(value, 'tolist') else value
    assert dump['ranges']['inputs']['mine']['topic'] == '/x'
    file = tmp_path / 'dump.yaml'
    file.write_text(yaml.safe_dump({'/sparser': {'ros__parameters': dump}}))
    context = Context()
    rclpy.init(args=['--ros-args', '--params-file', str(file)], context=context)
    try:
        again = rclpy.create_node('sparser', context=context)
        loaded = Parameters(again).config
        again.destroy_node()
    finally:
        rclpy.try_shutdown(context=context)
    assert loaded == wanted
