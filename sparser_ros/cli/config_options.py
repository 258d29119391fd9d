"""Options of the command line that are options of a configuration: help, defaults and bounds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, TypeVar

from ..config import ConfigError, build, walk

T = TypeVar('T')
Flags = Sequence[tuple[str, str, str | None]]
"""Flag, dotted name of the option, and what stands for its value (None for choices, switches)."""


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
