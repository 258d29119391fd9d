"""The monitors name the source at fault, and nobody when nothing is wrong."""

import numpy as np
import pytest
from backend_world import longer
from faulty_world import antenna_elsewhere, examined, graph, odometry_scaled, solved, world

from sparser_ros.backend.integrity.examine import examine
from sparser_ros.backend.integrity.faults import KINDS, Fault, hypotheses_of
from sparser_ros.backend.integrity.hypotheses import JUMP, odometry_jump, scores_of
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.integrity.solved_sizes import proved_faults
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph import PointPriors, squared_residuals
from sparser_ros.graph.ends import range_ends
from sparser_ros.graph.precision import chi_square_kappa
from sparser_ros.linalg.rotations import angle_to_matrix

KNOWN = (0, 1, 2, 3, 4, 5)
CONFIG = IntegrityConfig()


def kinds(examination):
    return [(one.kind, one.subject) for one in examination.findings]


@pytest.mark.parametrize(('seed', 'dimension', 'share'), [
    *((seed, d, 0.03) for seed in range(12) for d in (2, 3)), (10, 2, 0.2), (10, 2, 0.4)])
def test_nobody_is_blamed_on_clean_data_or_for_false_ranges_everywhere(seed, dimension, share):
    place = world(seed, dimension, KNOWN if seed % 2 else ())
    found = examined(graph(place, seed, share), place.truth)
    assert found.findings == () and not found.unclear


def slant(made, beacons):
    """Ranges of the plane to beacons 2.5 m above it."""
    far, flat = np.isin(~made.ranges.target, beacons), made.ranges.distance_m
    return longer(made, np.sqrt(flat**2 + 2.5**2 * far) - flat)


def elsewhere(made, metres):
    """The first beacon is configured so far off."""
    position = made.landmarks.position.copy()
    position[0, 0] += metres
    return made.replaced(landmarks=type(made.landmarks)(
        made.landmarks.names, position, made.landmarks.fixed))


def late_ranges(made):
    """Ranges of B are 3 m too long for half a minute."""
    ends = range_ends(made)
    return longer(made, 3.0 * (ends.at(1) & (ends.seconds >= 45) & (ends.seconds < 75)))


def jumped(made):
    """A step of B is 2 m too long."""
    rel = made.relative_poses
    move = rel.translation.copy()
    move[np.flatnonzero((made.poses.robot[rel.i] == 1) & (rel.i > 360))[0], 0] += 2.0
    return made.replaced(relative_poses=rel.replaced(translation=move))


def turning(made):
    """The odometry of B turns at 0.02 rad/s."""
    rel = made.relative_poses
    edge = made.poses.robot[rel.i] == 1
    return made.replaced(relative_poses=rel.replaced(
        rotation=rel.rotation @ angle_to_matrix(np.where(edge, 0.02 * 0.5, 0.0))))


@pytest.mark.parametrize((
    'seed', 'dimension', 'known', 'change', 'kind', 'subject', 'value', 'words'), [
    *((3, d, (), lambda made, size=size: longer(made, size * range_ends(made).at(1)),
       'range_bias', 'B', (size, 0.1), 'long' if size > 0 else 'short')
      for d in (2, 3) for size in (0.5, -0.5)),
    *((3, 2, (), lambda made, own=own: slant(made, own), 'height_missing', subject, (2.5, 0.4),
       'set height_m of') for own, subject in (((2,), 'L2'), (KNOWN, 'all beacons'))),
    *((3, len(at), KNOWN, lambda made, at=at: antenna_elsewhere(made, 'B', at),
       'antenna_misplaced', 'B', (np.linalg.norm(at), 0.1), 'the antenna of B stands 0.')
      for at in ((0.6, -0.3), (-0.4, 0.2, 0.3))),
    *((4, 2, KNOWN, lambda made, metres=metres: elsewhere(made, metres), 'beacon_misplaced', 'L0',
       (metres, 0.1 + 0.1 * metres), '') for metres in (1.0, 5.0, 20.0)),
    *((7, 2, (), lambda made, factor=factor: odometry_scaled(made, 1, factor), 'odometry_scale',
       'B', (100 * (factor - 1), 2), '') for factor in (1.1, 0.9)),
    (7, 2, (), turning, 'odometry_turn', 'B', (np.degrees(0.02) * 60, 16), ''),
    (8, 2, (), late_ranges, 'range_burst', 'B', (3.0, 0.3), 'from 4'),
    (9, 2, (), jumped, 'odometry_jump', 'B', (2.0, 0.6), '')])
def test_the_source_at_fault_is_named_with_the_size(
        seed, dimension, known, change, kind, subject, value, words):
    place = world(seed, dimension, known)
    found = examined(change(graph(place, seed)), place.truth)
    assert kinds(found)[0] == (kind, subject)
    if not kind.startswith('odometry'):
        assert len(found.findings) == 1
    assert found.findings[0].value == pytest.approx(value[0], abs=value[1])
    assert words in found.findings[0].text


@pytest.mark.parametrize(('known', 'passed'), [((0, 1), False), (KNOWN, True)])
def test_of_two_known_beacons_nobody_tells_which_one_is_elsewhere(known, passed):
    """The frame of map is then unknown; more known beacons show it."""
    place = world(4, 2, known)
    found = examined(elsewhere(graph(place, 4), 5.0), place.truth)
    assert 'L0' in {name for one in found.findings for name in one.subjects} or (
        'L1' in {one.subject for one in found.findings}), kinds(found)
    assert passed == (not found.unclear) and (passed or 'L0, L1' in found.unclear[0][1])


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


@pytest.mark.parametrize(('share', 'known', 'told', 'withdrawn'), [
    (0.05, (), False, False), (0.3, (), True, False), (0.6, (), True, True),
    (0.6, KNOWN, True, False)])
def test_fixes_that_do_not_fit_are_told_and_withdraw_where_they_fix_map(
    share, known, told, withdrawn
):
    place = world(5, 2, known)
    made, random = graph(place, 5), np.random.default_rng(5)
    own = np.flatnonzero(made.poses.robot == 1)[::2]
    position = place.truth.translation[own] + random.normal(0, 0.5, (len(own), 2))
    false = random.random(len(own)) < share
    position[false] += [20.0, 0.0]
    fixes = made.point_priors.append(PointPriors(
        own, np.zeros((len(own), 2)), position, np.full(len(own), 4.0),
        made.poses.stamp_ns[own]))
    found = examine(made.replaced(point_priors=fixes), place.truth, {
        'point_priors': np.where(false, 0.0, 1.0)}, CONFIG)
    assert (('fixes_rejected', 'B') in kinds(found)) == told
    assert ('B' in dict(found.unclear)) == withdrawn


def test_an_empty_graph_passes():
    place = world(0)
    made = graph(place)
    nothing = made.replaced(ranges=made.ranges.take(slice(0, 0)))
    found = examine(nothing, place.truth, {}, CONFIG)
    assert not found.unclear and found.findings == ()


def test_residuals_are_those_of_the_cost(dimension):
    place = world(1, dimension)
    made = graph(place, 1)
    model = linear_model(made, place.truth, {})
    squares = squared_residuals(made, place.truth)
    start, rel = model.starts['ranges'], made.relative_poses
    own = model.residual[start:start + len(made.ranges)] ** 2
    np.testing.assert_allclose(own, squares['ranges'], rtol=1e-9, atol=1e-12)
    turns = np.sum(model.residual[:model.starts['moves']] ** 2)
    moves = np.sum(model.residual[model.starts['moves']:model.starts['sightings']] ** 2)
    # The cost of the plane counts angles twice; small angles are chords.
    factor = rel.kappa[0] / chi_square_kappa(rel.kappa, dimension)[0]
    assert factor * turns + moves == pytest.approx(np.sum(squares['relative_poses']), rel=1e-3)


def test_derivatives_agree_with_differences(dimension):
    """A jump of the odometry, a scale and a bias: r(theta) - r(0) = G theta."""
    place = world(2, dimension)
    made = graph(place, 2)
    sources = range_ends(made)
    model = linear_model(made, place.truth, {})
    tested = {(one.kind, one.subject): one for one in hypotheses_of(
        model, sources, [], CONFIG)}
    rel, step = made.relative_poses, 1e-4

    def difference(**parts):
        # Taken off the measurement, a fault of size theta is a residual of G theta more.
        return linear_model(made.replaced(**parts), place.truth, {}).residual - model.residual

    np.testing.assert_allclose(
        difference(ranges=longer(made, -step * sources.at(1)).ranges),
        step * tested['range_bias', 'B'].columns.toarray()[:, 0], atol=1e-6)
    edge = (made.poses.robot[rel.i] == 1)[:, None]
    # Odometry measures the motion of the estimate, longer by the share; its noise stays.
    motion = np.einsum('kji,kj->ki', place.truth.rotation[rel.i], (
        place.truth.translation[rel.j] - place.truth.translation[rel.i]))
    np.testing.assert_allclose(
        difference(relative_poses=rel.replaced(
            translation=rel.translation - step * edge * motion)),
        step * tested['odometry_scale', 'B'].columns.toarray()[:, 0], atol=1e-6)
    jump = tested[JUMP, 'B']
    size = step * np.arange(1.0, jump.columns.shape[1] + 1)
    without = KINDS[JUMP].corrected['relative_poses'](
        [Fault(JUMP, 'B', tuple(size), (jump.span,))], made, rel)
    # A turn beside a residual is another one, by a share of the residual.
    np.testing.assert_allclose(
        difference(relative_poses=without), jump.columns @ size, rtol=0.05, atol=1e-6)
    in_force = odometry_jump(model, 'B', jump.span, CONFIG)
    np.testing.assert_array_equal(in_force.columns.toarray(), jump.columns.toarray())


def proved(model):
    """Whatever the data prove."""
    tested = hypotheses_of(model, range_ends(model.graph), [], CONFIG)
    return proved_faults(
        scores_of(model, tested), tested, {}, range(len(tested)), CONFIG, 1e-7)


def test_two_faults_at_once_are_told_apart():
    place = world(3)
    made = graph(place, 3)
    sources = range_ends(made)
    bent = longer(made, 0.6 * sources.at(0) - 0.6 * sources.at(5))
    estimate, weights = solved(bent, place.truth)
    model = linear_model(bent, estimate, weights)
    found = proved(model)
    assert {one.fault.key[:2] for one in found} == {
        ('range_bias', 'A'), ('range_bias', sources.names[5])}
    for one in found:
        assert one.size[0] == pytest.approx(0.6 if one.fault.subject == 'A' else -0.6, abs=0.15)


def test_a_parameter_that_nothing_determines_is_never_significant():
    """One robot and one beacon that it never leaves: a bias of either is a matter of place."""
    place = world(4)
    made = graph(place, 4)
    few = made.replaced(ranges=made.ranges.take(slice(0, 1)))
    model = linear_model(few, place.truth, {})
    assert proved(model) == []
