"""The bound of the map of an audit: valid, repeatable, made once, and in words."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.session.audited_map import Bound, bound_of
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.session import Session
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.solver import solve

ROBUST = SolverConfig(robust=RobustConfig(kernel='gm', gnc=True))
BOUND = Bound(3, 10, 100.0, 55.0, False)


def increments(beacons=((3, 7), (-4, 1), (6, -3)), count=4):
    world = World(['curved', 'curved'], [[0, 0], [5, 2]], beacons=beacons, steps=40)
    return world.increments(count)


def audited(full):
    session = Session(config(solver=ROBUST))
    for one in increments():
        session.add(one)
        session.solve()
    session.solve(full)
    return session


def test_a_forced_audit_bounds_its_map_and_two_runs_give_the_same_bits():
    session = audited(full=True)
    bound = session.bound
    assert bound == audited(full=True).bound
    assert 0 < bound.lower <= bound.cost * (1 + 1e-9)
    assert bound.sequence == 3 and bound.suboptimality < 0.1 * bound.cost
    # Other starts with the same weights find nothing below it.
    solved = session.auditor.solved
    graph = solved.graph.replaced(ranges=solved.graph.ranges.replaced(
        precision=solved.graph.ranges.precision * solved.weights['ranges']))
    for seed in range(3):
        other = solve(graph, SolverConfig(seed=seed, init='random'))
        assert other.stats.cost_final >= bound.lower * (1 - 1e-9)


def test_audits_that_are_not_forced_bound_nothing():
    assert audited(full=None).bound is None


def test_a_map_is_bounded_once():
    auditor = Auditor(config(solver=ROBUST))
    assert not auditor.prove()
    for one in increments():
        auditor.add(one)
    auditor.audit()
    assert auditor.prove() and auditor.bound is not None
    assert not auditor.prove()


def test_what_an_observer_raises_ends_the_work_and_it_begins_anew():
    auditor = Auditor(config(solver=ROBUST))
    for one in increments():
        auditor.add(one)
    auditor.audit()

    def stop(iteration, cost, y):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        auditor.prove(stop)
    assert auditor.bound is None
    assert auditor.prove() and auditor.bound is not None


def test_time_that_is_up_leaves_what_is_proved_or_nothing():
    session = audited(full=True)
    bound = bound_of(session.auditor.solved, ROBUST.robust.weight_floor, limit_s=1e-9)
    assert bound is None or bound.lower <= session.bound.cost


def test_words_for_an_operator():
    assert BOUND.words == (
        'no map costs less than 55 at the robust weights of the one audited last, which costs 100: '
        'the best possible is at most 45 (45 %) better')
    assert 'best possible one' in dataclasses.replace(BOUND, lower=100.0, certified=True).words
    assert np.isclose(BOUND.suboptimality, 45.0)
