"""Problem classes: what the generators plant, the solver finds; BAL files."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from sparser_ros.config import FormatError, SolverConfig
from sparser_ros.graph import Graph, cost, estimate_of
from sparser_ros.io import bal
from sparser_ros.io.generators import network_of, scene, sensor_network, sphere
from sparser_ros.linalg.rotations import aligned_errors, matrix_to_rotvec
from sparser_ros.solver import solve

RANDOM = SolverConfig(init='random', rank=5, cost_tolerance=1e-9)


def test_sphere_has_the_geometry_and_counts_of_create_sphere():
    graph = sphere(laps=200).validate()
    assert graph.n_poses == 10_000
    assert np.count_nonzero(~graph.relative_poses.odometry) == 29_403
    assert np.allclose(np.linalg.norm(graph.poses.translation, axis=1), 100)
    assert graph.poses.translation[0] == pytest.approx([0, 0, 100])
    assert graph.poses.translation[-1, 2] < -99.9
    # 3 from the translation; |R - R'|^2 = 8 |q|^2, so kappa = 1 / (2 s^2) makes it 4 x 3.
    mean = cost(graph, estimate_of(graph)) / len(graph.relative_poses)
    assert mean == pytest.approx(3 + 12, rel=0.05)


def test_sphere_is_solved_from_chordal_and_random_starts():
    graph = sphere(laps=4, seed=1)
    truth = cost(graph, estimate_of(graph))
    chordal = solve(graph, SolverConfig(certify=True)).stats
    assert chordal.certified
    assert chordal.cost_final < truth
    random = solve(graph, RANDOM).stats
    assert random.cost_final == pytest.approx(chordal.cost_final, rel=1e-5)


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('dimension, anchors', [(2, 0), (2, 5), (3, 6)])
def test_sensor_network_is_solved_from_random_starts(seed, dimension, anchors):
    radius = 3.0 if dimension == 2 else 5.0
    graph = sensor_network(
        60, anchors, dimension=dimension, radius_m=radius, sigma_m=0.02, seed=seed).validate()
    truth = estimate_of(graph)
    planted = cost(graph, truth)
    result = solve(graph, SolverConfig(init='random', rank=5, seed=seed, cost_tolerance=1e-9))
    assert result.stats.cost_final <= planted
    found, real = result.estimate.landmarks, truth.landmarks
    if anchors:
        assert np.median(np.linalg.norm(found - real, axis=1)) < 0.1
    # A leaf of the network may be mirrored; distances tell no world from its mirror image.
    assert np.median(np.abs(pdist(found) - pdist(real))) < 0.1


def test_network_of_a_pose_graph_keeps_lengths_and_weights():
    graph = sphere(laps=3)
    network = network_of(graph).validate()
    edges = graph.relative_poses
    assert (network.n_poses, network.n_landmarks) == (0, 150)
    assert np.allclose(network.ranges.distance_m, np.linalg.norm(edges.translation, axis=1))
    assert np.array_equal(network.ranges.precision, edges.tau)
    result = solve(network, RANDOM)
    assert result.stats.cost_final <= cost(network, estimate_of(network))


@pytest.mark.parametrize('seed', range(2))
def test_scene_is_solved_from_random_starts(seed):
    graph = scene(12, 120, seed=seed).validate()
    truth = estimate_of(graph)
    result = solve(graph, SolverConfig(init='random', rank=5, seed=seed, certify=True))
    assert result.stats.certified
    assert result.stats.cost_final <= cost(graph, truth)
    assert aligned_errors(result.estimate.points, truth.points).mean() < 0.2


def test_scene_sees_every_point_twice_from_cameras_with_three_points():
    graph = scene(20, 100, seed=3)
    see = graph.sightings
    assert np.bincount(~see.point).min() >= 2
    assert np.bincount(see.i).min() >= 3
    assert np.all(see.translation[:, 2] > 0)


def write_bal(path: Path, graph: Graph, distortion: float) -> None:
    """A BAL file of a scene: cameras look along -z there, pixels without noise."""
    flip = np.diag([1.0, -1.0, -1.0])
    pose, see = graph.poses, graph.sightings
    turn = flip @ np.swapaxes(pose.rotation, 1, 2)
    shift = -np.einsum('kij,kj->ki', turn, pose.translation)
    inside = np.einsum('kij,kj->ki', turn[see.i], graph.landmarks.position[~see.point])
    inside += shift[see.i]
    plane = -inside[:, :2] / inside[:, 2:]
    square = np.sum(plane**2, axis=1, keepdims=True)
    pixel = 500 * plane * (1 + distortion * square + 0.5 * distortion * square**2)
    lines = [f'{graph.n_poses} {graph.n_landmarks} {len(see)}']
    lines += [f'{i} {p} {u} {v}' for i, p, (u, v) in zip(see.i, ~see.point, pixel, strict=True)]
    for R, t in zip(matrix_to_rotvec(turn), shift, strict=True):
        lines += [repr(float(x)) for x in (*R, *t, 500.0, distortion, 0.5 * distortion)]
    lines += [repr(float(x)) for x in graph.landmarks.position.ravel()]
    path.write_text('\n'.join(lines) + '\n')


@pytest.mark.parametrize('distortion', (0.0, -0.1, 0.2))
def test_bal_file_becomes_the_scene_it_was_written_from(tmp_path, distortion):
    source = scene(8, 60, seed=5)
    path = tmp_path / 'scene.bal'
    write_bal(path, source, distortion)
    graph = bal.read(path).validate()
    assert graph.name == 'scene'
    assert len(graph.sightings) == len(source.sightings)
    assert np.allclose(graph.poses.translation, source.poses.translation, atol=1e-9)
    assert cost(graph, estimate_of(graph)) < 1e-9
    result = solve(graph, RANDOM)
    assert aligned_errors(result.estimate.points, estimate_of(graph).points).max() < 1e-3


def test_bal_errors_name_the_line(tmp_path):
    path = tmp_path / 'bad.bal'
    write_bal(path, scene(8, 60, seed=5), 0.0)
    lines = path.read_text().split('\n')

    def broken(number: int, text: str | None) -> FormatError:
        changed = list(lines)
        if text is None:
            del changed[number - 1 :]
        else:
            changed[number - 1] = text
        path.write_text('\n'.join(changed))
        with pytest.raises(FormatError) as raised:
            bal.read(path)
        return raised.value

    assert broken(1, 'three numbers please').line == 1
    assert broken(3, '0 1 2.0').line == 3
    assert broken(4, '0 99999 1.0 2.0').line == 4
    assert 'the file ends' in str(broken(len(lines) - 5, None))
