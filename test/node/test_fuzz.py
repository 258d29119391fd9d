"""Messages with absurd fields: counted, survived, and good data are taken after them."""

import pytest

pytest.importorskip('rclpy', reason='needs rclpy')
pytest.importorskip('sparser_ros.msg', reason='needs the built messages')

from fuzz_world import FuzzWorld
from node_world import START_S

pytestmark = pytest.mark.timeout(2 * START_S)


@pytest.mark.parametrize('dimension', [2, 3])
def test_absurd_fields_are_counted_and_survived(dimension):
    """`python test/support/fuzz_world.py --count 100000` does the same at length."""
    with FuzzWorld(dimension, 3000, seed=dimension) as world:
        world.run()
        world.solved()
        world.check()
