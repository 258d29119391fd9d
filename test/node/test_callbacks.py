"""What a callback or a solve raises is logged, counted, answered and told, and ends nothing."""

import pytest
from node_world import THREAD, Scene, World
from rclpy.executors import ExternalShutdownException

from sparser_ros.backend.session.tracker import Tracker
from sparser_ros.node.callbacks import CallbackTimes


def test_a_context_that_ends_within_a_callback_is_no_error():
    heard, alive = [], [True]
    times = CallbackTimes(lambda name, text: heard.append(name), lambda: alive[0])

    def publishes():
        alive[0] = False
        raise RuntimeError('publisher has an invalid context')

    with pytest.raises(ExternalShutdownException):
        times.timed('publish', publishes)()
    assert not heard and not times.errors


def test_a_node_whose_callbacks_raise_goes_on_and_says_so(monkeypatch, capfd):
    with World(THREAD) as world:
        feed = world.node.pipeline.frontend.feed

        def broken(route, data, now, deserialise):
            if route.kind == 'ranges':
                raise ZeroDivisionError('planted')
            feed(route, data, now, deserialise)

        monkeypatch.setattr(world.node.pipeline.frontend, 'feed', broken)
        world.play(Scene().events[:200])
        assert world.until(lambda: world.status.callback_errors > 3)
        world.told('planted')
        assert 'planted' in world.status.text
        assert 'Traceback' in capfd.readouterr().err
        assert world.until(lambda: world.counters()['odometry']['accepted'] > 10), 'it goes on'


def test_a_service_and_a_solve_that_fail_answer_and_tell(monkeypatch):
    def broken(*_, **__):
        raise OverflowError('planted')

    with World(THREAD) as world:
        assert 'nothing to solve' in world.call('solve').message
        world.play(Scene().events[:200])
        for service, part in (('solve', 'request_audit'), ('reset', 'reset')):
            with monkeypatch.context() as change:
                change.setattr(world.node.pipeline, part, broken)
                answer = world.call(service)
                assert not answer.success and 'planted' in answer.message
        with monkeypatch.context() as change:
            change.setattr(Tracker, 'solve', broken)
            answer = world.call('solve')
            assert not answer.success and 'planted' in answer.message
            world.told('planted')
            world.call('pause', data=False)
            assert world.until(lambda: world.status.state == world.status.STATE_ERROR)
            assert 'planted' in world.status.text
        answer = world.call('solve')
        assert 'planted' not in answer.message
        # The callback that raised stays a finding for a minute.
        assert world.until(lambda: world.status.state != world.status.STATE_ERROR)
