"""What a fault does to positions is what a solve does with it, errors of sources being unknowns."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from backend_world import World, longer
from dense import drawn
from faulty_world import BEACONS, CENTRES, graph, odometry_scaled, solved, world
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from sparser_ros.backend.integrity import undetected
from sparser_ros.backend.integrity.faults import BURST, LENGTH, Fault, hypotheses_of
from sparser_ros.backend.integrity.hypotheses import (
    ANTENNA,
    JUMP,
    Hypothesis,
    common_hypotheses,
    odometry_scales,
    scores_of,
)
from sparser_ros.backend.integrity.linear_model import Scores, linear_model
from sparser_ros.backend.integrity.odometry_errors import SCALE, TURN
from sparser_ros.backend.integrity.solved_sizes import solved_faults
from sparser_ros.config import SolverConfig
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph import Heights, Verticals, range_residuals
from sparser_ros.graph.ends import range_ends
from sparser_ros.graph.estimate import at_origin
from sparser_ros.graph.precision import chi_square_kappa
from sparser_ros.solver import solve

CONFIG = IntegrityConfig()
PARTS = np.array([1, 2, 1])
OWNER = np.repeat(np.arange(3), PARTS)
"""Three faults, and whose the columns of G are."""
FAULTS = [Hypothesis(SCALE, 'A', sp.csc_matrix((60, c)), 1.0, None) for c in PARTS]


def exact(made, truth):
    """Without noise, whose second-order terms are no part of the linear model."""
    rel, turn, place = made.relative_poses, truth.rotation, truth.translation
    return longer(made, range_residuals(made, truth)).replaced(relative_poses=rel.replaced(
        rotation=np.swapaxes(turn[rel.i], 1, 2) @ turn[rel.j],
        translation=np.einsum('kji,kj->ki', turn[rel.i], place[rel.j] - place[rel.i])))


def solved_with(J, columns, prior, r):
    """The four unknowns of J and their covariance, of a solve with sizes of faults as unknowns."""
    whole = np.hstack([J, columns])
    information = whole.T @ whole + np.diag(np.r_[np.zeros(4), prior])
    return -np.linalg.solve(information, whole.T @ r)[:4], np.linalg.inv(information)[:4, :4]


def test_errors_of_sound_sources_are_those_of_a_solve_with_them_as_unknowns():
    J, G, inverse, P, r = drawn(4)
    prior = (PARTS + 2.0)[OWNER]
    common, shift = undetected._sound(inverse @ J.T @ G, G.T @ P @ G, G.T @ r, prior)
    wanted, covariance = solved_with(J, G, prior, r)
    np.testing.assert_allclose(shift, wanted, atol=1e-10)
    np.testing.assert_allclose(inverse + common @ common.T, covariance, atol=1e-10)


def evidence_of(J, G, r, fault, scale=1.0):
    """Of dense Gaussians: with this fault, of a size so many times as large, over none."""
    free, own = np.eye(len(J)) + 1e5 * J @ J.T, scale * G[:, fault == OWNER]
    there, none = (multivariate_normal(np.zeros(len(J)), free + covariance).logpdf(r)
                   for covariance in (100.0 / (PARTS[fault] + 2) * own @ own.T, 0.0))
    return there - none


def test_a_lone_fault_is_that_of_a_solve_with_it_and_evidence_that_of_dense_gaussians():
    J, G, inverse, P, r = drawn(8, 0.0, 0.4, 0.0, 0.0)
    lone, shift, evidence = undetected._lone(inverse @ J.T @ G, G.T @ P @ G, G.T @ r, FAULTS, 10.0)
    for fault, c in enumerate(PARTS):
        own = fault == OWNER
        wanted, covariance = solved_with(J, G[:, own], np.full(c, (c + 2) / 100.0), r)
        np.testing.assert_allclose(shift[:, fault], wanted, atol=1e-10)
        np.testing.assert_allclose(inverse + lone[:, own] @ lone[:, own].T, covariance, atol=1e-10)
        assert evidence[fault] == pytest.approx(evidence_of(J, G, r, fault), abs=1e-3)


def test_what_no_map_is_solved_with_may_be_of_any_size_and_is_proved_beyond_its_floor():
    """By dense Gaussians of three sizes, equally likely."""
    J, G, inverse, P, r = drawn(8, 0.0, 20.0, 0.0, 0.0)
    faults = [dataclasses.replace(fault, kind=BURST) for fault in FAULTS]
    scores = Scores(G.T @ P @ G, G.T @ P @ r, np.sum(G**2, axis=0), inverse @ J.T @ G)
    found = solved_faults(scores, faults, (), CONFIG).others
    for number, one in enumerate(found):
        wanted = logsumexp(
            [evidence_of(J, G, r, number, scale) for scale in (1, 4, 16)]) - np.log(3)
        assert one.evidence == pytest.approx(wanted, rel=1e-3, abs=1e-2)
    likely = max(found, key=lambda one: one.evidence)
    assert likely.number == 1 and likely.scale > 1 and likely.proved(1e-6)
    within = dataclasses.replace(likely, size=0.9 * likely.size / np.linalg.norm(likely.size))
    assert not within.proved(1e-6)


@pytest.mark.parametrize(('dimension', 'levelled'), [(2, False), (3, False), (3, True)])
def test_a_bias_moves_the_newest_poses_as_the_solve_with_it(dimension, levelled):
    place = world(3, dimension)
    made = exact(graph(place, 3), place.truth)
    if levelled:
        rows, stamps, each = np.arange(made.n_poses), made.poses.stamp_ns, np.ones(made.n_poses)
        made = made.replaced(
            verticals=Verticals(rows, place.truth.rotation[:, 2], each / 0.05**2, stamps),
            heights=Heights(rows, np.zeros((made.n_poses, 3)), place.truth.translation[:, 2],
                            each / 0.3**2, stamps))

    def plain(graph):
        # Weights that follow the fault would be no part of the linear model. In the plane a solve
        # gives rotations twice the weight that their noise has.
        rel = graph.relative_poses
        even = graph.replaced(relative_poses=rel.replaced(
            kappa=chi_square_kappa(rel.kappa, dimension)))
        return solve(even, SolverConfig(gradient_tolerance=1e-20, cost_tolerance=0.0),
                     initial=place.truth).estimate

    estimate = plain(made)
    model = linear_model(made, estimate, {})
    tested = hypotheses_of(model, range_ends(made), [], CONFIG)
    scores = scores_of(model, tested)
    number = [(one.kind, one.subject) for one in tested].index(('range_bias', 'A'))
    column = sum(one.columns.shape[1] for one in tested[:number])
    step = 0.01
    bent = plain(longer(made, step * range_ends(made).at(0)))
    rows = np.array([np.flatnonzero(made.poses.robot == k)[-1] for k in range(len(made.robots))])
    gauge = None if made.anchored else 0
    found = step * undetected._Bodies.of(made, estimate, gauge).moved(
        scores.step)[:len(rows), :, column]

    def seen(at):
        return (at if gauge is None else at_origin(
            at, 0, (estimate.rotation[0], estimate.translation[0]), made)).translation[rows]

    np.testing.assert_allclose(found, seen(bent) - seen(estimate), atol=0.1 * step)


def hidden(made, estimate, weights, gauge=0, kinds=lambda kind: True):
    """Faults that may hide in a graph at an estimate, of these kinds."""
    model = linear_model(made, estimate, weights)
    tested = [one for one in hypotheses_of(model, range_ends(made), [], CONFIG)
              if kinds(one.kind)]
    none = solved_faults(scores_of(model, tested), tested, (), CONFIG)
    return undetected.hidden_faults(made, estimate, none, gauge, CONFIG)


@given(seed=st.integers(0, 2**16))
def test_sizes_that_are_solved_for_are_the_best_ones_beside_their_prior(seed):
    random = np.random.default_rng(seed)
    kinds = [(SCALE, 'A', 1), (ANTENNA, 'B', 2), (LENGTH, 'B', 1), (TURN, 'A', 1)]
    every = [Hypothesis(kind, name, sp.csc_matrix((9, c)), 0.1, None) for kind, name, c in kinds]
    G, r, step = random.normal(size=(9, 5)), 5 * random.normal(size=9), random.normal(size=(7, 5))
    inside, outside, now = [1, 2, 4], [0, 3], random.normal(size=3)
    solved = (Fault(ANTENNA, 'B', tuple(now[:2].tolist())), Fault(TURN, 'A', (now[2],)))
    prior = np.array([4.0, 4.0, 3.0]) / (CONFIG.fault_size * 0.1)**2
    found = solved_faults(
        Scores(G.T @ G, G.T @ r, np.sum(G**2, axis=0), step), every, solved, CONFIG)
    stacked = np.vstack([G[:, inside], np.diag(np.sqrt(prior))])
    more = -np.linalg.lstsq(stacked, np.concatenate([r, np.sqrt(prior) * now]), rcond=None)[0]
    for one in found.kept:
        part = slice(2) if one.fault.kind == ANTENNA else slice(2, 3)
        np.testing.assert_allclose(one.size, (now + more)[part], atol=1e-9)
    assert [one.fault.key for one in found.others] == [every[0].key, every[2].key]
    np.testing.assert_allclose(
        found.scores.score, G[:, outside].T @ (r + G[:, inside] @ more), atol=1e-9)
    W = np.linalg.inv(stacked.T @ stacked)
    np.testing.assert_allclose(
        found.scores.information,
        G[:, outside].T @ (np.eye(9) - G[:, inside] @ W @ G[:, inside].T) @ G[:, outside],
        atol=1e-9)
    root = found.step @ found.root
    np.testing.assert_allclose(root @ root.T, step[:, inside] @ W @ step[:, inside].T)


def test_a_map_with_a_fault_knows_of_none_and_of_another_one_instead():
    """By dense algebra, beside the best map with two faults: one is none, or another is there."""
    config = IntegrityConfig(risk=1e-9)
    place = world(4, 2, range(6), 24)
    made = graph(place, 4, share=0.0)
    biased = odometry_scaled(longer(made, 0.15 * range_ends(made).at(0)), 1, 1.03)
    estimate, _ = solved(biased, place.truth)
    model = linear_model(biased, estimate, {})
    tested = [one for one in hypotheses_of(model, range_ends(biased), [], CONFIG)
              if one.kind in (LENGTH, ANTENNA, SCALE)]
    number = {one.key[:2]: k for k, one in enumerate(tested)}
    solved_for = [number[LENGTH, 'A'], number[SCALE, 'B']]
    prior = [(one.columns.shape[1] + 2) / (CONFIG.fault_size * one.floor)**2 for one in tested]
    J, G = model.jacobian.toarray(), [one.columns.toarray() for one in tested]

    def best(*sizes):
        """Unknowns and sizes at the least cost, and the evidence for these faults."""
        whole = np.hstack([J, *(G[k] for k in sizes)])
        precision = np.concatenate([np.zeros(J.shape[1]), *(
            np.full(G[k].shape[1], prior[k]) for k in sizes)])
        information = whole.T @ whole + np.diag(precision)
        step = -np.linalg.solve(information, whole.T @ model.residual)
        left = model.residual + whole @ step
        return step, -(
            left @ left + step @ (precision * step) + np.linalg.slogdet(information)[1]
            - np.sum(np.log(precision[precision > 0]))) / 2

    step, with_both = best(*solved_for)
    place_of_all, size = np.split(step, [J.shape[1]])
    settled = dataclasses.replace(model, residual=model.residual + np.hstack(
        [J, *(G[k] for k in solved_for)]) @ step)
    faults = tuple(Fault(tested[k].kind, tested[k].subject, (value,))
                   for k, value in zip(solved_for, size.tolist(), strict=True))
    found = solved_faults(scores_of(settled, tested), tested, faults, CONFIG)
    hidden = undetected.hidden_faults(biased, estimate, found, None, config)
    np.testing.assert_allclose([one.size for one in found.kept], size[:, None], atol=1e-6)
    bodies = undetected._Bodies.of(biased, estimate, None)
    odds, told = hidden.log_odds(CONFIG.fault_probability)[1:], []
    for gone, stays in (solved_for, solved_for[::-1]):
        name = f'{tested[gone].kind} of {tested[gone].subject}'
        entries = {f'no {name}': ([stays], -np.log(CONFIG.fault_probability))}
        for k, other in enumerate(tested):
            if k not in solved_for:
                entries[f'{other.kind} of {other.subject}'] = [stays, k], 0.0
        for cause, (sizes, price) in entries.items():
            moved, evidence = best(*sizes)
            wanted = evidence - with_both + price
            at = [k for k in np.flatnonzero(hidden.instead)
                  if hidden.causes[k] == cause and abs(odds[k] - wanted) < 1e-4]
            assert len(at) == (wanted > np.log(config.risk)), (name, cause, wanted)
            if at:
                shift = bodies.moved((moved[:J.shape[1]] - place_of_all)[:, None])[:, :, 0]
                np.testing.assert_allclose(hidden.lone_shift[:, :, at[0]], shift, atol=1e-5)
                told.append(cause)
    assert len(told) == np.sum(hidden.instead) > 10


def test_odometry_that_is_too_long_on_every_robot_is_one_fault():
    place = world(3)
    made = graph(place, 3)
    for robot in range(3):
        made = odometry_scaled(made, robot, 1.015)
    estimate, weights = solved(made, place.truth)
    model = linear_model(made, estimate, weights)
    tested = hypotheses_of(model, range_ends(made), [], CONFIG)
    every = [*tested, *common_hypotheses(tested)]
    none = solved_faults(scores_of(model, every), every, (), CONFIG)
    found = undetected.hidden_faults(made, estimate, none, 0, CONFIG)
    likeliest = found.causes[int(np.argmax(found.evidence))]
    assert likeliest == 'odometry_scale of all robots'
    assert undetected.in_words(likeliest).startswith('the odometry of all robots')
    columns = {one.subject: one.columns.toarray() for one in every if one.kind == 'odometry_scale'}
    common = columns.pop('all robots')
    np.testing.assert_allclose(common, sum(columns.values()), atol=1e-12)


# In space a straight path leaves its roll open, and with it what is relative to the path.
@pytest.mark.parametrize('dimension, known', [(2, ()), (2, range(6)), (3, range(6))])
def test_robots_that_drive_on_are_as_far_off_as_an_audit_without_new_ranges_has_them(
        dimension, known):
    place = World(['straight'] * 3, CENTRES[dimension], BEACONS[dimension], 140, 5,
                  range_sigma=0.1, dimension=dimension, known=known)
    whole = exact(graph(place, 5, share=0.0), place.truth)
    whole = longer(whole, 0.003 * range_ends(whole).at(1))
    count = 100 * 3
    heard = np.maximum(whole.ranges.source, whole.ranges.target) < count
    late = whole.replaced(ranges=whole.ranges.take(heard))
    early = late.replaced(
        poses=late.poses.take(slice(count)),
        relative_poses=late.relative_poses.take(late.relative_poses.j < count))
    before, after = (hidden(made, dataclasses.replace(
        place.truth, rotation=place.truth.rotation[:made.n_poses],
        translation=place.truth.translation[:made.n_poses]), {}, None if late.anchored else 0)
        for made in (early, late))
    assert np.all(after.stamp_ns - before.stamp_ns == 20 * 10**9)
    size = dimension + (1 if dimension == 2 else 3)
    now = before.driven_on(
        after.position[:3] - before.position[:3], (after.stamp_ns - before.stamp_ns) * 1e-9,
        np.tile(np.eye(dimension, size), (3, 1, 1)))
    assert now.causes == after.causes
    # A straight path shows next to nothing of where the antenna is: its shift is that of rounding.
    # Without noise any step may be the one that fits worst.
    shown = np.array([not cause.startswith((ANTENNA, JUMP)) for cause in now.causes])
    bodies = slice(now.bodies)
    # Turns are taken to go on without steps: one in forty of these.
    for old, found, wanted in (
            [one.lone_shift[bodies, :, shown] for one in (before, now, after)],
            [covariances(one)[bodies][:, :, shown] for one in (before, now, after)],
            [one.common[bodies] @ one.common[0].T for one in (before, now, after)]):
        largest = np.max(np.abs(wanted), axis=(0, 1))
        assert np.max(np.abs(old - wanted)[:3] / largest) > 0.3
        np.testing.assert_array_less(np.abs(found - wanted) / largest, 0.03)


def covariances(hidden):
    """(b, d * d, h): of what each fault alone adds; the root of one is not unique."""
    b, d, _ = hidden.lone.shape
    parts = [hidden.lone[:, :, hidden.owner == k] for k in range(len(hidden.causes))]
    return np.stack([np.einsum('bik,bjk->bij', one, one).reshape(b, d * d) for one in parts], 2)


def test_antennas_count_in_no_level():
    """Their hypotheses leave all others as they are."""
    place = world(2, 2, range(6), 60)
    made = graph(place, 2)
    estimate, weights = solved(made, place.truth)
    every, less = (hidden(made, estimate, weights, None, kinds) for kinds in (
        lambda kind: True, lambda kind: kind != ANTENNA))
    kept = np.array([not cause.startswith(ANTENNA) for cause in every.causes])
    jump = np.array([cause.startswith(JUMP) for cause in every.causes])
    columns = kept[every.owner]
    assert not np.all(kept) and tuple(np.array(every.causes)[kept]) == less.causes
    for name in ('common', 'common_shift'):
        np.testing.assert_allclose(getattr(every, name), getattr(less, name))
    np.testing.assert_allclose(every.lone[:, :, columns], less.lone)
    np.testing.assert_array_equal(every.in_levels, kept & ~jump)


@pytest.mark.parametrize('dimension', [2, 3])
def test_jitter_of_estimated_poses_is_no_odometry_that_is_too_short(dimension):
    """Ranges that claim too little noise move every pose by more than it drives to the next one."""
    place = world(dimension=dimension)
    made = exact(graph(place, share=0.0), place.truth)
    random = np.random.default_rng(0)
    jitter = random.normal(scale=0.15, size=place.truth.translation.shape)
    estimate = dataclasses.replace(place.truth, translation=place.truth.translation + jitter)
    for error in (0.0, 0.1):
        rel = made.relative_poses
        model = linear_model(made.replaced(relative_poses=rel.replaced(
            translation=rel.translation / (1 - error))), estimate, {})
        scales = odometry_scales(model)
        share = -np.linalg.solve((scales.T @ scales).toarray(), scales.T @ model.residual)
        np.testing.assert_allclose(share, error, atol=0.04)
