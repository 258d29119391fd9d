"""`sparser doctor` names what is there; after --compile nothing is left to compile."""

from pathlib import Path

from waiting import compiled_by_dev_run, python

from sparser_ros.cli.main import main

SAMPLES = Path(__file__).resolve().parents[2] / 'docs' / 'samples'
GRAPH, BAG = SAMPLES / 'two_robots.pyfg', SAMPLES / 'two_robots.mcap'
CONFIG = SAMPLES / 'two_robots.yaml'
COMMANDS = (
    ('solve', GRAPH), ('solve', GRAPH, '--certify'), ('solve', GRAPH, '--gnc', '--covariance'),
    ('replay', BAG, '--config', CONFIG))


def test_the_first_solves_compile_nothing():
    def log_of(*arguments: object) -> str:
        return python('-m', 'sparser_ros', *arguments, NUMBA_DEBUG_CACHE='1').stdout

    if not compiled_by_dev_run():
        assert 'compiled functions in' in log_of('doctor', '--compile')
    for arguments in COMMANDS:
        log = log_of(*arguments)
        assert 'data loaded' in log
        assert 'data saved' not in log, arguments


def test_doctor(capsys):
    assert main(['doctor']) == 0
    shown = capsys.readouterr().out
    for subject in ('numpy', 'ordering', 'kernels', 'GPU', 'ROS 2', 'clock'):
        assert subject in shown
