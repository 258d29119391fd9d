"""Configuration files as people write them: names stay, faults have lines, nothing explodes."""

import time

import pytest

from sparser_ros.config import ConfigError, SparserConfig
from sparser_ros.config.sparser import load_yaml
from sparser_ros.config.yaml_file import text_of

NAMES = ('81:00', '0x6958', '010', '1e52', '12_34', 'yes', 'n', 'null', '2024-01-01', '10.0.0.7',
         '.5', '0b11', 'inf', '1.10', '~')


def config_of(tmp_path, text):
    path = tmp_path / 'c.yaml'
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return SparserConfig.from_yaml(path)


@pytest.mark.parametrize('name', NAMES)
def test_keys_stay_as_written(tmp_path, name):
    config = config_of(
        tmp_path, f'radios:\n  {name}: {{beacon: b}}\nranges:\n  time_offsets:\n    {name}: 0.5\n')
    assert list(config.radio_specs()) == [name]
    assert config.ranges.time_offsets == {name: 0.5}


@pytest.mark.parametrize('name', ['81:00', '0x6958', '010', '1e52', '12_34', '2024-01-01', '0b11',
                                  '1.10', '.5', '17', 'n', 'inf'])
def test_values_that_are_names_stay_as_written(tmp_path, name):
    config = config_of(tmp_path, f'robots:\n- {name}\n- B\nradios:\n  t:\n    robot: {name}\n')
    assert config.robots == [name, 'B'] and config.radio_specs()['t'].robot == name


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
def test_what_is_written_is_read_back(tmp_path, name):
    config = config_of(tmp_path, text_of({'/**': {'ros__parameters': {
        'robots': [name], 'radios': {name: {'robot': name}}}}}))
    assert config.robots == [name] and config.radio_specs()[name].robot == name


OURS = '  ros__parameters:\n    robots: [A]\n    radios:\n      t: {robot: A}\n'


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
    (b'\x00\x01', ['c.yaml', 'not YAML']),
    ('dimension: 3\nrobots: [A]\ndimension: 2\n', ["'dimension'", 'line 1', 'line 3']),
    ('radios:\n  a: {beacon: a}\n  0x1: {}\n  a: {robot: A}\n', ["'a'", 'line 2', 'line 4']),
    (f'/**:\n{OURS}/**:\n{OURS}', ["'/**'", 'line 1', 'line 6']),
    (f'sparsr:\n{OURS}', ['/sparsr', 'sparser']),
    (f'/a/sparser:\n{OURS}/b/sparser:\n{OURS}', ['/a/sparser, /b/sparser']),
    (f'dimension: 3\n/**:\n{OURS}', ['dimension', 'ros__parameters']),
    ('robots: ' + '[' * 20_000, ['c.yaml:1', 'nest']),
    ('a: ' + '[' * 900 + ']' * 900, ['nested too deeply']),
    ('a: &a [*a]\n', ['values']),
    ('a0: &a0 [x, x]\n' + ''.join(
        f'a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n' for n in range(1, 30)), ['aliases', 'values']),
    ('robots: !!python/object:os.system [A]\n', ['c.yaml:1']),
    ('[a]: 3\n', ['c.yaml:1', 'expected a name']),
    ('dimension: !!int three\n', ['c.yaml:1', 'three']),
    ('hello', ['mapping']),
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


def test_endless_files_end(tmp_path):
    with pytest.raises(ConfigError, match='larger than'):
        load_yaml('/dev/zero')


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    assert config_of(tmp_path, '\ufeffdimension: 3\n').dimension == 3
