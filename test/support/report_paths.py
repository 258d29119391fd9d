"""Reports of commands: what they hold, and the paths of their fields beside those declared."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from sparser_ros.cli.main import main

PAGE = Path(__file__).resolve().parents[2] / 'docs' / 'report_fields.md'

# What the recordings of the tests do not bring about, with everything below it.
NOT_HERE = {
    'solve': ('covariance.error', 'seconds.*'),
    'replay': ('covariance.error', 'seconds.*', 'unused_topics', 'calibration'),
}
MAY_BE_EMPTY = ('trace', 'rejected', 'warnings', 'undetermined', 'calibration.odometry',
                'calibration.undetermined', 'clocks', 'antennas_or_clocks')


def reported(folder: Path, *arguments: object, code: int = 0) -> dict[str, Any]:
    """The report of a command that ends with this code, COMMAND.json in a folder."""
    path = folder / f'{arguments[0]}.json'
    assert main([*map(str, arguments), '--report', str(path)]) == code
    return json.loads(path.read_text(encoding='utf-8'))


def simulated(folder: Path, options: str, name: str = 'bag') -> tuple[Path, Path]:
    """A bag of a simulation with these options, and its configuration."""
    bag, config = folder / name, folder / f'{name}.yaml'
    assert main(['simulate', '-o', str(bag), '--config', str(config), *options.split()]) == 0
    return bag, config


@cache
def declared(writer: str) -> list[str]:
    """Paths in the sections of the page that `writer` writes."""
    sections = PAGE.read_text(encoding='utf-8').split('\n## ')[1:]
    return [path for section in sections
            if re.search(rf'Written by [^.]*`(./dev/)?{writer}`', section)
            for path in re.findall(r'^\| `(\S+)` \|', section, re.MULTILINE)]


def found(report: Any, known: set[str], path: str = '') -> Iterator[str]:
    """The declared path of everything in a report; what is not declared comes as it is."""
    below = any(one.startswith((f'{path}.', f'{path}[')) for one in known) or not path
    if (path and not below) or not isinstance(report, dict | list):
        yield path
    elif isinstance(report, list):
        for value in report:
            yield from found(value, known, f'{path}[]')
    else:
        for key, value in report.items():
            name = f'{path}.{key}' if path else key
            named = any(one == name or one.startswith((f'{name}.', f'{name}[')) for one in known)
            yield from found(value, known, name if named or not path else f'{path}.*')


def check_fields(writer: str, report: dict[str, Any], *, whole: bool = True) -> None:
    """Nothing undeclared is in a report; with `whole`, all that is declared is."""
    known = set(declared(writer))
    seen = set(found(report, known))
    groups = {one[:cut.start()] for one in known for cut in re.finditer(r'[.[]', one)}
    extra = seen - known - groups
    assert not extra, f'declare in docs/report_fields.md: {sorted(extra)}'
    left = {one for one in known - seen - groups
            if not one.startswith((*MAY_BE_EMPTY, *NOT_HERE.get(writer, ())))}
    assert not whole or not left, f'declared, but not written: {sorted(left)}'
