"""An antenna that stands elsewhere than its lever_arm says is moved there, and told."""

import dataclasses

import numpy as np
import pytest
from backend_world import World, config
from faulty_world import antenna_elsewhere

from sparser_ros.backend.integrity.faults import BURST, Fault
from sparser_ros.backend.integrity.hypotheses import ANTENNA
from sparser_ros.backend.integrity.radio_errors import ANTENNA_AXES, RadioErrors
from sparser_ros.backend.session.audited_map import antennas_of
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.graph_store import GraphStore
from sparser_ros.backend.session.solution import Location
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import IntegrityConfig

ERROR_M = (0.6, -0.35)
BEACONS = [[6.0, 1.0], [-2.0, 7.0], [4.0, -6.0], [9.0, 8.0]]


def options(**integrity):
    return config(
        robots=('A', 'B'), solver=SolverConfig(robust=RobustConfig(kernel='gm')),
        integrity=IntegrityConfig(**integrity))


def world_of(steps=60, known=range(4), seed=3):
    return World(['curved', 'curved'], [np.zeros(2), np.full(2, 2.0)], BEACONS, seed=seed,
                 known=known, steps=steps)


def told(world, error_m=ERROR_M, parts=1):
    """Increments of a world in which the lever arm of B is off."""
    whole = GraphStore(2)
    for one in world.increments(parts):
        whole.add(one)
        graph = whole.graph.replaced(ranges=one.ranges)
        yield dataclasses.replace(one, ranges=antenna_elsewhere(graph, 'B', error_m).ranges)


def audited(world, auditor, error_m=ERROR_M, parts=1):
    verdict = None
    for one in told(world, error_m, parts):
        auditor.add(one)
        verdict = auditor.audit()
    return verdict


def error_m(world, verdict):
    """Root mean square of the errors of all positions, in a map that known beacons fix."""
    return float(np.sqrt(np.mean(np.sum(
        (verdict.estimate.translation - world.truth.translation) ** 2, axis=1))))


@pytest.mark.parametrize('parts', [1, 6])
def test_an_antenna_elsewhere_is_told_by_axis_and_its_robot_located(parts):
    world = world_of()
    verdict = audited(world, Auditor(options()), parts=parts)
    assert verdict.treatment.radio_errors == RadioErrors(
        {}, {'B': pytest.approx(ERROR_M, abs=0.06)})
    assert {one.kind for one in verdict.findings} == set(ANTENNA_AXES[:2])
    assert antennas_of(verdict.findings, 2) == verdict.treatment.radio_errors.antenna_m
    ahead, = [one.text for one in verdict.findings if one.kind == 'antenna_x']
    assert ahead.startswith('the antenna of B is 0.6') and ahead.endswith('set its lever_arm')
    assert all(one.location is Location.LOCATED for one in verdict.segments)
    assert error_m(world, verdict) < 0.06
    assert not verdict.treatment.of(BURST)


def test_without_it_the_map_bends():
    world = world_of()
    told_only = audited(world, Auditor(options(doubt_ranges=False, doubt_odometry=False)))
    assert not told_only.treatment.radio_errors
    assert [(one.kind, one.subject) for one in told_only.findings] == [('antenna_misplaced', 'B')]
    assert error_m(world, told_only) > 2 * error_m(world, audited(world, Auditor(options())))


def test_the_same_data_give_the_same_place_and_no_further_audit():
    auditor = Auditor(options())
    first = audited(world_of(), auditor)
    assert auditor.retold == ''
    assert auditor.audit().treatment.radio_errors == RadioErrors(
        {}, {'B': pytest.approx(first.treatment.radio_errors.antenna_m['B'], abs=0.02)})


@pytest.mark.parametrize('seed', range(5))
def test_antennas_that_stand_where_they_are_configured_stay(seed):
    verdict = audited(world_of(seed=seed), Auditor(options()), (0.0, 0.0), 3)
    assert not verdict.treatment.radio_errors


def test_a_robot_that_does_not_turn_shows_no_antenna():
    world = World(['straight', 'straight'], [np.zeros(2), np.full(2, 2.0)], BEACONS, seed=3,
                  known=range(4), steps=60)
    assert not audited(world, Auditor(options())).treatment.radio_errors


def test_an_antenna_beside_a_calibration_is_the_rest():
    auditor, known = Auditor(options()), RadioErrors({'B': 0.01}, {'B': (0.3, 0.0)})
    auditor.calibrate(known)
    verdict = audited(world_of(), auditor)
    assert verdict.treatment.radio_errors.antenna_m == {'B': pytest.approx(ERROR_M, abs=0.06)}
    assert verdict.treatment.radio_errors.bias_m == {'B': 0.01} and auditor.calibrated == known
    # What ~/save writes is added to what is configured, not to what is calibrated.
    assert antennas_of(verdict.findings, 2) == verdict.treatment.radio_errors.antenna_m
    auditor.calibrate(RadioErrors({}, {'B': ERROR_M}))
    assert auditor.audit().treatment.radio_errors == auditor.calibrated


def test_one_that_no_longer_explains_the_ranges_is_where_it_is_configured():
    """The operator's lever arm was right: half a metre at this place is another fault's work."""
    auditor = Auditor(options())
    audited(world_of(), auditor, (0.0, 0.0))
    auditor._store.treat(auditor._store.treatment.beside(Fault(ANTENNA, 'B', (0.5, 0.5))))
    assert not auditor.audit().treatment.radio_errors
