"""Maps of other starts that fit about as well as the best one."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.integrity.noise import Noise
from sparser_ros.backend.session.contest import Contest
from sparser_ros.backend.session.frame import frame_of, initial_pose
from sparser_ros.backend.session.judgement import against_rivals, beside_faults, judged, seen_in
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import ObservabilityConfig

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
    a, b = against_rivals(found.segments, both, options, None, Noise())
    assert a.location is Location.LOCATED
    assert b.location is (Location.AMBIGUOUS if ambiguous else Location.LOCATED)
    assert not ambiguous or ('chi-square' in b.missing and 'has it 5.0 m away' in b.missing)


SCALE = 'odometry_scale of B'


def beside(situation, gap, here, there, *, metres=(0.0, 5.0), shift=0.0, risk=0.05):
    """{robot: why not} beside a map that costs `gap` more and has A and B so many `metres` away.

    `here`, `there`: evidence of the scale of B's odometry in the two maps; with that fault B is
    `shift` metres further away in the other one.
    """
    contest, found, options = situation
    number = found.undetected.causes.index(SCALE)

    def with_evidence(value, away):
        evidence = np.full(len(found.undetected.causes), -20.0)
        evidence[number] = value
        shifts = np.zeros_like(found.undetected.lone_shift)
        shifts[found.undetected.place('B'), 0, number] = away
        return dataclasses.replace(found.undetected, evidence=evidence, lone_shift=shifts)

    translation = contest.best.whole.translation.copy()
    translation[:, 0] += np.array(metres)[contest.frame.graph.poses.robot]
    rival = dataclasses.replace(
        contest.best, start='hypothesis', value=contest.best.value + gap,
        whole=dataclasses.replace(contest.best.whole, translation=translation))
    backend = dataclasses.replace(
        options.backend, observability=ObservabilityConfig(integrity_risk=risk))
    segments = beside_faults(
        list(found.segments), contest, rival, with_evidence(here, 0.0),
        with_evidence(there, shift), dataclasses.replace(options, backend=backend))
    return {one.robot: one.missing for one in segments if one.location is not Location.LOCATED}


def test_a_map_that_a_fault_makes_as_good_leaves_its_robots_ambiguous(situation):
    # exp(-30 / 2) (1 + 0.01 exp(16)) = 0.027 are odds above 0.01; with exp(14) they are 0.004.
    assert beside(situation, 30.0, -20.0, 16.0) == {
        'B': 'if the odometry of B is too long or too short, another map fits about as well and '
             'has it 5.0 m away'}
    assert not beside(situation, 30.0, -20.0, 14.0)


def test_what_the_same_fault_explains_here_does_not_count(situation):
    assert not beside(situation, 30.0, 16.0, 16.0)


@pytest.mark.parametrize(('there', 'shift', 'risk', 'robots'), [
    # exp(-20 / 2) (1 + 0.01 exp(14.6)) = 1: one half, and there the fault is all but certain.
    (14.6, 3.0, 0.05, {'A', 'B'}), (11.0, 3.0, 0.05, {'A'}), (11.0, 3.0, 0.02, {'A', 'B'}),
    (14.6, 3.0, 0.5, {'A'}), (14.6, 0.0, 0.05, {'A'})])
def test_a_robot_that_only_the_fault_moves_there_is_at_risk_with_both_probabilities(
        situation, there, shift, risk, robots):
    assert set(beside(
        situation, 20.0, -20.0, there, metres=(5.0, 0.9), shift=shift, risk=risk)) == robots
