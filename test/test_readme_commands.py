"""Every command that README and tutorials print and that needs no robot runs as it is printed."""

import re
import shlex
from pathlib import Path

import pytest

from sparser_ros.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs' / 'tutorials').glob('*.md'))]
COMMAND = re.compile(r'^(?:\./dev/run )?sparser (.*)$')
NEEDS_A_SCREEN = ('play',)


def commands(page: Path) -> list[list[str]]:
    """Arguments of the `sparser` commands in the shell blocks of a page, in order."""
    text = page.read_text(encoding='utf-8').replace('\\\n', ' ')
    lines = [line.strip() for block in re.findall(r'```sh\n(.*?)```', text, re.DOTALL)
             for line in block.splitlines()]
    found = [shlex.split(hit[1], comments=True) for line in lines if (hit := COMMAND.match(line))]
    return [one for one in found if one[0] not in NEEDS_A_SCREEN]


def test_commands_are_found():
    assert [one[0] for one in commands(ROOT / 'README.md')][:2] == ['simulate', 'replay']


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.stem)
def test_commands_run_as_printed(page: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ('config', 'docs'):
        (tmp_path / name).symlink_to(ROOT / name)
    # The grid of a study is the YAML block that starts with its `config`.
    for grid in re.findall(r'```yaml\n(config: .*?)```', page.read_text('utf-8'), re.DOTALL):
        (tmp_path / 'grid.yaml').write_text(grid)
    for arguments in commands(page):
        code = main(arguments)
        shown = capsys.readouterr()
        assert code == 0, f'sparser {" ".join(arguments)}: exit {code}\n{shown.out}{shown.err}'
        for flag in ('-o', '--output', '--report', '--plot', '--tum', '--run'):
            if flag in arguments:
                path = Path(arguments[arguments.index(flag) + 1])
                assert path.exists(), f'{path} was not written by sparser {" ".join(arguments)}'


def test_the_python_example_runs(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(
        r'```python\n(.*?)```', (ROOT / 'README.md').read_text(encoding='utf-8'), re.DOTALL)
    exec(compile(example, 'README.md', 'exec'), {})
    shown = capsys.readouterr().out
    assert 'converged' in shown and 'door' in shown
    assert (tmp_path / 'map.png').stat().st_size > 1000


def test_samples_are_small():
    """They are downloaded with every clone."""
    assert sum(path.stat().st_size for path in (ROOT / 'docs' / 'samples').iterdir()) < 300_000
