"""An argument parser that names the option or command that was probably meant."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn


class SuggestingParser(argparse.ArgumentParser):
    """Like its parent; errors on unknown options, commands and choices end with a suggestion."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and the message on stderr; twenty lines of usage would hide it."""
        self.exit(2, f'{self.prog}: {message}{self._hint(message)} '
                  f'(`{self.prog} --help` lists what there is)\n')

    def _hint(self, message: str) -> str:
        unknown = re.match(r'unrecognized arguments: (.*)', message)
        if unknown:
            wrong = [word.partition('=')[0] for word in unknown[1].split() if word[0] == '-']
            return _suggestion(wrong, self.options())
        if 'are required: ' in message:
            # What is missing may be there, mistyped.
            known = self.options()
            wrong = [name for word in self._given if (name := word.partition('=')[0])[:2] == '--'
                     and not any(option.startswith(name) for option in known)]
            return f', and {wrong[0]} is unknown{_suggestion(wrong, known)}' if wrong else ''
        choice = re.search(r"invalid choice: '?([^' ]+)'? \(choose from (.*)\)", message)
        if choice:
            return _suggestion([choice[1]], re.findall(r"[^\s',]+", choice[2]))
        return ''

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As the parent, which calls it for subcommands as well; keeps the words for a hint."""
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def options(self) -> set[str]:
        """All options of this parser and of its subcommands."""
        found = set(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    found |= set(parser._option_string_actions)
        return found

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse; what is left over is reported by the subcommand that it was meant for."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            getattr(parsed, 'parser', self).error(f'unrecognized arguments: {" ".join(rest)}')
        return parsed


def _suggestion(wrong: Iterable[str], known: Iterable[str]) -> str:
    options = sorted(known)
    near = [hit for word in wrong for hit in difflib.get_close_matches(word, options, n=1)]
    return f'; did you mean {", ".join(near)}?' if near else ''
