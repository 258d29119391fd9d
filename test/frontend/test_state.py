"""The state of a front-end as bytes: all of it, and nothing that could do harm."""

import os
import pickle

import pytest
from frontend_world import Robot, config

from sparser_ros.config import SparserError
from sparser_ros.frontend import Frontend, Inputs, state


@pytest.mark.parametrize('dimension', [2, 3])
def test_a_front_end_goes_on_from_its_bytes(dimension):
    options = config(dimension=dimension)
    robot = Robot('A', dimension, 1)
    frontend = Frontend(options)
    for step in range(20):
        frontend.add(robot.odometry(0.1 * step))
    back, inputs = state.unpack(state.pack(frontend, Inputs(options)))
    assert [r.topic for r in inputs.routes] == [r.topic for r in Inputs(options).routes]
    for one in (frontend, back):
        for step in range(20, 60):
            one.add(robot.odometry(0.1 * step))
    first, second = frontend.take(True), back.take(True)
    assert (first.poses.stamp_ns == second.poses.stamp_ns).all()
    assert (first.poses.translation == second.poses.translation).all()
    assert frontend.counters.as_dict() == back.counters.as_dict()


class Forged:
    def __reduce__(self):
        return os.system, ('true',)


@pytest.mark.parametrize('data', [
    b'', b'nothing', pickle.dumps(Forged()), pickle.dumps((1, 2)),
    pickle.dumps(getattr), pickle.dumps([].append)])
def test_a_forged_state_is_refused(data):
    with pytest.raises(SparserError, match='no state'):
        state.unpack(data)
