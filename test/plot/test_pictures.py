"""Pictures show what they should; judged by their artists, not by pixels."""

import numpy as np
import pytest
from graphs import random_graph
from matplotlib.figure import Figure

from sparser_ros.graph import Landmarks, estimate_of
from sparser_ros.plot.page import _draw_pairs
from sparser_ros.plot.pictures import MOST_LINKS, new_figure, save_histograms, save_map


@pytest.fixture
def drawn(monkeypatch):
    figures = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, 'savefig', lambda self, *a, **k: (figures.append(self), save(self, *a, **k)))
    return figures


def test_map(tmp_path, drawn, d):
    graph = random_graph(1, d).replaced(name='field')
    weights = {'ranges': np.where(np.arange(len(graph.ranges)) == 2, 0.01, 1.0)}
    path = tmp_path / 'new' / 'map.png'
    save_map(
        path, graph, estimate_of(graph), truth=estimate_of(graph), weights=weights, cost=1.5)
    assert path.read_bytes().startswith(b'\x89PNG')
    assert [p.name for p in path.parent.iterdir()] == ['map.png']
    (axes,) = drawn[0].axes
    assert 'field' in axes.get_title() and 'cost 1.5' in axes.get_title()
    assert axes.get_xlabel() == 'x [m]'
    labels = {text.get_text() for text in axes.figure.legends[0].get_texts()}
    assert labels == {'A', 'B', 'beacons', 'reference', 'ranges', 'loop closures', 'rejected'}
    names = {text.get_text().strip() for text in axes.texts}
    assert set(graph.landmarks.names) <= names


def test_what_has_no_place_is_faint_and_named(tmp_path, drawn):
    graph = random_graph(1)
    located = np.arange(graph.n_landmarks) > 0
    save_map(tmp_path / 'map.png', graph, estimate_of(graph),
                  untrusted={'B': 'unlocated'}, located=located)
    (axes,) = drawn[0].axes
    by_label = {line.get_label(): line for line in axes.get_lines()}
    assert by_label['B (unlocated)'].get_linestyle() == '--'
    assert by_label['B (unlocated)'].get_alpha() < by_label['A'].get_alpha()
    assert 'not to be trusted: B' in axes.get_title()
    assert len(by_label['beacons without a place'].get_xdata()) == 1
    assert len(by_label['beacons'].get_xdata()) == graph.n_landmarks - 1


@pytest.mark.filterwarnings('error')
def test_many_and_long_names_leave_room_for_the_drawing(tmp_path, drawn):
    graph = random_graph(1)
    marks = graph.landmarks
    graph = graph.replaced(
        robots=(*graph.robots, *(f'R{k}' for k in range(40))),
        poses=graph.poses.replaced(robot=np.arange(graph.n_poses) % 40),
        landmarks=Landmarks(tuple(80 * 'x' + name for name in marks.names), marks.position,
                            marks.fixed))
    robots = dict.fromkeys(graph.robots, 'unlocated')
    save_map(tmp_path / 'map.png', graph, estimate_of(graph), untrusted=robots, fix_share={
        robot: {'fixed': 0.5, 'float': 0.3, 'none': 0.2} for robot in robots})
    drawing = new_figure(9.0, 4.2)
    _draw_pairs(drawing, graph, estimate_of(graph))
    drawing.savefig(tmp_path / 'pairs.png')
    for one in drawn:
        (axes,) = one.axes
        assert axes.get_position().height * one.get_figheight() > 2.5
    assert len(drawn[0].axes[0].get_title()) < 100


def test_names_are_no_formulas_and_all_are_in_the_legend(tmp_path, drawn, d):
    graph = random_graph(1, d)
    marks = graph.landmarks
    graph = graph.replaced(name='$x_$', robots=('_A', '$B_$'), landmarks=Landmarks(
        ('$a_$', *marks.names[1:]), marks.position, marks.fixed))
    save_map(tmp_path / 'map.png', graph, estimate_of(graph))
    save_histograms(tmp_path / 'h.png', {'ranges': np.ones(3)}, '$x_$')
    labels = {text.get_text().strip() for text in drawn[0].legends[0].get_texts()}
    assert {'_A', r'\$B_\$'} <= labels


def test_many_links_are_thinned(tmp_path, drawn):
    graph = random_graph(2, length=50, ranges=8000)
    save_map(tmp_path / 'map.png', graph, estimate_of(graph))
    (line,) = [x for x in drawn[0].axes[0].get_lines() if x.get_label() == 'ranges']
    assert len(line.get_xdata()) <= 3 * MOST_LINKS


def test_residuals(tmp_path, drawn):
    save_histograms(tmp_path / 'h.svg', {
        'ranges': np.array([0.1, 0.5, 20.0]), 'sightings': np.zeros(0)}, 'title')
    (axes,) = drawn[0].axes
    assert axes.get_title() == 'ranges (3)'
    label = axes.get_legend().get_texts()[0].get_text()
    assert 'median 0.50' in label and '33.3%' in label
