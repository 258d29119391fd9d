"""Options that name files and folders: what each may be is checked before the work of a command.

What people write (bags, graphs, parameter files) is replaced with --force only; what a rerun makes
anew (reports, pictures, trajectories, pages) is replaced without asking.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from enum import Enum
from pathlib import Path
from typing import Any, TextIO

from ..config import ConfigError

STANDARD_OUTPUT = Path('-')
_ITS_NAMES = ('-', '/dev/stdout', '/dev/fd/1', '/proc/self/fd/1')
GRAPHS = ('.pyfg', '.g2o')
_PARAMETERS = ('.yaml', '.yml')
_OF_A_BAG = ('.db3', '.mcap', '.db3-wal', '.db3-shm', '.zstd')


class Kind(Enum):
    """What a path leads to; the value is its name in messages."""

    GRAPH = 'a graph file'
    BAG = 'a bag'
    DATA = 'a bag or a graph file'
    PARAMETERS = 'a parameter file'
    DRAFT = 'a parameter file to compare with, or to draft'
    REPORT = 'a report'
    PICTURE = 'a picture'
    PAGE = 'a page'
    FOLDER = 'a folder'
    RUN = 'the folder of a run'


_FOLDERS = (Kind.FOLDER, Kind.RUN)
_KEPT = (Kind.GRAPH, Kind.BAG, Kind.PARAMETERS)
"""Replaced with --force only."""
_BEGINNINGS = {Kind.REPORT: b'{', Kind.PAGE: b'<'}
"""First characters of files that may be replaced: others are not what such an option wrote."""
_RUN_FILES = ('map.pyfg', 'report.json')


class _PathOption(argparse.Action):
    """Stores a path of some kind; an empty name, which often is an unset variable, is refused."""

    def __init__(self, *, kind: Kind, **options: Any) -> None:
        super().__init__(**options)
        self.kind = kind

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
        option_string: str | None = None,
    ) -> None:
        texts = values if isinstance(values, list) else [values]
        for text in texts:
            if not text:
                parser.error(f'{label(self)}: expected {self.kind.value}, got an empty name')
            if re.search('[\x00-\x1f\x7f\ud800-\udfff]', text):
                # Pictures, pages and reports show names; bytes that are no UTF-8 cannot be written.
                parser.error(f'{label(self)}: {text!a} has characters that cannot be printed: '
                             'rename it')
        paths = [Path(text) for text in texts]
        setattr(namespace, self.dest, paths if isinstance(values, list) else paths[0])


class Reads(_PathOption):
    """Names what a command reads."""


class Writes(_PathOption):
    """Names what a command writes."""


def add_force(parser: argparse.ArgumentParser) -> None:
    """Declare --force, the same for all commands that write what is not replaced otherwise."""
    parser.add_argument('--force', action='store_true', help=(
        'replace a bag, graph or parameter file that exists'))


def add_report(parser: argparse.ArgumentParser) -> None:
    """Declare --report."""
    parser.add_argument('--report', action=Writes, kind=Kind.REPORT, metavar='R.json', help=(
        'write a JSON report; - writes it to stdout, and all else to stderr'))


def label(option: argparse.Action) -> str:
    """An option or argument as users type it; `--output` rather than `-o`."""
    return option.option_strings[-1] if option.option_strings else str(option.metavar)


@contextmanager
def checked(args: argparse.Namespace) -> Iterator[None]:
    """Run a command whose paths are in order; ConfigError where one cannot be read or written.

    Within it, `args.standard_output` is where a report named `-` goes, and what is printed goes to
    stderr then.
    """
    sources, targets = [], {}
    for option in args.parser._actions:
        given = getattr(args, option.dest, None)
        if isinstance(option, Writes) and given is not None:
            targets[option] = given
        elif isinstance(option, Reads) and given is not None:
            sources += [(option, path) for path in (given if isinstance(given, list) else [given])]
    for option, path in sources:
        _check_input(option, path)
    force = bool(getattr(args, 'force', False))
    made = {_real(path) for target, path in targets.items() if target.kind in _FOLDERS}
    for target, path in targets.items():
        if target.kind is Kind.REPORT and str(path) in _ITS_NAMES:
            targets[target] = STANDARD_OUTPUT
            setattr(args, target.dest, STANDARD_OUTPUT)
        else:
            _check_name(target, path)
            if target.kind is not Kind.DRAFT or not path.is_file():
                _check_place(target, path, made)
            _check_what_is_there(target, path, force)
            _check_sources(target, path, sources, force)
    _check_twice(targets)
    args.standard_output = sys.stdout
    with redirect_stdout(sys.stderr if STANDARD_OUTPUT in targets.values() else sys.stdout):
        yield


def write_report(args: argparse.Namespace, fields: Mapping[str, Any]) -> list[Path]:
    """Write the report where --report says, if anywhere; the file, unless it is `-`."""
    from ..io import report

    if args.report is None:
        return []
    if args.report == STANDARD_OUTPUT:
        stream: TextIO = args.standard_output
        stream.write(report.as_text(fields))
        return []
    report.write(args.report, fields)
    return [args.report]


def _check_input(option: Reads, path: Path) -> None:
    """Name what was given for something else; what is missing or damaged is told by its reader."""
    suffix, is_graph = path.suffix.lower(), path.suffix.lower() in GRAPHS
    hint = ''
    if option.kind is Kind.GRAPH and _looks_like_bag(path):
        hint = 'is a bag: `sparser replay` solves it'
    elif option.kind is Kind.BAG and is_graph:
        hint = 'is a graph file: `sparser solve` solves it, `sparser bag` makes a bag of it'
    elif option.kind in (Kind.GRAPH, Kind.BAG, Kind.DATA) and suffix in _PARAMETERS:
        hint = 'is a parameter file'
    elif option.kind is Kind.PARAMETERS and (is_graph or _looks_like_bag(path)):
        hint = f'is {"a graph file" if is_graph else "a bag"}'
    elif option.kind is Kind.PARAMETERS and path.is_dir():
        hint = 'is a folder'
    elif option.kind is Kind.RUN and path.exists() and not path.is_dir():
        hint = 'is a file'
    if hint:
        raise ConfigError(f'{label(option)}: {path} {hint}; expected {option.kind.value}')


def _looks_like_bag(path: Path) -> bool:
    if path.is_dir():
        return (path / 'metadata.yaml').exists() or any(
            one.suffix in _OF_A_BAG for one in path.iterdir())
    return path.suffix.lower() in ('.db3', '.mcap')


def _check_name(option: Writes, path: Path) -> None:
    """The suffix says what is written."""
    name = label(option)
    if path == STANDARD_OUTPUT:
        raise ConfigError(f'{name}: only a report can go to standard output, named -')
    if option.kind is Kind.PICTURE:
        from ..plot.figure import check_picture

        check_picture(path)
    if option.kind is Kind.PARAMETERS and path.suffix.lower() in (*GRAPHS, '.db3', '.mcap'):
        raise ConfigError(f'{name}: expected a name ending in .yaml, got {path}')
    if option.kind is Kind.GRAPH and path.suffix.lower() not in GRAPHS:
        raise ConfigError(f'{name}: expected a name ending in {" or ".join(GRAPHS)}, got {path}')
    if option.kind is Kind.BAG and path.suffix == '.db3':
        raise ConfigError(
            f'{name}: expected the name of a folder or one ending in .mcap, got {path}')


def _check_place(option: Writes, path: Path, made: Collection[Path]) -> None:
    """A folder that is there, or is made by an option of this command, and can be written."""
    name = label(option)
    makes_folders = option.kind in (*_FOLDERS, Kind.BAG)
    place = path if option.kind in _FOLDERS else _real(path).parent
    while makes_folders and not place.exists() and not place.is_symlink():
        place = place.parent
    if option.kind not in _FOLDERS and _real(place) in made:
        return
    if not place.exists():
        raise ConfigError(f'{name}: {path} cannot be written: there is no folder {place}')
    if not place.is_dir():
        raise ConfigError(f'{name}: {path} cannot be written: {place} is a file, not a folder')
    if path.is_file() and not os.access(path, os.W_OK):
        raise ConfigError(f'{name}: {path} cannot be written: it is write-protected')
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f'{name}: {path} cannot be written: no permission to write in {place}')
    if option.kind not in (*_FOLDERS, Kind.BAG) and path.is_dir():
        raise ConfigError(f'{name}: {path} is a folder; expected the name of {option.kind.value}')


def _check_what_is_there(option: Writes, path: Path, force: bool) -> None:
    """Nothing of value is replaced without --force, and nothing of another kind with it."""
    name = label(option)
    device = not (path.is_file() or path.is_dir())
    if option.kind in _KEPT and path.exists() and (not device or option.kind is Kind.BAG):
        if not force:
            raise ConfigError(f'{name}: {path} exists already: name another, or replace it with '
                              '--force')
        if option.kind is Kind.BAG and not _is_nothing_but_a_bag(path):
            raise ConfigError(f'{name}: {path} is not replaced, even with --force: it is no bag, '
                              'or holds other files as well')
    if option.kind is Kind.RUN:
        of_a_map, of_a_run = (path / one for one in _RUN_FILES)
        if of_a_map.exists() and not of_a_run.exists():
            raise ConfigError(f'{name}: {of_a_map} is not replaced: it is of no earlier run, which '
                              f'would have left {of_a_run}')
    beginning = _BEGINNINGS.get(option.kind)
    if beginning is not None and path.is_file():
        with path.open('rb') as file:
            if file.read(256).lstrip()[:1] not in (b'', beginning):
                raise ConfigError(f'{name}: {path} exists and is not {option.kind.value}: it is '
                                  'not replaced')


def _is_nothing_but_a_bag(path: Path) -> bool:
    if path.is_dir():
        return (path / 'metadata.yaml').exists() and all(
            one.name == 'metadata.yaml' or one.suffix in _OF_A_BAG for one in path.iterdir())
    return path.suffix in ('.db3', '.mcap')


def _check_sources(
    option: Writes, path: Path, sources: Sequence[tuple[Reads, Path]], force: bool
) -> None:
    """What the command reads stays; with --force it is replaced by its own kind, solved."""
    targets = [path / one for one in _RUN_FILES] if option.kind is Kind.RUN else [path]
    for other, source in sources:
        same_kind = other.kind is option.kind is not Kind.BAG
        within = option.kind is Kind.BAG and _real(path) in _real(source).parents
        same = any(_real(target) == _real(source) for target in targets)
        if within or (same and not (same_kind and force)):
            raise ConfigError(f'{label(option)}: {path} would replace {source}, which the command '
                              f'reads ({label(other)}): name another')


def _check_twice(writes: Mapping[Writes, Path]) -> None:
    """Two options do not write the same file."""
    seen: dict[Path, str] = {}
    for option, path in writes.items():
        if option.kind in _FOLDERS or path == STANDARD_OUTPUT:
            continue
        before = seen.setdefault(_real(path), label(option))
        if before != label(option):
            raise ConfigError(f'{label(option)}: {path} is what {before} writes as well')


def _real(path: Path) -> Path:
    """Where a path leads in the end; itself where its links go round in a circle."""
    return Path(os.path.realpath(path))
