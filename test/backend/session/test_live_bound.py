"""The bound of a session's map: valid, repeatable, carried from map to map, a reason to doubt."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.bound import Bound
from sparser_ros.backend.session.live_bound import LiveBound
from sparser_ros.backend.session.session import Session
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import AuditConfig
from sparser_ros.graph.connectivity import components
from sparser_ros.solver import solve

ROBUST = SolverConfig(robust=RobustConfig(kernel='gm', gnc=True))
BOUND = Bound(3, 10, 100.0, 60.0, 55.0, False, 0.1)


def increments(count=4, seed=0):
    world = World(
        ['curved', 'curved'], [[0, 0], [5, 2]], beacons=[[3, 7], [-4, 1], [6, -3]], steps=40,
        seed=seed)
    return world.increments(count)


def audited(parts, share=0.2):
    session = Session(config(solver=ROBUST, audit=AuditConfig(bound_share=share, growth=1.5)))
    for one in parts:
        session.add(one)
        session.solve()
    session.solve(True)
    return session


def test_a_forced_audit_bounds_its_map_and_two_runs_give_the_same_bits():
    first, second = (audited(increments()) for _ in range(2))
    bound = first.bound
    assert bound == dataclasses.replace(second.bound, seconds=bound.seconds)
    assert 0 < bound.lower <= bound.cost * (1 + 1e-9)
    assert bound.sequence == 3 and bound.suboptimality < 0.1 * bound.cost
    assert f'{bound.cost:.5g}' in bound.words or bound.certified
    # Other starts with the same weights find nothing below it.
    solved = first.auditor.solved
    graph = solved.graph.replaced(ranges=solved.graph.ranges.replaced(
        precision=solved.graph.ranges.precision * solved.weights['ranges']))
    for seed in range(3):
        other = solve(graph, SolverConfig(seed=seed, init='random'))
        assert other.stats.cost_final >= bound.lower * (1 - 1e-9)


def test_no_share_no_bound():
    assert audited(increments(), share=0.0).bound is None


def test_a_map_that_has_grown_begins_where_the_last_one_ended():
    parts = list(increments(6))
    auditor = Auditor(config(solver=ROBUST, audit=AuditConfig(growth=1.0, bound_share=0.2)))
    costs = []
    for one in parts[:5]:
        auditor.add(one)
    auditor.audit()
    fresh = steps(auditor)
    auditor.add(parts[5])
    auditor.audit()
    carried = steps(auditor)
    bound = auditor.bound
    assert bound.sequence == 5 and 0 < bound.lower <= bound.cost
    costs.append(bound.relaxed)
    assert carried <= fresh


def bounded(parts):
    """An auditor that has audited and bounded these increments."""
    auditor = Auditor(config(solver=ROBUST, audit=AuditConfig(growth=1.0, bound_share=0.2)))
    for one in parts:
        auditor.add(one)
    auditor.audit()
    steps(auditor)
    return auditor


def test_a_map_has_a_bound_while_the_sharp_one_of_an_earlier_map_is_at_work():
    parts = list(increments(8))
    auditor = bounded(parts[:5])
    early = auditor.bound
    for at, one in enumerate(parts[5:], 5):
        auditor.add(one)
        auditor.audit()
        assert auditor.bound_caught_up() and auditor.bound.sequence == at
        assert not auditor.bound_caught_up()
        bound = auditor.bound
        assert 0.9 * early.lower <= bound.lower <= bound.cost * (1 + 1e-9)
        assert auditor.bound_step()
    # The sharp one is of the newest map in the end, and no lower.
    steps(auditor)
    assert auditor.bound.sequence == 7 and auditor.bound.lower >= bound.lower


def test_what_came_since_is_bounded_alone_where_it_is_much_and_bounds_add_up():
    parts = list(increments(8))
    auditor = bounded(parts[:4])
    early, live = auditor.bound, auditor._bound
    for one in parts[4:]:
        auditor.add(one)
    auditor.audit()
    found, sizes = [early.lower], []
    while live._part is not auditor.solved:
        assert auditor.bound_step()
        found.append(auditor.bound.lower)
        sizes.append(live._part.graph.n_poses)
    whole = auditor.solved.graph.n_poses
    assert 0.25 * whole <= min(sizes) < whole
    # Both halves of the data count before the whole is at work.
    assert np.all(np.diff(found) >= -1e-6 * early.lower)
    assert 1.2 * early.lower < found[-1] <= auditor.bound.cost * (1 + 1e-9)
    steps(auditor)
    assert found[-1] <= auditor.bound.lower <= auditor.bound.cost * (1 + 1e-9)


def test_a_part_of_a_map_is_connected_and_keeps_its_weights():
    auditor = Auditor(config(solver=ROBUST, audit=AuditConfig(growth=1.0)))
    for one in increments(4):
        auditor.add(one)
    auditor.audit()
    solved = auditor.solved
    part = solved.part(solved.poses >= solved.poses[len(solved.poses) // 2])
    assert not components(part.graph).any() and 0 < part.graph.n_poses < solved.graph.n_poses
    at = np.searchsorted(solved.poses, part.poses)
    np.testing.assert_array_equal(part.estimate.translation, solved.estimate.translation[at])
    rows = np.searchsorted(solved.ranges, part.ranges)
    np.testing.assert_array_equal(part.graph.ranges.stamp_ns, solved.graph.ranges.stamp_ns[rows])
    np.testing.assert_array_equal(part.weights['ranges'], solved.weights['ranges'][rows])


def steps(auditor):
    count = 0
    while auditor.bound_step():
        count += 1
    return count


@pytest.mark.parametrize(('share', 'doubted'), [
    (0.0, True), (0.2, False), (0.1, True), (None, False)])
def test_a_gap_that_starts_from_scratch_have_not_left_is_a_doubt(share, doubted):
    """Gap 40 of 100; starts from scratch left `share` of the cost; another placement costs 25."""
    live = LiveBound()
    live._sharp, live._share = BOUND, share
    assert bool(live.doubt(25.0)) is doubted
    assert not LiveBound().doubt(25.0)


def test_words_for_an_operator():
    assert BOUND.words == (
        'no map costs less than 55 at the robust weights of the one audited last, which costs 100: '
        'the best possible is at most 45 (45 %) better')
    assert 'best possible one' in dataclasses.replace(BOUND, lower=100.0, certified=True).words
    assert np.isclose(BOUND.suboptimality, 45.0)


@pytest.mark.parametrize('above', [0.0, 200.0])
def test_such_a_doubt_is_a_reason_for_a_start_from_scratch(above):
    auditor = Auditor(config(solver=ROBUST, audit=AuditConfig(growth=3.0, bound_share=0.2)))
    *early, last = increments(10)
    for one in early:
        auditor.add(one)
    auditor.audit()
    steps(auditor)
    live = auditor._bound
    assert live._share is not None and not live.doubt(25.0)
    live._sharp = dataclasses.replace(live.bound, cost=live.bound.cost + above)
    auditor.add(last)
    auditor.audit(scratch=False)
    assert ('above its relaxation' in auditor.postponed) is bool(above)
