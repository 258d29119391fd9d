"""The configuration as a whole: files as people write them, errors that name parameter or line."""

import json
import pickle
import time
from pathlib import Path

import pytest
import yaml
from scipy.stats import rayleigh

from sparser_ros.config import ConfigError, SparserConfig, walk
from sparser_ros.config.sparser import load_yaml
from sparser_ros.config.yaml_file import text_of

CONFIG = Path(__file__).parents[2] / 'config'
NAMES = ('81:00', '0x6958', '010', '1e52', '12_34', 'yes', 'n', 'null', '2024-01-01', '10.0.0.7',
         '.5', '0b11', 'inf', '1.10', '~')
OURS = '  ros__parameters:\n    robots: [A]\n    radios:\n      t: {robot: A}\n'


@pytest.mark.parametrize('name', ['sparser', 'outfinite', 'tiers'])
def test_ros_can_read_the_shipped_files(name):
    """No null and no empty list, and every float with a point."""
    data = yaml.safe_load((CONFIG / f'{name}.yaml').read_text(encoding='utf-8'))
    assert list(data) == ['/**']
    text = json.dumps(data)
    assert 'null' not in text and '[]' not in text
    SparserConfig.from_yaml(CONFIG / f'{name}.yaml')


def test_the_reference_file_says_every_default():
    assert SparserConfig.from_yaml(CONFIG / 'sparser.yaml') == SparserConfig()
    text = (CONFIG / 'sparser.yaml').read_text(encoding='utf-8')
    parameters = yaml.safe_load(text)['/**']['ros__parameters']
    for option in walk(SparserConfig):
        value = parameters
        for part in option.name.split('.'):
            value = value.get(part) if isinstance(value, dict) else None
        assert f'{option.name.rpartition(".")[2]}:' in text
        assert option.type is not float or isinstance(value, float), option.name


def test_both_forms_and_dotted_names(tmp_path):
    plain = {'robots': ['A', 'B'], 'ranges': {'max_m': 50.0}, 'radios': {17: {'robot': 'B'}}}
    ros = {'/**': {'ros__parameters': {'use_sim_time': True, 'robots': ['A', 'B'],
                                       'ranges.max_m': 50.0}},
           'sparser': {'ros__parameters': {'radios.17.robot': 'B',
                                           'qos_overrides': {'/x': {'depth': 1}}}}}
    configs = []
    for number, data in enumerate((plain, ros)):
        path = tmp_path / f'{number}.yaml'
        path.write_text(yaml.safe_dump(data), encoding='utf-8')
        configs.append(SparserConfig.from_yaml(path))
    assert configs[0] == configs[1]
    assert configs[0].radio_specs()['17'].robot == 'B'
    assert pickle.loads(pickle.dumps(configs[0])) == configs[0]


@pytest.mark.parametrize(('values', 'text'), [
    ({'dimension': 4}, 'dimension'),
    ({'robots': ['A', 'A']}, 'robots'),
    ({'odometry': {'topic': '/odom'}, 'robots': ['A', 'B']}, 'odometry.topic'),
    ({'keyframe': {'distance_m': 1.0}}, 'did you mean keyframes.distance_m'),
    ({'keyframes': {'distance_m': -1.0}}, 'keyframes.distance_m'),
    ({'ranges': {'merge_window_s': 0.06}}, 'ranges.merge_window_s'),
    ({'ranges': {'min_m': 5.0, 'max_m': 4.0}}, 'ranges.min_m'),
    ({'ranges': {'nlos': 'maybe'}}, 'ranges.nlos'),
    ({'radios': {'17': 'A'}}, 'radios.17'),
    ({'radios': {'17': {'robot': 'A', 'beacon': 'L'}}}, 'radios.17'),
    ({'radios': {'17': {'robot': 'Z'}}}, 'radios.17.robot'),
    ({'radios': {'17': {'robt': 'A'}}}, 'did you mean radios.17.robot'),
    ({'radios': {'17': {'robot': 'A', 'lever_arm': [1.0]}}}, 'radios.17.lever_arm'),
    ({'radios': {'17': {'robot': 'A', 'position': [1.0, 2.0]}}}, 'radios.17'),
    ({'radios': {'17': {'beacon': 'L', 'lever_arm': [1.0, 2.0]}}}, 'radios.17.lever_arm'),
    ({'radios': {'17': {'beacon': 'L', 'position': [1.0, 2.0]}}, 'dimension': 3},
     'radios.17.position'),
    ({'ranges': {'inputs': {'x': {'adapter': 'pair_topic', 'topic': '/a(b'}}}},
     'ranges.inputs.x.topic'),
    ({'ranges': {'inputs': {'x': {'adapter': 'fields', 'topic': '/a', 'type': 'a/msg/B',
                                  'fields': {'range': 'r', 'target': 't'}}}}},
     'ranges.inputs.x.fields.source'),
    ({'ranges': {'inputs': {'x': {'adapter': 'fields', 'topic': '/a', 'type': 'a/msg/B',
                                  'fields': {'rang': 'r'}}}}}, 'ranges.inputs.x.fields.rang'),
    ({'ranges': {'inputs': {'x': {'adapter': 'morse'}}}}, 'ranges.inputs.x.adapter'),
    ({'closures': {'inputs': {'x': {'adapter': 'rtabmap', 'topic': '/mapData'}}},
      'robots': ['A', 'B']}, 'closures.inputs.x.topic'),
    ({'closures': {'inputs': {'x': {'adapter': 'kimera', 'robots': {'0': 'Z'}}}}},
     "closures.inputs.x.robots: 'Z'"),
    ({'odometry': {'time_offsets': {'A': 'late'}}}, 'odometry.time_offsets.A'),
    ({'fixes': {'topic': '/{robot}/gps', 'type': 'sensor_msgs/msg/NavSatFix'}}, 'fixes.datum'),
    ({'fixes': {'lever_arms': {'Z': [0.0, 0.0]}}}, 'fixes.lever_arms.Z'),
    ({'odometry': {'sensor_poses': {'Z': [0.0, 0.0, 0.0]}}}, 'odometry.sensor_poses.Z'),
    ({'backend': {'gauge_robot': 'Z'}}, 'backend.gauge_robot'),
    *(({f'{kind}.time_offsets': {'*': 1.0, 'a': 1.0}}, f'{kind}.time_offsets.a')
      for kind in ('odometry', 'sightings', 'fixes', 'heights', 'attitudes')),
    *(({f'frames.{name}': '/{robot}/x'}, f'frames.{name}') for name in ('map', 'odom', 'base')),
    ({'heights.inputs': {'x': {}}}, 'heights.inputs'),
    ({'attitudes.topic': '/imu'}, 'attitudes.topic'),
    *(({f'{kind}.inputs': {'x': spec}}, f'inputs.x.{key}') for kind, key, spec in (
        ('ranges', 'radio_format', {'radio_format': '{id:04x}'}),
        ('ranges', 'target_format', {'adapter': 'linktrack', 'target_format': 'a{id}'}),
        ('ranges', 'fields', {'adapter': 'linktrack', 'fields': {'range': 'r'}}),
        ('sightings', 'landmark_format', {'landmark_format': 'tag{id}'}),
        ('closures', 'robots', {'robots': {'0': 'A'}}),
        ('closures', 'keyframe_topic', {'keyframe_topic': '/k'}))),
    ({'heights.inputs.x': {'measures': 'ground', 'min_m': 2.0, 'max_m': 1.0}, 'dimension': 3},
     'heights.inputs.x.min_m'),
    ({'fixes.initial_pose_robot': 'Z'}, 'fixes.initial_pose_robot'),
    ({'odometry': {'vertical_of': {'X': 'free'}}, 'dimension': 3}, 'odometry.vertical_of.X'),
    ({'heights': {'inputs': {'x': {'offset_m_of': {'X': 1.0}}}}, 'dimension': 3},
     'heights.inputs.x.offset_m_of.X'),
    ({'heights': {'inputs': {'x': {'lever_arm_of': {'A': [1.0]}}}}, 'dimension': 3},
     'lever_arm_of.A'),
    ({'heights': {'inputs': {'x': {'type': 'px4_msgs/msg/Any'}}}, 'dimension': 3},
     'heights.inputs.x.field'),
    ({'heights': {'inputs': {'x': {'topic': '/altitude'}}}, 'dimension': 3, 'robots': ['A', 'B']},
     '{robot}'),
    ({'sightings.inputs': {'x': {'topic': '/t/(', 'adapter': 'pose_topic'}}}, 'regular expression'),
    ({'sightings.inputs': {'x': {'topic': '/{robot}/t', 'adapter': 'pose_topic'}}}, 'landmark'),
    ({'sightings.inputs': {'x': {'topic': '/(?P<landmark>.*)', 'adapter': 'pose_topic'}},
      'robots': ['A', 'B']}, 'robot'),
    ({'sightings.sensor_poses': {'eye': [1.0, 2.0]}}, 'sightings.sensor_poses.eye'),
    ({'sightings.min_m': 200.0}, 'sightings.min_m'),
    ({'attitudes.topic': '/imu', 'robots': ['A', 'B'], 'dimension': 3}, 'attitudes.topic'),
    ({'ranges.bias_m': float('inf')}, 'ranges.bias_m'),
    ({'backend.gauge_initial_pose': [1.0, 2.0]}, 'backend.gauge_initial_pose'),
    ({'radios': {'a': {'beacon': 'a', 'position': [0.0, float('-inf')]}}}, 'position'),
    ({'backend': {'integrity': {'widen_odometry': True}}}, 'backend.integrity.widen_odometry'),
    ({'radios': {'1': {'beacon': 'a', 'position': [0.0, 1.0]},
                 '2': {'beacon': 'a', 'position': [0.0, 5.0]}}},
     'radios.2.position: beacon a has another one by radios.1'),
    ({'fixes': {'datum': [104.4, 10.0, 0.0]}}, 'fixes.datum: expected latitude'),
    ({'fixes': {'datum_heading_rad': 90.0}}, 'fixes.datum_heading_rad: expected angles in radians'),
    ({'odometry': {'sensor_poses': {'A': [0.0, 0.0, 180.0]}}, 'robots': ['A']},
     'odometry.sensor_poses.A: expected angles in radians'),
])
def test_errors_name_the_parameter(values, text):
    with pytest.raises(ConfigError) as error:
        SparserConfig.from_mapping({'robots': ['A'], **values})
    assert text in str(error.value)


def test_groups_and_dotted_names_go_together(tmp_path):
    """One replaces single values of the other, never a whole group."""
    (tmp_path / 'c.yaml').write_text('ranges:\n  max_m: 500.0\n  inputs: {x: {topic: /x}}\n')
    ranges = SparserConfig.from_yaml(tmp_path / 'c.yaml', ranges={'sigma_m': 0.2}).ranges
    assert (ranges.max_m, ranges.sigma_m, list(ranges.inputs)) == (500.0, 0.2, ['x'])
    both = SparserConfig.from_mapping({
        'ranges.inputs.x.topic': '/x', 'ranges': {'inputs': {'y': {'topic': '/y'}}}})
    assert sorted(both.ranges.inputs) == ['x', 'y']


def test_what_a_position_may_be_uncertain_by_follows_from_limit_and_risk():
    for limit_m, risk in ((1.0, 0.05), (3.0, 0.05), (1.0, 0.2)):
        accepted = SparserConfig.from_mapping({'robots': ['A'], 'backend': {'observability': {
            'alert_limit_m': limit_m, 'integrity_risk': risk}}}).backend.observability
        # The length of a normal error in the plane is Rayleigh distributed.
        assert rayleigh.sf(limit_m, scale=accepted.position_sigma_m) == pytest.approx(risk)


def config_of(tmp_path, text):
    path = tmp_path / 'c.yaml'
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return SparserConfig.from_yaml(path)


def test_numbers_are_numbers(tmp_path):
    config = config_of(tmp_path, 'dimension: 3\nranges:\n  max_m: 5e1\n  min_m: 0\n'
                                 '  sigma_m: .25\n  use_message_variance: no\n')
    assert (config.dimension, config.ranges.max_m, config.ranges.min_m) == (3, 50.0, 0.0)
    assert config.ranges.sigma_m == 0.25 and config.ranges.use_message_variance is False
    assert type(config.dimension) is int and type(config.ranges.max_m) is float


def test_a_number_without_its_spelling_is_refused_with_both():
    with pytest.raises(ConfigError, match=r'beacon: .*26968.*0x6958.*quotes'):
        SparserConfig.from_mapping({'radios': {'a': {'beacon': 26968}}}).radio_specs()


@pytest.mark.parametrize('name', NAMES)
def test_names_stay_as_written_and_what_is_written_is_read_back(tmp_path, name):
    values = {'robots': [name], 'radios': {'t': {'robot': name}, name: {'beacon': 'b'}}}
    quoted = f'"{name}"' if name in ('yes', 'null', '~') else name
    for text in (text_of({'/**': {'ros__parameters': values}}),
                 f'robots:\n- {quoted}\nradios:\n  t:\n    robot: {quoted}\n'
                 f'  {name}: {{beacon: b}}\nranges:\n  time_offsets:\n    {name}: 0.5\n'):
        config = config_of(tmp_path, text)
        assert config.robots == [name] and config.radio_specs()['t'].robot == name
        assert list(config.radio_specs()) == ['t', name]
    assert config.ranges.time_offsets == {name: 0.5}


@pytest.mark.parametrize('name', [
    '/**', '/*', 'sparser', '/sparser', '/fleet/sparser', '/**/sparser', '/fleet/*'])
def test_the_block_of_the_node_is_used_and_no_other(tmp_path, name):
    config = config_of(
        tmp_path, 'slam_toolbox:\n  ros__parameters:\n    odom_frame: odom\n    odom_frame: o\n'
        f'{name}:\n{OURS}ekf:\n  ros__parameters: {{x: !mine 3, dimension: 3}}\n')
    assert config.robots == ['A'] and config.dimension == 2


def test_nested_namespaces_and_blocks_one_over_the_other(tmp_path):
    config = config_of(
        tmp_path, f'fleet:\n  sparser:\n    ros__parameters: {{dimension: 3}}\n/**:\n{OURS}'
        '/**/sparser:\n  ros__parameters:\n    radios:\n      u: {beacon: u}\n')
    assert config.dimension == 3 and list(config.radio_specs()) == ['t', 'u']


@pytest.mark.parametrize(('text', 'words'), [
    (b'\x00\x01\xff\xfe\x80', ['c.yaml:1', '0xff', 'UTF-8']),
    ('robots: [A]\nx: \xe4'.encode('latin-1'), ['c.yaml:2', '0xe4', 'UTF-8']),
    ('dimension: 3\nrobots: [A]\ndimension: 2\n', ["'dimension'", 'line 1', 'line 3']),
    ('radios:\n  a: {beacon: a}\n  0x1: {}\n  a: {robot: A}\n', ["'a'", 'line 2', 'line 4']),
    (f'/**:\n{OURS}/**:\n{OURS}', ["'/**'", 'line 1', 'line 6']),
    (f'sparsr:\n{OURS}', ['/sparsr', 'sparser']),
    (f'/a/sparser:\n{OURS}/b/sparser:\n{OURS}', ['/a/sparser, /b/sparser']),
    (f'dimension: 3\n/**:\n{OURS}', ['dimension', 'ros__parameters']),
    ('robots: ' + '[' * 20_000, ['c.yaml:1', 'nest']),
    ('a0: &a0 [x, x]\n' + ''.join(
        f'a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n' for n in range(1, 30)), ['aliases', 'values']),
    ('robots: !!python/object:os.system [A]\n', ['c.yaml:1']),
    ('dimension: !!int three\n', ['c.yaml:1', 'three']),
    ('hello', ['mapping']),
    ('a: [1\n', ['c.yaml:']),
    ('- 1\n', ['mapping']),
    ('/**:\n  ros__parameters: 3\n', ['ros__parameters']),
    ('ranges:\n  max_mm: 3.0\n', ['c.yaml: unknown parameter ranges.max_mm']),
])
def test_faults_are_told_with_their_lines_at_once(tmp_path, text, words):
    begin = time.monotonic()
    with pytest.raises(ConfigError) as error:
        config_of(tmp_path, text)
    assert time.monotonic() - begin < 5.0
    assert [word for word in ('c.yaml', *words) if word not in str(error.value)] == []


def test_aliases_within_bounds_are_read(tmp_path):
    config = config_of(tmp_path, 'radios:\n  a: &a {beacon: a, sigma_m: 0.1}\n'
                                 '  b:\n    <<: *a\n    beacon: b\n  c: *a\n')
    specs = config.radio_specs()
    assert specs['b'].beacon == 'b' and specs['b'].sigma_m == 0.1 and specs['c'] == specs['a']


def test_endless_files_end_and_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    with pytest.raises(ConfigError, match='larger than'):
        load_yaml('/dev/zero')
    assert config_of(tmp_path, '\ufeffdimension: 3\n').dimension == 3
