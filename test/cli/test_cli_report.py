"""`sparser report`: one page of a run, whole and valid for plotly; faults are named."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from sparser_ros.cli.main import main
from sparser_ros.plot.html_page import THEMES

SAMPLES = Path(__file__).resolve().parent.parent.parent / 'docs' / 'samples'
go = pytest.importorskip('plotly.graph_objects', reason='plotly is not installed')


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """A solved simulation of two robots with false closures and ranges, as a run folder."""
    folder = tmp_path_factory.mktemp('report')
    assert main([
        'simulate', '-o', str(folder / 'bag'), '--graph', str(folder / 'g.pyfg'), '--robots', '2',
        '--beacons', '4', '--minutes', '1', '--odometry-rate', '2', '--outliers', '0.1',
        ]) == 0
    assert main(['solve', str(folder / 'g.pyfg'), '--gnc', '--run', str(folder / 'run')]) == 0
    assert main(['report', str(folder / 'run')]) == 0
    return folder


def figures(path):
    text = path.read_text(encoding='utf-8')
    (found,) = re.findall(
        r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)
    return text, json.loads(found)


def coloured(value):
    """A figure in the light theme."""
    if isinstance(value, dict):
        return {key: coloured(one) for key, one in value.items()}
    if isinstance(value, list):
        return [coloured(one) for one in value]
    return THEMES['light'].get(value, value) if isinstance(value, str) else value


def test_the_page_needs_nothing_else(run):
    text, drawn = figures(run / 'run' / 'report.html')
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)=', text)
    assert 'prefers-color-scheme: dark' in text and len(text) > 3e6
    for figure in drawn.values():
        go.Figure(coloured(figure))  # plotly refuses unknown properties and values


def test_what_the_page_shows(run):
    _, drawn = figures(run / 'run' / 'report.html')
    names = [one.get('name', '') for one in drawn['figure0']['data']]
    assert {'robot A', 'robot B', 'beacons', '95 % ellipses'} <= set(names)
    rejected = json.loads((run / 'run' / 'report.json').read_text())['rejected']
    count = sum(one['type'] == 'ranges' for one in rejected)
    assert count > 0 and any(name.startswith(f'rejected ranges ({count}') for name in names)
    titles = ' '.join(one['layout'].get('title', {}).get('text', '') for one in drawn.values())
    assert 'ranges by pair' in titles
    pairs = next(one for one in drawn.values() if one['data'][0]['type'] == 'box')['data'][0]
    assert len(pairs['x']) == 9 and np.all(np.array(pairs['q1']) <= pairs['q3'])


def test_ellipses_are_those_of_the_report(run):
    """Their extent in x and y is that of the covariance, at 95 %."""
    _, drawn = figures(run / 'run' / 'report.html')
    (one,) = [t for t in drawn['figure0']['data'] if t.get('name') == '95 % ellipses']
    x = np.array(one['x'][:49], dtype=float)
    report = json.loads((run / 'run' / 'report.json').read_text())
    first = next(iter(report['covariance']['landmarks'].values()))
    assert np.ptp(x) / 2 == pytest.approx(np.sqrt(5.991 * first[0][0]), rel=0.02, abs=2e-3)


def test_a_replay_gives_a_run_as_well(run, capsys):
    assert main(['replay', str(SAMPLES / 'two_robots.mcap'),
                 '--config', str(SAMPLES / 'two_robots.yaml'),
                 '--run', str(run / 'replayed')]) == 0
    assert main(['report', str(run / 'replayed'), '-o', str(run / 'r.html')]) == 0
    _, drawn = figures(run / 'r.html')
    assert 'robot A' in [one.get('name') for one in drawn['figure0']['data']]
    titles = [one['layout'].get('title', {}).get('text', '') for one in drawn.values()]
    assert 'cost of each solve' in titles and 'robots with a place in map' in titles


def test_what_cannot_be_reported(run, tmp_path, monkeypatch, capsys):
    assert main(['report', str(tmp_path)]) == 2
    assert 'expected a folder with map.pyfg' in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, 'plotly.offline', None)
    assert main(['report', str(run / 'run')]) == 2
    assert 'pip install plotly' in capsys.readouterr().err
