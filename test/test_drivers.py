"""The examples of docs/drivers.md and docs/flying.md are valid, and read the right messages."""

import array
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from sparser_ros.config import SparserConfig
from sparser_ros.frontend import Inputs
from sparser_ros.frontend.adapters import Fields
from sparser_ros.frontend.samples import Refused

PAGE = Path(__file__).resolve().parent.parent / 'docs' / 'drivers.md'
EXAMPLES = re.findall(
    r'^## ([^\n]*)\n.*?```yaml\n(.*?)```', PAGE.read_text(encoding='utf-8'),
    re.DOTALL | re.MULTILINE)
FLYING = re.findall(
    r'```yaml\n(.*?)```', PAGE.with_name('flying.md').read_text(encoding='utf-8'), re.DOTALL)


@pytest.mark.parametrize(('title', 'text'), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_examples_are_valid(title, text):
    config = SparserConfig.from_mapping({'robots': ['A', 'B'], **yaml.safe_load(text)})
    if 'fixes:' in text:
        assert config.fixes.topic
        return
    inputs = config.sighting_inputs() if 'sightings' in text else config.range_inputs()
    (spec,) = inputs.values()
    assert spec.type


def fields_of(key):
    (text,) = [text for _, text in EXAMPLES if f'\n    {key}:' in text]
    config = SparserConfig.from_mapping({'robots': ['A', 'B'], **yaml.safe_load(text)})
    return partial(Fields(config.range_inputs()[key]), robot='A')


def test_millimetres_centimetres_and_variances_become_metres():
    pozyx = SimpleNamespace(origin_id=1, destination_id=2, range=12345, rx_power=-80.0)
    (one,) = fields_of('pozyx')(pozyx, 5)
    assert (one.source, one.target, one.range_m, one.rx_rssi) == (
        '1', '2', pytest.approx(12.345), -80.0)
    stamp = SimpleNamespace(sec=3, nanosec=0)
    eliko = SimpleNamespace(header=SimpleNamespace(stamp=stamp), distances=[
        SimpleNamespace(anchor_sn='0x1', tag_sn='0x2', distance=250.0)])
    (one,) = fields_of('eliko')(eliko, 5)
    assert one.range_m == pytest.approx(2.5) and one.stamp_ns == 3_000_000_000
    dw1000 = SimpleNamespace(
        header=SimpleNamespace(stamp=stamp), from_id=10, to_id=20, range=4.0, covariance=0.01,
        fpp1=-81.0)
    (one,) = fields_of('dw1000')(dw1000, 5)
    assert one.variance == pytest.approx(0.01) and one.first_path_rssi == -81.0


def test_arrays_give_a_range_for_each_entry():
    board = SimpleNamespace(data=np.array([7.5, 3.25, np.nan, 0.0, 9.0], dtype=np.float32))
    *ranges, rest = fields_of('board')(board, 5)
    assert [(one.source, one.target) for one in ranges] == [
        ('tag', name) for name in ('a1', 'a2', 'a3', 'a4')]
    assert [one.range_m for one in ranges[:2]] == [7.5, 3.25] and ranges[0].stamp_ns == 0
    assert rest == Refused('ranges', 'no_name')
    data = [1, 3, 5, 0, 0, 2, 4.5, -80.0, -79.0, 3, 6.5, -81.0, -78.0]
    for values in (data, array.array('d', data), np.array(data)):
        first, second = fields_of('s3e')(SimpleNamespace(data=values), 5)
        assert (first.source, first.target, first.range_m, first.rx_rssi) == (
            'node1', 'node2', 4.5, -79.0)
        assert (second.target, second.range_m, second.first_path_rssi) == ('node3', 6.5, -81.0)


def test_tag_0_and_anchor_0_are_two_radios():
    ranging = SimpleNamespace(tag_id=0, anchor_id=0, range=1500, rss=-80.0)
    (one,) = fields_of('gtec')(ranging, 5)
    assert (one.source, one.target, one.range_m) == ('tag0', 'anchor0', 1.5)


def test_examples_of_autopilots_are_valid_and_read_heights():
    laser, local = (SparserConfig.from_mapping(yaml.safe_load(text)) for text in FLYING)
    assert laser.height_inputs()['laser'].measures == 'ground'
    down = SimpleNamespace(timestamp=5, x=1.0, y=2.0, z=-3.5)
    route = Inputs(local).match('/px4_1/fmu/out/vehicle_local_position')
    (height,) = route.decode(down, 7)
    assert (height.robot, height.value, height.stamp_ns, height.received_ns) == ('px4_1', 3.5, 0, 7)
    assert Inputs(laser).match('/uav2/mavros/local_position/odom').kind == 'odometry'


def test_poses_of_px4_are_turned_as_the_page_says():
    text = PAGE.with_name('flying.md').read_text(encoding='utf-8')
    (code,) = re.findall(r'```python\n(.*?)```', text, re.DOTALL)
    known = Rotation.from_euler('ZYX', [0.7, -0.4, 0.3])  # FRD in NED
    q = known.as_quat(scalar_first=True)
    found = {'x': 1.0, 'y': 2.0, 'z': 3.0, 'q': q}
    exec(code, found)
    world, body = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1]]), np.diag([1, -1, -1])
    np.testing.assert_allclose(world @ [1.0, 2.0, 3.0], found['position'])
    turned = Rotation.from_quat([found[name] for name in 'wxyz'], scalar_first=True)
    np.testing.assert_allclose(
        turned.as_matrix(), world @ known.as_matrix() @ body, atol=1e-12)
