"""Commands that README and tutorials print run as they are printed; a few are skipped, and why."""

import json
import os
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from sparser_ros.cli.main import main
from sparser_ros.config.sparser import SparserConfig

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs' / 'tutorials').glob('*.md'))]
BLOCK = re.compile(r'```(sh|python|yaml)\n(.*?)```', re.DOTALL)
COMMAND = re.compile(r'^(?:\./dev/run )?sparser (.*)$')
DATA = '$SPARSER_DATA'
OUTPUTS = ('-o', '--output', '--report', '--plot', '--tum', '--run', '--graph',
           '--residuals')
NOT_RUN = (
    (r'\./dev/test\b', 'runs all tests, this one among them'),
    (r'\./dev/demo\b', 'plays in time; test/demo runs it in miniature'),
    (r'(git clone|rosdep|colcon build|ros2) ', 'needs a ROS installation with its command line'),
    (r'export SPARSER_DATA=', 'where the data lie is up to whoever runs the tests'),
    (r'.*outfinite\.pyfg --certify', 'takes minutes; test/solver proves smaller graphs'),
)


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of the code blocks of a page, in order."""
    return BLOCK.findall(page.read_text(encoding='utf-8'))


def lines(shell: str) -> Iterator[str]:
    """Commands of a shell block, without comments."""
    for line in shell.replace('\\\n', ' ').splitlines():
        command = re.sub(r'(^|\s)#.*$', '', line).strip()
        if command:
            yield command


def run(command: str) -> None:
    """Run one `sparser` command in the present folder; all files that it names must be there."""
    match = COMMAND.match(command)
    assert match, f'no test runs `{command}`: see NOT_RUN'
    arguments = shlex.split(os.path.expandvars(match[1]))
    code = main(arguments)
    assert code == 0, f'sparser {match[1]}: exit {code}'
    for flag, value in pairwise(arguments):
        assert flag not in OUTPUTS or Path(value).exists(), f'{command} did not write {value}'


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.stem)
def test_commands_run_as_printed(page: Path, tmp_path: Path, monkeypatch, capsys):
    if DATA in page.read_text(encoding='utf-8') and not os.environ.get('SPARSER_DATA'):
        pytest.skip('needs the data sets in SPARSER_DATA')
    monkeypatch.chdir(tmp_path)
    for name in ('config', 'docs'):
        (tmp_path / name).symlink_to(ROOT / name)
    names: dict[str, object] = {}
    # A reader may find a file below the command that uses it.
    for language, text in blocks(page):
        if language == 'yaml' and (named := re.match(r'# (\S+\.yaml)\n', text)):
            Path(named[1]).write_text(text, encoding='utf-8')
    for language, text in blocks(page):
        if language == 'python':
            exec(compile(text, page.name, 'exec'), names)
        elif language == 'sh':
            for command in lines(text):
                if not any(re.match(pattern, command) for pattern, _ in NOT_RUN):
                    run(command)
    for saved in re.findall(r"\.save\('([^']*)'\)", page.read_text(encoding='utf-8')):
        assert Path(saved).exists()


def test_samples_are_small():
    """They are downloaded with every clone."""
    assert sum(path.stat().st_size for path in (ROOT / 'docs' / 'samples').iterdir()) < 300_000


@pytest.mark.parametrize(('options', 'dimension', 'within_m'), [
    (('--robots', '1', '--beacons', '4', '--radius', '20', '--speed', '0.7', '--odometry-rate',
      '20', '--range-sigma', '0.05', '--minutes', '1.5', '--seed', '3'), 2, 0.15),
    (('--robots', '3', '--beacons', '5', '--known-beacons', '0', '--radius', '25', '--range-rate',
      '6', '--minutes', '0.7', '--seed', '5'), 2, 0.15),
    (('--robots', '1', '--beacons', '6', '--dimension', '3', '--radius', '15', '--outliers', '0.1',
      '--minutes', '1', '--seed', '7'), 3, 0.6)], ids=['one robot', 'three robots', 'flight'])
def test_a_newcomers_bag(tmp_path, monkeypatch, options, dimension, within_m):
    """`Your bag in two minutes` with bags that nobody prepared."""
    monkeypatch.chdir(tmp_path)
    assert main(['simulate', '-o', 'my_bag', *options]) == 0
    readme = (ROOT / 'README.md').read_text(encoding='utf-8')
    chapter = readme[readme.index('## Your bag in two minutes'):]
    commands = [command.replace('docs/samples/two_robots.mcap', 'my_bag')
                for command in lines(BLOCK.search(chapter)[2])
                if not re.search(r'sparser (study|doctor)', command)]
    assert [command.split()[2] for command in commands] == ['info', 'replay', 'report']
    for command in commands:
        run(command)
    drafted = SparserConfig.from_yaml('drafted.yaml')
    assert drafted.dimension == dimension
    report = json.loads(Path('run/report.json').read_text())
    robots = report['truth']['robots']
    assert sorted(robots) == sorted(drafted.robots) == sorted(report['locations'])
    assert {robot['location'] for robot in robots.values()} == {'located'}
    assert max(robot['ate_m'] for robot in robots.values()) < within_m
    assert {path.stem for path in Path('trajectories').glob('*.tum')} == set(drafted.robots)
