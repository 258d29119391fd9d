"""Files and folders that appear whole or not at all: written beside, then renamed."""

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


def write_text(path: Path | str, text: str) -> None:
    """Write a text file atomically, making its folder; FormatError when that is impossible.

    Devices and pipes (`/dev/null`, `>(jq .)`) are written to as they are.
    """
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        try:
            Path(path).write_text(text, encoding='utf-8')
        except OSError as error:
            raise FormatError(path, None, _words(error)) from None
        return
    with replacing(path) as temporary:
        temporary.write_text(text, encoding='utf-8')


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a path beside `path` to write to; on success it takes the place of `path`.

    The temporary path does not exist yet and has the suffix of `path`, so a writer may make a
    file or a folder of it. Where `path` is a link, what it leads to is replaced. Raises FormatError
    when the place cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f'.{target.name}.', dir=target.parent))
    except OSError as error:
        raise FormatError(path, None, _words(error)) from None
    temporary = scratch / target.name
    try:
        yield temporary
        if target.is_dir() and temporary.is_dir():
            shutil.rmtree(target)
        os.replace(temporary, target)
    except OSError as error:
        raise FormatError(path, None, _words(error)) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_parameters(
    path: Path | str, parameters: Mapping[str, Any], comments: Sequence[str] = ()
) -> None:
    """Write a parameter file of ROS 2, for any node name and namespace; comments go to the top."""
    document = {'/**': {'ros__parameters': dict(parameters)}}
    text = yaml_file.text_of(document)
    head = ''.join(f'{textwrap.fill(comment, 96, initial_indent="# ", subsequent_indent="#   ")}\n'
                   for comment in comments)
    write_text(path, head + text)


def _words(error: OSError) -> str:
    return f'cannot be written: {error.strerror or error}'
