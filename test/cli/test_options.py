"""Paths of all commands: refused before the work, nothing of value replaced, `-`, exit codes."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from graphs import random_graph
from waiting import PATIENCE_S

from sparser_ros.cli.main import main, parser
from sparser_ros.cli.options import Reads, Writes
from sparser_ros.io import pyfg

SPARSER = (sys.executable, '-m', 'sparser_ros')


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """A folder with a bag, its graph and its parameters, a folder and a file of notes."""
    folder = tmp_path_factory.mktemp('made')
    assert main(['simulate', '-o', str(folder / 'bag'), '--minutes', '0.1', '--robots', '1',
                 '--graph', str(folder / 'g.pyfg'), '--config', str(folder / 'c.yaml')]) == 0
    pyfg.write(folder / 'two.pyfg', random_graph(1, levers=False))
    for name, text in (('grid', 'seeds: [0]'), ('typo', 'parameters: {ranges.sigma_x: [1]}'),
                       ('other', 'seed: 3'), ('list', 'seeds: 3'),
                       ('many', f'config: c.yaml\nseeds: {[*range(10)]}')):
        (folder / f'{name}.yaml').write_text(f'{text}\n')
    (folder / 'bad.pyfg').write_text('VERTEX_SE2 0 A0 0 0 0\nVERTEX_SE2 0 A1 1 zero 0\n')
    (folder / 'net.pyfg').write_text(
        'VERTEX_XY L0 0 0\nVERTEX_XY L1 3 0\nEDGE_RANGE 0 L0 L1 3 0.01\n')
    (folder / 'folder').mkdir()
    (folder / 'saved').mkdir()
    shutil.copy(folder / 'two.pyfg', folder / 'saved' / 'map.pyfg')
    shutil.copytree(folder / 'bag', folder / 'mixed')
    shutil.copy(folder / 'g.pyfg', folder / 'mixed' / 'g.pyfg')
    (folder / 'notes.txt').write_text('to be kept\n')
    (folder / 'dangling.json').symlink_to('none/r.json')
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A copy of it, as the working folder."""
    shutil.copytree(made, tmp_path / 'w ö', symlinks=True)
    monkeypatch.chdir(tmp_path / 'w ö')
    return tmp_path / 'w ö'


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob('*')}


WRONG = {
    '': 'COMMAND',
    'dance': "invalid choice: 'dance'",
    'sovle x.pyfg': 'did you mean solve?',
    'solve x.pyfg --certfy': 'did you mean --certify?',
    'solve x.pyfg --kernel gmm': 'did you mean gm?',
    'replay BAG --confg=c.yaml': 'did you mean --config?',
    'solve none.pyfg': 'none.pyfg: cannot be read',
    'solve bad.pyfg': "bad.pyfg:2: VERTEX_SE2: expected a number for y, got 'zero'",
    'solve graph.txt': 'expected a file name ending in .pyfg or .g2o',
    'solve x.pyfg --rank 99': '--rank: 99 is above',
    'solve x.pyfg --output y.g2o': '--output: expected a name',
    'solve g.pyfg --plot x.xyz': 'x.xyz: cannot be drawn: expected a name ending in .png',
    'solve g.pyfg --report none/r.json': '--report: none/r.json cannot be written: there is no',
    'solve g.pyfg --report c.yaml': '--report: c.yaml exists and is not a report',
    'solve g.pyfg --report=': '--report: expected a report, got an empty name',
    'solve g.pyfg --run c.yaml/x': '--run: c.yaml/x cannot be written: c.yaml is a file',
    'solve g.pyfg --run saved': '--run: saved/map.pyfg is not replaced',
    'solve g.pyfg --output two.pyfg': '--output: two.pyfg exists already: name another, or '
                                      'replace it with --force',
    'solve g.pyfg --output s.pyfg --report s.pyfg': '--report',
    'solve g.pyfg --report dangling.json': '--report: dangling.json cannot be written: there is',
    'solve g\x1b.pyfg': "GRAPH: 'g\\x1b.pyfg' has characters that cannot be printed: rename it",
    'simulate -o new --odometry-rate 0': '--odometry-rate: 0.0 is below',
    'simulate -o new --known-beacons 9': '--known-beacons: 9 of 6 beacons cannot be known',
    'solve g.pyfg --plot -': 'only a report can go to standard output',
    'solve bag': 'GRAPH: bag is a bag: `sparser replay` solves it; expected a graph file',
    'solve c.yaml': 'GRAPH: c.yaml is a parameter file; expected a graph file',
    'replay bag --config g.pyfg': '--config: g.pyfg is a graph file; expected a parameter file',
    'replay g.pyfg': 'BAG: g.pyfg is a graph file: `sparser solve` solves it',
    'calibrate g.pyfg -o g.pyfg --force': '--output: expected a name ending in .yaml',
    'calibrate two.pyfg --truth g.pyfg': '--truth: g.pyfg has other poses than two.pyfg',
    'calibrate g.pyfg --truth-sigma inf': '--truth-sigma: expected a positive length',
    'calibrate net.pyfg': 'net.pyfg: it has no poses',
    'simulate -o bag': '--output: bag exists already: name another, or replace it with --force',
    'bag g.pyfg -o mixed --force': 'holds other files',
    'simulate -o new --graph new.txt': '--graph: expected a name ending in .pyfg or .g2o',
    'simulate -o folder --force': '--output: folder is not replaced, even with --force',
    'simulate -o new.db3': '--output: expected the name of a folder or one ending in .mcap',
    'info g.pyfg --config new.yaml': '--config: is compared with a bag',
    'report notes.txt': 'RUN: notes.txt is a file; expected the folder of a run',
    'report folder -o notes.txt': '--output: notes.txt exists and is not a page',
    'report folder': 'expected a folder with map.pyfg',
    'study bag --grid grid.yaml --jobs 0': '--jobs: expected 1 or more processes, got 0',
    'study bag --grid typo.yaml': 'did you mean ranges.sigma_m',
    'study bag --grid other.yaml': 'expected a mapping with some of config, sets, parameters',
    'study bag --grid list.yaml': 'seeds: expected a list',
    'play bag --wait nan': '--wait: expected a time of 0 s or more, got nan',
}


@pytest.mark.parametrize('line', WRONG)
def test_what_is_wrong_is_said_before_the_work(line, here, capsys):
    before = contents(here)
    assert main(line.split()) == 2
    shown = capsys.readouterr()
    assert WRONG[line] in shown.err and shown.out == '' and shown.err.count('\n') == 1
    assert contents(here) == before


def test_every_path_of_every_command_is_checked():
    """An option of type Path would not be; empty names are refused by all."""
    top = parser()
    commands = top._subparsers._group_actions[0].choices
    for command in commands.values():
        for action in command._actions:
            assert action.type is None or 'Path' not in str(action.type), action.option_strings
    assert sum(isinstance(action, Reads | Writes) for command in commands.values()
               for action in command._actions) > 20


@pytest.mark.parametrize('line', [
    'solve g.pyfg --output g.pyfg --force',
    'simulate -o bag --minutes 0.1 --robots 1 --config c.yaml --graph g.pyfg --force',
    'bag g.pyfg -o bag --config c.yaml --force',
    'calibrate two.pyfg --config c.yaml -o c.yaml --force',
    'solve g.pyfg --report out/r.json --tum out --plot out/deeper.png --run out',
])
def test_what_may_be_replaced(line, here):
    """With --force; what a run has written, without: the second time is as good as the first."""
    if line.startswith('calibrate'):
        (here / 'c.yaml').write_text('robots: [A, B]\n')
    for _ in range(2):
        assert main(line.split()) == 0


@pytest.mark.parametrize('name', ['-', '/dev/stdout'])
@pytest.mark.parametrize('line', ['solve two.pyfg', 'calibrate two.pyfg'])
def test_a_report_on_standard_output_is_all_there(line, name, here, capsys):
    main([*line.split(), '--report', name, '-o' if 'cal' in line else '--plot',
          'x.yaml' if 'cal' in line else 'x.png'])
    shown = capsys.readouterr()
    assert json.loads(shown.out)['dataset'] == 'two'
    assert 'written: x' in shown.err and not (here / '-').exists()


def test_devices_are_written_to_and_links_stay(here):
    os.mkfifo('pipe')
    reader = subprocess.Popen(['cat', 'pipe'], stdout=subprocess.PIPE)
    assert main(['solve', 'g.pyfg', '--report', 'pipe']) == 0
    assert json.loads(reader.communicate(timeout=20)[0])['dataset'] == 'g'
    (here / 'folder' / 'real.json').write_text('{}')
    (here / 'link.json').symlink_to('folder/real.json')
    assert main(['solve', 'g.pyfg', '--report', 'link.json']) == 0
    assert (here / 'link.json').is_symlink()
    assert json.loads((here / 'folder' / 'real.json').read_text())['dataset'] == 'g'


def ran(*command, **options):
    """A command that has ended."""
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **options)


def test_a_closed_pipe_and_a_full_disk(here):
    """Neither is a traceback; what cannot be printed on a full disk is an error."""
    shell = f'{" ".join(SPARSER)} info g.pyfg'
    closed = ran('bash', '-c', f'set -o pipefail; {shell} | true')
    assert (closed.returncode, closed.stderr) == (0, '')
    full = ran('bash', '-c', f'{shell} > /dev/full')
    assert full.returncode == 2
    assert full.stderr == 'sparser: No space left on device\n'


@pytest.mark.parametrize('line', [
    'simulate -o new --minutes 3', 'simulate -o new.mcap --minutes 3', 'bag g.pyfg -o new',
    'solve g.pyfg --run new', 'solve g.pyfg --plot new.png', 'calibrate g.pyfg -o new.yaml'])
def test_a_file_that_may_not_grow_is_an_error_in_words(line, here):
    """As on a full disk: what was begun is gone."""
    limit = 0 if 'yaml' in line else 4
    # No byte code: it would be cut short as well, for all other processes.
    environment = {**os.environ, 'MPLCONFIGDIR': str(here), 'PYTHONDONTWRITEBYTECODE': '1'}
    done = ran(
        'bash', '-c', f'ulimit -f {limit}; exec {" ".join(SPARSER)} {line}', env=environment)
    error = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and re.match(r'sparser: new.*: cannot be (written|drawn): ', error)
    assert 'Traceback' not in done.stderr
    assert not [path for path in here.rglob('*new*') if path.is_file() or 'run' not in line]


LONG, STUDY = 'simulate -o long --minutes 1000', 'study bag --grid many.yaml --jobs 2'
AFTER = 'threading.Timer({}, os.killpg, (os.getpgrp(), signal.SIGINT)).start()'


@pytest.mark.parametrize(('line', 'when'), [
    # While modules are imported, and while it works.
    (LONG, "sys.addaudithook(lambda event, args: (event, *args[:1]) == ('import', "
           "'sparser_ros.io.simulation') and os.kill(os.getpid(), signal.SIGINT))"),
    (LONG, AFTER.format(0.7)), (STUDY, AFTER.format(0.5)), (STUDY, AFTER.format(2.5))])
def test_ctrl_c_is_130_without_a_traceback(line, when, here):
    """A terminal interrupts processes of a study as well: they say nothing, and none is left."""
    (here / 'interrupted.py').write_text(
        'import os, signal, sys, threading; from sparser_ros.cli.main import command\n'
        f"if __name__ == '__main__':\n    {when}\n"
        f'    sys.argv[1:] = {line.split()}; sys.exit(command())\n')
    # -B: a signal while Python writes byte code can truncate the file, for all other processes.
    done = ran(sys.executable, '-B', 'interrupted.py', start_new_session=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, '', '')
    assert not (here / 'long').exists()
