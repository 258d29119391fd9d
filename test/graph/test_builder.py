"""Graphs from arrays equal graphs from single measurements, and give a known map back."""

import numpy as np
import pytest

from sparser_ros import Graph, read, solve
from sparser_ros.config import ConfigError, GraphError, RobustConfig, SolverConfig, SolverError
from sparser_ros.graph import Landmarks

SIDE, STEPS = 10.0, 40
BEACONS = {'a': (2.0, 3.0), 'b': (12.0, -1.0), 'c': (4.0, 13.0)}


def square():
    """Motions (k, 2) and turns (k,) along a square of ten metres, and all positions."""
    turn = np.where(np.arange(STEPS) % 10 == 9, np.pi / 2, 0.0)
    shift = np.tile([SIDE / 10, 0.0], (STEPS, 1))
    angle = np.concatenate([[0.0], np.cumsum(turn)])
    steps = np.stack([np.cos(angle[:-1]), np.sin(angle[:-1])], axis=1) * SIDE / 10
    return shift, turn, np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])


def filled(drift=0.0):
    shift, turn, positions = square()
    builder = Graph.builder(name='square')
    builder.add_odometry('A', shift, turn + drift, sigma_m=0.05, sigma_rad=0.02)
    for name, beacon in BEACONS.items():
        distance = np.linalg.norm(positions - beacon, axis=1)
        builder.add_range(('A', np.arange(STEPS + 1)), name, distance, sigma_m=0.05)
    return builder, positions


def test_a_known_map_comes_back(tmp_path):
    builder, positions = filled(drift=0.005)
    for name, where in BEACONS.items():
        builder.add_prior(name, where)
    solved = solve(builder.build())
    assert solved.result.status.solved
    np.testing.assert_allclose(solved.trajectory('A'), positions, atol=0.1)
    assert set(solved.beacons) == set(BEACONS)
    assert 'a: 2.000 3.000 m' in str(solved) and 'converged' in str(solved)
    for name in ('map.png', 'solved.pyfg', 'trajectories'):
        solved.save(tmp_path / name)
    assert (tmp_path / 'trajectories' / 'A.tum').exists() and (tmp_path / 'map.png').exists()
    assert read(tmp_path / 'solved.pyfg').n_poses == STEPS + 1


def test_one_by_one_is_the_same_as_arrays():
    shift, turn, positions = square()
    whole, _ = filled()
    single = Graph.builder()
    for one, angle in zip(shift, turn, strict=True):
        single.add_odometry('A', one, angle, sigma_m=0.05, sigma_rad=0.02)
    for name, beacon in BEACONS.items():
        for number, position in enumerate(positions):
            single.add_range(('A', number), name, np.linalg.norm(position - beacon), sigma_m=0.05)
    one, other = whole.build(), single.build()
    np.testing.assert_allclose(one.poses.translation, other.poses.translation)
    for name, table in one.tables().items():
        for column in table.columns():
            np.testing.assert_allclose(
                getattr(table, column), getattr(other.tables()[name], column), err_msg=column)


def test_space_closures_and_pose_priors():
    builder = Graph.builder(3)
    builder.add_odometry('A', np.ones((4, 3)), [0.0, 0.0, 0.1], sigma_m=0.1, sigma_rad=0.05)
    builder.add_odometry('B', np.ones((2, 3)), np.eye(3)[None].repeat(2, 0), sigma_m=0.1,
                         sigma_rad=0.05, stamp_ns=[1, 2])
    builder.add_closure(('A', -1), ('B', 0), [1.0, 0.0, 0.0], np.eye(3), sigma_m=0.1,
                        sigma_rad=0.1)
    builder.add_prior(('A', 0), [5.0, 6.0, 7.0], np.zeros(3), sigma_m=0.01, sigma_rad=0.01)
    graph = builder.build()
    assert (graph.n_poses, graph.robots, len(graph.pose_priors)) == (8, ('A', 'B'), 1)
    assert list(graph.relative_poses.odometry) == [True] * 6 + [False]
    assert graph.relative_poses.i[-1] == 4 and graph.relative_poses.j[-1] == 5
    assert graph.relative_poses.kappa[0] == pytest.approx(0.5 / 0.05**2)
    solved = solve(graph)
    np.testing.assert_allclose(solved.trajectory('A')[0], [5.0, 6.0, 7.0], atol=1e-6)


@pytest.mark.parametrize(('call', 'message'), [
    (lambda b: b.add_range(('X', 0), 'a', 1.0, sigma_m=0.1), "no robot 'X'"),
    (lambda b: b.add_range(('A', 99), 'a', 1.0, sigma_m=0.1), 'has poses 0 to 40'),
    (lambda b: b.add_range('A', 'a', 1.0, sigma_m=0.1), 'give a robot with the number'),
    (lambda b: b.add_range(('A', 0), 'a', 1.0, sigma_m=0.0), 'must be positive'),
    (lambda b: b.add_range(('A', 0), 'a', -1.0, sigma_m=0.1).build(), 'is not positive'),
    (lambda b: b.add_odometry('A', [1.0, 0.0], [1.0, 2.0, 3.0], sigma_m=1, sigma_rad=1),
     'rotation: expected 1 angles'),
    (lambda b: b.add_range(('A', 0), 'a', 1e308, sigma_m=0.1), r'distance_m: 1e\+308 is not'),
    (lambda b: b.add_range(('A', 0), 'a', [1.0, np.nan], sigma_m=0.1), 'distance_m: nan is not'),
    (lambda b: b.add_range(('A', 0), 'a', 1.0, sigma_m=1e-300), 'sigma_m: 1e-300 is below 1e-12'),
    (lambda b: b.add_range(('A', 0), 'a', 1.0, sigma_m=np.inf), 'sigma_m: inf is not a number'),
    (lambda b: b.add_odometry('A', [1.0, 0.0], 2 * np.eye(2), sigma_m=1, sigma_rad=1),
     'rotation: a matrix whose rows'),
    (lambda b: b.add_odometry('A', [1.0, 0.0], np.diag([1.0, -1.0]), sigma_m=1, sigma_rad=1),
     'or a mirror'),
    (lambda b: b.add_range(('A', 0), 'a', 1.0, sigma_m=0.1).add_odometry(
        'a', [1.0, 0.0], 0.0, sigma_m=1, sigma_rad=1), 'is a beacon already'),
    (lambda b: b.add_prior('a', [1e200, 0.0], sigma_m=1.0), r'position: 1e\+200 is not'),
    (lambda b: b.add_odometry('A', [1.0, np.inf], 0.0, sigma_m=1, sigma_rad=1),
     'translation: inf is not'),
    (lambda b: b.add_odometry('A', [1.0, 0.0], 0.0, sigma_m=1, sigma_rad=1e-200),
     'sigma_rad: 1e-200 is below'),
    (lambda b: b.add_odometry('A', np.ones((4, 3)), 0.0, sigma_m=1, sigma_rad=1),
     r'translation: expected 2 numbers .* \(4, 3\)'),
    (lambda b: b.add_vertical(('A', 0), np.ones((2, 3)), sigma_rad=1), 'up: expected 2 numbers'),
    (lambda b: b.add_prior('a', np.ones((2, 2))), "position: 2 rows for the exact .* 'a'"),
    (lambda b: b.add_prior('a', np.ones(4), sigma_m=1), 'position: expected 2 numbers'),
    (lambda b: b.add_range(('A', [True, False]), 'a', [1.0, 2.0], sigma_m=1), 'are numbered 0, 1'),
    (lambda b: b.add_range(('A', 1.7), 'a', 1.0, sigma_m=1), 'are numbered 0, 1, 2, …, got 1.7'),
    (lambda b: b.add_range(('A', [0, 1, 2]), 'a', [1.0, 2.0], sigma_m=1),
     r"poses of robot 'A': expected one value, or .* shape 2, got one of shape \(3,\)"),
    (lambda b: b.add_range(('A', 0), 'a', 1.0, sigma_m=[1, 2]), 'sigma_m: expected one value'),
    (lambda b: b.add_range(('A', 0), 'a', 1.0, sigma_m=1, lever_source=[1, 2, 3]), 'lever arm: ex'),
    (lambda b: b.add_range(('A', 0), 'a', 'abc', sigma_m=1), 'distance_m: expected numbers, got'),
    (lambda b: b.add_range(('A', [0, 1]), 'a', [[1.0], [2.0]], sigma_m=1), 'expected one number'),
    (lambda b: b.add_range(('A', 1, 2), 'a', 1.0, sigma_m=1), 'give the name of a beacon'),
    (lambda b: b.add_odometry('A', [1.0, 0.0], 0.0, sigma_m=1, sigma_rad=1, stamp_ns=[1, 2]),
     'stamp_ns: expected one value'),
])
def test_mistakes_are_named(call, message):
    with pytest.raises(GraphError, match=message):
        call(filled()[0])


@pytest.mark.parametrize(('config', 'message'), [
    (SolverConfig(init='xyz'), "init: 'xyz' is not one of"),
    (SolverConfig(robust=RobustConfig(kernel='xyz')), "robust.kernel: 'xyz'"),
    (SolverConfig(robust=RobustConfig(kernel='gm', threshold=0.0)), 'robust.threshold: 0.0 is b'),
    (SolverConfig(seed=-1), 'seed: -1 is below'), (SolverConfig(rank=2.5), 'rank: expected int'),
    (SolverConfig(time_limit_s=-1), 'time_limit_s: -1.0 is below')])
def test_a_configuration_out_of_its_bounds_is_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        solve(filled()[0].build(), config)


def test_a_pose_that_is_not_there_has_no_covariance():
    solved = solve(filled()[0].build(), SolverConfig(seed=np.int64(1)))
    with pytest.raises(SolverError, match='has poses 0 to 40, got 99'):
        solved.covariance('A', 99)


@pytest.mark.parametrize(('part', 'message'), [
    (lambda g: {'poses': g.poses.replaced(translation=g.poses.translation * np.nan)},
     r'poses\[0\].translation is not finite'),
    (lambda g: {'landmarks': Landmarks(('a',), np.array([[np.nan, 1]]), np.array([True]))},
     'landmark a has a known position that is not finite')])
def test_places_that_are_not_finite_are_refused(part, message):
    graph = filled()[0].build()
    graph = graph.replaced(ranges=graph.ranges.take(graph.ranges.target == -1))
    with pytest.raises(GraphError, match=message):
        solve(graph.replaced(**part(graph)))


def test_extreme_tables_are_refused_by_name():
    graph = filled()[0].build()
    for column, value in (('precision', 1e300), ('distance_m', 1e308), ('lever_source', -1e200)):
        values = getattr(graph.ranges, column).copy()
        values[3] = value
        with pytest.raises(GraphError, match=rf'ranges\[3\].{column} = .* is beyond 1e\+'):
            solve(graph.replaced(ranges=graph.ranges.replaced(**{column: values})))
