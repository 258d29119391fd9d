"""Parameter files that name another node: ROS passes over them without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

PARAMETERS = 'ros__parameters'


def misfits(arguments: Sequence[str], node: str) -> list[str]:
    """What to say of files in the command line of which nothing is for `node` (full name)."""
    texts = []
    for flag, file in pairwise(arguments):
        if flag != '--params-file' or not Path(file).is_file():
            continue
        names = list(_names(yaml.safe_load(Path(file).read_text(encoding='utf-8')), ''))
        if names and not any(_fits(name, node) for name in names):
            texts.append(
                f'nothing in {file} is for this node, {node}: it names {", ".join(names)}; '
                'its values are not used')
    return texts


def _names(document: Any, prefix: str) -> Iterator[str]:
    """Full names, wildcards included, of the nodes in a file."""
    for key, value in document.items() if isinstance(document, Mapping) else ():
        name = f'{prefix}/{str(key).strip("/")}'
        if isinstance(value, Mapping) and PARAMETERS in value:
            yield name
        else:
            yield from _names(value, name)


def _fits(name: str, node: str) -> bool:
    """Whether a name with `*` (one part) and `**` (any number of parts) is the node's."""
    pattern = ''.join(
        '(/[^/]+)*' if part == '**' else '/[^/]+' if part == '*' else '/' + re.escape(part)
        for part in name.strip('/').split('/'))
    return re.fullmatch(pattern, node) is not None
