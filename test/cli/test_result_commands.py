"""`sparser report`: a page that is whole; `sparser study`: every run once."""

import base64
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from report_paths import check_fields, simulated
from waiting import until

from sparser_ros.backend.replay import replay
from sparser_ros.backend.replay.study import run_one, runs_of
from sparser_ros.cli.main import main
from sparser_ros.config import ConfigError

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = ROOT / 'docs' / 'samples'


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """A solved simulation of two robots with false closures and ranges, as a run folder."""
    folder = tmp_path_factory.mktemp('report')
    simulated(folder, f'--graph {folder}/g.pyfg --robots 2 --beacons 4 --minutes 1 '
                      '--odometry-rate 2 --outliers 0.1')
    assert main(['solve', str(folder / 'g.pyfg'), '--gnc', '--covariance', '--calibrate', '--run',
                 str(folder / 'run')]) == 0
    assert main(['report', str(folder / 'run')]) == 0
    return folder


def pictures(path):
    """The page without its pictures, and the texts in each of them."""
    page = path.read_text(encoding='utf-8')
    drawn = [re.findall(r'<!-- (.*?) -->', base64.b64decode(one).decode())
             for one in re.findall(r'data:image/svg\+xml;base64,([^"]+)"', page)]
    return re.sub('base64,[^"]+', '', page), drawn


def test_what_the_page_shows(run):
    """The texts of an SVG stand in its comments; nothing comes from elsewhere."""
    page, (drawn, residuals, pairs, *_) = pictures(run / 'run' / 'report.html')
    assert not re.findall(r'<(?:script|link)|src="(?!data:)', page)
    assert {'A', 'B', 'beacons', '95 % ellipses', 'ranges', 'rejected'} <= set(drawn)
    assert any(text.startswith('ranges (') for text in residuals)
    assert sum(' – ' in text for text in pairs) == 9, 'pairs of two robots and four beacons'
    report = json.loads((run / 'run' / 'report.json').read_text())
    check_fields('solve', report)
    assert f'<td>{len(report["rejected"])}</td>' in page and '<th>bias_m</th>' in page
    (run / 'none').mkdir()
    shutil.copy(run / 'run' / 'map.pyfg', run / 'none')
    (run / 'none' / 'report.json').write_text(json.dumps(report | {'rejected': []}))
    assert main(['report', str(run / 'none')]) == 0
    assert 'rejected' not in pictures(run / 'none' / 'report.html')[1][0]


def test_a_replay_gives_a_run_as_well(run, capsys):
    assert main(['replay', str(SAMPLES / 'two_robots.mcap'),
                 '--config', str(SAMPLES / 'two_robots.yaml'),
                 '--run', str(run / 'replayed')]) == 0
    assert main(['report', str(run / 'replayed'), '-o', str(run / 'r.html')]) == 0
    _, drawn = pictures(run / 'r.html')
    assert any(text.startswith('A (fixed') for text in drawn[0])
    assert [titles[-1] for titles in drawn[-2:]] == [
        'cost of each solve', 'robots with a place in map']


def test_without_matplotlib_there_is_no_page(run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, 'matplotlib.figure', None)
    assert main(['report', str(run / 'run')]) == 2
    assert "pip install 'matplotlib" in capsys.readouterr().err


@pytest.fixture(scope='module')
def bags(tmp_path_factory):
    """Two short recordings of one robot, their configuration and a grid of two sets."""
    folder = tmp_path_factory.mktemp('study')
    for seed, name in enumerate(('one', 'two')):
        simulated(folder, '--robots 1 --beacons 4 --minutes 0.3 --odometry-rate 4 --outliers 0 '
                          f'--seed {seed}', name)
    (folder / 'grid.yaml').write_text(
        "config: '{bag}.yaml'\nsets:\n  gm: {solver.robust.kernel: gm}\n"
        '  plain: {solver.robust.kernel: none}\n'
        'seeds: [3]\n')
    return folder


def arguments(bags, *more):
    return ['study', str(bags / 'one'), str(bags / 'two'), '--grid', str(bags / 'grid.yaml'),
            '-o', str(bags / 'out'), *more]


def table(folder):
    with (folder / 'study.csv').open(newline='') as file:
        return list(csv.DictReader(file))


def test_a_study_that_was_killed_goes_on(bags, capsys):
    done = bags / 'out' / 'runs'
    child = subprocess.Popen(
        [sys.executable, '-m', 'sparser_ros', *arguments(bags, '--jobs', '1')], cwd=ROOT)
    until(lambda: list(done.glob('*.json')) or child.poll() is not None, 'a run')
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    kept = {path: path.stat().st_mtime_ns for path in done.glob('*.json')}
    assert 0 < len(kept) < 4
    assert not (bags / 'out' / 'study.csv').exists()
    code = main(arguments(bags, '--jobs', '1'))
    assert 'written' in capsys.readouterr().out
    assert len(list(done.glob('*.json'))) == 4
    assert kept == {path: path.stat().st_mtime_ns for path in kept}
    rows = table(bags / 'out')
    assert [(row['bag'], row['set'], row['solver.robust.kernel']) for row in rows] == [
        (bag, *one) for bag in ('one', 'two') for one in (('gm', 'gm'), ('plain', 'none'))]
    assert all(float(row['ate_rmse_m']) < 1 for row in rows)
    assert code == (0 if all(row['status'] == 'converged' for row in rows) else 3)


def test_the_same_from_a_cluster(bags, tmp_path):
    distributed = pytest.importorskip('distributed', reason='Dask is not installed')
    (tmp_path / 'grid.yaml').write_text(f"config: '{bags}/one.yaml'\n")
    command = ['study', str(bags / 'one'), '--grid', str(tmp_path / 'grid.yaml')]
    with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        assert main([*command, '-o', str(tmp_path / 'far'), '--scheduler',
                     cluster.scheduler_address]) == 0
    (far,) = table(tmp_path / 'far')
    near = run_one(runs_of([bags / 'one'], tmp_path / 'grid.yaml')[0])
    assert float(far['cost']) == pytest.approx(near['cost'], rel=1e-9)


def test_a_run_that_fails_is_a_row(bags, tmp_path, capsys):
    (tmp_path / 'grid.yaml').write_text(f"config: '{bags}/one.yaml'\n")
    broken = tmp_path / 'broken'
    broken.mkdir()
    (broken / 'metadata.yaml').write_text('nothing\n')
    assert main(['study', str(broken), '--grid', str(tmp_path / 'grid.yaml'),
                 '-o', str(tmp_path / 'out'), '--jobs', '1']) == 3
    assert f'failed: {broken}, defaults: FormatError' in capsys.readouterr().out
    assert table(tmp_path / 'out')[0]['message'].startswith('FormatError')


def test_without_a_configuration_each_bag_has_the_draft_of_its_own(bags, tmp_path, capsys):
    """And a robot without a place is no solved run."""
    grid = tmp_path / 'g.yaml'
    grid.write_text('parameters: {ranges.max_m: 0.5}\n')
    (run,) = runs_of([bags / 'one'], grid)
    assert list(run.configuration().robots) == ['A']
    assert main(['study', str(bags / 'one'), '--grid', str(grid), '-o', str(tmp_path / 'out'),
                 '--jobs', '1']) == 3
    shown = capsys.readouterr().out
    assert '1 runs, 0 solved' in shown and f'{bags / "one"}, ranges.max_m=0.5: ' in shown


@pytest.mark.parametrize(('text', 'message'), [
    ('parameters: {ranges.max_m: []}', r'parameters.ranges.max_m: expected one value at least'),
    ('sets: {low: {ranges.max_m: -1}}', r'one with low \(ranges.max_m: -1\): ranges.max_m'),
])
def test_a_value_that_cannot_be_is_said_of_the_grid(bags, tmp_path, text, message):
    grid = tmp_path / 'g.yaml'
    grid.write_text(f"config: '{bags}/one.yaml'\n{text}\n")
    with pytest.raises(ConfigError, match=message):
        runs_of([bags / 'one'], grid)


def test_values_are_multiplied_with_sets_and_seeds(bags, tmp_path):
    (tmp_path / 'g.yaml').write_text(
        f"config: '{bags}/one.yaml'\nsets: {{a: {{}}, b: {{solver.robust.kernel: gm}}}}\n"
        'parameters: {ranges.max_m: [50.0, 60.0], ranges.sigma_m: 0.2}\nseeds: [1, 2]\n')
    runs = runs_of([bags / 'one'], tmp_path / 'g.yaml')
    assert len(runs) == len({run.key for run in runs}) == 8
    config = runs[-1].configuration()
    assert (config.ranges.max_m, config.ranges.sigma_m, config.solver.seed) == (60.0, 0.2, 2)
    assert config.solver.robust.kernel == 'gm' and list(config.robots) == ['A']


def test_a_run_has_the_mode_and_the_seed_of_its_configuration(bags, tmp_path, monkeypatch):
    """And folders have names of their own where these differ after a dot."""
    grid, turns = tmp_path / 'g.yaml', []
    for name in ('run_1.0', 'run_1.5'):
        (tmp_path / name).symlink_to(bags / 'one')
        (tmp_path / f'{name}.yaml').write_text(
            'robots: [A]\nodometry_noise: pose_increment\nsolver.seed: 7\n'
            'calibration.mode: report\n')
    grid.write_text("config: '{bag}.yaml'\n")
    runs = runs_of([tmp_path / 'run_1.0', tmp_path / 'run_1.5'], grid)
    assert [run.configuration().solver.seed for run in runs] == [7, 7]
    monkeypatch.setattr(replay, 'calibration_with_places', lambda *_: turns.append(1) or iter(()))
    run_one(runs[0])
    assert turns
    grid.write_text('seeds: [1]\nparameters: {solver.seed: [2]}\n')
    with pytest.raises(ConfigError, match='give one of the two'):
        runs_of([bags / 'one'], grid)
