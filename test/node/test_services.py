"""`~/solve` always answers, and a solve that fails is told in the status."""

import pytest

pytest.importorskip('rclpy', reason='needs rclpy')
pytest.importorskip('sparser_ros.msg', reason='needs the built messages')

from node_world import START_S, Scene, World

from sparser_ros.backend.session.session import Session

pytestmark = pytest.mark.timeout(2 * START_S)


def test_a_solve_that_fails_is_answered_and_told(monkeypatch):
    def broken(*_, **__):
        raise OverflowError('planted')

    with World({'backend.worker': 'thread', 'backend.auditor': 'inline',
                'node.start_paused': True}) as world:
        world.play(Scene().events[:200])
        assert world.until(lambda: world.heard['/sparser/status'])
        before = Session.solve
        monkeypatch.setattr(Session, 'solve', broken)
        answer = world.call('solve')
        assert not answer.success and 'planted' in answer.message
        assert world.until(lambda: any(
            'planted' in text for text in world.status.findings))
        world.call('pause', data=False)
        assert world.until(lambda: world.status.state == world.status.STATE_ERROR)
        assert 'planted' in world.status.text
        monkeypatch.setattr(Session, 'solve', before)
        answer = world.call('solve')
        assert 'planted' not in answer.message
        assert world.until(lambda: 'planted' not in world.status.text)


def test_without_data_there_is_nothing_to_solve():
    with World({'backend.worker': 'thread', 'node.start_paused': True}) as world:
        answer = world.call('solve')
        assert not answer.success and 'nothing to solve' in answer.message
