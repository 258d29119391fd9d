"""Maps of other starts that fit about as well as the best one."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.integrity.noise import Noise
from sparser_ros.backend.session.contest import Contest
from sparser_ros.backend.session.frame import frame_of, initial_pose
from sparser_ros.backend.session.judgement import against_rivals, judged, seen_in
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.config import RobustConfig, SolverConfig

BEACONS = [[6.0, 1.0], [-2.0, 7.0], [4.0, -6.0], [9.0, 8.0]]


@pytest.fixture(scope='module')
def situation():
    """Two located robots: the contest of their map, and its verdicts."""
    world = World(['curved', 'curved'], [np.zeros(2), np.full(2, 2.0)], BEACONS, seed=3)
    options = config(robots=world.names, solver=SolverConfig(robust=RobustConfig(kernel='gm')))
    session = Session(options)
    for one in world.increments(4):
        session.add(one)
        solution = session.solve()
    graph = session.tracker.graph
    frame = frame_of(graph, options, None)
    contest = Contest(
        frame, solution.estimate, initial_pose(options.backend, 2), options,
        session.tracker._store.now)
    contest.from_present((0, 0))
    noise = Noise()
    found = judged(contest, seen_in(contest, options, noise), options, noise)
    assert [one.location for one in found.segments] == [Location.LOCATED] * 2
    return contest, found, options


@pytest.mark.parametrize(('gap', 'metres', 'ambiguous'), [
    (24.0, 5.0, True), (26.0, 5.0, False), (24.0, 0.5, False)])
def test_another_map_that_fits_about_as_well_leaves_its_robots_ambiguous(
        situation, gap, metres, ambiguous):
    contest, found, options = situation
    moved = contest.best.whole.translation.copy()
    moved[contest.frame.graph.poses.robot == 1, 0] += metres
    both = Contest(contest.frame, contest.guess, contest.pose, contest.config, contest.data)
    both.candidates += [contest.best, dataclasses.replace(
        contest.best, start='hypothesis', value=contest.best.value + gap,
        whole=dataclasses.replace(contest.best.whole, translation=moved))]
    a, b = against_rivals(found.segments, both, options)
    assert a.location is Location.LOCATED
    assert b.location is (Location.AMBIGUOUS if ambiguous else Location.LOCATED)
    assert not ambiguous or ('chi-square' in b.missing and 'has it 5.0 m away' in b.missing)
