"""What a fault does to positions is what a solve does with it, errors of sources being unknowns."""

import dataclasses

import numpy as np
import pytest
from backend_world import World
from faulty_world import (
    BEACONS,
    CENTRES,
    graph,
    lengthened,
    odometry_scaled,
    radio_rows,
    solved,
    world,
)
from scipy.stats import multivariate_normal

from sparser_ros.backend.integrity.faults import hypotheses_of
from sparser_ros.backend.integrity.hypotheses import ANTENNA, common_hypotheses
from sparser_ros.backend.integrity.linear_model import linear_model
from sparser_ros.backend.integrity.selection import scores_of
from sparser_ros.backend.integrity.undetected import (
    _beside,
    _lone,
    _moved,
    _separations,
    hidden_faults,
    in_words,
)
from sparser_ros.config import SolverConfig
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph import range_residuals
from sparser_ros.graph.ends import range_ends
from sparser_ros.graph.precision import chi_square_kappa
from sparser_ros.solver import solve

CONFIG = IntegrityConfig()


def scored(made, estimate, weights):
    model = linear_model(made, estimate, weights)
    tested = hypotheses_of(model, range_ends(made), [], CONFIG)
    return tested, scores_of(model, tested)


def exact(made, truth):
    """Without noise, whose second-order terms are no part of the linear model."""
    rel, ranges = made.relative_poses, made.ranges
    turn, place = truth.rotation, truth.translation
    return made.replaced(
        relative_poses=rel.replaced(
            rotation=np.swapaxes(turn[rel.i], 1, 2) @ turn[rel.j],
            translation=np.einsum('kji,kj->ki', turn[rel.i], place[rel.j] - place[rel.i])),
        ranges=ranges.replaced(distance_m=ranges.distance_m + range_residuals(made, truth)))


@pytest.mark.parametrize('dimension', [2, 3])
def test_a_bias_moves_the_newest_poses_as_far_as_the_solve_with_it(dimension):
    place = world(3, dimension)
    made = exact(graph(place, 3), place.truth)

    def plain(graph):
        # Weights that follow the fault would be no part of the linear model. In the plane a solve
        # gives rotations twice the weight that their noise has.
        rel = graph.relative_poses
        even = graph.replaced(relative_poses=rel.replaced(
            kappa=chi_square_kappa(rel.kappa, dimension)))
        return solve(even, SolverConfig(gradient_tolerance=1e-20, cost_tolerance=0.0),
                     initial=place.truth).estimate

    estimate = plain(made)
    tested, scores = scored(made, estimate, {})
    number = [(one.kind, one.subject) for one in tested].index(('range_bias', 'A'))
    column = sum(one.columns.shape[1] for one in tested[:number])
    step = 0.01
    longer = made.ranges.distance_m + step * range_ends(made).at(0)
    bent = plain(made.replaced(ranges=made.ranges.replaced(distance_m=longer)))
    rows = np.array([np.flatnonzero(made.poses.robot == k)[-1] for k in range(len(made.robots))])
    gauge = None if made.anchored else 0
    found = step * _moved(
        made, estimate, scores.step, rows, np.zeros(0, dtype=int), gauge)[:len(rows), :, column]

    def seen(at):
        place = at.translation[rows]
        return place if gauge is None else (place - at.translation[0]) @ at.rotation[0]

    difference = seen(bent) - seen(estimate)
    if gauge is not None:
        difference = difference @ estimate.rotation[0].T
    # Predicted minus measured: theta is what is to be taken off, and moves the map the other way.
    np.testing.assert_allclose(np.abs(found), np.abs(difference), atol=0.1 * step)


def drawn(random, parts, unknowns=4, rows=60):
    """(J, G, floors): a linear model with parameters of sources whose floors differ."""
    J, G = random.normal(size=(rows, unknowns)), np.zeros((rows, sum(parts)))
    for column in range(G.shape[1]):
        own = random.choice(rows, rows // 3, replace=False)
        G[own, column] = random.normal(1.0, 0.3, len(own))
    return J, G, np.full(len(parts), 0.3)


def test_separations_are_those_of_solves_with_the_errors_as_unknowns():
    random, parts = np.random.default_rng(4), np.array([1, 2, 1])
    J, G, _ = drawn(random, parts)
    r = random.normal(size=len(J))
    inverse = np.linalg.inv(J.T @ J)
    r -= J @ inverse @ J.T @ r
    M, P = inverse @ J.T @ G, np.eye(len(J)) - J @ inverse @ J.T
    owner = np.repeat(np.arange(3), parts)
    common, added, shift = _separations(M, G.T @ P @ G, G.T @ r, owner, parts, 10.0)
    for fault in (-1, 0, 1, 2):
        prior = (parts + 2.0)[owner] * np.where(owner == fault, 0.01, 1.0)
        whole = np.hstack([J, G])
        information = whole.T @ whole + np.diag(np.r_[np.zeros(4), prior])
        step = -np.linalg.solve(information, whole.T @ r)[:4]
        np.testing.assert_allclose(shift[:, 1 + fault], step, atol=1e-10)
        found = inverse + common @ common.T + added[:, owner == fault] @ added[:, owner == fault].T
        np.testing.assert_allclose(found, np.linalg.inv(information)[:4, :4], atol=1e-10)


def test_a_lone_fault_is_that_of_a_solve_with_it_and_evidence_that_of_dense_gaussians():
    random, parts = np.random.default_rng(8), np.array([1, 2, 1])
    J, G, _ = drawn(random, parts)
    r = random.normal(size=len(J)) + 0.4 * G[:, 1]
    inverse = np.linalg.inv(J.T @ J)
    M, P = inverse @ J.T @ G, np.eye(len(J)) - J @ inverse @ J.T
    r, owner = P @ r, np.repeat(np.arange(3), parts)
    lone, shift, evidence = _lone(M, G.T @ P @ G, G.T @ r, parts, 10.0)
    free = np.eye(len(J)) + 1e5 * J @ J.T
    none = multivariate_normal(np.zeros(len(J)), free).logpdf(r)
    for fault, c in enumerate(parts):
        own, variance = owner == fault, 100.0 / (c + 2)
        whole = np.hstack([J, G[:, own]])
        information = whole.T @ whole + np.diag(np.r_[np.zeros(4), np.full(c, 1 / variance)])
        np.testing.assert_allclose(
            shift[:, fault], -np.linalg.solve(information, whole.T @ r)[:4], atol=1e-10)
        np.testing.assert_allclose(
            inverse + lone[:, own] @ lone[:, own].T, np.linalg.inv(information)[:4, :4],
            atol=1e-10)
        there = free + variance * G[:, own] @ G[:, own].T
        assert evidence[fault] == pytest.approx(
            multivariate_normal(np.zeros(len(J)), there).logpdf(r) - none, abs=1e-3)


def test_beside_the_likeliest_fault_evidence_is_that_of_both():
    random, parts = np.random.default_rng(8), np.array([1, 2, 1])
    J, G, _ = drawn(random, parts)
    r = random.normal(size=len(J)) + 1.5 * G[:, 1] + 0.3 * G[:, 3]
    P = np.eye(len(J)) - J @ np.linalg.inv(J.T @ J) @ J.T
    r, owner, told = P @ r, np.repeat(np.arange(3), parts), np.array([True, False, True])
    model = G.T @ P @ G, G.T @ r
    evidence = _lone(np.zeros((0, 4)), *model, parts, 10.0)[2]
    assert np.argmax(evidence) == 1
    found = _beside(*model, owner, parts, 10.0, evidence, told)
    free = np.eye(len(J)) + 1e5 * J @ J.T
    none = multivariate_normal(np.zeros(len(J)), free).logpdf(r)

    def both(*faults):
        sizes = (100.0 / (parts[k] + 2) * G[:, owner == k] @ G[:, owner == k].T for k in faults)
        return multivariate_normal(np.zeros(len(J)), free + sum(sizes)).logpdf(r) - none

    # Levels do not count fault 1: the likeliest of the others is beside these.
    first, second = sorted((0, 2), key=lambda k: -evidence[k])
    assert found[second] == pytest.approx(both(first, second) - evidence[first], abs=1e-3)
    found = _beside(*model, owner, parts, 10.0, evidence, np.zeros(3, dtype=bool))
    for k in (0, 2):
        assert found[k] == pytest.approx(both(1, k) - evidence[1], abs=1e-3)


def test_a_likely_fault_makes_only_those_unlikely_that_explain_the_same():
    place = world(3)
    made = graph(place, 3)
    estimate, weights = solved(made, place.truth)
    tested, scores = scored(made, estimate, weights)
    found = hidden_faults(made, estimate, scores, tested, 0, CONFIG)
    sure, other = (found.causes.index(f'range_bias of {name}') for name in 'AB')
    evidence = np.full(len(found.causes), -9.0)
    evidence[sure], evidence[other] = 12.0, 2.0
    found = dataclasses.replace(found, evidence=evidence, beside=evidence)
    likely = found.likely(0.01)
    assert likely[sure] > 0.99
    assert likely[other] == pytest.approx(0.01 * np.exp(2) / (1 + 0.01 * np.exp(2)), rel=0.02)
    same = np.where(np.arange(len(evidence)) == other, -1.0, evidence)
    assert dataclasses.replace(found, beside=same).likely(0.01)[other] < 0.005


def test_odometry_that_is_too_long_on_every_robot_is_one_fault():
    place = world(3)
    made = graph(place, 3)
    for robot in range(3):
        made = odometry_scaled(made, robot, 1.015)
    estimate, weights = solved(made, place.truth)
    model = linear_model(made, estimate, weights)
    sources = range_ends(made)
    tested = hypotheses_of(model, sources, [], CONFIG)
    every = [*tested, *common_hypotheses(tested)]
    found = hidden_faults(made, estimate, scores_of(model, every), every, 0, CONFIG)
    assert found.causes[int(np.argmax(found.evidence))] == 'odometry_scale of all robots'
    assert in_words('odometry_scale of all robots').startswith('the odometry of all robots')
    # It is the sum of the columns of the single robots.
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
    whole = lengthened(whole, radio_rows(whole, 'B'), 0.003)
    count = 100 * 3
    heard = np.maximum(whole.ranges.source, whole.ranges.target) < count
    late = whole.replaced(ranges=whole.ranges.take(heard))
    early = late.replaced(
        poses=late.poses.take(slice(count)),
        relative_poses=late.relative_poses.take(late.relative_poses.j < count))
    gauge = None if late.anchored else 0

    def hidden(made):
        rows = slice(made.n_poses)
        estimate = dataclasses.replace(
            place.truth, rotation=place.truth.rotation[rows],
            translation=place.truth.translation[rows])
        tested, scores = scored(made, estimate, {})
        return hidden_faults(made, estimate, scores, tested, gauge, CONFIG)

    before, after = hidden(early), hidden(late)
    assert np.all(after.stamp_ns - before.stamp_ns == 20 * 10**9)
    size = dimension + (1 if dimension == 2 else 3)
    now = before.driven_on(
        after.position[:3] - before.position[:3], (after.stamp_ns - before.stamp_ns) * 1e-9,
        np.tile(np.eye(dimension, size), (3, 1, 1)))
    assert now.causes == after.causes
    # A straight path shows next to nothing of where the antenna is: its shift is that of rounding.
    shown = np.array([not cause.startswith(ANTENNA) for cause in now.causes])
    bodies = slice(now.bodies)
    # Turns are taken to go on without steps: one in forty of these.
    for old, found, wanted in (
            [one.lone_shift[bodies, :, shown] for one in (before, now, after)],
            [covariances(one)[bodies] for one in (before, now, after)]):
        largest = np.max(np.abs(wanted), axis=(0, 1))
        assert np.max(np.abs(old - wanted)[:3] / largest) > 0.3
        np.testing.assert_array_less(np.abs(found - wanted) / largest, 0.03)


def covariances(hidden):
    """(b, d * d, h): of what each fault alone adds; the root of one is not unique."""
    b, d, _ = hidden.lone.shape
    parts = [hidden.lone[:, :, hidden.owner == k] for k in range(len(hidden.causes))]
    return np.stack([np.einsum('bik,bjk->bij', one, one).reshape(b, d * d) for one in parts], 2)


def test_an_antenna_reassures_about_no_other_fault():
    """And counts in no level: its hypotheses leave all others as they are."""
    place = world(2, 2, range(6), 60)
    made = graph(place, 2)
    estimate, weights = solved(made, place.truth)
    model = linear_model(made, estimate, weights)
    tested = hypotheses_of(model, range_ends(made), [], CONFIG)
    others = [one for one in tested if one.kind != ANTENNA]
    every, less = (hidden_faults(
        made, estimate, scores_of(model, part), part, None, CONFIG) for part in (tested, others))
    kept = np.array([not cause.startswith(ANTENNA) for cause in every.causes])
    columns = kept[every.owner]
    assert not np.all(kept) and tuple(np.array(every.causes)[kept]) == less.causes
    for name in ('common', 'added'):
        np.testing.assert_allclose(getattr(every, name)[:, :, columns], getattr(less, name))
        assert not np.any(getattr(every, name)[:, :, ~columns])
    np.testing.assert_allclose(every.shift[:, :, np.append(True, kept)], less.shift)
    np.testing.assert_array_equal(every.in_levels, kept)
    sure = dataclasses.replace(every, evidence=np.where(kept, 2.0, 20.0))
    likely = sure.likely(0.01)
    np.testing.assert_allclose(
        likely[kept], dataclasses.replace(less, evidence=sure.evidence[kept]).likely(0.01))
    assert np.all(likely[~kept] > 0.3)
