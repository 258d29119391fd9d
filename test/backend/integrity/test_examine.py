"""The monitors name the source at fault, and nobody when nothing is wrong."""

import numpy as np
import pytest
from faulty_world import (
    antenna_elsewhere,
    graph,
    lengthened,
    odometry_scaled,
    radio_rows,
    robots_exchanged,
    solved,
    world,
)

from sparser_ros.backend.integrity.examine import examine
from sparser_ros.config.backend_config import IntegrityConfig

KNOWN = (0, 1, 2, 3, 4, 5)
CONFIG = IntegrityConfig()


def examined(made, truth):
    return examine(made, *solved(made, truth), CONFIG)


def kinds(examination):
    return [(one.kind, one.subject) for one in examination.findings]


@pytest.mark.parametrize('dimension', [2, 3])
@pytest.mark.parametrize('seed', range(20))
def test_nobody_is_blamed_on_clean_data(dimension, seed):
    place = world(seed, dimension, KNOWN if seed % 2 else ())
    found = examined(graph(place, seed), place.truth)
    assert found.findings == ()
    assert found.gate.passed and not found.gate.robots
    assert all(factor < CONFIG.variance_floor for factor in found.odometry_factors.values())


@pytest.mark.parametrize('dimension', [2, 3])
@pytest.mark.parametrize('size', [0.5, -0.5])
def test_a_radio_whose_ranges_are_off_by_a_length_is_named_with_it(dimension, size):
    place = world(3, dimension)
    made = graph(place, 3)
    found = examined(lengthened(made, radio_rows(made, 'B'), size), place.truth)
    assert kinds(found) == [('range_bias', 'B')]
    assert found.findings[0].value == pytest.approx(size, abs=0.1)
    assert ('long' if size > 0 else 'short') in found.findings[0].text
    assert 'B' not in found.gate.robots, 'the estimate bears half a metre'


@pytest.mark.parametrize(('beacons', 'subject'), [((2,), 'L2'), (KNOWN, 'all beacons')])
def test_beacons_under_the_ceiling_are_asked_for_their_height(beacons, subject):
    """In the plane: ranges are slant, and nothing else is blamed for that."""
    place = world(3, 2)
    made = graph(place, 3)
    ranges = made.ranges
    far = np.isin(~ranges.target, beacons) & (ranges.target < 0)
    slant = np.sqrt(ranges.distance_m**2 + 2.5**2 * far)
    found = examined(made.replaced(ranges=ranges.replaced(distance_m=slant)), place.truth)
    assert kinds(found) == [('height_missing', subject)]
    assert found.findings[0].value == pytest.approx(2.5, abs=0.4)
    assert 'set height_m of' in found.findings[0].text


@pytest.mark.parametrize('seed', [0, 3, 5, 7])
def test_delays_of_radios_are_no_height_where_they_explain_most_of_it(seed):
    """Errors that differ from place to place let heights fit a little better."""
    place = world(seed, 2)
    made = graph(place, seed)
    random, ranges = np.random.default_rng(seed), made.ranges
    near = np.exp(-((ranges.distance_m - ranges.distance_m.min()) / 6.0) ** 2)
    delayed = ranges.distance_m + 0.1 + 0.5 * near + 0.05 * random.normal(size=len(near))
    found = examined(made.replaced(ranges=ranges.replaced(distance_m=delayed)), place.truth)
    assert 'height_missing' not in {kind for kind, _ in kinds(found)}


@pytest.mark.parametrize('error_m', [(0.6, -0.3), (-0.4, 0.2, 0.3)])
def test_an_antenna_that_stands_elsewhere_is_named_with_the_distance(error_m):
    place = world(3, len(error_m), KNOWN)
    made = graph(place, 3)
    found = examined(antenna_elsewhere(made, 'B', error_m), place.truth)
    assert kinds(found) == [('antenna_misplaced', 'B')]
    assert found.findings[0].value == pytest.approx(np.linalg.norm(error_m), abs=0.1)
    assert 'the antenna of B stands 0.' in found.findings[0].text


@pytest.mark.parametrize('metres', [1.0, 5.0, 20.0])
def test_a_known_beacon_elsewhere_is_named_with_the_distance(metres):
    place = world(4, 2, KNOWN)
    made = graph(place, 4)
    position = made.landmarks.position.copy()
    position[0, 0] += metres
    marks = type(made.landmarks)(made.landmarks.names, position, made.landmarks.fixed)
    found = examined(made.replaced(landmarks=marks), place.truth)
    assert kinds(found) == [('beacon_misplaced', 'L0')]
    assert found.findings[0].value == pytest.approx(metres, rel=0.15, abs=0.1)


@pytest.mark.parametrize(('known', 'passed'), [((0, 1), False), (KNOWN, True)])
def test_of_two_known_beacons_nobody_tells_which_one_is_elsewhere(known, passed):
    """The frame of map is then unknown; more known beacons show it."""
    place = world(4, 2, known)
    made = graph(place, 4)
    position = made.landmarks.position.copy()
    position[0, 0] += 5.0
    marks = type(made.landmarks)(made.landmarks.names, position, made.landmarks.fixed)
    found = examined(made.replaced(landmarks=marks), place.truth)
    assert 'L0' in {name for one in found.findings for name in one.subject.split(' and ')} or (
        'L1' in {one.subject for one in found.findings}), kinds(found)
    assert found.gate.passed == passed
    assert passed or 'L0, L1' in found.gate.reasons[-1]


def test_known_beacons_under_each_others_name_are_named():
    place = world(5, 2, KNOWN)
    made = graph(place, 5)
    swap = {~0: ~1, ~1: ~0}
    target = np.array([swap.get(int(end), int(end)) for end in made.ranges.target])
    found = examined(made.replaced(ranges=made.ranges.replaced(target=target)), place.truth)
    assert kinds(found) == [('beacons_swapped', 'L0 and L1')]


def test_robots_with_each_others_radio_are_named_and_withheld():
    place = world(6)
    found = examined(robots_exchanged(graph(place, 6), 1, 2), place.truth)
    assert ('radios_swapped', 'B and C') in kinds(found)
    assert {'B', 'C'} <= set(found.gate.robots)
    assert 'A' not in found.gate.robots


@pytest.mark.parametrize('factor', [1.1, 0.9])
def test_a_robot_whose_odometry_has_another_scale_is_named_with_it(factor):
    place = world(7)
    found = examined(odometry_scaled(graph(place, 7), 1, factor), place.truth)
    assert kinds(found)[0] == ('odometry_scale', 'B')
    assert found.findings[0].value == pytest.approx(100 * (factor - 1), abs=2)
    assert found.odometry_factors['B'] > 4 > found.odometry_factors['A']


def test_a_burst_of_long_ranges_is_named_with_its_times():
    place = world(8)
    made = graph(place, 8)
    seconds = (made.ranges.stamp_ns - made.poses.stamp_ns.min()) * 1e-9
    rows = radio_rows(made, 'B') & (seconds >= 45) & (seconds < 75)
    found = examined(lengthened(made, rows, 3.0), place.truth)
    assert kinds(found) == [('range_burst', 'B')]
    assert found.findings[0].value == pytest.approx(3.0, abs=0.3)
    assert 'from 4' in found.findings[0].text and 'to 7' in found.findings[0].text


def test_odometry_that_jumps_is_named_with_the_distance():
    place = world(9)
    made = graph(place, 9)
    rel = made.relative_poses
    edge = np.flatnonzero((made.poses.robot[rel.i] == 1) & (rel.i > 360))[0]
    move = rel.translation.copy()
    move[edge, 0] += 2.0
    found = examined(made.replaced(relative_poses=rel.replaced(translation=move)), place.truth)
    assert kinds(found)[0] == ('odometry_jump', 'B')
    assert found.findings[0].value == pytest.approx(2.0, abs=0.5)


@pytest.mark.parametrize('share', [0.2, 0.4])
def test_false_ranges_everywhere_are_nobodys_fault(share):
    place = world(10)
    found = examined(graph(place, 10, share), place.truth)
    assert found.findings == ()
    assert found.gate.passed and not found.gate.robots


def test_a_rejected_closure_is_told():
    place = world(11)
    made = graph(place, 11)
    rel = made.relative_poses
    edge = rel.take(slice(0, 1)).replaced(
        i=np.array([30]), j=np.array([400]), translation=np.array([[3.0, 0.0]]),
        odometry=np.array([False]), tau=np.array([100.0]), kappa=np.array([1000.0]))
    found = examined(made.replaced(relative_poses=rel.append(edge)), place.truth)
    assert kinds(found) == [('closures_rejected', 'loop closures')]
    assert 'between A and B' in found.findings[0].text
    assert 'within 0.1 m' in found.findings[0].text


def test_an_empty_graph_passes():
    place = world(0)
    made = graph(place).replaced()
    nothing = made.replaced(ranges=made.ranges.take(slice(0, 0)))
    found = examine(nothing, place.truth, {}, CONFIG)
    assert found.gate.passed and found.findings == ()
