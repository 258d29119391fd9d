"""Beacons that were moved, found from the time on at which their ranges fit another place."""

import numpy as np
import pytest
from faulty_world import graph, solved, world

from sparser_ros.backend.integrity.doubts import REJECTED_WEIGHT, Stretch
from sparser_ros.backend.integrity.examine import examine
from sparser_ros.backend.integrity.faults import hypotheses_of
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.integrity.stretches import _scores, beacon_steps
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph import range_directions, range_residuals, range_vectors
from sparser_ros.graph.ends import range_ends

CONFIG = IntegrityConfig()


def moved(made, truth, name, way, begin_s):
    """The ranges as they are where a beacon was carried by `way` at a time."""
    number, ends = made.landmarks.names.index(name), range_ends(made)
    rows = ends.at(ends.robots + number) & (ends.seconds >= begin_s)
    places = truth.landmarks.copy()
    places[number] += way
    before = np.linalg.norm(range_vectors(made, truth), axis=1)
    after = np.linalg.norm(range_vectors(made, type(truth)(
        truth.rotation, truth.translation, places)), axis=1)
    return made.replaced(ranges=made.ranges.replaced(
        distance_m=made.ranges.distance_m + np.where(rows, after - before, 0.0))), rows


def steps(made, estimate, weights=None):
    weight = 1.0 if weights is None else np.where(
        weights['ranges'] < REJECTED_WEIGHT, 0.0, weights['ranges'])
    root = np.sqrt(made.ranges.precision * weight)
    return beacon_steps(
        range_ends(made), range_directions(made, estimate),
        -range_residuals(made, estimate) * root, root, CONFIG)


def test_scores_are_what_a_second_place_explains():
    rng = np.random.default_rng(1)
    slope, whitened = rng.normal(size=(40, 2)), rng.normal(size=40)
    value = _scores(slope, whitened)

    def left(rows):
        return np.linalg.lstsq(slope[rows], whitened[rows], rcond=None)[1][0]

    every = np.arange(40)
    for begin in (5, 20, 33):
        apart = left(every[:begin]) + left(every[begin:])
        assert value[begin] == pytest.approx(left(every) - apart, rel=1e-6)


@pytest.mark.parametrize('dimension', [2, 3])
def test_derivatives_agree_with_differences(dimension):
    place = world(2, dimension)
    made = graph(place, 2)
    way, sources = 1e-4 * np.ones(dimension), range_ends(made)
    changed, rows = moved(made, place.truth, 'L1', way, 40.0)
    model = linear_model(made, place.truth, {})
    step = Stretch(4, 'L1', np.flatnonzero(rows), 40.0, 90.0, lambda _: None, landmark=1)
    one = next(one for one in hypotheses_of(
        model, sources, [step], CONFIG) if one.kind == 'beacon_moved')
    assert one.subject == 'L1'
    # A beacon that is further away is measured longer: its residual becomes smaller.
    np.testing.assert_allclose(
        model.residual - linear_model(changed, place.truth, {}).residual, one.columns @ way,
        atol=1e-6)


@pytest.mark.parametrize(('seed', 'begin_s'), [(1, 75.0), (2, 65.0), (3, 85.0), (9, 75.0)])
def test_a_beacon_that_was_moved_is_found_with_its_time_where_the_map_bends_to_it(seed, begin_s):
    place = world(seed)
    made, rows = moved(graph(place, seed), place.truth, 'L2', [1.5, -1.0], begin_s)
    estimate, weights = solved(made, place.truth)
    one = next(one for one in steps(made, estimate, weights) if one.source == 3 + 2)
    assert abs(one.begin_s - begin_s) < 8
    found = examine(made, estimate, weights, CONFIG)
    assert len({(one.kind, one.subject) for one in found.findings}) == len(found.findings)
    burst = next(one for one in found.bursts if one.finding.subject == 'L2')
    assert np.isin(np.flatnonzero(rows), burst.rows).mean() > 0.8
    assert np.isin(burst.rows, np.flatnonzero(rows)).mean() > 0.8


def test_beacons_at_rest_are_suspected_as_seldom_as_stated():
    count = 0
    for seed in range(10):
        place = world(seed)
        made = graph(place, seed, share=0.0)
        count += len(steps(made, place.truth))
        assert not examine(made, *solved(made, place.truth), CONFIG).bursts
    # 60 beacons at 1 % each.
    assert count <= 3


def test_a_few_ranges_do_not_suspect_a_beacon():
    place = world(3)
    made, _ = moved(graph(place, 3), place.truth, 'L2', [5.0, 0.0], 60.0)
    ends = range_ends(made)
    own = np.flatnonzero(ends.at(ends.robots + 2))
    few = np.setdiff1d(np.arange(len(made.ranges)), own[20:])
    made = made.replaced(ranges=made.ranges.take(few))
    assert ends.robots + 2 not in {one.source for one in steps(made, place.truth)}
