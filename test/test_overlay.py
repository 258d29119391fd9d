"""The bench overlay behaves as the packages that it stands in for."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

SOURCE = Path(__file__).resolve().parent / 'overlay/tf_transformations/tf_transformations'


@pytest.fixture(scope='module')
def tf():
    pytest.importorskip('transforms3d')
    spec = importlib.util.spec_from_file_location('overlay_tf', SOURCE / '__init__.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def same_rotation(one, other):
    return abs(np.dot(one, other)) == pytest.approx(1.0)


def test_tf_transformations(tf):
    angles = (0.3, -0.4, 2.0)
    a = Rotation.from_euler('xyz', angles)
    b = Rotation.from_rotvec([0.1, 0.7, -0.5])
    quaternion = tf.quaternion_from_euler(*angles)
    assert same_rotation(quaternion, a.as_quat())
    assert tf.euler_from_quaternion(quaternion) == pytest.approx(angles)
    assert tf.quaternion_matrix(quaternion)[:3, :3] == pytest.approx(a.as_matrix())
    assert same_rotation(tf.quaternion_from_matrix(tf.quaternion_matrix(b.as_quat())), b.as_quat())
    product = tf.quaternion_multiply(a.as_quat(), b.as_quat())
    assert same_rotation(product, (a * b).as_quat())
    assert same_rotation(tf.quaternion_inverse(quaternion), a.inv().as_quat())


def test_tf2_msgs_is_what_tf2_sends():
    messages = pytest.importorskip('tf2_msgs.msg', reason='tf2_msgs is not built here')
    fields = messages.TFMessage.get_fields_and_field_types()
    assert fields == {'transforms': 'sequence<geometry_msgs/TransformStamped>'}
    assert messages.TF2Error.TRANSFORM_ERROR == 6
