"""Options of the commands: those of a configuration, and paths.

Options of a configuration have its help, defaults and bounds. What a path may be is checked before
the work of a command: what people write (bags, graphs, parameter files) is replaced with --force
only; what a rerun makes anew (reports, pictures, trajectories, pages) is replaced without asking.
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
from typing import Any, TextIO, TypeVar

from ..config import ConfigError, build, walk
from ..config.errors import refuse
from ..io.atomic import BAG_FILES, is_bag, is_nothing_but_a_bag

T = TypeVar('T')
Flags = Sequence[tuple[str, str, str | None]]
"""Flag, dotted name of the option, and what stands for its value (None for choices, switches)."""
STANDARD_OUTPUT = Path('-')
_ITS_NAMES = ('-', '/dev/stdout', '/dev/fd/1', '/proc/self/fd/1')
GRAPHS = ('.pyfg', '.g2o')
_PARAMETERS = ('.yaml', '.yml')


def add_config_options(parser: argparse._ActionsContainer, cls: type, flags: Flags) -> None:
    """Declare a flag for each of these options of a configuration."""
    known = {option.name: option for option in walk(cls)}
    for flag, name, metavar in flags:
        option, info = known[name], known[name].info
        text = info.doc + (f' [{info.unit}]' if info.unit else '')
        if option.type is bool:
            parser.add_argument(
                flag, dest=_dest(cls, name), action='store_const', const=True, help=_plain(text))
            continue
        kind: Any = {'int': int, 'str': str}.get(getattr(option.type, '__name__', ''), float)
        default = '' if option.default is None else f' (default {option.default})'
        parser.add_argument(flag, dest=_dest(cls, name), type=kind, choices=info.choices,
                            metavar=metavar, help=_plain(text + default))


def config_from(args: argparse.Namespace, cls: type[T], flags: Flags, **more: Any) -> T:
    """The configuration that a command line asks for; `more` goes below it.

    ConfigError names the flag that is out of bounds.
    """
    given = {name: value for _, name, _ in flags
             if (value := getattr(args, _dest(cls, name))) is not None}
    try:
        return build(cls, {**more, **given})
    except ConfigError as error:
        text = str(error)
        for flag, name, _ in flags:
            if text.startswith(f'{name}:'):
                raise ConfigError(flag + text[len(name):]) from None
        raise


def _dest(cls: type, name: str) -> str:
    """The commands have options of several configurations, which may share a name."""
    return f'{cls.__name__}.{name}'


def _plain(text: str) -> str:
    return text.replace('%', '%%')


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


class PathOption(argparse.Action):
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


class Reads(PathOption):
    """Names what a command reads."""


class Writes(PathOption):
    """Names what a command writes."""


def add_force(parser: argparse.ArgumentParser) -> None:
    """Declare --force, the same for all commands that write what is not replaced otherwise."""
    parser.add_argument('--force', action='store_true', help=(
        'replace a bag, graph or parameter file that exists'))


def add_bag_output(parser: argparse.ArgumentParser) -> None:
    """Declare --output, --storage and --force of a command that writes a bag."""
    parser.add_argument('-o', '--output', action=Writes, kind=Kind.BAG, required=True,
                        metavar='BAG', help='folder to make, or a file ending in .mcap')
    parser.add_argument('--storage', choices=('sqlite3', 'mcap'),
                        help='storage plugin (default sqlite3; mcap for a name ending in .mcap)')
    add_force(parser)


def add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--report', action=Writes, kind=Kind.REPORT, metavar='R.json', help=(
        'write a JSON report; - writes it to stdout, and all else to stderr'))


def add_run_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--run', dest='run_folder', action=Writes, kind=Kind.RUN, metavar='DIR',
                        help=(
        'write map, report and covariances into a folder, for `sparser report DIR`'))


def add_plot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--plot', action=Writes, kind=Kind.PICTURE, metavar='P.png',
                        help='draw the map')


def label(option: argparse.Action) -> str:
    """An option or argument as users type it; `--output` rather than `-o`."""
    return option.option_strings[-1] if option.option_strings else str(option.metavar)


@contextmanager
def checked(args: argparse.Namespace) -> Iterator[None]:
    """Run a command whose paths are in order; ConfigError where one cannot be read or written.

    Within it, `args.standard_output` is where a report named `-` goes, and what is printed goes to
    stderr then.
    """
    sources = list(_given(args, Reads))
    targets = list(_given(args, Writes))
    for option, path in sources:
        _check_input(option, path)
    force = bool(getattr(args, 'force', False))
    made = {_real(path) for option, path in targets if option.kind in _FOLDERS}
    files: dict[Path, str] = {}
    report_to_stdout = False
    for option, path in targets:
        if option.kind is Kind.REPORT and str(path) in _ITS_NAMES:
            setattr(args, option.dest, STANDARD_OUTPUT)
            report_to_stdout = True
            continue
        _check_name(option, path)
        if option.kind is not Kind.DRAFT or not path.is_file():
            _check_place(option, path, made)
        _check_what_is_there(option, path, force)
        _check_sources(option, path, sources, force)
        if option.kind not in _FOLDERS:
            before = files.setdefault(_real(path), label(option))
            refuse(before != label(option),
                   f'{label(option)}: {path} is what {before} writes as well')
    args.standard_output = sys.stdout
    with redirect_stdout(sys.stderr if report_to_stdout else sys.stdout):
        yield


def _given(args: argparse.Namespace, kind: type[PathOption]) -> Iterator[tuple[PathOption, Path]]:
    """The options of one kind that a command line has, each with its path."""
    for option in args.parser._actions:
        value = getattr(args, option.dest, None)
        if isinstance(option, kind) and value is not None:
            for path in value if isinstance(value, list) else [value]:
                yield option, path


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


def _check_input(option: PathOption, path: Path) -> None:
    """Name what was given for something else; what is missing or damaged is told by its reader."""
    suffix, is_graph = path.suffix.lower(), path.suffix.lower() in GRAPHS
    hint = ''
    if option.kind is Kind.GRAPH and is_bag(path):
        hint = 'is a bag: `sparser replay` solves it'
    elif option.kind is Kind.BAG and is_graph:
        hint = 'is a graph file: `sparser solve` solves it, `sparser bag` makes a bag of it'
    elif option.kind in (Kind.GRAPH, Kind.BAG, Kind.DATA) and suffix in _PARAMETERS:
        hint = 'is a parameter file'
    elif option.kind is Kind.PARAMETERS and (is_graph or is_bag(path)):
        hint = f'is {"a graph file" if is_graph else "a bag"}'
    elif option.kind is Kind.PARAMETERS and path.is_dir():
        hint = 'is a folder'
    elif option.kind is Kind.RUN and path.exists() and not path.is_dir():
        hint = 'is a file'
    refuse(hint, f'{label(option)}: {path} {hint}; expected {option.kind.value}')


def _check_name(option: PathOption, path: Path) -> None:
    name, suffix = label(option), path.suffix.lower()
    refuse(path == STANDARD_OUTPUT, f'{name}: only a report can go to standard output, named -')
    if option.kind is Kind.PICTURE:
        from ..plot.pictures import check_picture

        check_picture(path)
    refuse(option.kind is Kind.PARAMETERS and suffix in (*GRAPHS, *BAG_FILES),
           f'{name}: expected a name ending in .yaml, got {path}')
    refuse(option.kind is Kind.GRAPH and suffix not in GRAPHS,
           f'{name}: expected a name ending in {" or ".join(GRAPHS)}, got {path}')
    refuse(option.kind is Kind.BAG and suffix == '.db3',
           f'{name}: expected the name of a folder or one ending in .mcap, got {path}')


def _check_place(option: PathOption, path: Path, made: Collection[Path]) -> None:
    """A folder that is there, or is made by an option of this command, and can be written."""
    makes_folders = option.kind in (*_FOLDERS, Kind.BAG)
    place = path if option.kind in _FOLDERS else _real(path).parent
    while makes_folders and not place.exists() and not place.is_symlink():
        place = place.parent
    if option.kind not in _FOLDERS and _real(place) in made:
        return
    fault = f'{label(option)}: {path} cannot be written'
    refuse(not place.exists(), f'{fault}: there is no folder {place}')
    refuse(not place.is_dir(), f'{fault}: {place} is a file, not a folder')
    refuse(path.is_file() and not os.access(path, os.W_OK), f'{fault}: it is write-protected')
    refuse(not os.access(place, os.W_OK | os.X_OK),
           f'{fault}: no permission to write in {place}')
    refuse(not makes_folders and path.is_dir(),
           f'{label(option)}: {path} is a folder; expected the name of {option.kind.value}')


def _check_what_is_there(option: PathOption, path: Path, force: bool) -> None:
    """Nothing of value is replaced without --force, and nothing of another kind with it."""
    kind, fault = option.kind, f'{label(option)}: {path}'
    device = not (path.is_file() or path.is_dir())
    if kind in _KEPT and path.exists() and (not device or kind is Kind.BAG):
        refuse(not force, f'{fault} exists already: name another, or replace it with --force')
        refuse(kind is Kind.BAG and not is_nothing_but_a_bag(path),
               f'{fault} is not replaced, even with --force: it is no bag, or holds other files '
               'as well')
    if kind is Kind.RUN:
        of_a_map, of_a_run = (path / file for file in _RUN_FILES)
        refuse(of_a_map.exists() and not of_a_run.exists(),
               f'{label(option)}: {of_a_map} is not replaced: it is of no earlier run, which '
               f'would have left {of_a_run}')
    if kind in _BEGINNINGS and path.is_file():
        with path.open('rb') as file:
            beginning = file.read(256).lstrip()[:1]
        refuse(beginning not in (b'', _BEGINNINGS[kind]),
               f'{fault} exists and is not {kind.value}: it is not replaced')


def _check_sources(
    option: PathOption, path: Path, sources: Sequence[tuple[PathOption, Path]], force: bool
) -> None:
    """What the command reads stays; with --force it is replaced by its own kind, solved."""
    targets = [path / file for file in _RUN_FILES] if option.kind is Kind.RUN else [path]
    for other, source in sources:
        same_kind = other.kind is option.kind is not Kind.BAG
        within = option.kind is Kind.BAG and _real(path) in _real(source).parents
        same = any(_real(target) == _real(source) for target in targets)
        refuse(within or (same and not (same_kind and force)),
               f'{label(option)}: {path} would replace {source}, which the command reads '
               f'({label(other)}): name another')


def _real(path: Path) -> Path:
    """Where a path leads in the end; itself where its links go round in a circle."""
    return Path(os.path.realpath(path))
