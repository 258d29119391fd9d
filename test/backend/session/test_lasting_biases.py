"""A length that all ranges of a radio are too long by is taken off all of them."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from backend_world import World, config
from hypothesis import given
from hypothesis import strategies as st

from sparser_ros.backend.integrity.faults import BURST, LENGTH, Fault
from sparser_ros.backend.integrity.radio_errors import ALL_RADIOS, BIAS, RadioErrors
from sparser_ros.backend.integrity.undetected import stands_out
from sparser_ros.backend.session import fault_trials
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.fault_search import Attempts, FaultSearch
from sparser_ros.backend.session.graph_store import GraphStore
from sparser_ros.backend.session.lasting_faults import measured_again, sizes_left
from sparser_ros.backend.session.range_faults import common_length
from sparser_ros.backend.session.solution import Location
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph.ends import owners

LENGTH_M = 0.8
BEACONS = [[6.0, 1.0], [-2.0, 7.0], [4.0, -6.0], [9.0, 8.0]]


def options(**integrity):
    return config(
        robots=('A', 'B'), solver=SolverConfig(robust=RobustConfig(kernel='gm')),
        integrity=IntegrityConfig(**integrity))


def long_ranges(one, graph, name, length_m):
    """An increment with the ranges of a robot or beacon too long."""
    number = (*graph.robots, *graph.landmarks.names).index(name)
    ranges = one.ranges
    own = (owners(graph, ranges.source) == number) | (owners(graph, ranges.target) == number)
    return dataclasses.replace(one, ranges=ranges.replaced(
        distance_m=ranges.distance_m + length_m * own))


def world_of(steps=40, known=range(4), seed=3):
    return World(['curved', 'curved'], [np.zeros(2), np.full(2, 2.0)], BEACONS, seed=seed,
                 known=known, steps=steps)


def told(world, name, length_m, parts=1, begin=0, end=None):
    """Increments of a world, those from `begin` on and before `end` with a radio too long."""
    whole = GraphStore(2)
    for one in world.increments(parts):
        whole.add(one)
        faulty = begin <= one.sequence and (end is None or one.sequence < end)
        yield long_ranges(one, whole.graph, name, length_m) if faulty else one


def audited(world, auditor, name='B', length_m=LENGTH_M):
    """The verdict on all of a world."""
    for one in told(world, name, length_m):
        auditor.add(one)
    return auditor.audit()


def taken_off(auditor, verdict):
    """Rows of the ranges of the whole that a verdict's treatment shortens, and by how much."""
    data = auditor._store.treated(verdict.treatment)
    rows = data.original('ranges', np.arange(len(data.graph.ranges)))
    length_m = data.whole.ranges.distance_m[rows] - data.graph.ranges.distance_m
    return rows[np.abs(length_m) > 1e-9], length_m[np.abs(length_m) > 1e-9]


def error_m(world, verdict):
    """Root mean square of the errors of all positions, in a map that known beacons fix."""
    found = verdict.estimate.translation
    return float(np.sqrt(np.mean(np.sum(
        (found - world.truth.translation[:len(found)]) ** 2, axis=1))))


@pytest.mark.parametrize('length_m', [LENGTH_M, -0.5])
def test_a_radio_that_is_long_is_told_and_counts_by_what_is_left(length_m):
    world, auditor = world_of(), Auditor(options())
    verdict = audited(world, auditor, length_m=length_m)
    assert verdict.treatment.radio_errors.bias_m == {'B': pytest.approx(length_m, abs=0.05)}
    found = [one for one in verdict.findings if one.kind == BIAS]
    assert [one.subject for one in found] == ['B']
    assert found[0].value == verdict.treatment.radio_errors.bias_m['B']
    assert 'm too ' + ('long' if length_m > 0 else 'short') in found[0].text
    assert all(one.location is Location.LOCATED for one in verdict.segments)
    assert error_m(world, verdict) < 0.05
    assert not verdict.treatment.of(BURST)


def test_one_robot_has_the_bias_of_all_its_ranges():
    """Its radio, and all radios, are one hypothesis: of two with the same ranges none stands out.

    So are robot and beacon of a pair that nobody else ranges with.
    """
    world = World(['curved'], [np.zeros(2)], BEACONS, seed=5, known=range(4))
    verdict = audited(world, Auditor(config(robots=('A',), solver=SolverConfig(
        robust=RobustConfig(kernel='gm')))), name='A', length_m=-0.4)
    assert verdict.treatment.radio_errors.bias_m == {'A': pytest.approx(-0.4, abs=0.05)}
    assert [one.subject for one in verdict.findings if one.kind == BIAS] == ['A']
    assert error_m(world, verdict) < 0.05


def test_a_switch_puts_the_length_back():
    auditor = Auditor(options())
    assert audited(world_of(), auditor).treatment.radio_errors
    auditor.config = options(doubt_ranges=False)
    assert not auditor.audit().treatment.radio_errors


def test_an_exception_in_between_leaves_the_last_treatment_in_force(monkeypatch):
    auditor = Auditor(options())
    audited(world_of(), auditor)
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
    verdict = audited(world_of(), Auditor(options()), name='L0')
    assert not verdict.treatment.radio_errors.bias_m
    assert any(one.subject == 'L0' for one in verdict.findings)


def test_the_length_of_a_beacon_that_nobody_surveyed_is_found_among_known_ones():
    verdict = audited(world_of(steps=80, known=range(3)), Auditor(options()), name='L3')
    assert verdict.treatment.radio_errors.bias_m == {'L3': pytest.approx(LENGTH_M, abs=0.1)}


def test_no_length_is_taken_off_radios_that_are_right():
    for seed in range(5):
        verdict = audited(world_of(seed=seed), Auditor(options()), length_m=0.0)
        assert not verdict.treatment.radio_errors


@pytest.fixture(scope='module')
def over():
    """(world, auditor, verdicts): ranges of B are too long for 20 of 80 s."""
    world, auditor, verdicts = world_of(steps=160), Auditor(options()), []
    for one in told(world, 'B', LENGTH_M, parts=16, end=4):
        auditor.add(one)
        verdicts.append(auditor.audit())
    return world, auditor, verdicts


def test_a_length_that_is_over_is_taken_off_the_ranges_before(over):
    world, auditor, verdicts = over
    for verdict in verdicts[:4]:
        assert verdict.treatment.radio_errors.bias_m == {'B': pytest.approx(LENGTH_M, abs=0.05)}
    faulty = sum(len(one.ranges) for one in world.increments(16)[:4])
    for verdict in verdicts[4:]:
        assert not verdict.treatment.radio_errors.bias_m
        rows, length_m = taken_off(auditor, verdict)
        assert np.all(rows < faulty)
        assert length_m == pytest.approx(LENGTH_M, abs=0.05)
        assert all(one.location is Location.LOCATED for one in verdict.segments)
        assert error_m(world, verdict) < 0.05
        (found,) = verdict.findings
        assert found.kind == 'range_burst' and found.subject == 'B'
        assert 'until 20 s' in found.text
    # Of the 5 ranges of B at each step, hardly any is on the wrong side of the end.
    assert len(rows) == pytest.approx(5 * 40, abs=5)


@pytest.mark.parametrize('length_m', [LENGTH_M, -0.3])
def test_a_length_that_began_later_is_taken_off_from_then_on(length_m):
    world, auditor, verdicts = world_of(steps=160), Auditor(options()), []
    for one in told(world, 'B', length_m, parts=16, begin=4):
        auditor.add(one)
        verdicts.append(auditor.audit())
    # For half a minute it looks like a jump of odometry, and may be a burst.
    for verdict in verdicts[4:9]:
        assert any(robot == 'B' for robot, _ in verdict.gate_robots)
    honest = sum(len(one.ranges) for one in world.increments(16)[:4])
    for verdict in verdicts[10:]:
        assert verdict.treatment.radio_errors.bias_m == {'B': pytest.approx(length_m, abs=0.05)}
        assert not verdict.gate_robots
        rows, taken_m = taken_off(auditor, verdict)
        assert rows.min() >= honest - 5 and taken_m == pytest.approx(
            verdict.treatment.radio_errors.bias_m['B'])
        assert error_m(world, verdict) < 0.05
        (found,) = verdict.findings
        assert found.kind == BIAS and 'since 20 s of the data' in found.text


def test_what_began_later_is_measured_again():
    auditor = Auditor(options())
    for one in told(world_of(steps=160), 'B', LENGTH_M, parts=16, begin=4):
        auditor.add(one)
        auditor.audit()
    treatment = auditor._store.treatment
    (fault,) = treatment.of(LENGTH)
    assert fault.spans[0][0] > 0
    for wrong, left in ((fault.size[0] + 0.2, LENGTH_M), (5.0, None)):
        auditor._store.treat(treatment.changed(
            fault, dataclasses.replace(fault, size=(wrong,))))
        contest, _ = auditor._attempt(auditor._store.treatment, None)
        search = FaultSearch(
            auditor._store, contest, auditor._solved, auditor._judged, Attempts(), auditor.config)
        search.run(measured_again)
        found = search.treatment.of(LENGTH)
        # What explains nothing leaves nothing behind.
        assert [one.spans for one in found] == ([fault.spans] if left else [])
        assert [one.size[0] for one in found] == ([pytest.approx(left, abs=0.05)] if left else [])


def test_odometry_that_jumps_is_no_length_that_began():
    world, auditor, verdict = world_of(steps=160), Auditor(options()), None
    for one in world.increments(16):
        rel = one.relative_poses
        if one.sequence == 4:
            jumped = rel.translation.copy()
            jumped[world.names.index('B')] += [0.8, 0.0]
            one = dataclasses.replace(one, relative_poses=rel.replaced(translation=jumped))
        auditor.add(one)
        verdict = auditor.audit()
        assert not verdict.treatment.radio_errors.bias_m
    assert any(one.kind.startswith('odometry') for one in verdict.findings)


def test_a_calibration_that_knows_the_length_leaves_nothing_to_find():
    auditor = Auditor(options())
    assert audited(world_of(), auditor).treatment.radio_errors
    auditor.calibrate(RadioErrors({'B': LENGTH_M, 'A': 0.01}))
    assert auditor.retold
    verdict = auditor.audit()
    assert verdict.treatment.radio_errors == auditor.calibrated
    assert auditor.calibrated.bias_m == {'B': LENGTH_M, 'A': 0.01}
    assert not any(one.kind == BIAS for one in verdict.findings)


def test_a_length_of_all_ranges_is_half_of_it_at_each_radio():
    auditor = Auditor(options())
    for one in world_of().increments(1):
        auditor.add(dataclasses.replace(one, ranges=one.ranges.replaced(
            distance_m=one.ranges.distance_m + 0.4)))
    verdict = auditor.audit()
    assert verdict.treatment.radio_errors.bias_m == {ALL_RADIOS: pytest.approx(0.4, abs=0.04)}
    (found,) = verdict.findings
    assert (found.kind, found.subject) == (BIAS, ALL_RADIOS)
    assert found.value == verdict.treatment.radio_errors.bias_m[ALL_RADIOS] / 2
    assert 'add 0.20 m to the bias_m of every radio' in found.text
    assert error_m(world_of(), verdict) < 0.05


@pytest.mark.parametrize('factor', [0.98, 1.02])
def test_odometry_of_another_size_is_no_length_of_all_ranges(factor):
    for seed in range(4):
        world, auditor = world_of(steps=80, known=(), seed=seed), Auditor(options())
        for one in world.increments(1):
            rel = one.relative_poses
            auditor.add(dataclasses.replace(
                one, relative_poses=rel.replaced(translation=factor * rel.translation)))
        assert not auditor.audit().treatment.radio_errors


def search_of(auditor, **integrity):
    contest, error = auditor._attempt(auditor._store.treatment, None)
    assert contest is not None, error
    return FaultSearch(auditor._store, contest, auditor._solved, auditor._judged, Attempts(),
                       options(**integrity))


def test_the_size_of_the_map_is_known_as_well_as_the_odometry(over):
    _, auditor, _ = over
    every = Fault(LENGTH, ALL_RADIOS)
    left = []
    for scale in (1e-6, 0.02, 0.2):
        search = search_of(auditor, scale_floor=scale, fault_size=1e6)
        left.append(sizes_left(search, search.contest, [every])[every])
    assert left[0][1] < left[1][1] < left[2][1]
    # With an odometry that is right, it is the score of the length alone.
    rows = np.arange(len(search.contest.frame.subgraph.graph.ranges))
    assert left[0][0][0] == pytest.approx(common_length(search.contest, rows, 1.0)[0], abs=1e-6)


@given(st.lists(st.floats(-50, 200), min_size=1, max_size=6), st.floats(0.0, 50))
def test_one_cause_at_most_stands_out(evidence, flip_cost):
    causes = tuple(f'range_bias of {k}' for k in range(len(evidence)))
    hidden = SimpleNamespace(causes=causes, evidence=np.array(evidence))
    out = [one for one in causes if stands_out(hidden, one, flip_cost)]
    best = sorted([*evidence, 0.0])
    if best[-1] - best[-2] > flip_cost / 2 and best[-1] > 0:
        assert out == [causes[int(np.argmax(evidence))]]
    else:
        assert not out or best[-1] - best[-2] == pytest.approx(flip_cost / 2)
    assert not stands_out(hidden, 'range_bias of nobody', flip_cost)
    assert not stands_out(None, causes[0], flip_cost)
