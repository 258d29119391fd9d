"""Scenarios with one fault each, and the count of misleading seconds."""

import copy
import dataclasses

import numpy as np
import pytest

from benchmark import integrity, scenarios
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.frontend.samples import OdometrySample, RangeSample
from sparser_ros.io.simulation import Simulation, node_config


@pytest.mark.parametrize('fault', scenarios.FAULTS)
def test_a_fault_changes_data_or_configuration(fault: str):
    run = Simulation(SimulationConfig(
        robots=2, beacons=3, known_beacons=2, minutes=0.25, seed=1,
        **({'dimension': 3, 'imu': True} if fault in scenarios.LEVEL_FAULTS else {})))
    samples, parameters = list(scenarios.samples_of(run)), node_config(run)
    before = copy.deepcopy(parameters)
    faulty, culprits = scenarios.FAULTS[fault](
        samples, scenarios.Draw(np.random.default_rng(2), run, parameters))
    same = len(faulty) == len(samples) and all(
        one is other for one, other in zip(faulty, samples, strict=True))
    assert (same and parameters == before) is (fault == 'clean')
    assert set(culprits) <= {*run.robots, *run.beacon_names}
    received = [sample.received_ns for sample in faulty]
    assert received == sorted(received)


def test_upper_bound_of_a_rate():
    """Without an event in h hours the 95 % bound is 3.0 / h (the rule of three)."""
    assert integrity.upper_rate(0, 10.0) == pytest.approx(0.29957, rel=1e-4)
    assert integrity.upper_rate(3, 10.0) > integrity.upper_rate(0, 10.0)
    assert integrity.upper_rate(0, 0.0) == float('inf')


def test_of_two_known_beacons_a_misplaced_one_that_looks_moved_leaves_nobody_located():
    """It is located until ranges fit one other place only: before nothing denies the first one."""
    outcome = integrity.judged('misplaced_beacon', 409, 2.5)
    assert outcome.misleading <= 8 and outcome.silent == 0 and outcome.named is not None


def outcome_of(beacons, until_s, change, fault, culprit):
    """Of the first seconds of a recording of two robots, its samples changed."""
    run = Simulation(SimulationConfig(robots=2, beacons=beacons, minutes=2.6, seed=31))
    parameters = node_config(run) | {'solver': {'robust': {'kernel': 'gm', 'gnc': True}}}
    early = [sample for sample in change(scenarios.samples_of(run))
             if scenarios.seconds_of(sample) < until_s]
    return integrity.outcome_of(scenarios.Scenario(
        run, SparserConfig.from_mapping(parameters), early, fault, (culprit,)), 31)


def test_odometry_too_long_does_not_locate_two_robots_at_the_wrong_one_of_two_places():
    """Its map fits better than the true one, by 29 in chi-square, unless the fault is allowed."""
    outcome = outcome_of(0, 43, lambda samples: scenarios.changed(
        samples, OdometrySample, lambda s: dataclasses.replace(
            s, position_xyz=1.1 * s.position_xyz), 'A'), 'scaled', 'A')
    assert outcome.located > 10 and outcome.misleading == 0


def test_ranges_of_a_beacon_are_not_left_out_where_a_long_radio_explains_them():
    """The map without them has that robot 1.6 m off for 19 s, and nothing denies it."""
    # The bar is what the accepted risk allows before there are enough ranges.
    outcome = outcome_of(2, 36, lambda samples: scenarios.changed(
        samples, RangeSample, lambda s: dataclasses.replace(
            s, range_m=s.range_m + 1.5 * ('B' in (s.source, s.target)))), 'biased_radio', 'B')
    assert outcome.located > 10 and outcome.misleading <= 3 and outcome.named


@pytest.mark.parametrize(('drawn', 'until_s', 'located'), [
    # After 5 s, on a wrong map, all ranges look 8 times as noisy as they claim; it fits then.
    (('gross', 9701, 2.0), 45, 15),
    # Two robots and one beacon: a jump of 3 m fits them, and has the robot 5 m off.
    (('burst', 9800), 128, 40)])
def test_ranges_that_are_false_pass_neither_for_noise_nor_for_a_jump(drawn, until_s, located):
    made = scenarios.scenario(*drawn)
    early = [sample for sample in made.samples if scenarios.seconds_of(sample) < until_s]
    outcome = integrity.outcome_of(dataclasses.replace(made, samples=early), drawn[1])
    assert outcome.located > located and outcome.misleading == 0


def test_on_a_slow_computer_robots_are_located_later():
    made = scenarios.scenario('clean', 720)
    early = dataclasses.replace(made, samples=[
        sample for sample in made.samples if scenarios.seconds_of(sample) < 25])
    soon, late = (integrity.outcome_of(early, 720, audit_s) for audit_s in (0, 8))
    assert 0 < late.located <= soon.located - 4 and late.misleading == 0
