"""Writes docs/commands.md from the argument parsers: `./dev/run python dev/commands.py`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from sparser_ros.cli import console
from sparser_ros.cli.main import parser

PAGE = Path(__file__).resolve().parent.parent / 'docs' / 'commands.md'

HEADER = """# Commands

Written by `dev/commands.py` from the argument parsers of `sparser`; do not edit. `sparser COMMAND
--help` prints the same. In a checkout a command is started as `./dev/run sparser COMMAND …`, where
the package is installed as `sparser COMMAND …`. Results go to stdout, warnings and progress to
stderr; progress is shown on a terminal only.
"""

EXIT_CODES = (
    (console.SOLVED, 'done, or solved'),
    (console.BAD_INPUT, 'bad input: stderr says which file, line or option, and what to change'),
    (console.NOT_CONVERGED, 'not converged, or parts have no determined place, which stderr '
     'names; the best result is written all the same'),
    (console.INTERRUPTED, 'stopped by Ctrl-C'),
    (console.TERMINATED, 'stopped by SIGTERM'),
)


def page() -> str:
    lines = [HEADER, '| exit code | meaning |', '|---|---|']
    lines += [f'| `{code}` | {meaning} |' for code, meaning in EXIT_CODES]
    for name, command in subcommands(parser()).items():
        lines += ['', f'## sparser {name}', '', *section(command)]
    return '\n'.join(lines) + '\n'


def subcommands(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (found,) = (one for one in top._actions if isinstance(one, argparse._SubParsersAction))
    return dict(found.choices)


def section(command: argparse.ArgumentParser) -> Iterator[str]:
    """Lines about one command: what it does, its arguments, its options."""
    shown = [one for one in command._actions if not isinstance(one, argparse._HelpAction)]
    yield '```'
    yield usage(command, shown)
    yield '```'
    yield ''
    yield text(command.description or '')
    if not shown:
        return
    yield ''
    yield '| argument or option | meaning |'
    yield '|---|---|'
    for action in shown:
        yield f'| {label(action)} | {text(action.help or "")} |'


def usage(command: argparse.ArgumentParser, actions: list[argparse.Action]) -> str:
    """The least that must be given; everything else is in the table."""
    words = [command.prog]
    for action in actions:
        if not action.option_strings:
            words.append(value(action) + (' …' if action.nargs == '+' else ''))
        elif action.required:
            words.append(f'{action.option_strings[0]} {value(action)}')
    optional = any(one.option_strings and not one.required for one in actions)
    return ' '.join([*words, *(['[options]'] if optional else [])])


def label(action: argparse.Action) -> str:
    """The names of an option, and what follows it."""
    names = ', '.join(f'`{name}`' for name in action.option_strings)
    if action.nargs == 0:
        return names
    if action.choices is not None:
        given = ' '.join(f'`{one}`' for one in action.choices)
        return f'{names} {given}' if names else f'`{value(action)}`: {given}'
    return f'{names} {code(value(action))}'.strip()


def value(action: argparse.Action) -> str:
    """What stands for the value of an option or argument."""
    if action.metavar is not None:
        return str(action.metavar)
    if action.choices is not None:
        return '{' + ','.join(map(str, action.choices)) + '}'
    return action.dest.upper()


def code(words: str) -> str:
    """Text as it is typed. GitHub and mkdocs differ on `|` in a code span within a table."""
    return f'`{words}`' if '|' not in words else f'<code>{words.replace("|", "&#124;")}</code>'


def text(words: str) -> str:
    """Help as Markdown: argparse writes %% for a per cent sign, and `<robot>` is no tag."""
    return words.replace('%%', '%').replace('<', '&lt;').replace('|', '&#124;')


if __name__ == '__main__':
    PAGE.write_text(page(), encoding='utf-8')
