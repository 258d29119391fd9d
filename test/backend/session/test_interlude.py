"""Data that come during a solve from scratch do not wait for its end."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.session.interlude import Interlude
from sparser_ros.backend.session.session import Session
from sparser_ros.graph import cost


class Recorder:
    """Hands new increments to a session, and keeps what it publishes."""

    def __init__(self, session, increments):
        self.session, self.waiting, self.published = session, list(increments), []

    def take(self):
        waiting, self.waiting = self.waiting, []
        return sum(map(self.session.add, waiting)) > 0

    def publish(self, solution):
        self.published.append(solution)


def impatient(world):
    base = config(robots=world.names)
    return dataclasses.replace(base, node=dataclasses.replace(base.node, solve_period_s=0.0))


@pytest.fixture
def world():
    return World(
        ['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 7], [-4, 1]], steps=40)


def test_newer_data_are_published_before_the_solve_from_scratch_ends(world):
    session = Session(impatient(world))
    *first, a, b = world.increments(6)
    for one in first:
        session.add(one)
        session.solve(False)
    recorder = Recorder(session, [a, b])
    solution = session.solve(True, meanwhile=recorder)
    assert not recorder.waiting
    assert [one.sequence for one in recorder.published] == [3, 5]
    assert not any(one.full for one in recorder.published)
    assert solution.full and solution.sequence == 5
    assert len(solution.estimate.rotation) == session.graph.n_poses
    truth = world.true_in_map()
    error = np.linalg.norm(solution.estimate.translation - truth.translation, axis=1)
    assert np.max(error) < 0.2
    assert solution.stats.cost_final == pytest.approx(
        cost(session.graph, solution.estimate), rel=1e-6)


def test_the_better_answer_from_scratch_is_not_lost_to_newer_data(world):
    """The warm solutions go on from a bad start; the last one goes on from the good answer."""
    session = Session(impatient(world))
    increments = world.increments(6)
    for one in increments[:4]:
        session.add(one)
    good = session.solve(True)
    mirrored = good.estimate.translation * np.array([1.0, -1.0])
    session.restore(dataclasses.replace(good.estimate, translation=mirrored))
    solution = session.solve(True, meanwhile=Recorder(session, increments[4:]))
    fresh = Session(config(robots=world.names))
    for one in increments:
        fresh.add(one)
    assert solution.stats.cost_final == pytest.approx(
        fresh.solve(True).stats.cost_final, rel=1e-4)


def test_nothing_is_published_early_without_new_data(world):
    session = Session(impatient(world))
    for one in world.increments(3):
        session.add(one)
    session.solve(True)
    recorder = Recorder(session, [])
    assert session.solve(None, idle=True, meanwhile=recorder).sequence == 2
    assert recorder.published == []


def test_warm_solves_leave_time_for_the_long_one(monkeypatch):
    now = [0.0]
    monkeypatch.setattr('sparser_ros.backend.session.interlude.time.monotonic', lambda: now[0])

    def solve():
        now[0] += 3.0
        return 'solution'

    recorder = Recorder(None, [])
    recorder.take = lambda: True
    interlude = Interlude(recorder, solve, period_s=1.0)
    spent = 0.0
    while now[0] < 100:
        before = now[0]
        interlude('relax', 0, 1.0)
        spent += now[0] - before
        now[0] += 0.1
    assert interlude.taken and recorder.published
    assert 0.3 < spent / now[0] <= 0.55
