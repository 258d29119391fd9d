"""What contradicts an audit, and what is only noise or too little to matter."""

from types import SimpleNamespace

import numpy as np
import pytest
from backend_world import World, graph_of

from sparser_ros.backend.session.solution import Location
from sparser_ros.backend.session.trust import (
    SinceAudit,
    Suspicions,
    adrift,
    contradictions,
    locations,
)
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph.odometry_segments import find_segments


def said(count, ratio, rejected=0):
    """What is said of a robot whose new measurements cost `ratio` times what is usual."""
    since = SinceAudit(
        np.array([count]), np.array([count]), np.array([rejected]), np.array([ratio * count]),
        np.array([count]), np.zeros(1), np.zeros(1, dtype=int), *np.zeros((4, 1)))
    return contradictions(since, SimpleNamespace(segments=()), ['A'], SparserConfig()).get('A')


@pytest.mark.parametrize('count, least', [(5, 10.0), (20, 4.0), (100, 2.1), (5000, 2.1)])
def test_a_worse_fit_must_be_significant_and_matter(count, least):
    assert 'fit the map' in said(count, 1.2 * least)
    assert said(count, 0.95 * least if count > 50 else 0.5 * least) is None


def test_thousands_of_measurements_that_fit_a_little_worse_withdraw_nobody():
    """Chi-square alone finds 1.2 times the variance in 2400: blocked paths come and go."""
    assert said(2400, 1.2) is None and said(2400, 1.9) is None
    assert 'times worse' in said(2400, 2.5)


def test_rejected_measurements_beyond_the_usual_share_contradict():
    assert 'contradict' in said(50, 1.0, rejected=30)
    assert said(50, 1.0, rejected=5) is None


def test_odometry_that_the_map_bends_contradicts():
    """Ranges may pull at a robot without being off themselves."""
    def bent(square, degrees):
        one, none = np.ones(1), np.zeros(1)
        since = SinceAudit(
            10 * one, 10 * one, none, 5 * one, 10 * one, np.array([square]),
            np.array([degrees]), none, none, none, none)
        return contradictions(
            since, SimpleNamespace(segments=()), ['A'], SparserConfig()).get('A')

    assert bent(30.0, 30) is None and bent(60.0, 30) is None
    assert 'bends the newest odometry of A by 2.0 times' in bent(120.0, 30)
    assert bent(0.0, 0) is None


def drifted(sigma_m, alone_sigma_m, alone_m, location=Location.LOCATED, audited=3):
    """What is said of a robot that has driven by odometry alone since its last range."""
    one, none = np.ones(1), np.zeros(1)
    since = SinceAudit(
        np.array([audited]), 10 * one, none, 5 * one, 10 * one, none, none.astype(int), none,
        none, alone_sigma_m * one, alone_m * one)
    own = SimpleNamespace(robot='A', location=location, sigma_m=sigma_m, sigma_rad=0.01)
    return adrift(since, SimpleNamespace(segments=(own,)), ['A'], SparserConfig()).get('A')


def test_a_robot_is_lost_where_odometry_alone_has_taken_it_too_far():
    assert 'uncertain by 0.4 m' in drifted(0.1, 0.42, 10.0)
    assert 'uncertain by 0.4 m' in drifted(0.1, 0.05, 40.0), 'by its heading'
    # Up to a standard deviation of 0.41 m the error is below 1 m in 95 % of the time.
    assert drifted(0.1, 0.2, 10.0) is None and drifted(0.1, 0.35, 10.0) is None
    # Located just so, between two ranges.
    assert drifted(0.4, 0.1, 1.0) is None
    # Where the heading is not known.
    assert drifted(0.1, 0.42, 10.0, Location.POSITION_ONLY) is None
    assert drifted(0.1, 0.42, 10.0, Location.POSITION_ONLY, audited=0)
    assert drifted(0.1, 0.42, 10.0, Location.UNLOCATED, audited=0) is None


def test_a_robot_that_was_lost_stays_so_until_the_next_audit():
    memory = Suspicions()
    assert memory.lost({}, 5) == {}
    assert memory.lost({'B': 'drifted'}, 5) == {'B': 'drifted'} == memory.lost({}, 5)
    assert memory.lost({}, 9) == {}


@pytest.mark.parametrize('news', [True, False])
@pytest.mark.parametrize('age_s', [59.0, 61.0])
def test_an_audit_is_stale_only_where_measurements_came_that_it_has_not_seen(age_s, news):
    world = World(['curved', 'curved'], [(0, 0), (3, 2)], [[6.0, 1.0]], 40)
    graph = graph_of(world.increments(1), 2)
    segments = find_segments(graph)
    verdict = SimpleNamespace(
        withheld='', gate_reasons=(), gate_robots=(), newest_stamp_ns=7, segments=tuple(
            SimpleNamespace(first=int(first), robot=robot, location=Location.LOCATED, missing='')
            for first, robot in zip(segments.first, graph.robots, strict=True)))
    states = locations(
        graph, segments, verdict, {}, 7 + int(age_s * 1e9),
        SparserConfig(robots=list(graph.robots)), news)
    stale = news and age_s > 60.0
    assert [state.location for state in states] == [
        Location.UNLOCATED if stale else Location.LOCATED] * 2
    assert all(('61 s old' in state.missing) is stale for state in states)
