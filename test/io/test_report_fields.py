"""Every field of a report is declared with its meaning, and every declared field is written."""

import json
from pathlib import Path
from typing import Any

import pytest
from report_paths import check_fields, declared

from sparser_ros.cli.main import main

SAMPLES = Path(__file__).resolve().parents[2] / 'docs' / 'samples'


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp('reports')


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    path = folder / f'{arguments[0]}.json'
    assert main([*arguments, '--report', str(path)]) == 0
    return json.loads(path.read_text(encoding='utf-8'))


def test_fields_of_solve(folder: Path):
    check_fields('solve', run(
        folder, 'solve', str(SAMPLES / 'two_robots.pyfg'), '--gnc', '--covariance', '--calibrate'))


def test_fields_of_replay_and_calibrate(folder: Path):
    bag, config = str(folder / 'bag'), str(folder / 'bag.yaml')
    assert main([
        'simulate', '-o', bag, '--config', config, '--robots', '2', '--beacons', '4',
        '--known-beacons', '3', '--minutes', '0.7', '--closures', '4', '--outliers', '0.1']) == 0
    whole = run(folder, 'replay', bag, '--config', config, '--run', str(folder / 'run'))
    in_folder = json.loads((folder / 'run' / 'report.json').read_text(encoding='utf-8'))
    check_fields('replay', whole | {'covariance': in_folder['covariance']})
    check_fields('calibrate', run(folder, 'calibrate', bag, '--config', config))


def test_paths_are_declared_once_for_each_writer():
    for writer in ('solve', 'replay', 'calibrate', 'demo'):
        listed = declared(writer)
        assert len(listed) == len(set(listed)) > 5


def test_what_is_not_declared_is_noticed():
    with pytest.raises(AssertionError, match=r"declare in .*'not_declared'"):
        check_fields('solve', {'not_declared': 1})
