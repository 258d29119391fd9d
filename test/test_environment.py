"""The shell side: dev/run, scripts, the bench overlay, and what pip installs."""

import os
import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = [ROOT / '.ci' / 'run', *(ROOT / 'dev' / n for n in (
    'demo', 'run', 'test', 'setup.sh', 'environment.sh'))]


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda p: p.name)
def test_scripts_parse(script: Path):
    subprocess.run(['bash', '-n', str(script)], check=True)
    if script.suffix != '.sh':
        assert os.access(script, os.X_OK), f'{script} is not executable'


def environment_of(root: Path, command: str) -> str:
    """What a command prints in the environment that dev/environment.sh makes of `root`."""
    script = (
        f'set -eu; ROOT={root} VENV={root}/.venv INSTALL={root}/install OVERLAY={root}/overlay '
        f'MODE=wheels; source {ROOT}/dev/environment.sh; {command}'
    )
    clean = {'PATH': os.environ['PATH'], 'PYTHONPATH': '/elsewhere'}
    done = subprocess.run(
        ['bash', '-c', script], env=clean, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a workspace in which all of the package was installed."""
    package = tmp_path / 'install/sparser_ros/lib/python3.11/site-packages/sparser_ros'
    for name in ('config', 'solver', 'msg'):
        (package / name).mkdir(parents=True)
        (package / name / '__init__.py').touch()
    for prefix in ('.venv', 'install/sparser_ros', 'overlay/tf2_msgs'):
        (tmp_path / prefix / 'share').mkdir(parents=True)
    return tmp_path


def test_the_checkout_comes_first_on_the_path(checkout: Path):
    path = environment_of(checkout, 'echo $PYTHONPATH').split(':')
    assert path[0] == str(checkout)
    assert path[-1] == '/elsewhere'
    assert str(checkout / 'install/sparser_ros/lib/python3.11/site-packages') in path
    prefixes = environment_of(checkout, 'echo $AMENT_PREFIX_PATH').split(':')
    assert prefixes == [
        str(checkout / name) for name in ('install/sparser_ros', 'overlay/tf2_msgs', '.venv')]


def test_installed_copies_of_modules_go_and_messages_stay(checkout: Path):
    environment_of(checkout, 'true')
    package = checkout / 'install/sparser_ros/lib/python3.11/site-packages/sparser_ros'
    assert [path.name for path in package.iterdir()] == ['msg']


@pytest.mark.skipif(
    not os.environ.get('VIRTUAL_ENV', '').startswith(str(ROOT)),
    reason='not within dev/run, which would now install what it needs',
)
def test_a_command_gets_its_arguments_and_gives_its_exit_code():
    done = subprocess.run(
        [ROOT / 'dev' / 'run', 'bash', '-c', 'echo "$1"; exit 7', '_', 'two words'],
        capture_output=True, text=True, timeout=280,
    )
    assert (done.returncode, done.stdout) == (7, 'two words\n')


def test_no_command_is_an_error():
    done = subprocess.run([ROOT / 'dev' / 'run'], capture_output=True, text=True)
    assert done.returncode == 2
    assert 'usage' in done.stderr


def test_kernels_are_compiled_once(checkout: Path):
    """The interpreter is a stand-in that notes its calls: compiling takes minutes."""
    kernels = checkout / 'sparser_ros' / 'linalg'
    kernels.mkdir(parents=True)
    (kernels / 'compiled.py').touch()
    (checkout / '.cache').mkdir()
    python = checkout / '.venv' / 'bin' / 'python3'
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\necho "$@" >> {checkout}/calls\nexit 1\n')
    python.chmod(0o755)
    for _ in range(2):
        assert environment_of(checkout, 'echo done') == 'done'
    # A failure is no reason to try again at every command, nor to end.
    assert (checkout / 'calls').read_text() == '-m sparser_ros doctor --compile\n'
    (kernels / 'more_kernels.py').touch()
    environment_of(checkout, 'true')
    assert len((checkout / 'calls').read_text().splitlines()) == 2


@pytest.mark.parametrize(('header', 'wanted'), [
    ((5, 12), 'scikit-sparse>=0.4.16,<0.5'), ((7, 3), 'scikit-sparse>=0.4.16,<0.5'),
    ((7, 4), 'scikit-sparse>=0.5,<0.6'), ((8, 0), 'scikit-sparse>=0.5,<0.6'),
    # Without headers every version that the solver knows will do.
    (None, 'scikit-sparse>=0.4.16')])
def test_scikit_sparse_goes_by_the_version_of_suitesparse(tmp_path, header, wanted):
    if header:
        (tmp_path / 'SuiteSparse_config.h').write_text(
            '#define SUITESPARSE_MAIN_VERSION {}\n#define SUITESPARSE_SUB_VERSION    {}\n'.format(
                *header))
    asked = runpy.run_path(str(ROOT / 'setup.py'))['scikit_sparse']
    assert asked([str(tmp_path / 'elsewhere'), str(tmp_path)]) == wanted
