"""Measurements are weighted by the noise that they have, whatever they claim."""

import numpy as np
import pytest
from backend_world import ROBUST, config, filled, graph_of, longer, ticks, two_robots
from faulty_world import odometry_claiming
from graphs import flying_graph

from sparser_ros.backend.integrity.noise import Noise, mixture_cost, noise_of, white_range_noise
from sparser_ros.backend.session.auditor import Auditor
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.backend.session.treatment import RANGE_NOISE, Treatment
from sparser_ros.config import SolverConfig
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph import Estimate
from sparser_ros.linalg.rotations import rotvec_to_matrix
from sparser_ros.solver import solve


def found_at_the_truth(world, change=lambda one: one, move=lambda place: place):
    truth = world.truth
    return white_range_noise(
        graph_of([change(one) for one in world.increments(4)]),
        Estimate(truth.rotation, move(truth.translation), truth.landmarks))


@pytest.mark.parametrize('name', ['a bias', 'a stretched map', 'a turning map'])
def test_what_changes_slowly_is_no_noise(name):
    def turning(place):
        angle = np.linspace(0.0, 0.6, len(place))
        return np.stack([place[:, 0] - angle * place[:, 1], place[:, 1] + angle * place[:, 0]], 1)

    options = {
        'a bias': {'change': lambda one: longer(one, 1.0)},
        'a stretched map': {'move': lambda place: 1.1 * place}, 'a turning map': {'move': turning}}
    assert found_at_the_truth(two_robots(steps=120, seed=3), **options[name]) < 2.0


@pytest.mark.parametrize('share', [0.2, 0.3, 0.4])
def test_false_ranges_are_no_noise(share):
    random = np.random.default_rng(0)

    def change(one):
        false = random.random(len(one.ranges)) < share
        return longer(one, false * random.uniform(5.0, 50.0, len(false)))

    world = two_robots(steps=120, seed=3)
    assert found_at_the_truth(world, change) < 16.0
    session = filled(Session(config(solver=ROBUST)), [change(one) for one in world.increments(4)])
    assert RANGE_NOISE not in {finding.kind for finding in session.solve(True).findings}


def test_of_few_ranges_nothing_is_known():
    assert found_at_the_truth(two_robots(beacons=1, steps=8, seed=3)) == 0.0


@pytest.mark.parametrize('times', [1.0, 3.0, 10.0])
def test_robots_are_placed_whatever_noise_their_ranges_claim(times):
    world, session = two_robots(steps=120, seed=3), Session(config(solver=ROBUST))
    # Ranges claim so many times less noise than they have.
    ticks(session, [one.replaced(ranges=one.ranges.replaced(
        precision=one.ranges.precision * times**2)) for one in world.increments(8)])
    solution = session.solve(True)
    assert [one.location for one in solution.robots] == [Location.LOCATED] * 2
    assert np.max(world.errors_in_map(solution)) < 0.3
    told = [one for one in solution.findings if one.kind == RANGE_NOISE]
    assert len(told) == (times > 1.0)
    assert solution.noise['ranges'] == pytest.approx(times, rel=0.3)
    if told:
        assert told[0].value == pytest.approx(times, rel=0.3)
        assert 'min_sigma_m to 0.05' in told[0].text or 'min_sigma_m to 0.04' in told[0].text
        np.testing.assert_allclose(
            session.graph.ranges.precision, 1 / 0.05**2, rtol=0.5, err_msg='of every increment')


def test_verticals_of_the_odometry_itself_do_not_make_it_look_precise():
    """Its heading drifts as it claims; its tilt is the verticals'."""
    logs = []
    for seed in range(6):
        graph, truth = flying_graph(seed, steps=100, beacons=4, heights=False, kappa_sigma=0.01)
        rng, count = np.random.default_rng(seed), graph.n_poses
        drift = np.zeros((count, 3))
        drift[:, 2] = np.cumsum(0.01 * rng.normal(size=count))
        tilt = 0.005 * rng.normal(size=(count, 3)) * [1, 1, 0]
        stated = rotvec_to_matrix(drift) @ rotvec_to_matrix(tilt) @ truth.rotation
        rel, up = graph.relative_poses, graph.verticals
        graph = graph.replaced(
            relative_poses=rel.replaced(
                rotation=np.swapaxes(stated[rel.i], 1, 2) @ stated[rel.j]),
            verticals=up.replaced(up=stated[up.i][:, 2]))
        estimate = solve(graph, SolverConfig(), initial=truth).estimate
        noise = noise_of(graph, estimate, {}, 0.0)
        logs += [noise.log_factor['odometry', name] for name in graph.robots]
    assert abs(np.mean(logs)) < 0.3


@pytest.mark.parametrize('seed', range(3))
def test_the_noise_of_odometry_does_not_depend_on_its_claim(seed):
    """Where the way is long enough to tell: with half of it some claims of a tenth are kept."""
    increments, found = two_robots(steps=400, seed=seed).increments(4), []
    for claim in (0.1, 1.0, 10.0):
        graph = graph_of([odometry_claiming(one, 1, claim) for one in increments])
        noise = Noise()
        for _ in range(3):
            weighted = noise.applied_to(graph)
            result = solve(weighted, ROBUST)
            noise = noise_of(
                weighted, result.estimate, result.stats.weights, 0.0, taken=noise)
        found.append(claim * np.exp(noise.log_factor['odometry', 'B'] / 2))
    assert max(found) < 1.2 * min(found), found


@pytest.mark.parametrize(('times', 'parts'), [(6.0, 6), (0.2, 15)])
def test_odometry_is_weighted_by_the_noise_that_it_has(times, parts):
    """Smaller noise counts at once, larger noise once it has shown for a window."""
    world = two_robots(steps=20 * parts, seed=3)
    # The odometry of this world is twice as good as it claims.
    increments = [odometry_claiming(one, 1, times / 2) for one in world.increments(parts)]
    auditor, sigma = Auditor(config(solver=ROBUST)), []
    for one in increments:
        verdict = filled(auditor, [one]).audit()
        sigma.append(np.exp(verdict.treatment.noise.log_factor['odometry', 'B'] / 2))
    assert sigma[-1] == pytest.approx(1 / times, rel=0.5)
    if times < 1.0:
        window = int(IntegrityConfig().window_s / 10.0)
        # A step that noise has bent most may be taken for a jump meanwhile.
        np.testing.assert_allclose(sigma[:window], 1.0, atol=0.02)
    graph = auditor._store.graph
    rel, claim = graph.relative_poses, graph_of(increments).relative_poses.tau
    np.testing.assert_allclose(
        (claim / rel.tau)[graph.poses.robot[rel.j] == 1], sigma[-1]**2, rtol=0.2)
    assert {one.location for one in verdict.segments} == {Location.LOCATED}


def test_noise_far_beyond_its_claim_is_told():
    whole = two_robots(steps=8, seed=3).graph()
    noise = Noise({('odometry', 'A'): 1.0, ('odometry', 'B'): 2.0, ('ranges', ''): 2.0})
    told = {one.subject: one.value for one in Treatment(noise=noise).findings(whole, 0)}
    assert told == {'B': pytest.approx(np.e), 'ranges': pytest.approx(np.e)}


def test_a_few_slips_are_no_noise():
    world = two_robots(steps=300, seed=3)
    whole = world.graph(4)
    rel, truth = whole.relative_poses, world.truth
    honest = noise_of(whole, truth, {}, 0.0).sigmas['odometry of B']
    bad = (whole.poses.robot[rel.j] == 1) & (whole.poses.index[rel.j] % 100 < 2)
    slipping = whole.replaced(relative_poses=rel.replaced(
        translation=rel.translation + 0.3 * bad[:, None]))
    assert honest < noise_of(slipping, truth, {}, 0.0).sigmas['odometry of B'] < 3.0 * honest


def test_steps_of_odometry_tell_its_noise_where_there_are_few_stretches():
    """By stretches of the way alone, half of a claim that is ten times too large is left."""
    world = two_robots(steps=120, seed=3)
    honest = world.graph(4)
    rel = honest.relative_poses
    timid = honest.replaced(relative_poses=rel.replaced(tau=0.01 * rel.tau, kappa=0.01 * rel.kappa))
    right, large = (noise_of(graph, world.truth, {}, 0.1).sigmas for graph in (honest, timid))
    for name in ('odometry of A', 'odometry of B'):
        assert 0.1 * right[name] < large[name] < 0.4 * right[name]


def test_what_is_rejected_says_nothing_of_noise():
    world = two_robots(steps=120, seed=3)
    graph = world.graph(4)
    kept = np.random.default_rng(3).random(len(graph.ranges)) > 0.4
    noise = noise_of(graph, world.truth, {'ranges': kept.astype(float)}, 0.0)
    assert noise.sigmas['ranges'] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(('share', 'wide'), [(0.02, 3.0), (0.4, 100.0), (0.9, 8.0)])
def test_the_cost_of_a_mixture_is_that_of_its_likeliest_share_and_width(share, wide):
    random = np.random.default_rng(1)
    z = random.normal(size=4000) * np.where(random.random(4000) < share, wide, 1.0)

    def cost(share, wide):
        return -2 * np.sum(np.log(
            (1 - share) * np.exp(-z**2 / 2) + share / wide * np.exp(-(z / wide)**2 / 2) + 1e-300))

    found = mixture_cost(z)
    assert found <= cost(share, wide) + 0.5
    grid = [cost(u, k) for u in np.linspace(0.005, 0.995, 60) for k in np.geomspace(1.2, 200, 60)]
    assert found <= min(grid) + 0.5


def test_right_ranges_beside_false_ones_are_likelier_than_much_noise():
    """A kernel's price is that of the first false one: 25 for each, here 10 for every range."""
    random = np.random.default_rng(2)
    false = random.random(400) < 0.4
    right = np.where(false, random.uniform(50, 500, 400), 1.0) * random.normal(size=400)
    noise_sigmas = 40.0
    assert mixture_cost(right) < mixture_cost(noise_sigmas * random.normal(size=400))
    assert 25.0 * np.sum(false) > 400 * (1 + 2 * np.log(noise_sigmas))
    assert mixture_cost(np.zeros(0)) == 0.0
