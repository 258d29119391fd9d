"""Files and folders that appear whole or not at all: written beside, then renamed; and what of them
is a bag."""

from __future__ import annotations

import os
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..config import FormatError, yaml_file

BAG_FILES, _BESIDE = ('.mcap', '.db3'), ('.db3-wal', '.db3-shm', '.zstd')
"""Suffixes of the files of a bag, and of what its folder may hold beside them."""


def is_bag(path: Path) -> bool:
    """True for a bag folder, with metadata.yaml or without, or a bare bag file."""
    if path.is_dir():
        return (path / 'metadata.yaml').exists() or any(
            file.suffix in BAG_FILES for file in path.iterdir())
    return path.suffix.lower() in BAG_FILES


def is_nothing_but_a_bag(path: Path) -> bool:
    """The same of one that is whole, and holds nothing else: only such a one is replaced."""
    if path.is_dir():
        return (path / 'metadata.yaml').exists() and all(
            file.name == 'metadata.yaml' or file.suffix in (*BAG_FILES, *_BESIDE)
            for file in path.iterdir())
    return path.suffix in BAG_FILES


def write_text(path: Path | str, text: str) -> None:
    """Write a text file atomically, making its folder; FormatError when that is impossible."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding='utf-8')


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a path beside `path` to write to; on success it takes the place of `path`.

    The temporary path does not exist yet and has the suffix of `path`, so a writer may make a
    file or a folder of it. Where `path` is a link, what it leads to is replaced; devices and pipes
    (`/dev/null`, `>(jq .)`) are written to as they are. Raises FormatError when the place cannot be
    written.
    """
    device, target = Path(path), Path(os.path.realpath(path))
    try:
        if device.exists() and not (device.is_file() or device.is_dir()):
            yield device
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = tempfile.TemporaryDirectory(
            prefix=f'.{target.name}.', dir=target.parent, ignore_cleanup_errors=True)
        with beside as scratch:
            temporary = Path(scratch) / target.name
            yield temporary
            if target.is_dir() and temporary.is_dir():
                shutil.rmtree(target)
            os.replace(temporary, target)
    except OSError as error:
        text = f'cannot be written: {error.strerror or error}'
        raise FormatError(path, None, text) from None


def write_parameters(
    path: Path | str, parameters: Mapping[str, Any], comments: Sequence[str] = ()
) -> None:
    """Write a parameter file of ROS 2, for any node name and namespace; comments go to the top."""
    document = {'/**': {'ros__parameters': _without_empty(parameters)}}
    text = yaml_file.text_of(document)
    head = ''.join(f'{textwrap.fill(comment, 96, initial_indent="# ", subsequent_indent="#   ")}\n'
                   for comment in comments)
    write_text(path, head + text)


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values without empty groups, at which ROS' parser fails: `radios: {}`."""
    filled = {name: _without_empty(value) if isinstance(value, Mapping) else value
              for name, value in values.items()}
    return {name: value for name, value in filled.items() if value != {}}
