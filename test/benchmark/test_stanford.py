"""Regions of the Stanford diagram, its table and its picture."""

import numpy as np

from benchmark import stanford
from benchmark.integrity import judged
from benchmark.stanford import played
from benchmark.synthetic import range_graph
from sparser_ros.io import graph_file

POINTS = np.array([[0.1, 0.5], [0.2, 0.9], [0.1, 2.0], [0.6, 0.5], [2.5, 2.0], [1.5, 0.8]])


def test_every_epoch_is_in_the_region_of_its_name():
    assert stanford.counts(POINTS, 1.0) == {
        'nominal': 2, 'unavailable': 1, 'misleading': 1, 'misleading, unavailable': 1,
        'hazardous': 1}
    row = stanford.row_of('x', POINTS, 1.0)
    assert row['epochs'] == 6 and row['nominal'] == 100 / 3
    assert row['ratio'] == 1.5 / 0.8 and 0.5 < row['rate'] < 1


def test_a_diagram_is_drawn(tmp_path):
    stanford.picture(tmp_path / 'stanford.png', {'a': POINTS, 'b': POINTS[:1]}, 1.0)
    assert (tmp_path / 'stanford.png').stat().st_size > 1000


def test_a_recording_gives_epochs_with_finite_levels():
    points = np.array(judged('clean', 0, 0.5).points)
    assert len(points) and np.all(points[:, 0] >= 0) and np.all(points[:, 1] > 0)


def test_a_graph_file_is_played(tmp_path):
    path = tmp_path / 'net.pyfg'
    graph_file.write(path, range_graph(120, robots=2, dimension=2, ranging=0.6, seed=1))
    points = played(path, 4)
    assert points.shape[1] == 2 and np.all(np.isfinite(points[:, 0]))
