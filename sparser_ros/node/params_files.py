"""Parameter files of the command line, read beside ROS: whose they are, and names as written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..config import ConfigError, FlatOption, FormatError
from ..config.sparser import ROS_OWN
from ..config.yaml_file import YamlFile, merged

OUR_SHARE = 0.5
"""A block of another node of which at least this share are names of ours was meant for us."""


@dataclass(frozen=True)
class ParamsFiles:
    """What ROS does not tell of the files behind `--params-file`."""

    written: Mapping[str, Any]
    """Values for this node by dotted name; numbers remember how they were written."""
    hints: tuple[str, ...]
    """Files in which nothing is for this node."""


def read(arguments: Sequence[str], node: str, options: Mapping[str, FlatOption]) -> ParamsFiles:
    """The files in a command line; `node` is the full name of this one.

    ConfigError for a file that ROS reads without a word although it cannot mean that: a name that
    stands there twice, or our parameters under the name of another node.
    """
    values: dict[str, Any] = {}
    hints = []
    for flag, path in pairwise(arguments):
        if flag != '--params-file' or not Path(path).is_file():
            continue
        try:
            file = YamlFile(path)
            blocks = file.blocks(node)
        except FormatError as error:
            raise ConfigError(str(error)) from None
        for block in blocks:
            values = merged(values, block.values)
        names = [block.name for block in blocks]
        if not blocks or any(block.fits(node) for block in blocks):
            continue
        ours = [name for name in names if _is_ours(file.names(name), options)]
        if ours:
            raise ConfigError(
                f'{path}: parameters of {", ".join(ours)} are not for this node, which is called '
                f'{node}: call their block {node} or /**')
        hints.append(f'nothing in {path} is for this node, {node}: it names {", ".join(names)}; '
                     'its values are not used')
    return ParamsFiles(dict(_leaves(values, '')), tuple(hints))


def _is_ours(names: Sequence[str], options: Mapping[str, FlatOption]) -> bool:
    """Whether the parameters of a block are ours, though its name is not."""
    tops = {name.split('.')[0] for name in options}
    own = [name for name in names if name.split('.')[0] not in ROS_OWN]
    ours = [name for name in own if name in options or name.split('.')[0] in tops]
    return bool(own) and len(ours) >= OUR_SHARE * len(own)


def _leaves(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f'{prefix}{key}.')
        else:
            yield f'{prefix}{key}', value
