"""Faults that last (radios, antennas, known beacons) are taken off the map, and told."""

from functools import cache

import numpy as np
import pytest
from backend_world import GM, World, config, filled, longer, of_robot, pair_world, ticks
from faulty_world import antenna_elsewhere

from sparser_ros.backend.integrity.faults import BURST, LENGTH, Fault
from sparser_ros.backend.integrity.hypotheses import ANTENNA
from sparser_ros.backend.integrity.radio_errors import ALL_RADIOS, ANTENNA_AXES, BIAS, RadioErrors
from sparser_ros.backend.session import exchange_trials, fault_trials
from sparser_ros.backend.session.audited_map import antennas_of
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.fault_search import Attempts, FaultSearch
from sparser_ros.backend.session.lasting_faults import length_begun
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.config.backend_config import IntegrityConfig

LENGTH_M = 0.8
ERROR_M = (0.6, -0.35)
MARKS = [[8.0, 1.0], [-3.0, 8.0], [4.0, -7.0], [10.0, 9.0], [-8.0, -4.0]]


def options(**integrity):
    return config(solver=GM, integrity=IntegrityConfig(**integrity))


def told(world, name, length_m, parts=1, begin=0, end=np.inf):
    """Increments of a world, those from `begin` on and before `end` with a radio too long."""
    for one in world.increments(parts):
        own = one.ranges.target == ~int(name[1:]) if name.startswith('L') else of_robot(
            one.ranges, world.names.index(name), len(world.names))
        yield longer(one, length_m * own * (begin <= one.sequence < end))


def verdicts_of(auditor, increments):
    """The verdicts after each of the increments."""
    return [filled(auditor, [one]).audit() for one in increments]


def audited(world, auditor, name='B', length_m=LENGTH_M):
    return filled(auditor, told(world, name, length_m)).audit()


def taken_off(auditor, verdict):
    """Rows of the ranges of the whole that a verdict's treatment shortens, and by how much."""
    data = auditor._store.treated(verdict.treatment)
    rows = data.original('ranges', np.arange(len(data.graph.ranges)))
    length_m = data.whole.ranges.distance_m[rows] - data.graph.ranges.distance_m
    return rows[np.abs(length_m) > 1e-9], length_m[np.abs(length_m) > 1e-9]


@pytest.mark.parametrize(('options', 'name', 'length_m'), [
    ({}, 'B', LENGTH_M), ({}, 'B', -0.5), ({'robots': 1}, 'A', -0.4),
    # A beacon that nobody surveyed, among known ones.
    ({'steps': 80, 'known': range(3)}, 'L3', LENGTH_M)])
def test_a_radio_that_is_long_is_told_and_counts_by_what_is_left(options, name, length_m):
    """One robot has the bias of all radios too: of two with the same ranges none stands out."""
    world = pair_world(**options)
    verdict = audited(world, Auditor(config(robots=world.names, solver=GM)), name, length_m)
    bias_m = verdict.treatment.radio_errors.bias_m
    assert bias_m == {name: pytest.approx(length_m, abs=0.05)}
    (found,) = [one for one in verdict.findings if one.kind == BIAS]
    assert (found.subject, found.value) == (name, bias_m[name])
    assert 'm too ' + ('long' if length_m > 0 else 'short') in found.text
    assert all(one.location is Location.LOCATED for one in verdict.segments)
    assert world.map_error_m(verdict.estimate) < 0.05
    assert not verdict.treatment.of(BURST)


def test_an_exception_in_between_leaves_the_last_treatment_in_force(monkeypatch):
    auditor = Auditor(options())
    audited(pair_world(), auditor)
    before = auditor._store.treatment
    assert before.of(LENGTH)

    def broken(search):
        yield from search.go_on(search.treatment.but(LENGTH))
        raise RuntimeError('planted')

    monkeypatch.setattr(fault_trials, '_RANGES', (broken,))
    with pytest.raises(RuntimeError, match='planted'):
        auditor.audit()
    assert auditor._store.treatment == before
    monkeypatch.undo()
    assert auditor.audit().treatment.of(LENGTH)


def test_a_known_beacon_keeps_its_ranges():
    verdict = audited(pair_world(), Auditor(options()), name='L0')
    assert not verdict.treatment.radio_errors.bias_m
    assert any(one.subject == 'L0' for one in verdict.findings)


def test_a_length_that_is_over_is_taken_off_the_ranges_before():
    world, auditor = pair_world(steps=160), Auditor(options())
    verdicts = verdicts_of(auditor, told(world, 'B', LENGTH_M, parts=8, end=2))
    for verdict in verdicts[:2]:
        assert verdict.treatment.radio_errors.bias_m == {'B': pytest.approx(LENGTH_M, abs=0.05)}
    faulty = sum(len(one.ranges) for one in world.increments(8)[:2])
    for verdict in verdicts[2:]:
        assert not verdict.treatment.radio_errors.bias_m
        rows, length_m = taken_off(auditor, verdict)
        assert np.all(rows < faulty)
        assert length_m == pytest.approx(LENGTH_M, abs=0.05)
        assert all(one.location is Location.LOCATED for one in verdict.segments)
        assert world.map_error_m(verdict.estimate) < 0.05
        (found,) = verdict.findings
        assert found.kind == 'range_burst' and found.subject == 'B'
        assert 'until 20 s' in found.text
    # Of the 5 ranges of B at each step, hardly any is on the wrong side of the end.
    assert len(rows) == pytest.approx(5 * 40, abs=5)


@pytest.mark.parametrize('length_m', [LENGTH_M, -0.3])
def test_a_length_that_began_later_is_taken_off_from_then_on(length_m):
    world, auditor = pair_world(steps=160), Auditor(options())
    verdicts = verdicts_of(auditor, told(world, 'B', length_m, parts=8, begin=2))
    honest = sum(len(one.ranges) for one in world.increments(8)[:2])
    for verdict in verdicts[5:]:
        assert verdict.treatment.radio_errors.bias_m == {'B': pytest.approx(length_m, abs=0.05)}
        assert not verdict.unclear
        rows, taken_m = taken_off(auditor, verdict)
        assert rows.min() >= honest - 5 and taken_m == pytest.approx(
            verdict.treatment.radio_errors.bias_m['B'])
        assert world.map_error_m(verdict.estimate) < 0.05
        (found,) = verdict.findings
        assert found.kind == BIAS and 'since 20 s of the data' in found.text


def test_odometry_that_jumps_is_no_length_that_began():
    world = pair_world(steps=160)
    increments = world.increments(8)
    increments[2].relative_poses.translation[world.names.index('B')] += [0.8, 0.0]
    verdicts = verdicts_of(Auditor(options()), increments)
    assert not any(verdict.treatment.radio_errors.bias_m for verdict in verdicts)
    assert any(one.kind.startswith('odometry') for one in verdicts[-1].findings)


def test_when_a_length_began_is_what_its_ranges_say():
    """A jump of odometry is compared with it: the jump may seem to be seconds before."""
    world = pair_world(steps=80)
    auditor = filled(Auditor(options()), told(world, 'B', LENGTH_M, parts=8, begin=5))
    contest, _ = auditor._attempt(auditor._store.treatment, None)
    search = FaultSearch(auditor._store, contest, auditor._solved, Attempts(), auditor.config)
    stamps = search.whole.poses.stamp_ns
    begin = {}
    for step in (42, 50, 58):
        fault, _ = length_begun(search, search.treatment, 'B', int(stamps[world.row(1, step)]))
        begin[step] = fault.spans[0][0]
        assert fault.size[0] == pytest.approx(LENGTH_M, abs=0.15)
    assert all(stamps[world.row(1, 49)] < ns <= stamps[world.row(1, 50)] for ns in begin.values())


def test_a_calibration_that_knows_the_length_leaves_nothing_to_find():
    auditor = Auditor(options())
    assert audited(pair_world(), auditor).treatment.radio_errors
    auditor.calibrate(RadioErrors({'B': LENGTH_M, 'A': 0.01}))
    assert auditor.retold
    verdict = auditor.audit()
    assert verdict.treatment.radio_errors == auditor.calibrated
    assert auditor.calibrated.bias_m == {'B': LENGTH_M, 'A': 0.01}
    assert not any(one.kind == BIAS for one in verdict.findings)


def test_a_length_of_all_ranges_is_half_of_it_at_each_radio():
    (whole,) = pair_world().increments(1)
    verdict = filled(Auditor(options()), [longer(whole, 0.4)]).audit()
    assert verdict.treatment.radio_errors.bias_m == {ALL_RADIOS: pytest.approx(0.4, abs=0.04)}
    (found,) = verdict.findings
    assert (found.kind, found.subject) == (BIAS, ALL_RADIOS)
    assert found.value == verdict.treatment.radio_errors.bias_m[ALL_RADIOS] / 2
    assert 'add 0.20 m to the bias_m of every radio' in found.text
    assert pair_world().map_error_m(verdict.estimate) < 0.05


@pytest.mark.parametrize(('factor', 'place'), [
    (1.0, {}), *((factor, {'steps': 80, 'known': ()}) for factor in (0.98, 1.02))])
def test_nothing_is_taken_off_radios_that_are_right_whatever_the_size_of_odometry(factor, place):
    for seed in range(5):
        (whole,) = pair_world(seed=seed, **place).increments(1)
        rel = whole.relative_poses
        auditor = filled(Auditor(options()), [whole.replaced(
            relative_poses=rel.replaced(translation=factor * rel.translation))])
        assert not auditor.audit().treatment.radio_errors


def audited_elsewhere(world, auditor, error_m=ERROR_M, parts=1):
    """The verdict on a world in which the lever arm of B is off."""
    made = [antenna_elsewhere(one, 'B', error_m) for one in world.increments(parts)]
    return verdicts_of(auditor, made)[-1]


@cache
def misplaced(parts):
    """A world whose robot B has its antenna elsewhere, and the verdict on it."""
    world = pair_world(steps=60)
    return world, audited_elsewhere(world, Auditor(options()), parts=parts)


@pytest.mark.parametrize('parts', [1, 6])
def test_an_antenna_elsewhere_is_told_by_axis_and_its_robot_located(parts):
    world, verdict = misplaced(parts)
    assert verdict.treatment.radio_errors == RadioErrors(
        {}, {'B': pytest.approx(ERROR_M, abs=0.06)})
    assert {one.kind for one in verdict.findings} == set(ANTENNA_AXES[:2])
    assert antennas_of(verdict.findings, 2) == verdict.treatment.radio_errors.antenna_m
    ahead, = [one.text for one in verdict.findings if one.kind == 'antenna_x']
    assert ahead.startswith('the antenna of B is 0.6') and ahead.endswith('set its lever_arm')
    assert all(one.location is Location.LOCATED for one in verdict.segments)
    assert world.map_error_m(verdict.estimate) < 0.06
    assert not verdict.treatment.of(BURST)


def test_without_it_the_map_bends():
    world = pair_world(steps=60)
    told_only = audited_elsewhere(world, Auditor(options(doubt_ranges=False, doubt_odometry=False)))
    assert not told_only.treatment.radio_errors
    assert [(one.kind, one.subject) for one in told_only.findings] == [('antenna_misplaced', 'B')]
    assert world.map_error_m(told_only.estimate) > 2 * world.map_error_m(misplaced(1)[1].estimate)


@pytest.mark.parametrize(('kind', 'seed', 'error_m'), [
    *(('curved', seed, (0.0, 0.0)) for seed in range(5)), ('straight', 3, ERROR_M)])
def test_an_antenna_that_stands_where_it_is_configured_or_that_never_turns_stays(
        kind, seed, error_m):
    world = pair_world(kind=kind, steps=60, seed=seed)
    assert not audited_elsewhere(world, Auditor(options()), error_m, 3).treatment.radio_errors


def test_an_antenna_beside_a_calibration_is_the_rest():
    auditor, known = Auditor(options()), RadioErrors({'B': 0.01}, {'B': (0.3, 0.0)})
    auditor.calibrate(known)
    verdict = audited_elsewhere(pair_world(steps=60), auditor)
    assert verdict.treatment.radio_errors.antenna_m == {'B': pytest.approx(ERROR_M, abs=0.06)}
    assert verdict.treatment.radio_errors.bias_m == {'B': 0.01} and auditor.calibrated == known
    # What ~/save writes is added to what is configured, not to what is calibrated.
    assert antennas_of(verdict.findings, 2) == verdict.treatment.radio_errors.antenna_m
    auditor.calibrate(RadioErrors({}, {'B': ERROR_M}))
    assert auditor.audit().treatment.radio_errors == auditor.calibrated


def test_one_that_no_longer_explains_the_ranges_is_where_it_is_configured():
    """The operator's lever arm was right: half a metre at this place is another fault's work."""
    auditor = Auditor(options())
    audited_elsewhere(pair_world(steps=60), auditor, (0.0, 0.0))
    auditor._store.treat(auditor._store.treatment.beside(Fault(ANTENNA, 'B', (0.5, 0.5))))
    assert not auditor.audit().treatment.radio_errors


def placed_at(places, known=range(5), seed=4, parts=4):
    """The last solution, and the root mean square error, with beacons configured at `places`."""
    world = World(['curved'], [np.zeros(2)], MARKS, seed=seed, known=known, steps=80)
    first, *later = world.increments(parts)
    marks = first.landmarks
    first = first.replaced(landmarks=type(marks)(
        marks.names, np.where(marks.fixed[:, None], places, marks.position), marks.fixed))
    *_, solution = ticks(Session(config(robots=('A',), solver=GM)), [first, *later])
    return solution, world.map_error_m(solution.estimate)


def kinds(solution):
    return {(one.kind, one.subject) for one in solution.findings if one.kind != 'position_risk'}


@pytest.mark.parametrize('way', [(1.0, 0.4), (0.0, -3.0)])
def test_a_beacon_at_a_wrong_place_is_named_and_bends_nothing(way):
    places = np.array(MARKS)
    places[1] += way
    solution, error = placed_at(places)
    assert kinds(solution) == {('beacon_misplaced', 'L1')}
    finding = solution.findings[0]
    assert finding.value == pytest.approx(np.hypot(*way), abs=0.15)
    assert error < 0.08 and solution.robots[0].location is Location.LOCATED
    np.testing.assert_allclose(solution.estimate.landmarks[1], MARKS[1], atol=0.15)


@pytest.mark.parametrize('few', [6, 3])
@pytest.mark.parametrize('pair', [(0, 3), (1, 2), (0, 1)])
def test_exchanged_labels_are_told_as_such(pair, few, monkeypatch):
    """Also where beacons are too many for all pairs to be tried: by the places that they have."""
    monkeypatch.setattr(exchange_trials, '_FEW_BEACONS', few)
    places = np.array(MARKS)
    places[list(pair)] = places[list(pair[::-1])]
    solution, error = placed_at(places, parts=6)
    assert kinds(solution) == {('beacons_swapped', f'L{pair[0]} and L{pair[1]}')} and error < 0.08
    assert 'exchange the names' in solution.findings[0].text, 'ranges are of the other beacon'
    np.testing.assert_allclose(solution.estimate.landmarks, places, atol=1e-9)


def test_places_that_hold_the_frame_stay():
    """Of two or three known beacons nothing says which one is wrong."""
    places = np.array(MARKS)
    places[1] += (1.5, 0.0)
    solution, _ = placed_at(places, known=(0, 1))
    assert solution.anchored
    np.testing.assert_allclose(solution.estimate.landmarks[:2], places[:2], atol=1e-9)


@pytest.mark.parametrize('seed', range(4))
def test_right_places_are_kept(seed):
    solution, _ = placed_at(np.array(MARKS), seed=seed)
    assert kinds(solution) == set()
    np.testing.assert_allclose(solution.estimate.landmarks, MARKS, atol=1e-9)
