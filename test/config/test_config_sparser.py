"""The configuration as a whole: files in both forms, errors that name the parameter."""

import pickle
from pathlib import Path

import pytest
import yaml
from scipy.stats import rayleigh

from sparser_ros.config import ConfigError, SparserConfig, walk

CONFIG = Path(__file__).parents[2] / 'config'


def test_the_reference_file_says_the_defaults():
    assert SparserConfig.from_yaml(CONFIG / 'sparser.yaml') == SparserConfig()


def test_the_reference_file_names_every_option():
    text = (CONFIG / 'sparser.yaml').read_text(encoding='utf-8')
    for option in walk(SparserConfig):
        assert f'{option.name.rpartition(".")[2]}:' in text


def test_ros_can_read_the_reference_file():
    """No null and no empty list, and every float with a point."""
    def leaves(value):
        if isinstance(value, dict):
            for inner in value.values():
                yield from leaves(inner)
        else:
            yield value

    for name in ('sparser.yaml', 'outfinite.yaml', 'tiers.yaml'):
        data = yaml.safe_load((CONFIG / name).read_text(encoding='utf-8'))
        assert list(data) == ['/**']
        for value in leaves(data):
            assert value is not None
            assert value != []
    text = (CONFIG / 'sparser.yaml').read_text(encoding='utf-8')
    parameters = yaml.safe_load(text)['/**']['ros__parameters']
    for option in walk(SparserConfig):
        value = parameters
        for part in option.name.split('.'):
            value = value.get(part) if isinstance(value, dict) else None
        if option.type is float:
            assert isinstance(value, float), option.name


def test_shipped_files():
    outfinite = SparserConfig.from_yaml(CONFIG / 'outfinite.yaml')
    assert outfinite.robots == ['A', 'B', 'C']
    assert outfinite.keyframes.every_message
    assert outfinite.odometry_noise == 'pose_increment'
    tiers = SparserConfig.from_yaml(CONFIG / 'tiers.yaml')
    assert tiers.radio_specs()['n_7'].robot == '01'


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
    ({'robots': []}, 'robots'),
    ({'robots': ['A', 'A']}, 'robots'),
    ({'robots': [1, 3]}, 'robots'),
    ({'odometry': {'topic': '/odom'}, 'robots': ['A', 'B']}, 'odometry.topic'),
    ({'frames': {'odom': 'odom'}, 'robots': ['A', 'B']}, 'frames.odom'),
    ({'keyframe': {'distance_m': 1.0}}, 'did you mean keyframes.distance_m'),
    ({'keyframes': {'distance_m': -1.0}}, 'keyframes.distance_m'),
    ({'keyframes': {'distance_m': 'far'}}, 'keyframes.distance_m'),
    ({'ranges': {'merge_window_s': 0.06}}, 'ranges.merge_window_s'),
    ({'ranges': {'min_m': 5.0, 'max_m': 4.0}}, 'ranges.min_m'),
    ({'ranges': {'nlos': 'maybe'}}, 'ranges.nlos'),
    ({'radios': {'17': 'A'}}, 'radios.17'),
    ({'radios': {'17': {}}}, 'radios.17'),
    ({'radios': {'17': {'robot': 'A', 'beacon': 'L'}}}, 'radios.17'),
    ({'radios': {'17': {'robot': 'Z'}}}, 'radios.17.robot'),
    ({'radios': {'17': {'robt': 'A'}}}, 'did you mean radios.17.robot'),
    ({'radios': {'17': {'robot': 'A', 'lever_arm': [1.0]}}}, 'radios.17.lever_arm'),
    ({'radios': {'17': {'robot': 'A', 'lever_arm': ['x', 'y']}}}, 'radios.17.lever_arm'),
    ({'radios': {'17': {'robot': 'A', 'position': [1.0, 2.0]}}}, 'radios.17'),
    ({'radios': {'17': {'beacon': 'L', 'sigma_m': -1.0}}}, 'radios.17.sigma_m'),
    ({'radios': {'17': {'beacon': 'L', 'lever_arm': [1.0, 2.0]}}}, 'radios.17.lever_arm'),
    ({'radios': {'17': {'beacon': 'L', 'position': [1.0, 2.0]}}, 'dimension': 3},
     'radios.17.position'),
    ({'ranges': {'inputs': {'x': {'adapter': 'pair_topic', 'topic': '/a(b'}}}},
     'ranges.inputs.x.topic'),
    ({'ranges': {'inputs': {'x': {'adapter': 'pair_topic', 'topic': '/a'}}}},
     'ranges.inputs.x.topic'),
    ({'ranges': {'inputs': {'x': {'adapter': 'fields', 'topic': '/a'}}}},
     'ranges.inputs.x.type'),
    ({'ranges': {'inputs': {'x': {'adapter': 'fields', 'topic': '/a', 'type': 'a/msg/B',
                                  'fields': {'range': 'r', 'target': 't'}}}}},
     'ranges.inputs.x.fields.source'),
    ({'ranges': {'inputs': {'x': {'adapter': 'fields', 'topic': '/a', 'type': 'a/msg/B',
                                  'fields': {'rang': 'r'}}}}}, 'ranges.inputs.x.fields.rang'),
    ({'ranges': {'inputs': {'x': {'adapter': 'morse'}}}}, 'ranges.inputs.x.adapter'),
    ({'closures': {'inputs': {'x': {'adapter': 'rtabmap', 'topic': '/mapData'}}},
      'robots': ['A', 'B']}, 'closures.inputs.x.topic'),
    ({'closures': {'inputs': {'x': {'robots': {'0': 'Z'}}}}}, 'closures.inputs.x.robots'),
    ({'odometry': {'time_offsets': {'A': 'late'}}}, 'odometry.time_offsets.A'),
    ({'fixes': {'topic': '/{robot}/gps', 'type': 'sensor_msgs/msg/NavSatFix'}}, 'fixes.datum'),
    ({'fixes': {'datum': [1.0]}}, 'fixes.datum'),
    ({'fixes': {'lever_arms': {'Z': [0.0, 0.0]}}}, 'fixes.lever_arms.Z'),
    ({'fixes': {'lever_arms': {'A': [0.0]}}}, 'fixes.lever_arms.A'),
    ({'odometry': {'sensor_poses': {'Z': [0.0, 0.0, 0.0]}}}, 'odometry.sensor_poses.Z'),
    ({'odometry': {'sensor_poses': {'A': [0.0, 0.0]}}}, 'odometry.sensor_poses.A'),
    ({'backend': {'gauge_robot': 'Z'}}, 'backend.gauge_robot'),
    ({'backend': {'worker': 'robot'}}, 'backend.worker'),
    ({'backend': {'integrity': {'widen_odometry': True}}}, 'backend.integrity.widen_odometry'),
    ({'backend': {'integrity': {'hidden_fault_risk': 0.1}}},
     'backend.integrity.hidden_fault_risk'),
    ({'backend': {'observability': {'position_sigma_m': 0.33}}},
     'backend.observability.position_sigma_m'),
    ({'backend': {'observability': {'integrity_risk': 0.0}}},
     'backend.observability.integrity_risk'),
])
def test_errors_name_the_parameter(values, text):
    with pytest.raises(ConfigError) as error:
        SparserConfig.from_mapping({'robots': ['A'], **values})
    assert text in str(error.value)


@pytest.mark.parametrize(('content', 'text'), [
    ('a: [1\n', 'bad.yaml:'),
    ('- 1\n', 'mapping'),
    ('/**:\n  ros__parameters: 3\n', 'ros__parameters'),
    ('ranges:\n  max_mm: 3.0\n', 'bad.yaml: unknown parameter ranges.max_mm'),
])
def test_errors_of_files_name_the_file(tmp_path, content, text):
    path = tmp_path / 'bad.yaml'
    path.write_text(content, encoding='utf-8')
    with pytest.raises(ConfigError) as error:
        SparserConfig.from_yaml(path)
    assert str(path) in str(error.value)
    assert text in str(error.value)


def test_what_a_position_may_be_uncertain_by_follows_from_limit_and_risk():
    for limit_m, risk in ((1.0, 0.05), (3.0, 0.05), (1.0, 0.2)):
        accepted = SparserConfig.from_mapping({'robots': ['A'], 'backend': {'observability': {
            'alert_limit_m': limit_m, 'integrity_risk': risk}}}).backend.observability
        # The length of a normal error in the plane is Rayleigh distributed.
        assert rayleigh.sf(limit_m, scale=accepted.position_sigma_m) == pytest.approx(risk)
