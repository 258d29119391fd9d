"""Known beacons that stand elsewhere: their configured places do not bend the map."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config

from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import IntegrityConfig

BEACONS = [[8.0, 1.0], [-3.0, 8.0], [4.0, -7.0], [10.0, 9.0], [-8.0, -4.0]]
OPTIONS = config(robots=('A',), solver=SolverConfig(robust=RobustConfig(kernel='gm')))


def lived(places, known=range(5), options=OPTIONS, seed=4, parts=4):
    """The last solution, and the root mean square error, with beacons configured at `places`."""
    world = World(['curved'], [np.zeros(2)], BEACONS, seed=seed, known=known, steps=80)
    session, solution = Session(options), None
    for one in world.increments(parts):
        marks = one.landmarks
        position = marks.position.copy()
        for row, name in enumerate(marks.names):
            position[row] = np.where(marks.fixed[row], places[int(name[1:])], position[row])
        session.add(dataclasses.replace(one, landmarks=type(marks)(
            marks.names, position, marks.fixed)))
        solution = session.solve()
    error = solution.estimate.translation - world.truth.translation[:session.graph.n_poses]
    return solution, float(np.sqrt(np.mean(np.sum(error**2, axis=1))))


def kinds(solution):
    return {(one.kind, one.subject) for one in solution.findings if one.kind != 'position_risk'}


@pytest.mark.parametrize('way', [(1.0, 0.4), (0.0, -3.0)])
def test_a_beacon_at_a_wrong_place_is_named_and_bends_nothing(way):
    places = np.array(BEACONS)
    places[1] += way
    solution, error = lived(places)
    assert kinds(solution) == {('beacon_misplaced', 'L1')}
    finding = solution.findings[0]
    assert finding.value == pytest.approx(np.hypot(*way), abs=0.15)
    assert error < 0.08 and solution.robots[0].location is Location.LOCATED
    np.testing.assert_allclose(solution.estimate.landmarks[1], BEACONS[1], atol=0.15)


def test_exchanged_labels_are_told_as_such():
    places = np.array(BEACONS)
    places[[0, 3]] = places[[3, 0]]
    solution, error = lived(places)
    assert kinds(solution) == {('beacons_swapped', 'L0 and L3')} and error < 0.08


def test_places_that_hold_the_frame_stay():
    """Of two or three known beacons nothing says which one is wrong."""
    places = np.array(BEACONS)
    places[1] += (1.5, 0.0)
    solution, _ = lived(places, known=(0, 1))
    assert solution.anchored
    np.testing.assert_allclose(solution.estimate.landmarks[:2], places[:2], atol=1e-9)


def test_what_is_reported_only_stays_configured():
    places = np.array(BEACONS)
    places[1] += (1.0, 0.4)
    reported = dataclasses.replace(OPTIONS, backend=dataclasses.replace(
        OPTIONS.backend, integrity=IntegrityConfig(doubt_ranges=False)))
    solution, _ = lived(places, options=reported)
    assert ('beacon_misplaced', 'L1') in kinds(solution)
    np.testing.assert_allclose(solution.estimate.landmarks[1], places[1], atol=1e-9)


@pytest.mark.parametrize('seed', range(4))
def test_right_places_are_kept(seed):
    solution, _ = lived(np.array(BEACONS), seed=seed)
    assert kinds(solution) == set()
    np.testing.assert_allclose(solution.estimate.landmarks, BEACONS, atol=1e-9)
