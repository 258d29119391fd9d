"""Warnings of commands: each once, on stderr, the same sentences as in the node's log."""

from __future__ import annotations

import sys
from collections.abc import Sequence

MOST_SHOWN = 12
"""Sentences that are printed; the report has them all."""


def show_warnings(texts: Sequence[str]) -> None:
    """Print `warning: …` for each of the texts, and how many more there are."""
    for text in texts[:MOST_SHOWN]:
        print(f'warning: {text}', file=sys.stderr)
    if len(texts) > MOST_SHOWN:
        print(f'warning: and {len(texts) - MOST_SHOWN} more (see `warnings` in the report)',
              file=sys.stderr)


def show_undetermined(texts: Sequence[str]) -> None:
    """Print what of a map has no determined place."""
    for text in texts:
        print(f'undetermined: {text}', file=sys.stderr)
